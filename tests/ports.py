"""A port that is free and stays so until its server listens, however many tests start servers at the same time.

Asking the kernel for any port and giving it back leaves a gap in which it hands that port to somebody else. These lie
below the range from which it hands out (ip(7), ip_local_port_range), and each is kept by a lock for as long as the
process lives, so that no two test processes of a machine are given the same one.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import Final

FIRST: Final = 20_000
LAST: Final = 31_999
_kept: list[int] = []


def free_port() -> int:
    """Give a port of loopback on which nobody listens; no test process gets it again while this one lives.

    Raises:
        LookupError: every port of the range is taken.
    """
    folder = Path(tempfile.gettempdir()) / f"gitops-bot-test-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for port in random.SystemRandom().sample(range(FIRST, LAST + 1), LAST + 1 - FIRST):
        lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(lock)
            continue
        _kept.append(lock)
        return port
    raise LookupError(f"no free port from {FIRST} to {LAST}")
