"""What people do with asks at the workspace: one service an act, each in its own transaction."""
