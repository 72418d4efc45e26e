"""The interactive shell: its loop, dot commands, completion of words, and readers of lines.

``loop`` reads statements by ``line_input`` with ``completion``; ``state`` runs them;
``commands`` has the dot commands.
"""
