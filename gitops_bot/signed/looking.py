"""One look at all people's branches: fetched (1), held against what was read before (2), each new commit judged (3–8).

What was received is a row before it is judged, in the transaction that moves the stored tip; so a crash loses nothing,
and what was judged is never judged again. A commit that waits for a tool stays a row and is tried at the next look. One
person's rewritten, damaged or flooded branch stops nobody else.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, assert_never

from gitops_bot.authority.duties import Again, Outcome
from gitops_bot.core.asks import AskId
from gitops_bot.core.errors import Reason, Refused, Unavailable, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.policy.model import Policy
from gitops_bot.signed import requesting
from gitops_bot.signed.channel import Channel, Examined, Known, Place, Receipt
from gitops_bot.signed.evidence import ObjectId, Signed
from gitops_bot.signed.fetching import Fetcher, Tip
from gitops_bot.signed.history import (
    Advanced,
    Deleted,
    NeverMade,
    Rewritten,
    Unchanged,
    Unread,
    judge,
    roots_of,
)
from gitops_bot.signed.keys import Keys
from gitops_bot.signed.objects import MAX_LOOK, Objects
from gitops_bot.signed.proving.pool import pool_of
from gitops_bot.signed.proving.proofs import Proofs
from gitops_bot.signed.results import from_document, to_document
from gitops_bot.signed.votes import Counted, count
from gitops_bot.store import branches, due, ledger, settings, signatures, signed_commits
from gitops_bot.store.branches import Branch
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.signed_commits import Judgement, SignedCommit
from gitops_bot.store.states import BranchState

DUTY: Final = "signed.look"
PUBLISH: Final = "signed.publish"
LOOKED_AT: Final = "signed.looked_at"
"""The cursor that says when the last whole look began, in ms by the database's clock."""
BATCH: Final = 500
"""Commits of one person that one look judges; the rest is judged by the next, at once."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look did: when it began, how many commits were judged, how many wait, and whether there is more."""

    began_at: int
    judged: int
    held: int
    more: bool


@dataclass(frozen=True, slots=True)
class Unrooted:
    """The branch stands on a root of its own form that its person did not soundly sign: nothing on it counts."""

    refused: Refused


@dataclass(frozen=True, slots=True)
class Waiting:
    """The root cannot be judged now: an engine failed."""

    why: str


