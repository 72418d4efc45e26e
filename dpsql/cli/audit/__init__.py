"""`dpsql audit`: its options, and the report of a campaign as text."""
