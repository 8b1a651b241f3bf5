"""Fetch and push with the real git client, over real HTTP."""

import base64
import gzip
import subprocess
from pathlib import Path

import pytest
import requests

REPOSITORY = "acme/judge"


class Client:
    """A git client with a clean configuration in a folder of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        folder.mkdir()

    def address(self, login: str, token: str) -> str:
        """Give the repository's address with credentials in it."""
        return f"{self.url.replace('http://', f'http://{login}:{token}@')}/{REPOSITORY}.git"

    def git(self, *arguments: str, cwd: str = ".", ok: bool = True, protocol: int = 2) -> str:
        """Run git; its output and complaints."""
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_AUTHOR_NAME": "alice",
            "GIT_AUTHOR_EMAIL": "alice@example.invalid",
            "GIT_COMMITTER_NAME": "alice",
            "GIT_COMMITTER_EMAIL": "alice@example.invalid",
        }
        done = subprocess.run(
            ["git", "-c", f"protocol.version={protocol}", *arguments],
            cwd=self.folder / cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode == 0) is ok, done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def client(forge, tmp_path: Path) -> Client:
    """A client of the forge."""
    return Client(tmp_path / "client", forge.sandbox.url)


def _cloned(client: Client, forge, login: str = "alice") -> Client:
    client.git("clone", "-q", client.address(login, forge.tokens[login]), "work")
    return client


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_what_is_public_is_cloned_by_anybody(forge, client: Client, protocol: int) -> None:
    client.git("clone", "-q", f"{client.url}/{REPOSITORY}.git", "work", protocol=protocol)
    assert client.git("rev-parse", "HEAD", cwd="work").strip() == forge.sandbox.branches(REPOSITORY)["main"]
    assert (client.folder / "work" / "README.md").read_bytes() == b"# acme/judge\n"


def test_what_is_private_is_cloned_by_who_may_read(forge, client: Client) -> None:
    """401 to nobody, 404 to a stranger, and the twin gets it."""
    forge.sandbox.add_repository("acme/vault", 502, private=True)
    forge.sandbox.grant("acme/vault", "bob", "read")
    there = f"{client.url}/acme/vault.git"
    assert "could not read" in client.git("clone", there, "a", ok=False)
    known = there.replace("http://", f"http://x:{forge.tokens['carol']}@")
    assert "not found" in client.git("clone", known, "b", ok=False)
    wrong = there.replace("http://", "http://bob:wrong@")
    assert "Authentication failed" in client.git("clone", wrong, "c", ok=False)
    client.git("clone", "-q", there.replace("http://", f"http://bob:{forge.tokens['bob']}@"), "d")


def test_a_push_moves_the_head_of_its_pull_request(forge, client: Client) -> None:
    pull = forge.draft()
    _cloned(client, forge)
    client.git("checkout", "-q", pull.head.ref, cwd="work")
    (client.folder / "work" / "more.bin").write_bytes(bytes(range(256)) * 8000)
    client.git("add", ".", cwd="work")
    client.git("commit", "-qm", "More", cwd="work")
    client.git("push", "-q", "origin", "HEAD", cwd="work")
    head = client.git("rev-parse", "HEAD", cwd="work").strip()
    assert head != pull.head.sha
    again = forge.repository().get_pull(pull.number)
    assert (again.head.sha, again.changed_files) == (head, 2)
    assert forge.sandbox.read_file(REPOSITORY, pull.head.ref, "more.bin") == bytes(range(256)) * 8000


@pytest.mark.parametrize("login", ["bob", "carol"])
def test_a_push_without_write_access_is_refused_and_moves_nothing(forge, client: Client, login: str) -> None:
    before = forge.sandbox.branches(REPOSITORY)
    _cloned(client, forge, login)
    client.git("commit", "-qm", "Mine", "--allow-empty", cwd="work")
    told = client.git("push", "origin", "HEAD", cwd="work", ok=False)
    assert "403" in told or f"denied to {login}" in told
    assert forge.sandbox.branches(REPOSITORY) == before


def test_a_push_by_nobody_is_refused(forge, client: Client) -> None:
    client.git("clone", "-q", f"{client.url}/{REPOSITORY}.git", "work")
    client.git("commit", "-qm", "Mine", "--allow-empty", cwd="work")
    assert "could not read Username" in client.git("push", "origin", "HEAD", cwd="work", ok=False)


