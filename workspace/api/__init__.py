"""The HTTP API `/api/v1`: routes parse, call one service, render."""
