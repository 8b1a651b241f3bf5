"""A forge in another process is set up, played on and disturbed by who knows its secret, and by nobody else."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from gitops_bot.core.errors import Unavailable
from gitops_bot.sandbox.control import Control
from gitops_bot.sandbox.remote import METHODS, RemoteControl

REPOSITORY = "acme/judge"
SECRET = "0123456789abcdef-only-between-us"


def _files(folder: Path, secret: str = SECRET, mode: int = 0o600) -> list[str]:
    for name, content in (
        ("tokens.json", json.dumps({"alice": "token-of-alice", "app[bot]": "ghs_app", "hook": "signing"})),
        ("control", secret + "\n"),
    ):
        (folder / name).write_text(content)
        (folder / name).chmod(0o600)
    (folder / "control").chmod(mode)
    (folder / "seed.json").write_text(
        json.dumps(
            {
                "accounts": [{"login": "alice", "id": 1001}, {"login": "acme", "id": 50, "type": "Organization"}],
                "repositories": [{"full_name": REPOSITORY, "id": 501}],
                "grants": [{"repository": REPOSITORY, "login": "alice", "role_name": "write"}],
                "apps": [{"slug": "app", "id": 7, "bot_id": 2001}],
                "teams": [{"organization": "acme", "name": "Keepers", "id": 9, "members": {"alice": "active"}}],
                "hooks": [{"repository": REPOSITORY, "url": "http://127.0.0.1:9/", "secret": "hook"}],
            }
        )
    )
    program = [sys.executable, "-m", "gitops_bot.sandbox", "--root", str(folder / "forge")]
    return [*program, "--seed", str(folder / "seed.json"), "--control-file", str(folder / "control")]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A forge in a process of its own, for all tests here."""
    with subprocess.Popen(_files(tmp_path_factory.mktemp("remote")), stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield json.loads(child.stdout.readline())["url"]
            assert SECRET not in Path(f"/proc/{child.pid}/cmdline").read_text()
        finally:
            child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0


def test_who_knows_the_secret_plays_and_disturbs(url: str) -> None:
    """Each kind of hand once: set up, play, disturb, count."""
    remote = RemoteControl(url, SECRET)
    remote.call("add_account", login="bob", id=1002, token="token-of-bob")
    head = remote.call(
        "push", full_name=REPOSITORY, branch="side", files={"a": "text", "README.md": None}, login="alice"
    )
    assert remote.call("branches", full_name=REPOSITORY)["side"] == head
    number = remote.call("issue", full_name=REPOSITORY, login="bob", title="A question")
    app = remote.call("add_app", slug="tracker", id=3, bot_id=2003)
    made = remote.call("comment", full_name=REPOSITORY, number=number, login="bob", body="é", app=app)
    (shown,) = remote.call("comments", full_name=REPOSITORY, number=number)
    assert (shown["id"], shown["body"], shown["app"]) == (made, "é", app)
    remote.call("fail_next", route_pattern="GET /user", status=503)
    headers = {"Authorization": "token token-of-bob"}
    assert [requests.get(f"{url}/user", headers=headers, timeout=60).status_code for _ in range(2)] == [503, 200]
    assert remote.call("count_requests")["GET /user"] == 2
    remote.call("stop_clock", at=1_900_000_000)
    remote.call("expire_token", token="token-of-bob")
    assert requests.get(f"{url}/user", headers=headers, timeout=60).status_code == 401


def test_the_seed_has_apps_teams_and_webhooks(url: str) -> None:
    headers = {"Authorization": "token token-of-alice"}
    team = requests.get(f"{url}/organizations/50/team/9/memberships/alice", headers=headers, timeout=60)
    assert team.json()["state"] == "active"
    app = {"Authorization": "token ghs_app"}
    assert requests.get(f"{url}/repos/{REPOSITORY}", headers=app, timeout=60).status_code == 200
    assert requests.get(f"{url}/user", headers=app, timeout=60).status_code == 403


@pytest.mark.parametrize("secret", ["", "wrong", SECRET + "x", SECRET[:-1], "é" * 20])
def test_who_does_not_know_it_does_nothing(url: str, secret: str) -> None:
    headers = {"Authorization": f"Bearer {secret}".encode()}
    body = {"do": "add_account", "with": {"login": "eve", "id": 666}}
    assert requests.post(f"{url}/_control", json=body, headers=headers, timeout=60).status_code == 401
    assert requests.post(f"{url}/_control", json=body, timeout=60).status_code == 401
    remote = RemoteControl(url, SECRET)
    with pytest.raises(Unavailable):
        remote.call("grant", full_name=REPOSITORY, login="eve", role_name="admin")


@pytest.mark.parametrize(
    ("do", "arguments"),
    [
        ("close", {}),
        ("__init__", {}),
        ("set_now", {"clock": 1}),
        ("git_folder", {"full_name": REPOSITORY}),
        ("comment", {"full_name": REPOSITORY}),
        ("comment", {"full_name": "acme/none", "number": 1, "login": "alice", "body": "x"}),
        ("grant", {"full_name": REPOSITORY, "login": "alice", "role_name": "king"}),
        ("comment", {"full_name": REPOSITORY, "number": 77, "login": "alice", "body": "x"}),
        ("add_token", {"login": "alice", "app": {}}),
    ],
)
def test_what_is_not_listed_or_does_not_fit_is_refused(url: str, do: str, arguments: dict) -> None:
    remote = RemoteControl(url, SECRET)
    remote.call("reset_counters")
    with pytest.raises(Unavailable):
        remote.call(do, **arguments)
    assert remote.call("count_requests") == {}


def test_every_listed_method_is_one_of_the_forge() -> None:
    assert [name for name in METHODS if not callable(getattr(Control, name, None))] == []


@pytest.mark.parametrize(("secret", "mode"), [(SECRET, 0o640), ("short", 0o600), ("two words of a secret", 0o600)])
def test_a_secret_that_is_none_starts_nothing(tmp_path: Path, secret: str, mode: int) -> None:
    done = subprocess.run(_files(tmp_path, secret, mode), capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert secret not in done.stderr


def test_without_a_secret_there_is_no_such_address(forge) -> None:
    answered = requests.post(f"{forge.sandbox.url}/_control", json={"do": "branches"}, timeout=60)
    assert answered.status_code == 404
