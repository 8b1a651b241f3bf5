"""What people send to the HTTP API."""
