"""One composition root a process: bootstrap alone knows who implements the ports."""
