"""The use cases: asking, settling, expiring, delivering, reading. Each is one transaction, or a duty over them."""
