"""The HTTP API on the wire: what a body may say, and the client that commands and loops use."""