def test_a_rewritten_branch_needs_force_and_a_default_branch_stays(forge, client: Client) -> None:
    forge.draft()
    _cloned(client, forge)
    client.git("checkout", "-q", "--orphan", "other", cwd="work")
    client.git("commit", "-qm", "Another history", cwd="work")
    assert "rejected" in client.git("push", "origin", "HEAD:capture/judge-1", cwd="work", ok=False)
    client.git("push", "-q", "--force", "origin", "HEAD:capture/judge-1", cwd="work")
    rewritten = client.git("rev-parse", "HEAD", cwd="work").strip()
    assert forge.repository().get_pull(1).head.sha == rewritten
    assert "refusing to delete" in client.git("push", "origin", ":main", cwd="work", ok=False)
    client.git("push", "-q", "origin", ":capture/judge-1", cwd="work")
    assert "capture/judge-1" not in forge.sandbox.branches(REPOSITORY)
    assert "refs/pull" in client.git("push", "origin", "HEAD:refs/pull/1/head", cwd="work", ok=False)


def test_no_hook_of_the_repository_is_run(forge, client: Client) -> None:
    """Even one that somebody put there."""
    mark = client.folder / "ran"
    hooks = forge.sandbox.git_folder(REPOSITORY) / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-receive", "update", "post-receive", "post-update"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (hooks / name).chmod(0o755)
    _cloned(client, forge)
    client.git("commit", "-qm", "Mine", "--allow-empty", cwd="work")
    client.git("push", "-q", "origin", "HEAD", cwd="work")
    assert not mark.exists()


def test_a_part_of_a_repository_can_be_fetched(forge, client: Client) -> None:
    """Shallow, without blobs, and a commit by its bare id."""
    head = forge.sandbox.push(REPOSITORY, "side", {"a": b"x"}, "alice")
    there = f"{client.url}/{REPOSITORY}.git"
    client.git("clone", "-q", "--depth=1", "--filter=blob:none", "--branch=side", there, "work")
    assert client.git("rev-list", "--count", "HEAD", cwd="work").strip() == "1"
    client.git("init", "-q", "bare")
    client.git("fetch", "-q", there, head, cwd="bare")
    assert client.git("rev-parse", "FETCH_HEAD", cwd="bare").strip() == head


def test_an_expired_token_pushes_nothing(forge, client: Client) -> None:
    token = forge.sandbox.add_token("alice", lifetime=60)
    client.git("clone", "-q", client.address("alice", token), "work")
    client.git("commit", "-qm", "Mine", "--allow-empty", cwd="work")
    forge.now += 60
    assert "Authentication failed" in client.git("push", "origin", "HEAD", cwd="work", ok=False)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, b""),
        ({}, b"zzzz"),
        ({}, b"0004" * 1000),
        ({"Content-Encoding": "gzip"}, b"no gzip"),
        ({"Content-Encoding": "gzip"}, gzip.compress(b"\x00" * (65 * 1024 * 1024))),
        ({"Git-Protocol": "version=2; $(touch x)"}, b"0000"),
        ({"Authorization": "Basic \xff"}, b""),
        ({"Authorization": "Basic " + base64.b64encode(b"\xff:\xff").decode()}, b""),
    ],
)
def test_whatever_a_client_sends_is_answered(forge, headers: dict, body: bytes) -> None:
    """I20: a refusal or git's own complaint; branches stay and the next client is served."""
    before = forge.sandbox.branches(REPOSITORY)
    for service in ("git-upload-pack", "git-receive-pack"):
        given = {"Authorization": f"Bearer {forge.tokens['alice']}", **headers}
        answered = requests.post(f"{forge.sandbox.url}/{REPOSITORY}.git/{service}", body, headers=given, timeout=60)
        assert answered.status_code in {200, 400, 401, 413, 500}
    assert forge.sandbox.branches(REPOSITORY) == before
    assert requests.get(f"{forge.sandbox.url}/{REPOSITORY}.git/info/refs?service=x", timeout=60).status_code == 404


def test_failures_on_demand_reach_git_too(forge, client: Client) -> None:
    """A 502 after the push: the client thinks that it failed, the branch has moved."""
    _cloned(client, forge)
    client.git("commit", "-qm", "Mine", "--allow-empty", cwd="work")
    forge.sandbox.fail_next("POST */git-receive-pack", 502, after_effect=True)
    client.git("push", "origin", "HEAD", cwd="work", ok=False)
    head = client.git("rev-parse", "HEAD", cwd="work").strip()
    assert forge.sandbox.branches(REPOSITORY)["main"] == head
    assert forge.sandbox.requests[("POST", "/{owner}/{repo}.git/git-receive-pack")] == 1
