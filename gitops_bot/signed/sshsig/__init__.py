"""SSH signatures on commits: read by our grammar, verified in process, agreed to by `ssh-keygen`."""
