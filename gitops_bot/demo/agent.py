"""The demo's agent as a command: one turn of a hill climb over `picker.json`, in the folder it is started in.

From its second turn on, while it is not measured at c=48, it asks for a capture of that regime instead, leaves the
marker in `block` mode and ends its turn. It is an agent like any other: it knows the broker's HTTP API, the marker and
its prompt, and has no way in that others lack. Its own idea of the problem is the judge's model with built-in knobs,
so that what it believes better need not be better under captured ones; the loop finds out.
"""

import argparse
import hashlib
import http.client
import json
import math
import random
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gitops_bot.config import agent_environment
from gitops_bot.core.captures import Regime, parse_trace_id, slug
from gitops_bot.core.errors import Malformed, Unavailable
from gitops_bot.demo.grammar import MAX_FILE, MAX_WEIGHT, Notes, Reply, Weights, read_notes, read_reply, read_weights
from gitops_bot.demo.picker import DEFAULT_KNOBS, DEFAULT_REGIME, ROUND_ROBIN, p99

WANTED: Final = parse_trace_id("model=Qwen/Qwen3-0.6B;c=48;p=8;mt=8;lt=0;lf=0.0000")
MARKER: Final = "PROVISIONING_PENDING.json"
PICKER: Final = "picker.json"
NOTES: Final = ".agent.json"
MAX_PROMPT: Final = 256 * 1024
STEPS: Final = 6
ASK_TURN: Final = 2
_REGIME_LINE: Final = re.compile(r"(?im)^[ \t#*>-]*(?:segment|regime)\b(.{0,1000})$")
_ITERATION: Final = re.compile(r"(?i)\biteration[ \t:#]{0,3}([0-9]{1,6})\b")


def main(arguments: Sequence[str] | None = None) -> int:
    """Take one turn. Gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gitops_bot.demo.agent", description=__doc__)
    parser.add_argument("--timeout", type=float, default=10.0, metavar="S", help="seconds the broker may take")
    flags = parser.parse_args(arguments)
    prompt = sys.stdin.buffer.read(MAX_PROMPT).decode("utf-8", "replace")
    try:
        sys.stdout.write(take_turn(Path(), prompt, agent_environment(), flags.timeout) + "\n")
    except (Unavailable, Malformed) as error:
        sys.stderr.write(f"agent: {error}\n")
        return 1
    return 0


def take_turn(workspace: Path, prompt: str, environment: Mapping[str, str], timeout: float) -> str:
    """Improve the weights or ask for the wanted regime; say what was done.

    Raises:
        Unavailable: the broker cannot be asked.
        Malformed: it answered nonsense.
    """
    turn = _turn(workspace, prompt)
    _place(workspace / NOTES, {"turns": turn})
    regime = _regime(prompt, environment["LOOP_REGIME"])
    if turn >= ASK_TURN and regime.trace_id != WANTED.trace_id:
        reply = _request(environment["GITOPS_BOT_URL"], environment["GITOPS_BOT_TOKEN"], timeout)
        if reply.status in ("pending_approval", "submitted"):
            _mark(workspace, reply.handle)
            return f"asked for {WANTED.trace_id} ({reply.status}, {reply.handle}); ending the turn"
        return f"asked for {WANTED.trace_id}: {reply.status} {reply.reason}".rstrip()
    before, after = _climb(workspace, prompt, regime)
    return f"turn {turn}: weights {before} -> {after}"


def _turn(workspace: Path, prompt: str) -> int:
    """Count this turn: by the notes, or by the prompt where a rolled-back workspace has lost them."""
    named = [int(found[1]) for found in _ITERATION.finditer(prompt)]
    try:
        notes = read_notes(_read(workspace / NOTES))
    except Malformed:
        notes = Notes(0)
    return max(notes.turns + 1, *named[:1], 1)


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
    _place(workspace / PICKER, {"load": best.load, "prefix": best.prefix})
    return before, best


def _near(weight: float, chance: random.Random) -> float:
    return round(min(max(weight + chance.gauss(0.0, 0.5), -MAX_WEIGHT), MAX_WEIGHT), 4)


def _request(url: str, token: str, timeout: float) -> Reply:
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise Unavailable("GITOPS_BOT_URL names no broker")
    wish = {
        **WANTED.params(),
        "why": "the weights no longer improve under this regime; measure where requests queue",
        "mode": "block",
        "idempotency_key": f"demo:{slug(WANTED.trace_id)}",
    }
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout)
    try:
        connection.request("POST", "/api/v1/captures", json.dumps(wish).encode(), headers)
        response = connection.getresponse()
        body = response.read(MAX_FILE + 1)
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"the broker does not answer ({type(error).__name__})") from error
    finally:
        connection.close()
    if not 200 <= response.status < 300:
        raise Unavailable(f"the broker answered {response.status}")
    return read_reply(body)


def _mark(workspace: Path, handle: str) -> None:
    regime = {**WANTED.params(), "long_frac": float(WANTED.long_frac)}
    _place(workspace / MARKER, {"trace_id": WANTED.trace_id, "regime": regime, "handle": handle, "mode": "block"})


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE + 1)
    except OSError:
        return b""


def _place(path: Path, value: Mapping[str, object]) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(value) + "\n", encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    sys.exit(main())
