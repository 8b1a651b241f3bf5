"""What agent and people do in the transfer demo, in order, and how it went; `transfer` sets it up and ends it."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority.sealing import verify
from gitops_bot.bootstrap import trust
from gitops_bot.core.asks import AskId
from gitops_bot.core.errors import Unavailable
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.core.words import words_of
from gitops_bot.demo import people, terminal, transfer_files, transfer_telling
from gitops_bot.demo.people import Signer
from gitops_bot.demo.stage import COMMAND, Stage
from gitops_bot.demo.story import Story, Tell
from gitops_bot.demo.transfer_files import AGENT, ENVIRONMENT, REPOSITORY, VERB, Place
from gitops_bot.demo.watch import missing
from gitops_bot.process import Completed, run
from gitops_bot.signed import by_hand
from gitops_bot.store import asks
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role

HAPPENED: Final = (
    {"ask.opened"},
    {"vote.refused"},
    {"vote.counted"},
    {"vote.counted"},
    {"ask.answered"},
    {"grant.minted"},
    {"grant.spent"},
    {"effect.done"},
    {"policy.proposed"},
    {"vote.counted"},
    {"vote.counted"},
    {"policy.adopted"},
    {"ask.refused"},
)
"""What must have happened, in this order."""
AUTO_SECONDS: Final = 240.0
REFUSED: Final = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a demo went: in order with an intact ledger or not, what happened, what the payee was sent, where to look."""

    ok: bool
    timeline: Sequence[Mapping[str, Any]]
    calls: Sequence[Mapping[str, Any]]
    rows: Sequence[tuple[str, str, str]]
    addresses: tuple[tuple[str, str], ...]
    problem: str = ""

    def document(self) -> dict[str, Any]:
        """Give the outcome as one JSON document."""
        return {
            "ok": self.ok,
            "scenario": "transfer",
            "timeline": list(self.timeline),
            "calls": list(self.calls),
            "outcomes": [dict(zip(("what", "who", "outcome"), row, strict=True)) for row in self.rows],
            "addresses": dict(self.addresses),
            "problem": self.problem,
        }

    def lines(self) -> list[str]:
        """Lay the outcome out for a terminal."""
        shown = ["", *(f"  {line}" for line in transfer_telling.table(self.rows)), ""]
        shown += [f"{name:<20} {address}" for name, address in self.addresses]
        return [*shown, "", "in order, ledger intact" if self.ok else f"FAILED: {self.problem}"]


def variables(place: Place, person: str, ask: str) -> str:
    """Give what the commands of docs/signing.md are told of a person and an ask, to approve it."""
    return by_hand.assignments(
        place.remote, REPOSITORY, ENVIRONMENT, PrincipalName(person), AskId(ask), Decision.APPROVE
    )


