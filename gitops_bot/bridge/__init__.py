"""The control bridge as both of its ends see it: the grammar of its lines, and the broker's client."""
