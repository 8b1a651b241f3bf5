"""A broker in a process of its own that spends and carries out as fast as it can, until a file says stop.

`signed_race_worker.py FOLDER GO STOP`: the host's folder, and the files that begin and end it.
"""

import sys
import time
from pathlib import Path

from gitops_bot.authority.duties import RowDuty
from gitops_bot.bootstrap.broker import build
from gitops_bot.config import load
from gitops_bot.signed.barrier import SPEND
from gitops_bot.signed.spend import EXECUTE


def main() -> None:
    """Do it."""
    folder, go, stop = (Path(name) for name in sys.argv[1:])
    broker = build(load(folder / "gitops-bot.toml"))
    assert broker.signed is not None
    duties = [duty for duty in broker.signed.granting if isinstance(duty, RowDuty) and duty.name in (SPEND, EXECUTE)]
    print("ready", flush=True)
    while not go.exists():
        time.sleep(0.005)
    while not stop.exists():
        for duty in duties:
            duty.step()
    broker.close()


if __name__ == "__main__":
    main()
