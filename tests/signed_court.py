"""A court for signed votes: a stage that people push to, a policy, an ask over a real database, the channel's eyes.

What a test sees of a commit is one word: `counted`, `held`, or the code of the refusal. Time is the machine's own, as
in the product, so that receipts and windows are real.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from gitops_bot.authority.asking import Opened, Waiter, Wish, open_ask
from gitops_bot.authority.rules import AskLimits, Rules
from gitops_bot.bootstrap.keyrings import keys_of
from gitops_bot.bootstrap.signed import remember
from gitops_bot.core.asks import AskState
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.grammar import parse_bundle
from gitops_bot.policy.model import Policy
from gitops_bot.signed import requesting
from gitops_bot.signed.channel import Place
from gitops_bot.signed.evidence import SignatureKind
from gitops_bot.signed.fetching import Fetcher
from gitops_bot.signed.looking import Looker
from gitops_bot.signed.openpgp.facts import CertificateFacts
from gitops_bot.signed.openpgp.gpg import Gpg
from gitops_bot.signed.rendering import Request, read_request, render_file, render_message
from gitops_bot.signed.repository import Remote, Repository
from gitops_bot.store import agents, asks, branches, requests, signatures, signed_commits, signed_votes
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.states import AgentKind, CommitState, RunState, WaiterKind
from tests.signed_bundle import bundle, key_facts
from tests.signed_stage import ENVIRONMENT, PEOPLE, REPOSITORY, REPOSITORY_ID, Recipe, SignedStage, root_message

COUNTED: Final = "counted"
HELD: Final = "held"
PLACE: Final = Place(REPOSITORY, REPOSITORY_ID, ENVIRONMENT, 1, 300_000)
PARAMS: Final[Mapping[str, Any]] = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}


@dataclass(frozen=True, slots=True)
class Accused:
    """A commit to be judged on a person's branch. `before`: how many votes of theirs on the ask counted already."""

    person: str
    commit: str
    ask: str
    before: int = 0


