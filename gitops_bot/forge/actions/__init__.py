"""Where a run of a workflow hands a comment in."""
