"""What carries gated actions out: one program or one address of the bundle, and nothing else."""
