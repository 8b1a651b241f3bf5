"""Runs the migrations over the connection that `store.schema.upgrade` hands in; nothing else starts them."""

from alembic import context

from gitops_bot.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=False,
)
context.run_migrations()
