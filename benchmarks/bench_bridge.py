"""The control bridge: a command until it is admitted and answered, and fifty clients that tail a log of 100,000 lines.

Bounds: p50 under 2 ms with fsync, beside the same bytes written and fsynced by themselves in the same run; each client
gets each line once, in order; and a loop does the same turns at most 5 % slower with all of them than with none, by the
median of pairs in the same run. The log of the tailing is replayed while the turns run; a turn here is 200 ms of
waiting and a line's worth of work, far less than any real one.
"""

import json
import multiprocessing
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import median, timed
from gitops_bot.loop.control.admissions import AdmissionLedger
from gitops_bot.loop.control.server import ControlServer
from gitops_bot.loop.control.steering import Steering
from gitops_bot.loop.control.tokens import make_tokens
from gitops_bot.loop.session import SessionLog

COMMANDS: Final = 400
BOUND_MS: Final = 2.0
LINES: Final = 100_000
CLIENTS: Final = 50
TURNS: Final = 60
PAIRS: Final = 3
SLOWER: Final = 1.05
SECONDS: Final = 300.0

AGENT: Final = "sleep 0.2; echo $LOOP_ITERATION > done"


def admitted(folder: Path) -> bool:
    """Time commands from their first byte to their answer, beside a bare write and fsync of an admission's bytes."""
    log = SessionLog(folder / "session.jsonl")
    ledger = AdmissionLedger(folder / "admissions.jsonl", lambda: 1)
    steering = Steering(ledger, lambda _kind, _members: None, max_usd=0)
    tokens = make_tokens(folder, keep=False)
    server = ControlServer("127.0.0.1", 0, steering=steering, log=log, tokens=tokens, trusting=False)
    server.start()
    host, port = server.address.rsplit(":", 1)
    bare = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    line = socket.create_connection((host, int(port)))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    file = line.makefile("rb")

    def ask(message: dict[str, Any]) -> None:
        line.sendall(json.dumps(message).encode() + b"\n")
        assert json.loads(file.readline())["ok"] is True

    def alone() -> None:
        os.write(bare, b"x" * 130)
        os.fsync(bare)

    ask({"auth": tokens.broker()})
    commands, writes = [], []
    for number in range(COMMANDS):  # in turns, so that both meet the same disk
        commands.append(timed(lambda n=number: ask({"cmd": "steer", "text": "smaller", "id": f"k{n}"})))  # type: ignore[misc] # bound now
        writes.append(timed(alone))
    file.close()
    line.close()
    server.stop(0)
    held = median(commands) < BOUND_MS
    p99 = statistics.quantiles(commands, n=100)[98]
    print(
        f"  command admitted and answered: p50 {median(commands):.3f} ms, p99 {p99:.3f} (bound {BOUND_MS:.0f}: "
        f"{'holds' if held else 'BROKEN'}); write and fsync alone p50 {median(writes):.3f} ms; "
        f"ratio {median(commands) / median(writes):.2f}"
        + (", the disk alone is beyond the bound" if median(writes) >= BOUND_MS else ""),
        flush=True,
    )
    return held


def tail(address: str, connected: Any, done: Any, results: Any) -> None:
    """Be fifty clients in one process of their own: follow from the first line until told to end; count and check."""
    host, port = address.rsplit(":", 1)
    selector = selectors.DefaultSelector()
    rests: dict[int, bytes] = {}
    seen: dict[int, int] = {}
    wrong = 0
    for _ in range(CLIENTS):
        client = socket.create_connection((host, int(port)))
        client.sendall(b'{"cmd":"tail"}\n')
        client.setblocking(False)
        selector.register(client, selectors.EVENT_READ)
        rests[client.fileno()], seen[client.fileno()] = b"", 0
    connected.set()
    caught_up = None
    begun = time.monotonic()
    open_ = CLIENTS
    while open_ and not (done.is_set() and not selector.select(0.5)):
        for key, _ in selector.select(0.5):
            number = key.fd
            received = key.fileobj.recv(1 << 20)  # type: ignore[union-attr] # a socket
            if not received:
                selector.unregister(key.fileobj)
                open_ -= 1
                continue
            *lines, rests[number] = (rests[number] + received).split(b"\n")
            for line in lines:
                if line.startswith(b'{"seq":'):
                    seq = int(line[7 : line.index(b",")])
                    wrong += seq != seen[number] + 1
                    seen[number] = seq
        if caught_up is None and min(seen.values()) >= LINES:
            caught_up = time.monotonic() - begun
    results.put((sorted(set(seen.values())), wrong, caught_up))


