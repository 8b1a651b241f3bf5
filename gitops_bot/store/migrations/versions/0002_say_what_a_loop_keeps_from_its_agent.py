"""Say what a loop keeps from its agent

Revision: 0002 after 0001.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
phase = "expand"


def upgrade() -> None:
    # What registered before said nothing: its agent is taken to share the loop's user.
    op.add_column("loops", sa.Column("shares_user", sa.Integer(), server_default=sa.text("1"), nullable=False))
    op.add_column("loops", sa.Column("open_bridge", sa.Integer(), server_default=sa.text("0"), nullable=False))
