"""The demo's agent as a command: one turn of a hill climb over `picker.json`, in the folder it is started in.

It climbs until the scores of its prompt no longer improve. Under the regime that nobody measured it then asks for a
capture of c=48, leaves the marker in `block` mode and ends its turn; under c=48 it asks for c=96 in `continue` mode
and climbs on. It is an agent like any other: it knows the broker's tools, the marker and its prompt, keeps nothing
between turns, and has no way in that others lack. Its own idea of the problem is the judge's model with built-in
knobs, so that what it believes better need not be better under captured ones; the loop finds out.
"""

import argparse
import hashlib
import json
import math
import random
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gitops_bot.config import agent_environment
from gitops_bot.core.captures import Regime, parse_trace_id
from gitops_bot.core.errors import Malformed, Unavailable
from gitops_bot.demo.broker_tool import call_tool
from gitops_bot.demo.grammar import MAX_FILE, MAX_WEIGHT, Reply, Weights, read_weights
from gitops_bot.demo.picker import DEFAULT_KNOBS, DEFAULT_REGIME, ROUND_ROBIN, p99

WANTED: Final = parse_trace_id("model=Qwen/Qwen3-0.6B;c=48;p=8;mt=8;lt=0;lf=0.0000")
LATER: Final = parse_trace_id("model=Qwen/Qwen3-0.6B;c=96;p=8;mt=8;lt=0;lf=0.0000")
MARKER: Final = "PROVISIONING_PENDING.json"
PICKER: Final = "picker.json"
CANDIDATE: Final = "CANDIDATE.md"
MAX_PROMPT: Final = 256 * 1024
STEPS: Final = 6
STRIDE: Final = 0.4
ENOUGH: Final = 0.03
"""A turn that lowers the best score by less than this share is no improvement worth another."""
MOST: Final = 4
_REGIME_LINE: Final = re.compile(r"(?im)^[ \t#*>-]*(?:segment|regime)\b(.{0,1000})$")
_BASELINE: Final = re.compile(r"(?m)^baseline: ([0-9.eE+-]{1,40})$")
_ROW: Final = re.compile(r"(?m)^- iteration [0-9]{1,9}: [a-z]{1,20}, score ([0-9.eE+-]{1,40})$")
_WAITING: Final = re.compile(r"(?m)^# Waiting for a person$")


def main(arguments: Sequence[str] | None = None) -> int:
    """Take one turn. Gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gitops_bot.demo.agent", description=__doc__)
    parser.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds the broker may take")
    parser.add_argument(
        "--think", type=float, default=0.0, metavar="S", help="seconds a turn lasts while somebody is asked"
    )
    flags = parser.parse_args(arguments)
    prompt = sys.stdin.buffer.read(MAX_PROMPT).decode("utf-8", "replace")
    if _WAITING.search(prompt):
        time.sleep(flags.think)
    try:
        sys.stdout.write(take_turn(Path(), prompt, agent_environment(), flags.timeout) + "\n")
    except (Unavailable, Malformed) as error:
        sys.stderr.write(f"agent: {error}\n")
        return 1
    return 0


def take_turn(workspace: Path, prompt: str, environment: Mapping[str, str], timeout: float) -> str:
    """Improve the weights or ask for the next regime; say what was done.

    Raises:
        Unavailable: the broker cannot be asked.
        Malformed: it answered nonsense.
    """
    regime = _regime(prompt, environment["LOOP_REGIME"])
    scores = _scores(prompt)
    waiting = _WAITING.search(prompt) is not None
    url, token = environment["GITOPS_BOT_URL"], environment["GITOPS_BOT_TOKEN"]
    if regime.trace_id not in (WANTED.trace_id, LATER.trace_id) and saturated(scores) and not waiting:
        return _ask(workspace, WANTED, "block", request_trace(url, token, WANTED, timeout))
    said = ""
    # Once a segment, in the turn after the one that no longer improved: nobody is asked again what was denied.
    if regime.trace_id == WANTED.trace_id and saturated(scores) and not saturated(scores[:-1]) and not waiting:
        try:
            said = _ask(workspace, LATER, "continue", request_trace(url, token, LATER, timeout)) + "; "
        except Unavailable as error:
            said = f"not asked for more: {error}; "
    before, after = _climb(workspace, prompt, regime)
    return f"{said}weights {before} -> {after}"


def saturated(scores: Sequence[float]) -> bool:
    """Tell whether climbing pays no more: baseline first, the last of them is hardly better than the best before it."""
    if len(scores) < 3:
        return False
    return len(scores) > MOST or scores[-1] > min(scores[:-1]) * (1 - ENOUGH)


def request_trace(url: str, token: str, wanted: Regime, timeout: float) -> Reply:
    """Ask the broker for a trace by its tool of that name, which takes a regime and nothing else: in which mode one
    waits is said by the marker.

    Raises:
        Unavailable: the broker cannot be asked, or its answer is no.
        Malformed: it answered nonsense.
    """
    return call_tool(url, token, "request_trace", _numbers(wanted), timeout)


def _scores(prompt: str) -> list[float]:
    """Read this segment's scores off the prompt, baseline first."""
    found = [word[1] for word in (*_BASELINE.finditer(prompt), *_ROW.finditer(prompt))]
    try:
        return [float(word) for word in found]
    except ValueError:
        return []


