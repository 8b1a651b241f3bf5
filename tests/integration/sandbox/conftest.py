"""A running forge with a repository and four accounts, and PyGithub clients for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from github import Auth, Github
from github.PullRequest import PullRequest
from github.Repository import Repository as RemoteRepository

from gitops_bot.sandbox.http import Sandbox
from tests.contract.described import FILE
from tests.contract.recorded import recording

REPOSITORY = "acme/judge"


class Forge:
    """The sandbox under test with a clock that stands still until it is moved."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.now = 1_800_000_000
        self.clients: list[Github] = []
        sandbox.set_now(lambda: self.now)
        self.tokens = {
            "alice": sandbox.add_account("alice", 1001),
            "bob": sandbox.add_account("bob", 1002),
            "carol": sandbox.add_account("carol", 1003),
            "gitops-bot[bot]": sandbox.add_account("gitops-bot[bot]", 2001, "Bot"),
        }
        sandbox.add_repository(REPOSITORY, 501)
        sandbox.grant(REPOSITORY, "alice", "write")
        sandbox.grant(REPOSITORY, "bob", "triage")
        sandbox.grant(REPOSITORY, "gitops-bot[bot]", "maintain")

    def client(self, login: str, *, token: str | None = None) -> Github:
        """Give a real client; it neither retries nor paces, so that a test sees the first answer at once."""
        made = Github(
            base_url=self.sandbox.url,
            auth=Auth.Token(token or self.tokens[login]),
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
        )
        self.clients.append(made)
        return made

    def repository(self, login: str = "gitops-bot[bot]") -> RemoteRepository:
        """Give the repository as an account's client sees it."""
        return self.client(login).get_repo(REPOSITORY)

    def draft(self, branch: str = "capture/judge-1") -> PullRequest:
        """Open a draft by the bot from a branch with one file."""
        self.sandbox.push(REPOSITORY, branch, {f"captures/{branch}.json": b"{}\n"}, "gitops-bot[bot]")
        return self.repository().create_pull("main", branch, title="A capture", body="what it costs", draft=True)


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    """Start a forge for one test."""
    with Sandbox.start(tmp_path / "forge") as sandbox:
        made = Forge(sandbox)
        yield made
        for client in made.clients:
            client.close()


@pytest.fixture(autouse=True)
def exchanges(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hold every answer, and every request that got what it asked for, to GitHub's description where it is installed.

    Requests that are refused are meant to be wrong here.
    """
    if not FILE.exists():
        yield
        return
    with recording(monkeypatch, of_request=False):
        yield