@dataclass
class Court:
    """One environment. What a play does not set is sound: alice may vote on the worker's transfer, whose owner is
    carol."""

    folder: Path
    database: Database
    policy: Policy | None = None
    certificates: Mapping[str, CertificateFacts] = field(default_factory=dict)
    homes: Path | None = None
    gpg: str = "gpg"
    gpg_seconds: float | None = None
    _request: Request | None = None

    @cached_property
    def now(self) -> int:
        """When the play begins, in whole seconds."""
        return int(time.time())

    @cached_property
    def stage(self) -> SignedStage:
        """The repository that everybody pushes to."""
        return SignedStage(self.folder / "approvals.git", now=self.now)

    @cached_property
    def fetcher(self) -> Fetcher:
        """The broker's own repository, and how it fetches."""
        repository = Repository(self.folder / "broker", Remote(self.stage.url))
        repository.create()
        return Fetcher(repository, ENVIRONMENT)

    @property
    def bot_repository(self) -> Path:
        """The folder of the broker's own repository."""
        return self.fetcher.repository.folder

    @property
    def request(self) -> Request:
        """The request of the ask that is voted on."""
        if self._request is None:
            self.begin()
        assert self._request is not None
        return self._request

    def begin(
        self,
        *,
        change: Callable[[dict[str, Any]], object] | None = None,
        certificates: Mapping[str, str] | None = None,
        ssh: Mapping[str, list[dict[str, Any]]] | None = None,
        **asked: Any,
    ) -> None:
        """Put a policy in force and open the ask; see `tests.signed_bundle.bundle` and `ask`."""

        def all_changes(tables: dict[str, Any]) -> None:
            for person, keys in (ssh or {}).items():
                tables["people"][person]["ssh"] = keys
            if change is not None:
                change(tables)

        self._load(bundle(all_changes, certificates=certificates))
        self._request = self.ask(**asked)

    def settle(self, person: str = "alice") -> None:
        """Have a person's branch begun and read under the sound policy, with sound tools."""
        self.begin()
        self.stage.root(person)
        self.look()
        assert self.branch(person) is None

    def adopt(self, *, certificates: Mapping[str, str] | None = None, version: int = 1) -> None:
        """Put another policy in force, at once; open asks stay as they are."""
        self._load(bundle(lambda tables: tables.update(version=version), certificates=certificates))

    def renew(self, **asked: Any) -> None:
        """Open another ask under the policy in force, to be voted on from now on."""
        self._request = self.ask(**asked)

    def _load(self, files: Mapping[str, bytes]) -> None:
        self.policy = parse_bundle(files, key_facts(files))
        with self.database.write() as tx:
            self.certificates = remember(tx, self.policy, files)

    def looker(self) -> Looker:
        """Make a looker as a broker that starts would: over the policy in force and all revocations ever seen."""
        assert self.policy is not None, "nothing to look at yet"
        with self.database.read() as tx:
            remembered = signatures.revocations(tx)
        homes = self.homes or self.folder / "homes"
        keys = keys_of(self.policy, self.certificates, remembered, homes, gpg=self.gpg)
        if self.gpg_seconds is not None:
            pair = keys.pairs[SignatureKind.OPENPGP]
            facts = self.certificates.values()
            slow = Gpg(facts, folder=homes, program=self.gpg, timeout=self.gpg_seconds)
            keys = replace(keys, pairs={**keys.pairs, SignatureKind.OPENPGP: replace(pair, second=slow)})
        return Looker(self.database, self.policy, PLACE, keys, self.fetcher, poll_ms=1000)

    def ask(
        self,
        *,
        verb: str = "payments.transfer",
        params: Mapping[str, Any] | None = None,
        requester: str = "worker",
        owner: str = "carol",
        expires_in: int | None = None,
        **changes: Any,
    ) -> Request:
        """Open an ask of an agent and give its request; `changes` are parameters of the transfer."""
        if self.policy is None:
            self.begin()
        wanted = {**PARAMS, **changes} if params is None else params
        rules = self.rules

        def work(tx: Tx) -> str:
            names = (PrincipalName(requester), PrincipalName(owner))
            slug = f"{requester}-of-{owner}"
            agent = agents.by_slug(tx, slug) or agents.add(tx, slug, AgentKind.AGENT, *names, "to test")
            run = agents.add_run(tx, agent.id, "agent", RunState.PARKED)
            wish = Wish(agent, run, Waiter(WaiterKind.RUN, run.id), verb=verb, params=wanted, expires_in=expires_in)
            opened = open_ask(tx, rules, wish)
            assert isinstance(opened, Opened), opened
            return opened.ask.id

        with self.database.write() as tx:
            ask = work(tx)
        requesting.store_missing(self.database, rules, PLACE)
        with self.database.read() as tx:
            content = requests.get(tx, ask)
        assert content is not None
        return read_request(content)

    @property
    def rules(self) -> Rules:
        """The rules in force."""
        assert self.policy is not None
        return Rules(self.policy, REPOSITORY, ENVIRONMENT, AskLimits(max_open_gated=100))

    def end(self, state: str, reason: str | None = None) -> None:
        """End the ask, whoever did it."""
        with self.database.write() as tx:
            assert asks.end(tx, self.request.ask, AskState(state), "test", reason)

    def wait_until_over(self) -> None:
        """Wait until the ask's time is over."""
        while time.time() * 1000 <= self.request.expires_at + 1000:
            time.sleep(0.05)

    def file(self, person: str, decision: str = "approve") -> bytes:
        """Give the file that a person adds."""
        return render_file(self.request, PrincipalName(person), Decision(decision))

    def message(self, person: str, decision: str = "approve") -> bytes:
        """Give the message that belongs to it."""
        return render_message(self.request, PrincipalName(person), Decision(decision))

    def recipe(self, person: str, decision: str = "approve", **changes: Any) -> Recipe:
        """Give the recipe of a vote on the ask; see `SignedStage.recipe`."""
        return self.stage.recipe(person, decision, **{"request": self.request, **changes})

    def changed(self, recipe: Recipe, **changes: Any) -> Recipe:
        """Change a recipe, its signature made anew over what it covers."""
        return replace(recipe, **changes)

    def vote(self, person: str = "alice", decision: str = "approve", *, before: int = 0, **changes: Any) -> Accused:
        """Push a vote."""
        request = changes.get("request", self.request)
        oid = self.stage.push(person, self.stage.commit(self.recipe(person, decision, **changes)))
        return Accused(person, oid, request.ask, before)

    def commit(self, person: str, recipe: Recipe, **changes: Any) -> Accused:
        """Push what a recipe makes, changed."""
        oid = self.stage.push(person, self.stage.commit(replace(recipe, **changes)))
        return Accused(person, oid, self.request.ask)

    def accuse(self, commit: str, person: str = "alice", before: int = 0) -> Accused:
        """Name a commit that was brought in by another."""
        return Accused(person, commit, self.request.ask, before)

    def begin_branch(self, person: str, *, at: int | None = None, named: str | None = None, **place: str) -> str:
        """Begin a person's branch anew; `named` and `place` (repository, environment) stand in the root's message."""
        changes: dict[str, Any] = {} if at is None else {"at": at}
        return self.stage.root(person, message=root_message(named or person, **place), **changes)

    def use_gpg(self, program: Callable[[Path], Path], *, seconds: float | None = None) -> None:
        """Put another program in the place of gpg, and give it no more than so many seconds."""
        self.gpg, self.gpg_seconds = str(program(self.folder)), seconds

    def repair(self) -> None:
        """Put gpg back."""
        self.gpg, self.gpg_seconds = "gpg", None

    def look(self) -> None:
        """Let the channel look at every branch, once all that is new is read."""
        looker = self.looker()
        while looker.look().more:
            continue

    def outcome(self, accused: Accused) -> str:
        """Say in one word what became of a commit, or of its branch where the commit was not received."""
        with self.database.read() as tx:
            found = signed_commits.get(tx, accused.person, accused.commit)
        if found is None:
            return self.branch(accused.person) or "unseen"
        if found.state is not CommitState.JUDGED:
            return HELD
        return found.code or "judged"

    def branch(self, person: str) -> str | None:
        """Give the code for which a branch is frozen or cannot be read."""
        with self.database.read() as tx:
            found = branches.get(tx, person)
        return None if found is None else found.reason

    def counted(self, accused: Accused) -> int:
        """Count the votes of a commit's person on its ask."""
        with self.database.read() as tx:
            return sum(vote.principal == accused.person for vote in signed_votes.of_ask(tx, accused.ask))

    def close(self) -> None:
        """Remove what was written."""
        shutil.rmtree(self.folder, ignore_errors=True)


__all__ = ("COUNTED", "HELD", "PEOPLE", "Accused", "Court")
