"""Run a forge as its own process: `python -m gitops_bot.sandbox --root DIR --port N --seed FILE.json`.

With `--state DIR` a forge that was ended in any way, and is started again, goes on where it was; its seed was planted.

With `--control-file` who knows the secret in that file may set it up further and disturb it (`remote`).
Writes one JSON line `{"url": …}` to standard output when it answers, and ends cleanly on SIGTERM or SIGINT.
"""

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

from gitops_bot.core.errors import ConfigError
from gitops_bot.sandbox.http import Sandbox
from gitops_bot.sandbox.seed import plant, secret_of


def main(argv: list[str]) -> int:
    """Serve until told to end; the exit status (2: the set-up does not fit)."""
    parser = argparse.ArgumentParser(prog="python -m gitops_bot.sandbox", description="A local GitHub for the demo.")
    parser.add_argument("--root", type=Path, required=True, help="folder for the git repositories")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--seed", type=Path, required=True, help="JSON file with accounts, repositories and grants")
    parser.add_argument("--control-file", type=Path, help="file (mode 0600) with the secret for control over HTTP")
    parser.add_argument("--state", type=Path, help="folder (mode 0700) in which everything outlives this process")
    given = parser.parse_args(argv)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        secret = None if given.control_file is None else secret_of(given.control_file)
        started = Sandbox.start(given.root, given.port, secret=secret, state=given.state)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"cannot listen or keep files: {error.strerror}\n")
        return 2
    with started as sandbox:
        try:
            sandbox.set_up_once(lambda: plant(sandbox, given.seed))
        except ConfigError as error:
            sys.stderr.write(f"{error}\n")
            return 2
        sys.stdout.write(json.dumps({"url": sandbox.url}) + "\n")
        sys.stdout.flush()
        ended.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
