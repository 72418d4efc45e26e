"""Logins by password over TLS: what client and server compute alike, without input or output."""
