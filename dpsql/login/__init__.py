"""What client and server of PostgreSQL's protocol compute alike: messages, and logins by password."""
