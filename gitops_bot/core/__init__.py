"""The decisions, pure: standard library only, frozen values, no I/O, clock, randomness or logging."""
