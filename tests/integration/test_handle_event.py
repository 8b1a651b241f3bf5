"""`gitops-bot handle-event` as a process, between a runner, an issuer and a workspace, each on loopback."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.workflow_runs import RUNNER, Issuer, event, start

LINE = "/approve-capture model=acme/tiny;c=4;p=2;mt=16;lt=0;lf=0.0000"
ASK = "01jz" + "0" * 22
NASTY = (
    "${{ github.token }}", "`id`", "$(touch /tmp/x)", "a\r\ndecision=approve", "a\n::set-output name=decision::approve",
    "a\x00b", "🚀", "EOF\ndecision<<EOF\napprove\nEOF", "##[add-path]/tmp", "</details><script>alert(1)</script>",
    "\u202egnp.exe", "%0Adecision=approve", "'; rm -rf / #",
)  # fmt: skip


@dataclass
class Broker:
    """What answers in the place of a workspace. `heard` are the requests: path, bearer, body."""

    server: ThreadingHTTPServer
    status: int = 200
    said: object = field(default_factory=lambda: {"decision": "pending", "reason": "new", "ask": ASK})
    heard: list[tuple[str, str, bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its origin."""
        return f"http://127.0.0.1:{self.server.server_port}"


@dataclass
class Run:
    """A finished run: its exit status and output, the outputs of the step as the runner reads them, the summary."""

    status: int
    stdout: str
    stderr: str
    outputs: dict[str, str]
    summary: str


@dataclass
class Runner:
    """A runner of workflows with a folder of its own."""

    folder: Path
    issuer: Issuer
    broker: Broker

    def run(self, raw: bytes | None, *arguments: str, name: str = "issue_comment", **changes: str) -> Run:
        """Run the command over an event, in an environment of nothing else."""
        folder = self.folder
        for file in ("output", "summary"):
            (folder / file).write_text("")
        if raw is not None:
            (folder / "event.json").write_bytes(raw)
        environment = {
            "PATH": os.environ["PATH"],
            "GITHUB_EVENT_NAME": name,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "GITOPS_BOT_URL": self.broker.url,
            **self.issuer.environment(),
            **changes,
        }
        command = [sys.executable, "-P", "-m", "gitops_bot.cli", "handle-event", *arguments]
        done = subprocess.run(command, capture_output=True, env=environment, cwd=folder, timeout=120)
        written = (folder / "output").read_bytes().decode()
        shown = (folder / "summary").read_bytes().decode()
        return Run(done.returncode, done.stdout.decode(), done.stderr.decode(), as_read(written), shown)


def as_read(text: str) -> dict[str, str]:
    """Read a file of outputs as the runner does (actions/runner, FileCommandManager)."""
    found, lines = {}, iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        name, heredoc, delimiter = line.partition("<<")
        if not heredoc:
            name, _, found[name] = line.partition("=")
            continue
        value = []
        while (part := next(lines)) != delimiter:
            value.append(part)
        found[name] = "\n".join(value)
    return found


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            broker.heard.append((self.path, self.headers["Authorization"], body))
            answer = json.dumps(broker.said).encode()
            self.send_response(broker.status)
            self.send_header("Content-Length", str(len(answer)))
            if broker.status == 302:
                self.send_header("Location", f"{broker.url}/elsewhere")
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_said: object) -> None:
            return

    broker = Broker(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
    Thread(target=broker.server.serve_forever, daemon=True).start()
    issuer = start()
    yield Runner(tmp_path, issuer, broker)
    issuer.close()
    broker.server.shutdown()
    broker.server.server_close()


def test_the_hint_is_handed_in_with_the_run_s_token(runner: Runner) -> None:
    done = runner.run(event(5, 7, f"{LINE}\nas we said"))
    assert done.status == 0, done.stderr
    assert done.outputs == {"decision": "pending", "reason": "new", "ask": ASK}
    ((path, bearer, body),) = runner.broker.heard
    assert (path, json.loads(body)) == (
        "/hooks/actions",
        {"repository_id": 77, "comment_id": 5, "pull_request": 7},
    )
    assert bearer.startswith("Bearer ey")
    assert bearer[7:] not in done.stdout + done.stderr + done.summary
    assert RUNNER not in done.stdout + done.stderr + done.summary
    assert done.stdout == f"decision=pending reason=new ask={ASK}\n"


@pytest.mark.parametrize(
    ("raw", "name", "reason"),
    [
        (event(5, 7, "fine"), "issue_comment", "no_command"),
        (event(5, 7, LINE, action="edited"), "issue_comment", "action"),
        (event(5, 7, LINE, issue={"number": 7}), "issue_comment", "issue"),
        (event(5, 7, LINE), "pull_request_target", "event"),
    ],
)
def test_what_is_no_command_asks_for_no_token(runner: Runner, raw: bytes, name: str, reason: str) -> None:
    done = runner.run(raw, name=name)
    assert (done.status, done.outputs) == (0, {"decision": "ignored", "reason": reason, "ask": ""})
    assert (runner.issuer.asked, runner.broker.heard) == ({}, [])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"GITOPS_BOT_URL": ""}, "no_broker"),
        ({"GITOPS_BOT_URL": "http://127.0.0.1:9"}, "unreachable"),
        ({"ACTIONS_ID_TOKEN_REQUEST_URL": ""}, "no_identity"),
        ({"ACTIONS_ID_TOKEN_REQUEST_TOKEN": "another"}, "no_identity"),
        ({"ACTIONS_ID_TOKEN_REQUEST_URL": "http://127.0.0.1:9/x"}, "no_identity"),
        ({"ACTIONS_ID_TOKEN_REQUEST_URL": "http://runner.example.org/x"}, "no_identity"),
    ],
)
def test_without_a_broker_in_reach_it_says_so_and_ends_well(
    runner: Runner, changes: dict[str, str], reason: str
) -> None:
    done = runner.run(event(5, 7, LINE), **changes)
    assert (done.status, done.outputs) == (0, {"decision": "pending", "reason": reason, "ask": ""})
    assert "by its own poll" in done.summary or "it finds the comment" in done.summary
    assert runner.broker.heard == []


