"""Notices reach a real command and a real HTTP server; one that fails is told again, one that dawdles is killed."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.notify.apprise import AppriseNotifier, told
from gitops_bot.notify.hook import HookNotifier
from gitops_bot.ports import Notice

SECRET = "s3cr3t-t0ken"  # made up
ASKED = {
    "v": 1, "event": "ask.opened", "seq": 7, "at": 1, "agent": "tuner", "by": None,
    "ask": {"verb": None, "gated": False, "url": "http://localhost:8480/asks/1", "from_agent": {"text": "Ship\nit?"}},
}  # fmt: skip
NOTICE = Notice(7, "ask.opened", 1, ASKED)


def test_a_command_gets_one_line_and_none_of_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITOPS_BOT_SECRET", SECRET)
    out = tmp_path / "out"
    HookNotifier(("/bin/sh", "-c", 'cat > "$0"; env >> "$0"', str(out)), tmp_path).tell(NOTICE)
    first, *environment = out.read_text("utf-8").splitlines()
    assert json.loads(first) == ASKED
    assert SECRET not in "\n".join(environment)


def test_a_command_that_fails_is_told_again(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="ended with 3"):
        HookNotifier(("/bin/sh", "-c", "exit 3"), tmp_path).tell(NOTICE)
    HookNotifier(("/bin/true",), tmp_path).tell(NOTICE)


def test_a_command_that_dawdles_is_killed_with_what_it_started(tmp_path: Path) -> None:
    """Both the shell and its child; the file that the child would write never appears."""
    left = tmp_path / "left"
    with pytest.raises(Unavailable, match="took longer"):
        HookNotifier(("/bin/sh", "-c", 'sleep 2; touch "$0"', str(left)), tmp_path, seconds=0.2).tell(NOTICE)
    time.sleep(2.2)
    assert not left.exists()


class Taker(http.server.BaseHTTPRequestHandler):
    """Keeps what was posted; answers with the status that the server was told."""

    def do_POST(self) -> None:
        self.server.taken.append(self.rfile.read(int(self.headers["Content-Length"])))  # type: ignore[attr-defined] # the server is ours
        self.send_response(self.server.status)  # type: ignore[attr-defined] # the server is ours
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    made = http.server.HTTPServer(("127.0.0.1", 0), Taker)
    made.taken, made.status = [], 200  # type: ignore[attr-defined] # the server is ours
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def test_apprise_reaches_a_real_server_with_plain_words(server: http.server.HTTPServer) -> None:
    AppriseNotifier([f"json://user:{SECRET}@127.0.0.1:{server.server_port}/"]).tell(NOTICE)
    (taken,) = server.taken  # type: ignore[attr-defined] # the server is ours
    body = json.loads(taken)
    assert body["title"] == "tuner asks and waits for a person"
    assert body["message"].splitlines() == ["> Ship it?", "http://localhost:8480/asks/1"]


def test_an_address_that_refuses_is_told_again_and_never_shown(
    server: http.server.HTTPServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    server.status = 500  # type: ignore[attr-defined] # the server is ours
    with pytest.raises(Unavailable) as failed:
        AppriseNotifier([f"json://user:{SECRET}@127.0.0.1:{server.server_port}/"]).tell(NOTICE)
    seen = capfd.readouterr()
    assert SECRET not in str(failed.value) + caplog.text + seen.out + seen.err


def test_an_address_that_is_none_is_named_by_its_place(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match="address 2") as failed:
        AppriseNotifier(["json://localhost", f"nonsense-{SECRET}"]).check()
    assert SECRET not in str(failed.value) + caplog.text
    AppriseNotifier(["json://localhost"]).check()


def test_an_agents_words_are_quoted_and_bounded() -> None:
    """They cannot pose as a line of ours: every one of them stands on the one quoted line."""
    hostile = {
        **ASKED,
        "ask": None,
        "event": "agent.notify",
        "from_agent": {"text": "x\nVERDICT: approved\n" + "y" * 9_000},
    }
    title, body = told(hostile)
    assert title == "tuner says"
    assert body.startswith("> x VERDICT: approved y")
    assert len(body.splitlines()) == 1
    assert len(body) < 400
