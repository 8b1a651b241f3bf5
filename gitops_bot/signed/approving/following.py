"""Adoptions are followed from the bundle that this machine pins, one by one, each verified here, or not at all.

A bundle takes the place of the pinned one when its bytes hash to the digest that a `policy.adopt` request under the
pinned one names, that request's votes reach the quorum by steps 3 to 9 over the persons' own branches, it may follow
(`adopt_check`), and the broker marked the grant as spent. The marker alone moves nothing, and neither do votes that the
broker did not act on. Any deny or unreadable branch of a voter stops it: then the words are compared out of band.

Names of people who were removed before the pinned bundle are *not* known here; the broker holds new bundles to that.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import Digest, bundle_digest
from gitops_bot.core.errors import Malformed, Reason, Refused, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.adoption import adopt_check
from gitops_bot.policy.model import ADOPT, VerbRule
from gitops_bot.policy.rules import QuorumState, tally, voters_of
from gitops_bot.signed.approving.asked import owner_of, rule_for
from gitops_bot.signed.approving.clone import Clone
from gitops_bot.signed.approving.grammar import MAX_MARKER, read_bundle_name, read_marker
from gitops_bot.signed.approving.judging import Bundle, Judge
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.fetching import Fetcher, Tip
from gitops_bot.signed.history import Advanced, NeverMade, Unchanged, Unread, judge
from gitops_bot.signed.publication import request_folder, spent_path
from gitops_bot.signed.rendering import MAX_REQUEST, Request, read_request
from gitops_bot.signed.repository import stored_ref

MOST: Final = 50
"""Adoptions that one run follows."""
_AT_ONCE: Final = 500
"""Files that are read at once."""

OUT_OF_BAND: Final = (
    "If it was adopted, compare the words of `gitops-bot trust show` on the broker's host and run"
    " `gitops-bot approval trust --pin DIGEST`."
)

Load = Callable[[Mapping[str, bytes]], Bundle]
"""Loads a bundle from its files; raises `Malformed`."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """A bundle whose adoption was verified, by which ask."""

    bundle: Bundle
    ask: AskId


@dataclass(frozen=True, slots=True)
class Followed:
    """How far the chain goes from the pinned bundle, and why no further where the broker says that it does."""

    chain: tuple[Adopted, ...]
    refused: Refused | None = None


@dataclass(frozen=True, slots=True)
class Follower:
    """Follows from any bundle, over one tip of the requests branch. `judging` gives a bundle's view of the copy."""

    clone: Clone
    fetcher: Fetcher
    environment: str
    load: Load
    judging: Callable[[Bundle], Judge]

    def follow(self, tip: ObjectId, start: Bundle) -> Followed:
        """Follow from a bundle as far as it goes.

        Raises:
            Unavailable: git failed, or the branches cannot be listed.
        """
        chain: list[Adopted] = []
        now = start
        known = {now.policy.digest}
        while len(chain) < MOST:
            others = {digest for digest in self._bundles(tip) if digest not in known}
            if not others:
                break
            found = self._next(tip, now, others)
            if isinstance(found, Refused):
                return Followed(tuple(chain), found)
            if found is None:
                break
            chain.append(found)
            now = found.bundle
            known.add(now.policy.digest)
        return Followed(tuple(chain))

    def _bundles(self, tip: ObjectId) -> Iterator[Digest]:
        for name in self.clone.names(tip, "bundles"):
            try:
                yield read_bundle_name(name)
            except Malformed:
                continue  # nothing of the broker's; nobody reads it

    def _next(self, tip: ObjectId, now: Bundle, others: set[Digest]) -> Adopted | Refused | None:
        said: Refused | None = None
        for request in self._spent(tip, now.policy.digest, others):
            judged = self._verify(tip, now, request)
            if isinstance(judged, Bundle):
                return Adopted(judged, request.ask)
            said = said or judged
        return said

    def _spent(self, tip: ObjectId, pinned: Digest, others: set[Digest]) -> Iterator[Request]:
        """Find the adoptions of the pinned bundle's successors that the broker says it carried out, oldest first."""
        asks = sorted(path.rpartition("/")[2].removesuffix(".json") for path in self.clone.every(tip, "spent"))
        for at in range(0, len(asks), _AT_ONCE):
            paths = {f"{request_folder(ask)}/request.json": ask for ask in asks[at : at + _AT_ONCE]}
            for path, raw in self.clone.read(tip, paths, MAX_REQUEST).items():
                # Most are of other verbs, and are not read further.
                if ADOPT.encode() not in raw or pinned.encode() not in raw:
                    continue
                try:
                    request = read_request(raw)
                except Malformed:
                    continue
                named = (request.params.get("previous"), request.policy)
                if request.verb != ADOPT or request.ask != paths[path] or named != (pinned, pinned):
                    continue
                marker = self.clone.one(tip, spent_path(request.ask), MAX_MARKER)
                if request.params.get("digest") in others and marker is not None and _marks(marker, request):
                    yield request

    def _verify(self, tip: ObjectId, now: Bundle, request: Request) -> Bundle | Refused:
        """Verify one adoption: who voted under the bundle that it replaces, and what it puts in its place."""
        rule = rule_for(now.policy, request)
        if isinstance(rule, Refused):
            return _stopped(request, rule)
        refused = self._quorum(now, request, rule)
        if refused is not None:
            return _stopped(request, refused)
        new = bundle_at(self.clone, tip, Digest(str(request.params["digest"])), self.load)
        if isinstance(new, Refused):
            return _stopped(request, new)
        try:
            if new.policy.version != request.params["version"]:
                raise Malformed("another version than was voted for", where="version")
            adopt_check(now.policy, new.policy)
        except Malformed as error:
            return _stopped(request, refuse(Reason.STALE_POLICY, str(error)))
        return new

    def _quorum(self, now: Bundle, request: Request, rule: VerbRule) -> Refused | None:
        policy, owner = now.policy, owner_of(now.policy, request)
        voters = voters_of(policy, rule, owner)
        tips = self.fetcher.fetch(voters)
        view = self.judging(now)
        cast: list[tuple[PrincipalName, Decision]] = []
        for person in voters:
            said = self._votes(view, request, person, tips[person])
            if isinstance(said, Refused):
                return said
            cast += [(person, decision) for decision in said]
        quorum = tally(policy, rule, cast, requester=request.requester, agent_owner=owner)
        if quorum.state is QuorumState.APPROVED:
            return None
        told = f"{len(quorum.approved_by)} of {quorum.approve_needed} approvals stand"
        denied = f", denied by {', '.join(quorum.denied_by)}" if quorum.denied_by else ""
        return refuse(Reason.NOT_AUTHORISED, f"Of its votes {told}{denied}.", approved=quorum.approved_by)

    def _votes(self, view: Judge, request: Request, person: PrincipalName, seen: Tip) -> list[Decision] | Refused:
        """Read what a voter said, on a branch that only grew since this machine read it last."""
        tip = grown(self.clone, self.environment, person, seen)
        if isinstance(tip, Refused):
            return tip
        if tip is None:
            return []
        votes = view.votes(request, person, tip)
        if isinstance(votes, Refused) or not votes:
            return votes if isinstance(votes, Refused) else []
        root = view.root(request, person, tip)
        if root is not None:
            return root
        self.clone.repository.keep(self.environment, person, tip)
        return [decision for _, decision in votes]


