"""`doctor` says what is wrong between this host, its GitHub App and the installations, each with what to do."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gitops_bot.bootstrap.database import Finding
from gitops_bot.bootstrap.forge_doctor import forge_findings
from gitops_bot.bootstrap.hook_doctor import hook_findings
from gitops_bot.config import load
from gitops_bot.sandbox.http import Sandbox
from gitops_bot.sandbox.records import App
from tests.app_keys import APP, keys
from tests.capture_stage import REPOSITORY
from tests.forge_stage import BOT_ID, REPOSITORY_ID
from tests.ports import free_port


@pytest.fixture
def github(tmp_path: Path) -> Iterator[Sandbox]:
    with Sandbox.start(tmp_path / "github") as github:
        github.add_app("gitops-bot", APP, BOT_ID, keys("ours")[1])
        github.add_repository(REPOSITORY, REPOSITORY_ID)
        github.grant(REPOSITORY, "gitops-bot[bot]", "write")
        (tmp_path / "app.pem").write_text(keys("ours")[0])
        (tmp_path / "app.pem").chmod(0o600)
        (tmp_path / "gitops-bot.toml").write_text(
            f'[forge]\nrepositories = ["{REPOSITORY}"]\napi_url = "{github.url}"\napp_id = {APP}\n'
            'private_key_file = "app.pem"\n'
        )
        yield github


def examine(folder: Path) -> dict[str, Finding]:
    return {finding.name: finding for finding in forge_findings(load(folder / "gitops-bot.toml"))}


def test_a_sound_app_is_found_sound(github: Sandbox, tmp_path: Path) -> None:
    found = examine(tmp_path)
    assert set(found) == {"forge app", "forge account", "forge permissions", "forge"}
    assert all(finding.ok for finding in found.values()), found
    assert str(BOT_ID) in found["forge account"].detail
    assert "checks: write" in found["forge permissions"].detail


def hooks(folder: Path) -> list[Finding]:
    return list(hook_findings(load(folder / "gitops-bot.toml")))


def test_the_app_s_webhook_is_looked_at_step_by_step(github: Sandbox, tmp_path: Path) -> None:
    """Address, secret, events, and what was delivered, under the App's JWT."""
    (finding,) = hooks(tmp_path)
    assert finding.ok and "the App has none" in finding.detail and "the poll" in finding.detail
    (tmp_path / "hook").touch(mode=0o600)
    (tmp_path / "hook").write_text("s" * 32)
    port = free_port()
    with (tmp_path / "gitops-bot.toml").open("a") as file:
        file.write(f'webhook_secret_files = ["hook"]\n[workspace]\nbind = "127.0.0.1:{port}"\n')
    (finding,) = hooks(tmp_path)
    assert not finding.ok and f"localhost:{port}/hooks/github" in finding.fix
    app = App(APP, "gitops-bot")
    github.set_app_hook(app, f"http://localhost:{port}/elsewhere", "s")
    assert "has none for" in hooks(tmp_path)[0].detail
    github.set_app_hook(app, f"http://localhost:{port}/hooks/github", None, ("issue_comment", "pull_request"))
    assert github.wait_for_deliveries()
    said = " | ".join(one.detail for one in hooks(tmp_path) if not one.ok)
    for words in ("has no secret", "does not send check_run", "the newest of its deliveries failed, 2 of the last 2"):
        assert words in said
    receiver = Receiver(port)
    try:
        github.set_app_hook(app, f"http://localhost:{port}/hooks/github", "s" * 32)
        assert github.wait_for_deliveries()
    finally:
        receiver.close()
    (finding,) = hooks(tmp_path)
    assert finding.ok and "1 of the last 3 deliveries arrived" in finding.detail


def test_an_app_s_webhook_that_cannot_be_looked_at_is_no_fault(github: Sandbox, tmp_path: Path) -> None:
    github.fail_next("GET /app/hook/config", 502)
    (finding,) = hooks(tmp_path)
    assert finding.ok and "not looked at" in finding.detail
    (tmp_path / "app.pem").chmod(0o644)
    assert hooks(tmp_path) == [], "the App's own findings tell it"


class Receiver:
    """A workspace that says 202 to everything."""

    def __init__(self, port: int) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(202)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def test_a_permission_that_lacks_is_named(github: Sandbox, tmp_path: Path) -> None:
    held = {"contents": "write", "issues": "read", "metadata": "read", "pull_requests": "write"}
    github.install(App(APP, "gitops-bot"), "acme", APP, permissions=held)
    found = examine(tmp_path)
    assert not found["forge permissions"].ok
    assert found["forge permissions"].detail.endswith("may not look into teams; lacks checks: write, issues: write")
    assert "accept" in found["forge permissions"].fix
    assert not found["forge"].ok


def test_a_suspended_and_a_removed_installation_are_told(github: Sandbox, tmp_path: Path) -> None:
    github.suspend_installation(APP)
    found = examine(tmp_path)
    assert not found["forge"].ok and "suspended" in found["forge"].detail
    github.suspend_installation(APP, suspended=False)
    assert examine(tmp_path)["forge"].ok
    github.remove_installation(APP)
    found = examine(tmp_path)
    assert not found["forge"].ok and "not installed" in found["forge"].detail


def test_a_wrong_key_is_told_and_never_shown(github: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "app.pem").write_text(keys("theirs")[0])
    found = examine(tmp_path)
    assert not found["forge app"].ok and "private_key_file" in found["forge app"].detail
    assert keys("theirs")[0].splitlines()[2] not in repr(found)


def test_a_key_that_others_may_read_and_a_token_beside_it_are_told(github: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "app.pem").chmod(0o644)
    assert "chmod 600" in examine(tmp_path)["forge app"].fix
    (tmp_path / "app.pem").chmod(0o600)
    assert examine(tmp_path)["forge app"].ok
    with (tmp_path / "gitops-bot.toml").open("a") as file:
        file.write('token_file = "forge.token"\n')
    assert "delete token_file" in examine(tmp_path)["forge"].fix


def test_a_forge_that_is_away_is_a_finding_not_a_failure(github: Sandbox, tmp_path: Path) -> None:
    github.close()
    assert not examine(tmp_path)["forge app"].ok
