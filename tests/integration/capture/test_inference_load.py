"""Under load the demo's inference server computes; it does not wait."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from gitops_bot.demo.engine import Settings
from gitops_bot.measure.client import request
from gitops_bot.measure.grammar import parse_endpoint

LEAST = 0.8
WINDOW = 2.0
WINDOWS = 6
BUSY = 0.1
"""Of a window's time: what a thread waits for a processor on a machine that has one for it stays far below."""
SLEEPER = """
import sys, time
from gitops_bot.demo import engine, inference, transformer
def slowed(plain):
    def call(self, *given):
        begun = time.monotonic()
        made = plain(self, *given)
        time.sleep(time.monotonic() - begun)
        return made
    return call
for name in ("step", "prefill"):
    setattr(transformer.Transformer, name, slowed(getattr(transformer.Transformer, name)))
sys.exit(inference.main([]))
"""


class Looked(NamedTuple):
    """A window: seconds of it, seconds of processor time of the whole server in it, and seconds for which the thread
    that computes was ready and no processor was free for it."""

    wall: float
    cpu: float
    kept_waiting: float

    @property
    def plain(self) -> float:
        """Processor time over wall time, as it is."""
        return self.cpu / self.wall

    @property
    def of_what_it_was_given(self) -> float:
        """The same, less the time in which others held every processor."""
        return self.cpu / (self.wall - self.kept_waiting)


def cpu_seconds(pid: int) -> float:
    """Processor time of all threads of a process (proc(5), utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def schedule(pid: int, thread: str) -> tuple[float, float]:
    """Seconds that a thread ran, and for which it was ready and no processor was free for it (schedstat)."""
    ran, waited = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[:2]
    return int(ran) / 1e9, int(waited) / 1e9


def busiest(pid: int) -> str:
    """The thread that has computed most; those that answer clients come and go."""
    ran: dict[str, float] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            ran[task.name] = schedule(pid, task.name)[0]
    return max(ran, key=lambda name: ran[name])


def look(pid: int, engine: str) -> Looked:
    """Watch a server for one window."""
    began, cpu, waited = time.monotonic(), cpu_seconds(pid), schedule(pid, engine)[1]
    time.sleep(WINDOW)
    return Looked(time.monotonic() - began, cpu_seconds(pid) - cpu, schedule(pid, engine)[1] - waited)


@contextmanager
def loaded(*command: str) -> Iterator[int]:
    """Run a server and twice as many clients as it runs at once; give its pid once it is at work."""
    # A second thread of the linear algebra would spin while it waits for work, and pass for one that computes.
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    child = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, env=env)
    assert child.stdout is not None
    stop = threading.Event()
    clients: list[threading.Thread] = []
    try:
        with child.stdout:
            endpoint = parse_endpoint(json.loads(child.stdout.readline())["url"], "completions")

        def client(number: int) -> None:
            turn = 0
            while not stop.is_set():
                turn += 1
                prompt = f"p{number % 8} " * 24 + f"n{number}t{turn} " * 8
                request(endpoint, "m", prompt, 8, origin=time.perf_counter(), timeout=300)

        clients = [threading.Thread(target=client, args=(number,)) for number in range(2 * Settings().running)]
        for one in clients:
            one.start()
        while cpu_seconds(child.pid) < 2.0:
            time.sleep(0.1)
        yield child.pid
    finally:
        stop.set()
        for one in clients:
            one.join()
        child.kill()
        child.wait()


def test_processor_time_is_at_least_four_fifths_of_wall_time_under_load() -> None:
    """Processor time of the whole server over plain wall time, in any one window of two seconds.

    A server that sleeps, or waits for its clients, stays below in every window, as the twin does. What else can press
    the plain ratio is that other processes held the processors; the kernel counts that for the thread that computes. So
    windows are taken until one holds the bound; and where every single one was a busy machine's, the ratio to the time
    that the server was given is asserted instead, of the median window.
    """
    windows: list[Looked] = []
    with loaded("-m", "gitops_bot.demo.inference") as pid:
        engine = busiest(pid)
        while len(windows) < WINDOWS:
            windows.append(look(pid, engine))
            if windows[-1].plain >= LEAST:
                return
    assert all(one.kept_waiting / one.wall > BUSY for one in windows), windows
    given = sorted(one.of_what_it_was_given for one in windows)
    assert given[len(given) // 2] >= LEAST, windows


def test_its_twin_that_sleeps_as_long_as_it_computes_is_told_from_it() -> None:
    """Neither measure takes it for one that computes."""
    with loaded("-c", SLEEPER) as pid:
        windows = [look(pid, busiest(pid)) for _ in range(2)]
    assert all(one.plain < LEAST and one.of_what_it_was_given < LEAST for one in windows), windows
