"""The ground: rows are the truth. SQLAlchemy Core over an opaque `Tx`; a file a noun; one writer of state per table."""
