"""Step 10, the evidence: which votes on an ask still stand now, from their raw commits, under the policy in force.

Steps 3 to 7 run again on every vote with the time and counter of its receipt, and each key is asked for its state now.
A row that no commit bears out is an invention (`bad_signature`), wherever it came from.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gitops_bot.core.asks import Ask
from gitops_bot.core.canonical import action_bytes
from gitops_bot.core.errors import Reason, Refused, Unavailable, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.signed.channel import Channel, Known, Place, Receipt
from gitops_bot.signed.evidence import ObjectId, Signed
from gitops_bot.store.signed_votes import SignedVote

ADDS: Final = 4
"""The last step that judges what a commit is and adds, whoever signed it."""
KeyNow = Callable[[Signed, int], Refused | None]
"""Says why a key does not count at a time (ms), or None."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The votes that stand, in the order of their receipt, and why the others fell."""

    votes: tuple[tuple[PrincipalName, Decision], ...]
    fallen: Mapping[PrincipalName, Refused]


def bound(place: Place, ask: Ask, known: Known) -> Refused | None:
    """Hold the stored request, which is what people sign, against the ask, which is what is carried out, and both
    against this place: none of their rows is believed alone."""
    request = known.request
    if request.epoch != place.epoch:
        return refuse(Reason.EPOCH, asked=request.epoch, now=place.epoch)
    if ask.action != action_bytes(place.repository, place.environment, request.verb, request.params):
        return refuse(Reason.BYTES_DIFFER, "The stored request is of another action than the ask, or of another place.")
    asked = (ask.id, ask.verb, ask.requester, ask.binding.policy, ask.binding.run_version)
    signed = (request.ask, request.verb, request.requester, request.policy, request.run_version)
    if asked != signed or request.repository_id != place.repository_id:
        return refuse(Reason.BYTES_DIFFER, "The stored request is another ask's.")
    return None


def standing(
    channel: Channel,
    cast: Sequence[SignedVote],
    received: Collection[tuple[PrincipalName, str]],
    key_now: KeyNow,
    now: int,
) -> Standing:
    """Verify every vote on an ask again. `received` are the commits that were received on their people's branches and
    counted; a vote of any other was put there.

    Raises:
        Unavailable: an engine or git failed; nothing is known of the votes.
    """
    again = replace(channel, counters=lambda _key: None, after_verdict=True)
    votes: list[tuple[PrincipalName, Decision]] = []
    fallen: dict[PrincipalName, Refused] = {}
    for vote in cast:
        known = (vote.principal, vote.commit_id) in received
        refused = _verify(again, vote, key_now, now) if known else _invented("no such commit was ever counted")
        if refused is None:
            votes.append((vote.principal, vote.decision))
        else:
            fallen[vote.principal] = refused
    return Standing(tuple(votes), fallen)


def _verify(channel: Channel, vote: SignedVote, key_now: KeyNow, now: int) -> Refused | None:
    examined = channel.examine(vote.principal, ObjectId(vote.commit_id), Receipt(vote.received_at))
    if examined.held is not None:
        raise Unavailable(examined.held)
    if examined.refused is not None:
        # What a commit is and adds cannot have changed since it was counted; who signed may have lost the right to.
        early = examined.steps[-1].number <= ADDS
        return _invented(examined.refused.sentence) if early else examined.refused
    commit, change, signed = examined.commit, examined.change, examined.signed
    if commit is None or change is None or signed is None or examined.root:
        return _invented("it is no vote")
    said = (change.ask, change.decision, commit.raw, examined.blob, signed.kind.value, signed.key, signed.counter)
    stored = (vote.ask, vote.decision, vote.raw_commit, vote.raw_blob, vote.key_kind, vote.key, vote.counter)
    if said != stored:
        return _invented("it is not what its commit says")
    return key_now(signed, now)


def _invented(why: str) -> Refused:
    return refuse(Reason.BAD_SIGNATURE, f"The stored vote has no commit behind it: {why}")