class Scene:
    """One demo that is set up: what agent and people do in it, in order."""

    def __init__(
        self,
        place: Place,
        signers: Mapping[str, Signer],
        payee: str,
        workspace: str,
        tell: Tell,
        stage: Stage,
        url: str,
        *,
        auto: bool,
    ) -> None:
        """Take what was made; `payee` and `workspace` are addresses, `url` the database's."""
        self._place, self._signers, self._payee, self._workspace = place, signers, payee, workspace
        self._tell, self._auto = tell, auto
        self._database = Database.open(url, Role.HOST)
        self.story = Story(stage, self._database, tell, transfer_telling.sentence, AUTO_SECONDS if auto else None)
        self._rows: list[tuple[str, str, str]] = []

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def bot(self, *arguments: str) -> str:
        """Run a command on the broker's host that must succeed; gives what it printed.

        Raises:
            Unavailable: it fails.
        """
        done = self._command(*arguments, "--config", str(self._place.config))
        if done.returncode != 0:
            raise Unavailable(f"gitops-bot {arguments[0]} {arguments[1]} failed: {_last(done)}")
        return done.stdout.decode("utf-8")

    def first_transfer(self) -> None:
        """Let the agent ask, try to sign for alice and be refused; let alice and bob sign; see what the payee was sent.

        Raises:
            Unavailable: a process ended, or something is not so in time.
        """
        asked = self._ask("transfer", transfer_files.FIRST)
        if asked.returncode != 0:
            raise Unavailable(f"the agent's request was refused: {_last(asked)}")
        document = json.loads(asked.stdout)
        ask, summary = str(document["id"]), str(document["summary"])
        self._tell(f"{'the agent asks':<28} {summary}; its token can ask, and never answer")
        self.story.until("ask.opened", ask=ask)
        self._forge(ask)
        code = self.story.until("vote.refused", ask=ask, principal="alice")["reason"]
        self._rows.append(("a vote on alice's branch", f"{AGENT}, by its own key", f"refused: {code}"))
        self._collect(ask)
        self.story.until("effect.done", ask=ask)
        self._rows.append((summary, "alice (OpenPGP), bob (SSH)", f"done, {self._paid(ask)}"))

    def lower_the_limit(self) -> None:
        """Propose a bundle with a lower limit, let alice and bob sign it, and wait until this host pins it.

        Raises:
            Unavailable: as of `first_transfer`.
        """
        lowered = transfer_files.LOWERED
        transfer_files.write_policy(self._place, self._signers, self._payee, version=2, limit=lowered)
        proposed = json.loads(self.bot("policy", "propose", "--json"))
        for change in proposed["changes"]:
            self._tell(f"{'the bundle changes':<28} {change}")
        ask = str(proposed["ask"])
        self._collect(ask)
        self.story.until("policy.adopted", ask=ask)
        self.story.wait("the new pin", lambda: trust.read_trust(self._place.trust_file).policy_version == 2)
        self._rows.append(("policy version 2, a lower limit", "alice (OpenPGP), bob (SSH)", "adopted"))

    def second_transfer(self) -> None:
        """Let the agent ask for what the new limit has no room for, and see it refused at once.

        Raises:
            Unavailable: it was not refused; or as of `first_transfer`.
        """
        asked = self._ask("second", transfer_files.SECOND)
        if asked.returncode != REFUSED:
            raise Unavailable(f"a transfer over the limit ended with {asked.returncode}: {_last(asked)}")
        self._tell(f"{'the agent is told':<28} {_last(asked)}")
        refused = self.story.until("ask.refused", principal=AGENT)
        self._rows.append(("Transfer 1,000.00 EUR more", AGENT, f"refused: {refused['reason']}"))

    def outcome(self, problem: str) -> Outcome:
        """Give how it went, the ledger's chain computed again."""
        calls = self._calls()
        faults = verify(self._database).faults
        problem = problem or "; ".join(fault.what for fault in faults) or missing(self.story.timeline, HAPPENED)
        place = self._place
        addresses = (
            ("workspace", self._workspace),
            ("payee", self._payee),
            ("the payee's books", str(place.books)),
            ("approvals", place.remote),
            ("policy", str(place.policies / "policy.toml")),
            ("settings", str(place.config)),
            ("everything that was", f"gitops-bot ledger show --config {place.config}"),
            ("and the votes", f"gitops-bot approval list --all --attempts 20 --config {place.config}"),
            ("logs", str(place.root / "logs")),
        )
        return Outcome(not problem, tuple(self.story.timeline), calls, tuple(self._rows), addresses, problem)

    def _command(self, *arguments: str) -> Completed:
        return run((*COMMAND, *arguments), cwd=self._place.root, timeout=people.SECONDS)

    def _ask(self, name: str, params: Mapping[str, Any]) -> Completed:
        file = self._place.transfer(name, params)
        by = ("--url", self._workspace, "--token-file", str(self._place.agent_token), "--json")
        return self._command("verb", "request", VERB, "--params", str(file), "--why", "invoice 42", *by)

    def _published(self, ask: str) -> bool:
        path = f"refs/heads/gated/{ENVIRONMENT}/requests:asks/{ask[-2:]}/{ask}/request.json"
        done = run(("git", "cat-file", "-e", path), cwd=self._place.approvals, timeout=people.SECONDS)
        return done.returncode == 0

    def _forge(self, ask: str) -> None:
        """Let the agent sign alice's file with its own key and push that onto alice's branch, as it may."""
        self.story.wait("the published request", lambda: self._published(ask))
        self._tell(f"{'the agent tries':<28} the exact file, on alice's branch, signed with the agent's own key")
        done = self._signers[AGENT].git(variables(self._place, "alice", ask) + by_hand.TAKE + by_hand.VOTE)
        if done.returncode != 0:
            raise Unavailable(f"the agent's own attempt failed: {_last(done)}")

    def _collect(self, ask: str) -> None:
        """Have alice and bob sign, one after the other."""
        self.story.wait("the published request", lambda: self._published(ask))
        for name in ("alice", "bob"):
            signer = self._signers[name]
            arguments = [ask]
            if not (signer.home / ".config").exists():
                arguments += ["--remote", self._place.remote, "--environment", ENVIRONMENT, "--person", name]
            if self._auto:
                self._tell(f"{name + ' reads and signs':<28} gitops-bot approval sign {ask}  ({signer.kind})")
                words = " ".join(words_of(trust.read_trust(self._place.trust_file).policy_digest))
                terminal.sign(signer, arguments, words, seconds=AUTO_SECONDS, alive=self.story.look)
            else:
                self._tell(f"{name + ' signs':<28} in another terminal, with {name}'s home and key:")
                self._tell(f"  {terminal.command_line(signer, arguments)}")
                if "--remote" in arguments:
                    shown = (*terminal.program(), "trust", "show", "--config", str(self._place.config))
                    self._tell(f"  the first time it asks for the words that this prints: {shlex.join(shown)}")
            self.story.wait(f"{name}'s vote", lambda name=name: self._settled(ask, name))  # type: ignore[misc] # a loop's value

    def _settled(self, ask: str, name: str) -> bool:
        if self.story.found("vote.counted", ask=ask, principal=name):
            return True
        ended = [one for one in self.story.found("ask.answered", ask=ask) if one["facts"]["state"] != "APPROVED"]
        if ended:
            raise Unavailable(f"the ask ended as {ended[-1]['facts']['state']}, so nothing is carried out")
        return False

    def _calls(self) -> list[dict[str, Any]]:
        if not self._place.books.exists():
            return []
        return [json.loads(line) for line in self._place.books.read_text("utf-8").splitlines()]

    def _paid(self, ask: str) -> str:
        """Hold what the payee was sent against what was approved.

        Raises:
            Unavailable: it was not called exactly once, or with other bytes.
        """
        with self._database.read() as tx:
            found = asks.get(tx, ask)
        calls = self._calls()
        assert found is not None
        assert found.action is not None
        if len(calls) != 1 or not calls[0]["paid"] or calls[0]["action_hash"] != found.binding.action_hash:
            raise Unavailable(f"the payee has {len(calls)} calls in its books, and not the one that was approved")
        if found.action not in calls[0]["body"].encode("utf-8"):
            raise Unavailable("the payee was sent other bytes than those that were approved")
        self._tell(f"{'the payee was called once':<28} with the approved bytes, {found.binding.action_hash[:23]}…")
        return "one call with the approved bytes"


def _last(done: Completed) -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][-300:] if lines else "(it said nothing)"