def _numbers(wanted: Regime) -> dict[str, Any]:
    return {**wanted.params(), "long_frac": float(wanted.long_frac)}


def _ask(workspace: Path, wanted: Regime, mode: str, reply: Reply) -> str:
    if reply.status not in ("pending_approval", "submitted"):
        return f"asked for {wanted.trace_id}: {reply.status} {reply.reason}".rstrip()
    marker = {"trace_id": wanted.trace_id, "regime": _numbers(wanted), "handle": reply.handle, "mode": mode}
    _place(workspace / MARKER, json.dumps(marker) + "\n")
    return f"asked for {wanted.trace_id} in {mode} ({reply.status}, {reply.handle})"


def _regime(prompt: str, named: str) -> Regime:
    """Tell the regime that is measured now: the environment's, else the one on the prompt's line about its segment."""
    lines = [found[1] for found in _REGIME_LINE.finditer(prompt)]
    for word in [named, *(word.strip("`'\".,()") for line in lines[:8] for word in line.split())]:
        try:
            return parse_trace_id(word)
        except Malformed:
            if word == "default":
                break
    return DEFAULT_REGIME


def _climb(workspace: Path, prompt: str, regime: Regime) -> tuple[Weights, Weights]:
    try:
        before = read_weights(_read(workspace / PICKER))
    except Malformed:
        before = ROUND_ROBIN
    # A turn that was rolled back sees another prompt the next time, and so tries something else.
    chance = random.Random(hashlib.sha256(prompt.encode("utf-8")).digest())  # noqa: S311 # a search; no secret
    best, lowest = before, p99(before, DEFAULT_KNOBS, regime)
    if regime != DEFAULT_REGIME:
        # The built-in knobs are not this regime's: what looks no better here is worth a try before the judge.
        lowest = math.inf
    for _ in range(STEPS):
        tried = Weights(_near(before.load, chance), _near(before.prefix, chance))
        if (latency := p99(tried, DEFAULT_KNOBS, regime)) < lowest:
            best, lowest = tried, latency
    _place(workspace / PICKER, json.dumps({"load": best.load, "prefix": best.prefix}) + "\n")
    _place(
        workspace / CANDIDATE, f"Weights {best.load:g} for load and {best.prefix:g} for a warm prefix, by climbing.\n"
    )
    return before, best


def _near(weight: float, chance: random.Random) -> float:
    return round(min(max(weight + chance.gauss(0.0, STRIDE), -MAX_WEIGHT), MAX_WEIGHT), 4)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE + 1)
    except OSError:
        return b""


def _place(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    sys.exit(main())
