"""The PostgreSQL server of a test run: where it is, and what to say when there is none.

`tools/with-postgres.sh` starts one cluster for the whole run and names it in `GITOPS_BOT_TEST_POSTGRES`. Databases,
roles and templates inside it are made by who needs them.
"""

import os
from typing import Final

VARIABLE: Final = "GITOPS_BOT_TEST_POSTGRES"


def postgres_superuser_url() -> str:
    """Give the SQLAlchemy URL of a superuser on the test cluster, database `postgres`.

    The server listens on a Unix socket only, trusts who can reach it, and takes any role without a password. Another
    database or role of it: `sqlalchemy.make_url(url).set(database=…, username=…)`, which keeps the socket.

    Raises:
        LookupError: the run has no cluster; the text says how to get one.
    """
    url = os.environ.get(VARIABLE, "")
    if not url:
        raise LookupError(
            f"{VARIABLE} is not set: run `make test`, or `tools/with-postgres.sh .venv/bin/python -m pytest …`; "
            "`-m 'not postgresql'` leaves these tests out"
        )
    return url


def run_id() -> str:
    """Give a short name that is unique to this test process, for databases and roles of its own."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    return f"{worker}_{os.getpid()}"
