"""The forge: what a comment means, what the bot writes there, and the one adapter that talks to it."""
