"""The capture program as a command: a regime on standard input, an endpoint by flag, a record in a folder.

Exit: 0 with one JSON line `{"trace","knobs"}` on standard output; 1 when the endpoint is not fit to be measured, the
reason on standard error; 64 for a regime or address that cannot be driven.
"""

import argparse
import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import ConfigError, Malformed, Unavailable
from gitops_bot.measure import record
from gitops_bot.measure.drive import drive, plan
from gitops_bot.measure.fit import knobs
from gitops_bot.measure.grammar import MAX_REGIME, PATHS, parse_endpoint, read_regime

_STACK: Final = 512 * 1024  # a thread a concurrent request must fit an address-space limit
_STEP: Final = 16


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure once. Gives the exit status."""
    flags = _flags().parse_args(arguments)
    try:
        regime = read_regime(sys.stdin.buffer.read(MAX_REGIME + 1))
        endpoint = parse_endpoint(flags.endpoint, flags.api)
        planned = plan(regime, timeout=flags.request_timeout)
    except (Malformed, ConfigError) as error:
        sys.stderr.write(f"measure: {error}\n")
        return 64
    threading.stack_size(_STACK)
    try:
        record.clear(flags.out)
        described = {**record.meta(endpoint, regime, planned), "started": record.start(flags.out)}
        samples = drive(endpoint, regime, planned, _progress)
        record.write(flags.out, described, samples, knobs(samples, regime.concurrency), regime.concurrency)
    except Unavailable as error:
        sys.stderr.write(f"measure: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"measure: cannot write to {flags.out}: {error.strerror}\n")
        return 1
    places = {"trace": str(flags.out / record.TRACE), "knobs": str(flags.out / record.KNOBS)}
    sys.stdout.write(json.dumps(places) + "\n")
    return 0


def _flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gitops_bot.measure", description=__doc__)
    parser.add_argument("--endpoint", required=True, help="base address, such as http://127.0.0.1:8000")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the record; default: here")
    parser.add_argument("--api", choices=sorted(PATHS), default="completions", help="which call is driven")
    parser.add_argument(
        "--request-timeout", type=float, default=30.0, metavar="S", help="seconds one request may take; default: 30"
    )
    return parser


def _progress(done: int, count: int) -> None:
    if done % _STEP == 0 or done == count:
        sys.stderr.write(f"measure: {done} of {count} requests\n")


if __name__ == "__main__":
    sys.exit(main())
