"""Step 10, the evidence: which votes on an ask still stand now, from their raw commits, under the policy in force.

Steps 3 to 7 run again on every vote with the time and counter of its receipt, and each key is asked for its state now.
A row that no commit bears out is an invention (`bad_signature`), wherever it came from.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gitops_bot.core.errors import Reason, Refused, Unavailable, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.signed.channel import Channel, Receipt
from gitops_bot.signed.evidence import ObjectId, Signed
from gitops_bot.store.signed_votes import SignedVote

KeyNow = Callable[[Signed, int], Refused | None]
"""Says why a key does not count at a time (ms), or None."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The votes that stand, in the order of their receipt, and why the others fell."""

    votes: tuple[tuple[PrincipalName, Decision], ...]
    fallen: Mapping[PrincipalName, Refused]


def standing(channel: Channel, cast: Sequence[SignedVote], key_now: KeyNow, now: int) -> Standing:
    """Verify every vote on an ask again.

    Raises:
        Unavailable: an engine or git failed; nothing is known of the votes.
    """
    again = replace(channel, counters=lambda _key: None, after_verdict=True)
    votes: list[tuple[PrincipalName, Decision]] = []
    fallen: dict[PrincipalName, Refused] = {}
    for vote in cast:
        refused = _verify(again, vote, key_now, now)
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
        return examined.refused
    commit, change, signed = examined.commit, examined.change, examined.signed
    if commit is None or change is None or signed is None or examined.root:
        return refuse(Reason.BAD_SIGNATURE, "The stored vote is no vote.")
    said = (change.ask, change.decision, commit.raw, examined.blob, signed.kind.value, signed.key, signed.counter)
    stored = (vote.ask, vote.decision, vote.raw_commit, vote.raw_blob, vote.key_kind, vote.key, vote.counter)
    if said != stored:
        return refuse(Reason.BAD_SIGNATURE, "The stored vote is not what its commit says.")
    return key_now(signed, now)
