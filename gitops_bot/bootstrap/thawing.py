"""A person on the broker's host lets reading of a frozen or unreadable branch go on from a commit that they chose.

What was read before stays as it is: votes that counted stand, refused commits stay refused. The branch, the ledger
entry and the next look are one transaction. That the person who types it may, is the host's to guard: it is a shell
there, and the ledger says no more than that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from gitops_bot.bootstrap.offline import Setting, person_of
from gitops_bot.core.errors import Reason, Refusal, Refused, Unavailable, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed import looking
from gitops_bot.signed.channel import Receipt
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.history import descends, roots_of
from gitops_bot.store import branches, due, ledger
from gitops_bot.store.engine import Database
from gitops_bot.store.states import BranchState

if TYPE_CHECKING:
    from gitops_bot.store.branches import Branch

MOST: Final = 200
"""Commits that are listed; more are counted as more."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What thawing would do. `left` are commits that were read and are no part of the branch any more; `skipped` are
    on the branch up to the chosen one and never vote; `ahead` come after it, and are read by the next look unless they
    were refused while the branch was frozen, which stands."""

    person: PrincipalName
    before: "Branch"
    to: ObjectId
    root: ObjectId
    left: tuple[ObjectId, ...]
    skipped: tuple[ObjectId, ...]
    ahead: tuple[ObjectId, ...]


def plan(database: Database, setting: Setting, person: str, to: ObjectId) -> Plan:
    """Say what thawing a person's branch at a commit would do; nothing is changed, and nothing is fetched.

    Raises:
        Refusal: no such person or branch, a branch that is in order, or a commit that cannot be read on from: one that
            is not here, not on the branch as it was seen last, or does not stand on a valid root.
        Unavailable: git or an engine failed.
    """
    name = person_of(setting.policy, person)
    with database.read() as tx:
        branch = branches.get(tx, name)
        now = tx.now
    if branch is None:
        raise Refusal(refuse(Reason.NOT_FOUND, f"No branch of {name} was ever seen."))
    if branch.state is BranchState.READ:
        raise Refusal(refuse(Reason.ALREADY_SETTLED, f"The branch of {name} is neither frozen nor unreadable."))
    repository = setting.repository
    if repository.kind(to) != "commit":
        raise Refusal(refuse(Reason.NOT_FOUND, "The broker's repository has no such commit; has it looked since?"))
    seen = None if branch.seen is None else ObjectId(branch.seen)
    if seen is None:
        detail = "The branch was deleted. Have its person push it; the broker must have seen it before it is thawed."
        raise Refusal(refuse(Reason.HISTORY_REWRITTEN, detail))
    if not descends(repository, seen, to):
        detail = (
            f"The commit is not on the branch, whose tip was seen last as {seen}; it would be frozen again at once."
        )
        raise Refusal(refuse(Reason.HISTORY_REWRITTEN, detail))
    root = _root(setting, name, to, now)
    stored = None if branch.tip is None else ObjectId(branch.tip)
    left = () if stored is None or repository.kind(stored) is None else _between(setting, to, stored)
    return Plan(name, branch, to, root, left, _between(setting, stored, to), _between(setting, to, seen))


def thaw(database: Database, setting: Setting, decided: Plan) -> None:
    """Do what a plan says, with its ledger entry; the next look is due at once.

    Raises:
        Refusal: the branch changed since the plan was made.
        Unavailable: the database or git failed.
    """
    setting.repository.keep(setting.place.environment, decided.person, decided.to)
    with database.write() as tx:
        now = branches.get(tx, decided.person, lock=True)
        if now is None or (now.state, now.tip, now.seen) != (
            decided.before.state,
            decided.before.tip,
            decided.before.seen,
        ):
            raise Refusal(refuse(Reason.STALE_ACTION, "The branch was looked at meanwhile; see it again."))
        branches.thaw(tx, decided.person, decided.to, decided.root)
        facts = {"by": "host", "to": decided.to, "from": now.tip, "was": now.state.value, "person": decided.person}
        ledger.append(tx, Entry(EventKind.CHANNEL_THAWED, tx.now, channel="signed", reason=now.reason, facts=facts))
        due.set_due(tx, looking.DUTY, setting.place.environment, tx.now)


def _between(setting: Setting, stored: ObjectId | None, tip: ObjectId) -> tuple[ObjectId, ...]:
    known = stored if stored is not None and setting.repository.kind(stored) == "commit" else None
    return tuple(islice(setting.objects.new_commits(known, tip, most=MOST + 1), MOST + 1))


def _root(setting: Setting, person: PrincipalName, to: ObjectId, now: int) -> ObjectId:
    """Find the valid root that a commit stands on."""
    place = setting.place
    found = roots_of(setting.objects, to, repository=place.repository, environment=place.environment, person=person)
    if isinstance(found, Refused):
        raise Refusal(found)
    said: Sequence[Refused] = ()
    for root in found:
        examined = setting.channel().examine(person, root.id, Receipt(now))
        if examined.held is not None:
            raise Unavailable(examined.held)
        if examined.refused is None:
            return root.id
        said = (*said, examined.refused)
    raise Refusal(refuse(Reason.ROOT_COMMIT, f"Its root does not stand: {said[0].sentence}"))
