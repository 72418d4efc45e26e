"""`dpsql audit`: the command, the end-to-end audit of a statement, its neighbouring data, and its report."""