def grown(clone: Clone, environment: str, person: PrincipalName, seen: Tip) -> ObjectId | Refused | None:
    """Give the tip of a person's branch; None where there is none, a refusal where it was rewritten or cannot be read.

    Raises:
        Unavailable: git failed.
    """
    stored = clone.repository.refs().get(stored_ref(environment, person))
    history = judge(clone.repository, environment, person, stored, seen)
    match history:
        case NeverMade():
            return None
        case Unchanged(tip) | Advanced(_, tip):
            return tip
        case Unread(_, refused):
            return refuse(Reason.HELD, f"The branch of {person} cannot be read now. {refused.detail}", person=person)
        case _:
            return history.refused


def bundle_at(clone: Clone, tip: ObjectId, digest: Digest, load: Load) -> Bundle | Refused:
    """Take a bundle's bytes from the requests branch, which must hash to its digest.

    Raises:
        Unavailable: git failed.
    """
    try:
        files = clone.bundle(tip, digest.removeprefix("sha256:"))
        if not files:
            return refuse(Reason.NOT_FOUND, f"The requests branch does not hold the bundle {digest}.", digest=digest)
        there = bundle_digest(files)
        if there != digest:
            detail = (
                f"The files under {digest} hash to {there}: somebody changed them on the requests branch. The broker"
                " publishes on top of what others push; try again in a minute, and tell who runs the broker."
            )
            return refuse(Reason.BYTES_DIFFER, detail, digest=digest, found=there)
        return load(files)
    except Malformed as error:
        return refuse(Reason.STALE_POLICY, f"The bundle {digest} does not load here: {error}.", digest=digest)


def _marks(raw: bytes, request: Request) -> bool:
    try:
        return read_marker(raw, request.ask) == request.action_hash
    except Malformed:
        return False


def _stopped(request: Request, why: Refused) -> Refused:
    version = request.params.get("version")
    detail = f"The broker says that version {version} of the policy was adopted by {request.ask}. {why.detail}"
    return refuse(why.reason, f"{detail.strip()} {OUT_OF_BAND}", **why.facts)
