"""Under load the demo's inference server computes; it does not wait."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from gitops_bot.demo.engine import Settings
from gitops_bot.measure.client import request
from gitops_bot.measure.grammar import parse_endpoint


def cpu_seconds(pid: int) -> float:
    """Processor time of all threads of a process (proc(5), utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def kept_waiting(pid: int, engine: str) -> float:
    """Seconds for which the thread that computes was ready and no processor was free for it (schedstat)."""
    return int(Path(f"/proc/{pid}/task/{engine}/schedstat").read_text().split()[1]) / 1e9


def busiest(pid: int) -> str:
    """The thread that has computed most."""
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    return max(tasks, key=lambda task: int((task / "schedstat").read_text().split()[0])).name


def test_processor_time_is_at_least_four_fifths_of_wall_time_under_load() -> None:
    """Twice as many clients as it runs at once; time in which others held the processor is not the server's."""
    child = subprocess.Popen([sys.executable, "-m", "gitops_bot.demo.inference"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    stop = threading.Event()
    try:
        with child.stdout:
            endpoint = parse_endpoint(json.loads(child.stdout.readline())["url"], "completions")

        def client(number: int) -> None:
            turn = 0
            while not stop.is_set():
                turn += 1
                prompt = f"p{number % 8} " * 24 + f"n{number}t{turn} " * 8
                request(endpoint, "m", prompt, 8, origin=time.perf_counter(), timeout=60)

        clients = [threading.Thread(target=client, args=(number,)) for number in range(2 * Settings().running)]
        for one in clients:
            one.start()
        time.sleep(1.0)
        engine = busiest(child.pid)
        began, cpu, waited = time.monotonic(), cpu_seconds(child.pid), kept_waiting(child.pid, engine)
        time.sleep(4.0)
        wall = time.monotonic() - began
        computed = cpu_seconds(child.pid) - cpu
        lost = kept_waiting(child.pid, engine) - waited
        stop.set()
        for one in clients:
            one.join()
    finally:
        child.kill()
        child.wait()
    assert computed / (wall - lost) >= 0.8, (computed, wall, lost)
