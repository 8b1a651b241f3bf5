"""What people send at the door of the workspace: signing in, keys, shells, sessions."""
