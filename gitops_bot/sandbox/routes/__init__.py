"""The REST and GraphQL surface, one module a noun; each gives its `ROUTES` and knows nothing of Flask."""
