"""What the demo brings along: an endpoint to measure, a problem to improve with its judge, and an agent that tries."""
