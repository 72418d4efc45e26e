"""The interactive shell: its loop, dot commands, completion of words, and readers of lines.

``loop`` reads statements by ``line_input``, which also completes words; ``commands`` runs them, and has the
dot commands.
"""

from __future__ import annotations
