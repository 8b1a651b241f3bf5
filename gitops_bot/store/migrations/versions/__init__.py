"""Migrations: expand first, contract once no running version needs the old shape."""