@pytest.mark.parametrize(
    ("status", "said"),
    [(500, {}), (503, {}), (429, {}), (404, {}), (302, {}), (200, []), (200, {"decision": "yes"}),
     (200, {"decision": "approve", "reason": "x\ndecision=approve", "ask": None})],
)  # fmt: skip
def test_an_answer_that_is_none_is_pending(runner: Runner, status: int, said: object) -> None:
    """A redirect is followed nowhere: the token goes to the address that was named."""
    runner.broker.status, runner.broker.said = status, said
    done = runner.run(event(5, 7, LINE))
    assert (done.status, done.outputs["decision"], done.outputs["reason"]) == (0, "pending", "unreachable")
    assert len(runner.broker.heard) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_run_that_is_not_taken_exits_4(runner: Runner, status: int) -> None:
    why = "The token of the run is not taken: another workflow."
    runner.broker.status, runner.broker.said = status, {"detail": why.replace(":", ",")}
    done = runner.run(event(5, 7, LINE))
    assert (done.status, done.outputs["decision"], done.outputs["reason"]) == (4, "refused", "not_authorised")
    assert done.stderr.startswith("gitops-bot: not_authorised: ")
    assert "another workflow" in done.stderr
    runner.broker.said = {"detail": "##[add-path]/tmp\n::set-output name=x::y"}
    assert "##[" not in runner.run(event(5, 7, LINE)).stderr


@pytest.mark.parametrize("raw", [b"", b"{", b'{"action": "created"}', event(5, 7, 3), None])
def test_an_event_that_is_none_fails(runner: Runner, raw: bytes | None) -> None:
    done = runner.run(raw)
    assert (done.status, done.outputs, done.stdout) == (1, {}, "")
    assert runner.run(event(5, 7, LINE)).status == 0


@pytest.mark.parametrize(
    "address", ["http://ops.example.org", "ftp://localhost", "localhost:8480", "https://u:p@h", "x"]
)
def test_an_address_that_would_show_the_token_is_refused(runner: Runner, address: str) -> None:
    done = runner.run(event(5, 7, LINE), "--broker", address)
    assert (done.status, runner.issuer.asked) == (1, {})
    assert runner.run(event(5, 7, LINE), "--broker", runner.broker.url, GITOPS_BOT_URL="").outputs["reason"] == "new"


def everywhere(text: str) -> bytes:
    """Write an event with a text in every place that somebody else fills."""
    return event(
        5, 7, f"/approve-capture {text}", login=text,
        issue={"number": 7, "title": text, "body": text, "pull_request": {"head": {"ref": text}}},
        sender={"login": text}, pull_request={"head": {"ref": text, "label": text}},
    )  # fmt: skip


def test_nothing_that_others_wrote_is_live_anywhere(runner: Runner) -> None:
    """`${{ }}`, back-ticks, `$(…)`, newlines, NUL and emoji in comment, login, title and branch: the outputs are what
    the broker said, standard output is a line of words, and the summary keeps its shape."""
    plain = runner.run(everywhere("x"))
    for text in NASTY:
        done = runner.run(everywhere(text))
        assert (done.status, done.outputs, done.stderr) == (0, plain.outputs, ""), text
        assert done.stdout == plain.stdout
        assert done.summary.count("\n") == plain.summary.count("\n")
        assert done.summary.count("`") == plain.summary.count("`")
        for live in ("\x00", "\u202e", "</details>", "<script", "\r", "##["):
            assert live not in done.summary, text
    bodies = {body for _, _, body in runner.broker.heard}
    assert len(bodies) == 1, "what is handed in is three numbers"


def test_delimiters_are_never_the_same(runner: Runner) -> None:
    found = set()
    for _ in range(2):
        runner.run(event(5, 7, LINE))
        found.add((runner.folder / "output").read_text().partition("\n")[0])
    assert len(found) == 2


def test_it_runs_with_nothing_but_what_the_action_installs(runner: Runner, tmp_path: Path) -> None:
    """The action installs its own short list; an import beyond it would fail on a runner."""
    code = (
        "import sys\n"
        "from gitops_bot.cli import run\n"
        "assert run(['handle-event']) == 0\n"
        "found = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)\n"
        "print(sorted(name for name in found if not name.startswith('_')))\n"
    )
    (tmp_path / "event.json").write_bytes(event(5, 7, LINE))
    environment: Mapping[str, Any] = {
        "PATH": os.environ["PATH"],
        "GITHUB_EVENT_NAME": "issue_comment",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITOPS_BOT_URL": runner.broker.url,
        **runner.issuer.environment(),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment, timeout=120, check=True
    )
    assert set(json.loads(done.stdout.splitlines()[-1].replace("'", '"'))) <= {"click", "gitops_bot"}


def test_a_broker_that_hangs_is_left_alone(runner: Runner) -> None:
    """The runner's minutes are bounded: a peer that takes the connection and says nothing is given up."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        done = runner.run(event(5, 7, LINE), GITOPS_BOT_URL=f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert (done.status, done.outputs["reason"]) == (0, "unreachable")
        assert time.monotonic() - began < 100
