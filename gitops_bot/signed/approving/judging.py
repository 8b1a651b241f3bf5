"""The steps of the signed channel, taken on an approver's machine: whose signature, which votes, from raw commits.

The same `Channel` as the broker's decides here, over this machine's copy and the bundle that it pins. Every key is
judged at the time of this look, which is the only honest one that this machine has.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.model import Policy
from gitops_bot.policy.people import REQUESTS_ROLE
from gitops_bot.signed.approving.asked import ask_of
from gitops_bot.signed.approving.clone import Look
from gitops_bot.signed.channel import Channel, Examined, Known, Place, Receipt
from gitops_bot.signed.evidence import Commit, ObjectId, Signed, Window
from gitops_bot.signed.grammar import read_id
from gitops_bot.signed.history import roots_of
from gitops_bot.signed.keys import Keys, holder_of
from gitops_bot.signed.objects import Objects
from gitops_bot.signed.publication import shard
from gitops_bot.signed.rendering import Request
from gitops_bot.signed.repository import Repository

MOST: Final = 500
"""Commits of one person that touch one ask; a person has two votes on it at most."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A policy with the files that it was loaded from, and the engines over its keys."""

    policy: Policy
    files: Mapping[str, bytes]
    keys: Keys


@dataclass(frozen=True, slots=True)
class Judge:
    """One policy's view of this machine's copy at a time (`now`, ms)."""

    repository: Repository
    objects: Objects
    place: Place
    bundle: Bundle
    now: int
    _signed: dict[ObjectId, Commit | Refused] = field(default_factory=dict)

    def by_bot(self, tip: ObjectId) -> Commit | Refused:
        """Verify that a commit of the requests branch is signed by the policy's service for requests.

        Raises:
            Unavailable: git or an engine failed.
        """
        if tip not in self._signed:
            self._signed[tip] = self._by_bot(tip)
        return self._signed[tip]

    def newest(self, look: Look) -> Commit | Refused:
        """Verify what a look found: signed by the bot and, where it stands beside what was accepted before, no older.

        Raises:
            Unavailable: git or an engine failed.
        """
        commit = self.by_bot(look.tip)
        if isinstance(commit, Refused) or look.before is None:
            return commit
        before = self.objects.commit(look.before)
        if isinstance(before, Commit) and commit.committed_at < before.committed_at:
            detail = (
                "The requests branch was replaced by an older one than this machine has seen. The broker publishes it"
                " again by itself; try again in a minute, and tell who runs the broker."
            )
            return refuse(Reason.HISTORY_REWRITTEN, detail, accepted=look.before, seen=look.tip)
        return commit

    def _by_bot(self, tip: ObjectId) -> Commit | Refused:
        commit = self.objects.commit(tip)
        if isinstance(commit, Refused):
            return _foreign(f"{commit.reason.value}: {commit.detail}")
        window = Window(self.now, self.place.skew)
        found = self.bundle.keys.verify(commit, window)
        if isinstance(found, Signed):
            found = self.bundle.keys.confirm(commit, window, found)
        if isinstance(found, Refused):
            return _foreign(f"{found.reason.value}: {found.sentence}")
        holder = holder_of(self.bundle.policy, found)
        if holder is None or holder.role != REQUESTS_ROLE:
            return _foreign(f"{'nobody' if holder is None else holder.name} signed it, who is not the bot.")
        return commit

    def channel(self, request: Request) -> Channel:
        """Give the steps for votes on one request."""
        known = Known(ask_of(self.bundle.policy, request), request)
        asks = {request.ask: known}
        return Channel(self.place, self.bundle.policy, self.bundle.keys, self.objects, asks.get)

    def examine(self, request: Request, person: PrincipalName, oid: ObjectId) -> Examined:
        """Take one commit of a person's branch through steps 3 to 7.

        Raises:
            Unavailable: git failed.
        """
        return self.channel(request).examine(person, oid, Receipt(self.now))

    def votes(
        self, request: Request, person: PrincipalName, tip: ObjectId
    ) -> list[tuple[ObjectId, Decision]] | Refused:
        """Find what a branch says on an ask: each commit that would count, oldest first, however often.

        `held` where an engine cannot say, or where more commits touch the ask than anybody makes.

        Raises:
            Unavailable: git failed.
        """
        cast: list[tuple[ObjectId, Decision]] = []
        touching = list(self._touching(request, tip))
        if len(touching) > MOST:
            return refuse(Reason.HELD, f"More than {MOST} commits of {person} touch this ask.", person=person)
        for oid in touching:
            examined = self.examine(request, person, oid)
            if examined.held is not None:
                return refuse(Reason.HELD, f"The vote of {person} cannot be judged now: {examined.held}.")
            if examined.refused is None and examined.change is not None:
                cast.append((oid, examined.change.decision))
        return cast

    def root(self, request: Request, person: PrincipalName, tip: ObjectId) -> Refused | None:
        """Refuse a branch that does not stand on a root signed by its person.

        Raises:
            Unavailable: git failed.
        """
        place = self.place
        found = roots_of(self.objects, tip, repository=place.repository, environment=place.environment, person=person)
        if isinstance(found, Refused):
            return found
        said = [self.examine(request, person, commit.id) for commit in found]
        if any(one.refused is None and one.held is None for one in said):
            return None
        why = said[0].refused.sentence if said[0].refused is not None else said[0].held
        return refuse(Reason.ROOT_COMMIT, f"The root of {person}'s branch does not stand: {why}")

    def _touching(self, request: Request, tip: ObjectId) -> Iterator[ObjectId]:
        """Walk the commits that change anything in the folder of an ask, over all parents, parents first. A tree that
        ends as it began hides none of them."""
        folder = f"approvals/{shard(request.ask)}/{request.ask}"
        raw = self.repository.output(
            *("rev-list", "--full-history", "--topo-order", "--reverse", f"--max-count={MOST + 1}"),
            *(tip, "--", f":(top,literal){folder}"),
        )
        return (read_id(line) for line in raw.decode("ascii", "replace").split("\n") if line)


def _foreign(why: str) -> Refused:
    detail = (
        f"The newest commit of the requests branch is not the bot's: {why.rstrip('.')}. The broker publishes on top of"
        " what others push there; try again in a minute, and tell who runs the broker."
    )
    return refuse(Reason.BAD_SIGNATURE, detail)
