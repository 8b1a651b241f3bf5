"""A host with a signed channel: settings, a pinned bundle, a database, the bot's key, a repository that people push to;
the command line, and the broker put together, whose duties of the channel a test steps one at a time.
"""

import io
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gitops_bot.authority.asking import Opened, Waiter, Wish, open_ask
from gitops_bot.authority.rules import Rules
from gitops_bot.bootstrap.broker import Broker, build
from gitops_bot.bootstrap.rules import rules_of
from gitops_bot.bootstrap.signed import SignedChannel
from gitops_bot.bootstrap.trust import pin
from gitops_bot.cli import run
from gitops_bot.config import Settings, load
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.rendering import Request, read_request
from gitops_bot.store import agents, requests
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind, RunState, WaiterKind
from tests import signed_keys as keys
from tests.signed_bundle import bundle, write_bundle
from tests.signed_stage import ENVIRONMENT, REPOSITORY, REPOSITORY_ID, Recipe, SignedStage
from tests.store_fixtures import FreshDatabase

PARAMS: Mapping[str, Any] = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}


@dataclass
class SignedHost:
    """One host under `folder`; `bot_kind` says by which kind of key the bot signs (`ssh` or `openpgp`)."""

    folder: Path
    fresh: FreshDatabase
    bot_kind: str = "ssh"
    change: Callable[[dict[str, Any]], object] = lambda tables: None
    """Edits the bundle's tables before they are pinned."""
    apart: bool = False
    """The broker is a process of its own; what is done here is done in the workspace's role."""

    def __post_init__(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True)
        write_bundle(bundle(self.change), self.folder / "policies")
        state = self.folder / ".gitops-bot"
        state.mkdir(mode=0o700)
        self.private("url", self.fresh.owner_url.encode())
        ssh = self.bot_kind == "ssh"
        self.private("bot.key", keys.ssh_path("bot").read_bytes() if ssh else keys.secret_file("bot"))
        self.write()
        pin(self.folder / "policies", state / "trust.json")

    def private(self, name: str, content: bytes) -> Path:
        """Write a file that its owner alone may read."""
        file = self.folder / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_bytes(content)
        return file

    def write(self, **signed: Any) -> None:
        """Write the settings; `signed` are keys of `[signed]` that differ, None leaves one out."""
        values: dict[str, Any] = {
            "environment": ENVIRONMENT,
            "shared_uid": "accepted",
            "remote": self.stage.url,
            "repository_id": REPOSITORY_ID,
            "bot_key_file": "bot.key",
            "poll": "1s",
        }
        values |= signed
        lines = [f"{name} = {value!r}" for name, value in values.items() if value is not None]
        text = f'repository = "{REPOSITORY}"\n[database]\nurl_file = "url"\n[signed]\n' + "\n".join(lines) + "\n"
        (self.folder / "gitops-bot.toml").write_text(text)

    @cached_property
    def stage(self) -> SignedStage:
        """The repository of approvals, which people push to."""
        return SignedStage(self.folder / "approvals", now=int(time.time()))

    @property
    def settings(self) -> Settings:
        """The settings as they are written."""
        return load(self.folder / "gitops-bot.toml")

    @cached_property
    def broker(self) -> Broker:
        """The broker, put together and armed; nothing of it runs but what a test steps."""
        return build(self.settings)

    @cached_property
    def rules(self) -> Rules:
        """The rules that the host decides by."""
        return rules_of(self.settings, self.database)

    @cached_property
    def database(self) -> Database:
        """The database as the broker opened it."""
        return self.fresh.open(Role.WORKSPACE) if self.apart else self.broker.database

    @property
    def channel(self) -> SignedChannel:
        """The broker's signed channel."""
        assert self.broker.signed is not None
        return self.broker.signed

    def bot(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        """Run `gitops-bot …` on this host; gives its exit status and what it printed."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = run([*arguments, "--config", str(self.folder / "gitops-bot.toml")])
        return status, out.getvalue(), err.getvalue()

    def ask(
        self,
        *,
        verb: str = "payments.transfer",
        params: Mapping[str, Any] | None = None,
        owner: str = "carol",
        **changes: Any,
    ) -> str:
        """Open a gated ask of the worker's and give its id."""
        with self.database.write() as tx:
            slug = f"worker-of-{owner}"
            names = (PrincipalName("worker"), PrincipalName(owner))
            agent = agents.by_slug(tx, slug) or agents.add(tx, slug, AgentKind.AGENT, *names, "to test")
            agent_run = agents.add_run(tx, agent.id, "agent", RunState.PARKED)
            waiter = Waiter(WaiterKind.RUN, agent_run.id)
            wish = Wish(agent, agent_run, waiter, verb=verb, params=params or {**PARAMS, **changes})
            opened = open_ask(tx, self.rules, wish)
            assert isinstance(opened, Opened), opened
            return opened.ask.id

    def announce(self) -> None:
        """Store and publish what is due on the requests branch."""
        assert self.channel.announcer is not None
        for _ in range(4):
            self.channel.announcer.step()

    def look(self) -> None:
        """Look at every branch once."""
        self.channel.looker.look()

    def request(self, ask: str) -> Request:
        """Give the stored request of an ask."""
        with self.database.read() as tx:
            content = requests.get(tx, ask)
        assert content is not None
        return read_request(content)

    def vote(self, person: str, ask: str, decision: str = "approve", **changes: Any) -> str:
        """Push a signed vote and give its commit."""
        return self.stage.vote(person, decision, request=self.request(ask), **changes)

    def recipe_of(self, person: str, ask: str, decision: str = "approve", **changes: Any) -> Recipe:
        """Give the recipe of a vote."""
        return self.stage.recipe(person, decision, request=self.request(ask), **changes)

    def close(self) -> None:
        """End what was started, and remove what was written."""
        if "broker" in self.__dict__:
            self.broker.close()
        shutil.rmtree(self.folder, ignore_errors=True)
