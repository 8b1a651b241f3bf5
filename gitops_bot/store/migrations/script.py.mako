"""${message}

Revision: ${up_revision} after ${down_revision | comma,n}.
"""

from alembic import op
import sqlalchemy as sa
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
phase = "expand"  # or "contract": only what no running version reads or writes any more (docs/adr/0012)


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
