"""The capture program as a command: a regime on standard input, an endpoint by flag, a record in a folder.

Exit: 0 with one JSON line `{"trace","knobs","plots"}` on standard output; 1 when the endpoint is not fit to be
measured, the reason on standard error; 64 for a regime or address that cannot be driven; 128 and the signal's number
when SIGTERM or SIGINT stopped it, with no record left.
"""

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from gitops_bot.core.captures import Regime
from gitops_bot.core.errors import ConfigError, Malformed, Unavailable
from gitops_bot.measure import record
from gitops_bot.measure.drive import drive
from gitops_bot.measure.fit import knobs
from gitops_bot.measure.grammar import MAX_REGIME, PATHS, Endpoint, parse_endpoint, read_regime
from gitops_bot.measure.plan import Plan, Round, plan
from gitops_bot.measure.plot import draw

_STACK: Final = 512 * 1024  # a thread a concurrent request must fit an address-space limit
_PAUSE: Final = 0.5


def program() -> None:
    """Run the command and exit; the console script."""
    sys.exit(main())


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
    stop, by = threading.Event(), [0]

    def told(number: int, _frame: FrameType | None) -> None:
        by[0] = number
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, told)
    threading.stack_size(_STACK)
    try:
        _measure(flags.out, endpoint, regime, planned, _Reporter(planned, machine=flags.progress == "json"), stop)
    except Unavailable as error:
        record.clear(flags.out)
        sys.stderr.write(f"measure: {error}\n")
        return 128 + by[0] if stop.is_set() else 1
    except OSError as error:
        sys.stderr.write(f"measure: cannot write to {flags.out}: {error.strerror}\n")
        return 1
    places = {"trace": str(flags.out / record.TRACE), "knobs": str(flags.out / record.KNOBS)}
    plots = [str(flags.out / name) for name in record.PLOTS if (flags.out / name).exists()]
    sys.stdout.write(json.dumps({**places, "plots": plots}) + "\n")
    return 0


def _measure(
    out: Path, endpoint: Endpoint, regime: Regime, planned: Plan, reporter: "_Reporter", stop: threading.Event
) -> None:
    record.clear(out)
    described = {**record.meta(endpoint, regime, planned), "started": record.start(out)}
    driven = drive(endpoint, regime, planned, reporter.done, stop)
    found = knobs(driven)
    record.write_trace(out, described, driven)
    try:
        draw(out, f"{regime.trace_id}  at  {endpoint.url}", driven, found)
    except Unavailable as error:
        sys.stderr.write(f"measure: no plot: {error}\n")
    if stop.is_set():
        raise Unavailable("it was told to stop")
    record.write_knobs(out, described, found)


def _flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gitops-bot-measure", description=__doc__)
    parser.add_argument("--endpoint", required=True, help="base address, such as http://127.0.0.1:8000")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the record; default: here")
    parser.add_argument("--api", choices=sorted(PATHS), default="completions", help="which call is driven")
    parser.add_argument(
        "--request-timeout", type=float, default=30.0, metavar="S", help="seconds one request may take; default: 30"
    )
    parser.add_argument(
        "--progress", choices=("text", "json"), default="text", help="progress on standard error for people or programs"
    )
    return parser


class _Reporter:
    """Writes progress to standard error: each round's end, and in between at most one line in half a second."""

    def __init__(self, planned: Plan, *, machine: bool) -> None:
        self._rounds = planned.rounds
        self._machine = machine
        self._last = time.monotonic()

    def done(self, one: Round, count: int) -> None:
        """Report that so many requests of a round are done."""
        now = time.monotonic()
        if count < one.requests and now - self._last < _PAUSE:
            return
        self._last = now
        step, steps = self._rounds.index(one) + 1, len(self._rounds)
        if self._machine:
            said = {"kind": one.kind, "concurrency": one.concurrency, "done": count, "requests": one.requests}
            line = json.dumps({"v": 1, **said, "round": step, "rounds": steps})
        else:
            what = f"{one.kind.replace('_', '-')} at concurrency {one.concurrency}"
            line = f"measure: {step}/{steps} {what}: {count} of {one.requests} requests"
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


if __name__ == "__main__":
    program()
