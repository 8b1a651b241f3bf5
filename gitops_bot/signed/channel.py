"""The steps of the signed channel for one commit, in the order of trust (protocols/signed-approvals.md, Reading).

3 object · 4 change · 5 signature · 6 person · 7 ask and content. Steps 1 and 2 (fetch, history) stand behind whoever
calls: `standing` is their word on the branch. Each commit is judged alone; the first no ends it. Nothing is written:
step 8, in the transaction that counts, asks the state of the ask and the counter of the key again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from gitops_bot.authority.rules import params_of
from gitops_bot.core.asks import Ask, AskId, AskState, late
from gitops_bot.core.canonical import action_hash
from gitops_bot.core.errors import Reason, Refused, Unavailable, refuse
from gitops_bot.core.principals import Principal, PrincipalKind, PrincipalName
from gitops_bot.core.verdicts import Channel as Surface
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.lookup import Allowed, lookup, may_vote
from gitops_bot.policy.model import KeyKind, Policy
from gitops_bot.signed.evidence import Change, Commit, ObjectId, Signed, Window
from gitops_bot.signed.explaining import explain_file, explain_message
from gitops_bot.signed.grammar import EMPTY_TREES, read_root
from gitops_bot.signed.keys import Keys, holder_of
from gitops_bot.signed.rendering import Request, render_file, render_message

TITLES: Final = {
    2: "history",
    3: "object",
    4: "change",
    5: "signature",
    6: "person",
    7: "ask and content",
    8: "vote",
}


class Objects(Protocol):
    """The bot's repository as the steps read it (`signed.objects`)."""

    def commit(self, oid: ObjectId) -> Commit | Refused:
        """Read a commit in its strict form."""

    def change(self, commit: Commit, person: PrincipalName, known: Callable[[AskId], bool]) -> Change | Refused:
        """Read what a commit adds."""

    def blob(self, change: Change) -> bytes | Refused:
        """Read the added file."""


@dataclass(frozen=True, slots=True)
class Known:
    """A gated ask as the database had it, with the stored request that its votes are rendered from."""

    ask: Ask
    request: Request


@dataclass(frozen=True, slots=True)
class Place:
    """Which branches these are: the forge's name and number of the repository, environment, epoch, and the skew of
    clocks that is let pass, in ms."""

    repository: str
    repository_id: int
    environment: str
    epoch: int
    skew: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one numbered step said: `found` for people where it passed."""

    number: int
    found: str = ""
    refused: Refused | None = None

    @property
    def title(self) -> str:
        """The step's name."""
        return TITLES[self.number]


