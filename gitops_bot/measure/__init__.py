"""The capture program: drives an endpoint under a regime, records what happened, and reads knobs off the record."""
