"""`gitops-bot handle-event` as a whole process beside an interpreter that does nothing, in turns in one run.

The process reads an event, asks a runner on loopback for a token, hands the hint in at a workspace on loopback, and
writes outputs and summary; start and end of the interpreter are in the time. The workspace's own work, verifying the
token and writing the hint, is not: an answer that is ready stands in its place. Bound: under one second at the median.

HANDLE_EVENT_ROUNDS in the environment makes it smaller.
"""

import json
import os
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

from benchmarks.machine import median, timed
from tests.workflow_runs import event, start

ROUNDS: Final = int(os.environ.get("HANDLE_EVENT_ROUNDS", "15"))
BOUND_MS: Final = 1_000.0
LINE: Final = "/approve-capture model=acme/tiny;c=4;p=2;mt=16;lt=0;lf=0.0000"
SAID: Final = json.dumps({"decision": "pending", "reason": "new", "ask": None}).encode()


class _Workspace(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Answer a hint."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(SAID)))
        self.end_headers()
        self.wfile.write(SAID)

    def log_message(self, *_said: object) -> None:
        """Say nothing."""


def main() -> bool:
    """Measure; tell whether the bound holds."""
    issuer, workspace = start(), ThreadingHTTPServer(("127.0.0.1", 0), _Workspace)
    Thread(target=workspace.serve_forever, daemon=True).start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measured(Path(folder), issuer.environment(), f"http://127.0.0.1:{workspace.server_port}")
    finally:
        issuer.close()
        workspace.shutdown()
        workspace.server_close()


def _measured(folder: Path, runner: dict[str, str], url: str) -> bool:
    (folder / "event.json").write_bytes(event(5, 7, LINE, pad="x" * 20_000))
    environment = {
        "PATH": os.environ["PATH"],
        "GITHUB_EVENT_NAME": "issue_comment",
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        **runner,
    }
    handle = [sys.executable, "-P", "-m", "gitops_bot.cli", "handle-event", "--broker", url]

    def run(command: list[str]) -> float:
        return timed(lambda: subprocess.run(command, env=environment, check=True, capture_output=True, timeout=60))

    whole, bare = [], []
    for _ in range(ROUNDS):
        whole.append(run(handle))
        bare.append(run([sys.executable, "-c", "pass"]))
    handed = (folder / "output").read_text("utf-8").count("\npending\n")
    print(f"  handle-event   {median(whole):7.0f} ms   most {max(whole):.0f} ms, {ROUNDS} times, {handed} handed in")
    print(f"  python -c pass {median(bare):7.0f} ms")
    return median(whole) < BOUND_MS and handed == ROUNDS


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
