"""Bodies of agents: how a program that thinks is run."""
