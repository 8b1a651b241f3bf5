"""Whom events are told outside: a command of the host, and what Apprise reaches."""