@dataclass(frozen=True, slots=True)
class Examined:
    """A commit after its steps. `refused` is the first no; without one it is a branch's `root` or a vote to count."""

    commit_id: ObjectId
    steps: tuple[Step, ...] = ()
    commit: Commit | None = None
    change: Change | None = None
    blob: bytes | None = None
    first: Signed | Refused | None = None
    """What the engine in process said."""
    signed: Signed | None = None
    """What both engines say, once both were asked."""
    known: Known | None = None
    root: bool = False
    held: str | None = None
    """Why it can be neither counted nor refused now: an engine failed (I14)."""

    @property
    def refused(self) -> Refused | None:
        """The first no, or None."""
        return next((step.refused for step in self.steps if step.refused is not None), None)

    def at(self, number: int, outcome: Refused | str) -> "Examined":
        """Add what a step said."""
        step = Step(number, refused=outcome) if isinstance(outcome, Refused) else Step(number, outcome)
        return replace(self, steps=(*self.steps, step))


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is known of a commit from outside it: when it was received, what history says of its branch, and what the
    engine in process found before under the same keys. `unrooted` says that the branch's root is not soundly signed:
    then nothing counts, and a commit with a fault of its own is blamed with that. `proven` is what a verifying process
    found just now: it saves the cryptography, not the checks."""

    received_at: int
    standing: Refused | None = None
    found: Signed | Refused | None = None
    unrooted: Refused | None = None
    proven: Signed | None = None


@dataclass(frozen=True, slots=True)
class Channel:
    """The steps over one policy, its keys, the bot's repository and the asks of this environment."""

    place: Place
    policy: Policy
    keys: Keys
    objects: Objects
    asks: Callable[[AskId], Known | None]
    counters: Callable[[str], int | None] = field(default=lambda _key: None)
    after_verdict: bool = False
    """At the spend: the ask ended by these votes, and its policy and run are held against the world elsewhere."""

    def examine(self, person: PrincipalName, oid: ObjectId, receipt: Receipt) -> Examined:
        """Take one commit of a person's branch through the steps.

        Raises:
            Unavailable: git failed; nothing is known of the commit.
        """
        done = Examined(oid)
        # 2. History: what was said of the branch stands for each commit on it.
        if receipt.standing is not None:
            return done.at(2, receipt.standing)
        # 3. Object
        commit = self.objects.commit(oid)
        if isinstance(commit, Refused):
            return done.at(3, commit)
        done = replace(done, commit=commit).at(3, f"a commit of one signature ({commit.kind.value})")
        if commit.parent is None:
            return self._root(person, commit, receipt, done)
        # 4. Change
        known: dict[AskId, Known | None] = {}

        def is_known(ask: AskId) -> bool:
            known[ask] = self.asks(ask)
            return known[ask] is not None

        change = self.objects.change(commit, person, is_known)
        if isinstance(change, Refused):
            return done.at(4, change)
        blob = self.objects.blob(change)
        if isinstance(blob, Refused):
            return replace(done, change=change).at(4, blob)
        asked = known[change.ask]
        assert asked is not None
        done = replace(done, change=change, blob=blob, known=asked).at(4, f"adds {change.path}")
        # 5. Signature, by the engine in process
        window = Window(receipt.received_at, self.place.skew, asked.ask.opened_at)
        done = self._signature(commit, window, receipt, done)
        if done.refused is not None:
            return done
        assert isinstance(done.first, Signed)
        # 6. Person
        done = done.at(6, self._person(person, done.first, change, asked))
        if done.refused is not None:
            return done
        # 7. Ask and content
        done = done.at(7, self._content(person, commit, change, blob, asked))
        if done.refused is None:
            done = self._confirm(commit, window, done)
        if done.refused is None and done.held is None and receipt.unrooted is not None:
            return done.at(2, receipt.unrooted)
        return done

    def _root(self, person: PrincipalName, commit: Commit, receipt: Receipt, done: Examined) -> Examined:
        """Judge a commit without a parent: the branch's own root, or none."""
        place = self.place
        named = read_root(commit.message, repository=place.repository, environment=place.environment, person=person)
        if not named or commit.tree not in EMPTY_TREES:
            detail = "It is not the root of this repository, environment and person, with an empty tree."
            return done.at(4, refuse(Reason.ROOT_COMMIT, detail))
        window = Window(receipt.received_at, place.skew)
        done = self._signature(commit, window, receipt, replace(done, root=True).at(4, "the branch's root"))
        if done.refused is not None:
            return done
        assert isinstance(done.first, Signed)
        holder = self._holder(person, done.first)
        if isinstance(holder, Refused):
            return done.at(6, holder)
        return self._confirm(commit, window, done.at(6, f"signed by {holder.name}"))

    def _signature(self, commit: Commit, window: Window, receipt: Receipt, done: Examined) -> Examined:
        first = receipt.found if receipt.found is not None else self.keys.verify(commit, window, receipt.proven)
        done = replace(done, first=first)
        if isinstance(first, Refused):
            return done.at(5, first)
        highest = None if first.counter is None else self.counters(first.key)
        if highest is not None and first.counter is not None and first.counter < highest:
            return done.at(5, fallen(first.counter, highest))
        return done.at(5, f"{first.component} signed it, proving {first.proof.value}")

    def _confirm(self, commit: Commit, window: Window, done: Examined) -> Examined:
        """5, again: before anything counts, the second engine must say the same."""
        assert isinstance(done.first, Signed)
        try:
            both = self.keys.confirm(commit, window, done.first)
        except Unavailable as error:
            return replace(done, held=str(error))
        if isinstance(both, Refused):
            return done.at(5, both)
        return replace(done, signed=both).at(5, "the second engine says the same")

    def _holder(self, person: PrincipalName, signed: Signed) -> Principal | Refused:
        """Find the one human whose key signed; the branch must be theirs."""
        holder = holder_of(self.policy, signed)
        if holder is None:
            return refuse(Reason.UNKNOWN_KEY, key=signed.component)
        if holder.kind is not PrincipalKind.HUMAN:
            return refuse(Reason.SERVICE_IDENTITY, f"The key is that of {holder.name}.", service=holder.name)
        if holder.suspended:
            return refuse(Reason.SUSPENDED, person=holder.name)
        if holder.name != person:
            return refuse(Reason.WRONG_BRANCH, f"{holder.name} signed on the branch of {person}.", signer=holder.name)
        return holder

    def _person(self, person: PrincipalName, signed: Signed, change: Change, asked: Known) -> Refused | str:
        holder = self._holder(person, signed)
        if isinstance(holder, Refused):
            return holder
        ask = asked.ask
        assert ask.verb is not None and ask.action is not None
        rule = lookup(self.policy, ask.verb, params_of(ask.action))
        if isinstance(rule, Refused):
            return rule
        allowed = may_vote(
            self.policy,
            rule,
            holder,
            Surface.SIGNED,
            decision=change.decision,
            requester=ask.requester,
            agent_owner=ask.owner,
            candidates=ask.candidates,
        )
        if isinstance(allowed, Refused):
            return allowed
        if not isinstance(allowed, Allowed):
            return refuse(Reason.NOT_AUTHORISED, "The policy asks for a permission on the forge.", person=person)
        demanded = rule.keys or KeyKind.VERIFIED
        if signed.proof.strength < demanded.strength:
            detail = f'The verb demands keys = "{demanded.value}"; this one proves {signed.proof.value}.'
            return refuse(Reason.WEAK_KEY_KIND, detail, demanded=demanded.value)
        return f"{holder.name}, who may vote on {rule.name}"

    def _content(
        self, person: PrincipalName, commit: Commit, change: Change, blob: bytes, asked: Known
    ) -> Refused | str:
        ended = None if self.after_verdict else too_late(self.policy, asked.ask, change.decision)
        if ended is None and change.decision is Decision.APPROVE:
            ended = self._same(asked)
        if ended is not None:
            return ended
        file = render_file(asked.request, person, change.decision)
        if blob != file:
            return refuse(Reason.BYTES_DIFFER, explain_file(file, blob))
        message = render_message(asked.request, person, change.decision)
        if commit.message != message:
            return refuse(Reason.MESSAGE_DIFFERS, explain_message(message, commit.message))
        return "exactly the bytes of the request"

    def _same(self, asked: Known) -> Refused | None:
        """Hold the request, which is signed, against the ask, which is decided and done: one action, this epoch."""
        ask, request = asked.ask, asked.request
        if ask.action is None or (request.verb, request.action_hash) != (ask.verb, action_hash(ask.action)):
            return refuse(Reason.BYTES_DIFFER, "The stored request is of another action than the ask.")
        if request.epoch != self.place.epoch:
            return refuse(Reason.EPOCH, asked=request.epoch, now=self.place.epoch)
        return None


def too_late(policy: Policy, ask: Ask, decision: Decision) -> Refused | None:
    """Refuse an approve of an ask that ended, or whose world moved; a deny or revoke is never too late here.

    Whether the run that asked still stands is the counting transaction's to check.
    """
    if decision is not Decision.APPROVE:
        return None
    if ask.state is not AskState.OPEN:
        return late(ask)
    if policy.digest != ask.binding.policy:
        return refuse(Reason.STALE_POLICY, asked=ask.binding.policy, now=policy.digest)
    if ask.action is None or action_hash(ask.action) != ask.binding.action_hash:
        return refuse(Reason.STALE_ACTION, "The stored action is not the one that was asked.")
    return None


def fallen(counter: int, highest: int) -> Refused:
    """Refuse a security key whose counter fell: it may have been copied (WebAuthn Level 2 §6.1.1)."""
    return refuse(Reason.BAD_SIGNATURE, f"The key's counter fell from {highest} to {counter}.", counter=counter)
