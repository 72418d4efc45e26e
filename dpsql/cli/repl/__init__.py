"""The interactive shell: the read-run loop, dot commands, completion, and where lines are read from."""