class Looker:
    """Looks at the branches of one environment under one policy. One at a time."""

    def __init__(
        self,
        database: Database,
        policy: Policy,
        place: Place,
        keys: Keys,
        fetcher: Fetcher,
        *,
        poll_ms: int,
        counted: Counted | None = None,
    ) -> None:
        """Take the database, what decides, the engines and the fetcher; nothing is looked at yet."""
        self._database = database
        self._policy = policy
        self._place = place
        self._keys = keys
        self._fetcher = fetcher
        self._poll_ms = poll_ms
        self._counted = counted
        self._objects = Objects(fetcher.repository)
        self._proofs = Proofs(pool_of(fetcher.repository, keys.ring, place.skew))
        self._unrooted: dict[PrincipalName, Refused] = {}

    def arm(self) -> None:
        """Make the first look due."""
        with self._database.write() as tx:
            due.ensure(tx, DUTY, self._place.environment)

    def one(self, _claimed: Claimed) -> Outcome:
        """Do the duty: one look, then again after the poll's time, or at once where more is left."""
        looked = self.look()
        return Again(0 if looked.more else self._poll_ms)

    def close(self) -> None:
        """End the processes that are kept open."""
        self._objects.close()
        self._proofs.close()

    def look(self) -> Looked:
        """Look at everybody's branch and judge what is new.

        Raises:
            Unavailable: the shared repository cannot be listed, or our own is not in order; nobody was judged.
        """
        people = [name for name, one in self._policy.people.items() if one.principal.kind is PrincipalKind.HUMAN]
        with self._database.read() as tx:
            began = tx.now
        self._unrooted.clear()
        try:
            tips = self._fetcher.fetch(people)  # 1.
            unread = [person for person in people if self._receive(person, tips[person])]
            judged, held, left = self._judge_all(people)
        finally:
            self.close()
        if not unread:
            # Of a flooded branch the rest may be a deny: nothing is spent before all of it was received.
            with self._database.write() as tx:
                settings.set_cursor(tx, LOOKED_AT, str(began))
        return Looked(began, judged, held, bool(unread) or left)

    # 2. History

    def _receive(self, person: PrincipalName, tip: Tip) -> bool:
        """Hold a branch against what was read of it, and receive its new commits; True when there are more."""
        with self._database.read() as tx:
            branch = branches.get(tx, person)
        stored = None if branch is None or branch.tip is None else ObjectId(branch.tip)
        repository, environment = self._fetcher.repository, self._place.environment
        history = judge(repository, environment, person, stored, tip)
        match history:
            case NeverMade():
                return False
            case Unread(_, refused):
                self._unreadable(person, branch, refused)
                return False
            case Unchanged(seen):
                if branch is not None and branch.state is not BranchState.READ:
                    self._put(person, branch, replace(_blank(branch), seen=seen), "the branch is where it was read")
                return False
            case Advanced(_, seen):
                return self._advance(person, branch, stored, seen)
            case Rewritten(_, seen, refused, _):
                return self._freeze(person, branch, refused, seen)
            case Deleted(_, refused, _):
                return self._freeze(person, branch, refused, None)
            case _:
                assert_never(history)

    def _advance(self, person: PrincipalName, branch: Branch | None, stored: ObjectId | None, seen: ObjectId) -> bool:
        """Receive what is new on a branch that grew. Its tip is stored from a valid root on: before, nothing counts
        there, and its person may begin anew."""
        root = branch.root if branch is not None else None
        if branch is not None and root is None and branch.seen == seen and not self._waits(person):
            return False  # looked at before, without a root, and all of it judged
        found = ObjectId(root) if root is not None else self._root(person, seen)
        new = self._new(person, stored, seen)
        whole = len(new) < MAX_LOOK
        with self._database.write() as tx:
            if self._moved(tx, person, branch):
                return True
            signed_commits.receive(tx, person, new)
            match found:
                case Refused():
                    self._refuse_new(tx, person, new, found)
                case Unrooted(refused):
                    # Each is blamed with its own fault, if it has one, before that of its root.
                    self._unrooted[person] = refused
                case Waiting(why):
                    for oid in new:
                        signed_commits.hold(tx, person, oid, Judgement(Reason.HELD.value, why))
                    return False
                case _:
                    self._write(tx, person, branch, tip=seen if whole else stored, root=found, seen=seen)
            if isinstance(found, Refused | Unrooted):
                self._write(tx, person, branch, tip=None, root=None, seen=seen)
                return False
        if whole:
            self._fetcher.repository.keep(self._place.environment, person, seen)
        return not whole

    def _waits(self, person: PrincipalName) -> bool:
        with self._database.read() as tx:
            return bool(signed_commits.waiting(tx, person, 1))

    def _new(self, person: PrincipalName, stored: ObjectId | None, seen: ObjectId) -> list[ObjectId]:
        """Name what is new on a branch; what was received before is left out, so that a long branch is read on."""
        with self._database.read() as tx:
            known = signed_commits.received(tx, person)
        return list(self._objects.new_ids(stored, seen, known=known.__contains__))

    def _root(self, person: PrincipalName, seen: ObjectId) -> ObjectId | Refused | Unrooted | Waiting:
        """Find the root that this branch stands on: of its own form, and signed by its person."""
        place = self._place
        found = roots_of(self._objects, seen, repository=place.repository, environment=place.environment, person=person)
        if isinstance(found, Refused):
            return found
        with self._database.read() as tx:
            now = tx.now
        said: list[Refused] = []
        for root in found:
            examined = self.channel().examine(person, root.id, Receipt(now))
            if examined.held is not None:
                return Waiting(examined.held)
            if examined.refused is None:
                return root.id
            said.append(examined.refused)
        why = said[0]
        detail = f"Its root does not stand: {why.reason.value}. {why.sentence}"
        return Unrooted(refuse(Reason.ROOT_COMMIT, detail))

    def _freeze(self, person: PrincipalName, branch: Branch | None, refused: Refused, seen: ObjectId | None) -> bool:
        """Freeze a person whose history was rewritten; what is new there is refused, and nothing later counts."""
        assert branch is not None and branch.tip is not None
        again = branch.state is BranchState.FROZEN
        if again and branch.seen == seen:
            return False
        said = refuse(Reason.FROZEN, refused.detail) if again else refused
        new = [] if seen is None else self._new(person, ObjectId(branch.tip), seen)
        with self._database.write() as tx:
            if self._moved(tx, person, branch):
                return True
            signed_commits.receive(tx, person, new)
            self._refuse_new(tx, person, new, said)
            changed = branch.changed_at if again else tx.now
            branches.put(
                tx,
                replace(
                    branch,
                    state=BranchState.FROZEN,
                    seen=seen,
                    reason=refused.reason.value,
                    detail=refused.detail,
                    looked_at=tx.now,
                    changed_at=changed,
                ),
            )
            if not again:
                self._tell(tx, EventKind.CHANNEL_FROZEN, person, refused)
        return False

    def _moved(self, tx: Tx, person: PrincipalName, branch: Branch | None) -> bool:
        """Tell whether a branch is not as it was read: somebody on the host thawed it, and the next look goes on."""
        return branches.get(tx, person, lock=True) != branch

    def _unreadable(self, person: PrincipalName, branch: Branch | None, refused: Refused) -> None:
        """Say once that a branch cannot be read; a frozen one stays frozen."""
        if branch is not None and branch.state is BranchState.FROZEN:
            return
        if branch is not None and branch.state is BranchState.UNREADABLE and branch.detail == refused.detail:
            return
        with self._database.write() as tx:
            if self._moved(tx, person, branch):
                return
            before = branch or Branch(person, BranchState.UNREADABLE, None, None, None, None, None, tx.now, tx.now)
            told = branch is None or branch.state is not BranchState.UNREADABLE
            now = replace(
                before,
                state=BranchState.UNREADABLE,
                reason=refused.reason.value,
                detail=refused.detail,
                looked_at=tx.now,
                changed_at=tx.now if told else before.changed_at,
            )
            branches.put(tx, now)
            if told:
                self._tell(tx, EventKind.CHANNEL_UNREADABLE, person, refused)

    def _put(self, person: PrincipalName, before: Branch, after: Branch, why: str) -> None:
        with self._database.write() as tx:
            if self._moved(tx, person, before):
                return
            branches.put(tx, replace(after, looked_at=tx.now, changed_at=tx.now))
            self._tell_back(tx, person, before, why)

    def _write(
        self,
        tx: Tx,
        person: PrincipalName,
        branch: Branch | None,
        *,
        tip: ObjectId | None,
        root: ObjectId | None,
        seen: ObjectId,
    ) -> None:
        back = branch is not None and branch.state is not BranchState.READ
        changed = tx.now if branch is None or back else branch.changed_at
        branches.put(tx, Branch(person, BranchState.READ, tip, root, seen, None, None, tx.now, changed))
        if branch is not None and back:
            self._tell_back(tx, person, branch, "the branch continues from where it was read")

    def _tell_back(self, tx: Tx, person: PrincipalName, before: Branch, why: str) -> None:
        thawed = before.state is BranchState.FROZEN
        kind = EventKind.CHANNEL_THAWED if thawed else EventKind.CHANNEL_READABLE
        ledger.append(tx, Entry(kind, tx.now, principal=person, channel="signed", facts={"why": why}))

    def _tell(self, tx: Tx, kind: EventKind, person: PrincipalName, refused: Refused) -> None:
        facts = {"detail": refused.detail[:500], **refused.facts}
        ledger.append(tx, Entry(kind, tx.now, principal=person, channel="signed", reason=refused.reason, facts=facts))

    def _refuse_new(self, tx: Tx, person: PrincipalName, new: Iterable[ObjectId], refused: Refused) -> None:
        """Judge commits by what history says of their branch."""
        for oid in new:
            count(tx, self._policy, self._keys.hash, person, Examined(oid).at(2, refused), tx.now)

    # 3 to 8. Each commit

    def channel(self) -> Channel:
        """Give the steps as a look uses them, for whoever explains one commit (`approval verify`)."""
        return Channel(self._place, self._policy, self._keys, self._objects, self._known, self._counter)

    def _known(self, ask: AskId) -> Known | None:
        with self._database.read() as tx:
            return requesting.known(tx, ask)

    def _counter(self, key: str) -> int | None:
        with self._database.read() as tx:
            return signatures.counter(tx, key)

    def _judge_all(self, people: Iterable[PrincipalName]) -> tuple[int, int, bool]:
        judged = held = 0
        more = False
        waiting = {person: many for person in people if (many := self._waiting(person))}
        try:
            self._proofs.gather(
                {person: [(oid, one.received_at) for oid, one in many.items()] for person, many in waiting.items()}
            )
        except Unavailable as error:
            with self._database.write() as tx:
                for person, by_id in waiting.items():
                    signed_commits.hold(tx, person, next(iter(by_id)), Judgement(Reason.HELD.value, str(error)))
            return 0, len(waiting), False
        for person, by_id in waiting.items():
            for oid in self._objects.read_ahead(by_id):
                if not self._judge(person, by_id[oid]):
                    # What keeps one from being judged keeps the next, and votes are taken in their order.
                    held += 1
                    break
                judged += 1
            else:
                more = more or len(by_id) == BATCH
        return judged, held, more

    def _waiting(self, person: PrincipalName) -> Mapping[ObjectId, SignedCommit]:
        """List what is to be judged of a person's branch now, in its order."""
        with self._database.read() as tx:
            branch = branches.get(tx, person)
            waiting = signed_commits.waiting(tx, person, BATCH)
        if branch is None or branch.state is BranchState.FROZEN:
            return {}
        if branch.root is None and person not in self._unrooted:
            return {}  # its root waits for an engine
        return {ObjectId(commit.commit_id): commit for commit in waiting}

    def _judge(self, person: PrincipalName, commit: SignedCommit) -> bool:
        """Judge one received commit; False where it must be held."""
        oid = ObjectId(commit.commit_id)
        with self._database.read() as tx:
            before = signatures.result(tx, oid, self._keys.hash)
        found = None if before is None else from_document(before)
        try:
            unrooted, proven = self._unrooted.get(person), self._proofs.of(oid)
            receipt = Receipt(commit.received_at, found=found, unrooted=unrooted, proven=proven)
            examined = self.channel().examine(person, oid, receipt)
        except Unavailable as error:
            examined = Examined(oid, held=str(error))
        with self._database.write() as tx:
            if isinstance(examined.first, Signed | Refused) and before is None:
                signatures.keep_result(tx, oid, self._keys.hash, to_document(examined.first))
            if examined.held is not None:
                asked = None if examined.change is None else examined.change.ask
                signed_commits.hold(tx, person, oid, Judgement(Reason.HELD.value, examined.held, ask=asked))
                return False
            said = count(tx, self._policy, self._keys.hash, person, examined, commit.received_at, counted=self._counted)
            if examined.known is not None and said.ask is not None:
                due.ensure(tx, PUBLISH, f"receipts:{said.ask}:{person}")
        return True


def _blank(branch: Branch) -> Branch:
    return replace(branch, state=BranchState.READ, reason=None, detail=None)
