"""The interactive shell: its loop, dot commands, completion of words, and readers of lines."""