def turns(folder: Path, name: str, *, clients: bool) -> tuple[float, Any]:
    """Run a loop on a long log; give the seconds its turns took, and what the clients counted."""
    workspace = folder / name
    state = workspace / "state"
    state.mkdir(parents=True, mode=0o700)
    (folder / "judge.sh").write_text('echo "{\\"score\\": 1}"\n')
    note = b'{"v":1,"kind":"note","msg":"%s"}\n'
    first = b'{"v":1,"kind":"start"}\n{"v":1,"kind":"segment","regime":"default","baseline_score":1.0}\n'
    with (state / "session.jsonl").open("wb") as file:
        file.write(first + b"".join(note % (b"line %06d" % number * 4) for number in range(LINES - 2)))
    loop = subprocess.Popen(
        [
            sys.executable, "-m", "gitops_bot.cli", "loop", "run", "--workspace", str(workspace), "--goal", "g",
            "--judge", f"sh {folder / 'judge.sh'}", "--control-port", "0", "--max-iterations", str(TURNS), "--resume",
            "--", "sh", "-c", AGENT,
        ],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    address = state / "control-address"
    wait(address.exists, loop)
    connected, done, results = multiprocessing.Event(), multiprocessing.Event(), multiprocessing.Queue()
    crowd = multiprocessing.Process(target=tail, args=(address.read_text().strip(), connected, done, results))
    if clients:
        crowd.start()
    loop.wait(SECONDS)
    done.set()
    counted = results.get(timeout=SECONDS) if clients else None
    if clients:
        crowd.join()
    lines = (state / "session.jsonl").read_bytes().count(b"\n")
    return took(workspace), (counted, lines)


def took(workspace: Path) -> float:
    """Read how long the run was active out of its own log: the sum of its turns and judgements."""
    last = 0.0
    for line in (workspace / "state" / "session.jsonl").read_bytes().splitlines()[-20:]:
        record = json.loads(line)
        if record["kind"] == "budget":
            last = float(record["elapsed_secs"])
    return last


def wait(seen: Callable[[], bool], loop: "subprocess.Popen[bytes]") -> None:
    """Wait until something is so while the loop lives."""
    end = time.monotonic() + SECONDS
    while not seen():
        assert loop.poll() is None and time.monotonic() < end
        time.sleep(0.01)


def tailed(folder: Path) -> bool:
    """Compare runs with and without clients, in pairs."""
    ratios, whole = [], True
    for pair in range(PAIRS):
        without, _ = turns(folder, f"without-{pair}", clients=False)
        with_, ((counts, wrong, caught_up), lines) = turns(folder, f"with-{pair}", clients=True)
        whole = whole and counts == [lines] and wrong == 0
        ratios.append(with_ / without)
        print(
            f"  {TURNS} turns: {without:.2f} s alone, {with_:.2f} s with {CLIENTS} clients; they had {LINES} lines "
            f"after {caught_up:.1f} s, {lines} in the end, {wrong} out of order",
            flush=True,
        )
    held = median(ratios) <= SLOWER
    print(
        f"  slowed by {100 * (median(ratios) - 1):.1f} % (bound {100 * (SLOWER - 1):.0f}: "
        f"{'holds' if held else 'BROKEN'}); each line once to each client: {'holds' if whole else 'BROKEN'}",
        flush=True,
    )
    return held and whole


def main() -> bool:
    """Measure both on this disk."""
    with tempfile.TemporaryDirectory(prefix="gitops-bot-bench-") as name:
        folder = Path(name)
        held = admitted(folder)
        return tailed(folder) and held
