"""A person's answer becomes a vote, and enough votes the verdict, in one transaction; or it is refused with a reason.

The steps, in this order: the ask, whose time may be over · who (policy, channel, I15) · what it says · whether a bound
answer at the workspace was asserted · a repeat ·
whether the ask still takes it · what it binds (I4) · one vote a person · quorum · the end (I1, I6). An answer after the
end is a revocation when it takes authority away, else it is told how the ask ended.
"""

from dataclasses import dataclass

from gitops_bot.authority.closing import Ended, expire
from gitops_bot.authority.ending import End, end
from gitops_bot.authority.rules import Rules, rule_of
from gitops_bot.authority.standing import policy_now, run_stands, world_now
from gitops_bot.authority.suspension import standing_rules
from gitops_bot.core.asks import MAX_TEXT, Ask, AskKind, AskState, drift, late
from gitops_bot.core.canonical import action_hash, canonical, digest
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import Principal, PrincipalName
from gitops_bot.core.readings import Permission
from gitops_bot.core.statements import Asserted, hash_text
from gitops_bot.core.texts import is_storable, storable
from gitops_bot.core.verdicts import Answer, Channel, Choice, Decision, Verdict, Vote, choose
from gitops_bot.policy.lookup import Allowed, NeedsPermission, may_vote
from gitops_bot.policy.model import VerbRule
from gitops_bot.policy.rules import Quorum, QuorumState, tally
from gitops_bot.store import asks, ledger, signed_votes, votes, waiters
from gitops_bot.store.engine import Tx


@dataclass(frozen=True, slots=True)
class Voice:
    """Who speaks, through what: an authenticated principal (None: an identity of nobody's), the channel, the forge
    account where one acted, what was read about it, and the whole evidence as bytes."""

    principal: Principal | None
    channel: Channel
    evidence: bytes
    account: int | None = None
    permission: Permission | None = None
    in_team: bool | None = None
    claim: str | None = None
    idempotency_key: str | None = None
    asserted: Asserted | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """The vote ended the ask."""

    ask: Ask
    verdict: Verdict
    quorum: Quorum
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Counted:
    """The vote counts and more are needed."""

    ask: Ask
    quorum: Quorum
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Revoked:
    """The ask had ended; what was not executed yet is cancelled by its owner's duty."""

    ask: Ask
    repeated: bool = False


Result = Settled | Counted | Revoked | NeedsPermission | Refused


def answer(tx: Tx, rules: Rules, ask_id: str, given: Answer, voice: Voice) -> Result:
    """Take one answer. That the principal is who they say is *not* checked: their channel authenticated them.

    A refusal is written to the ledger too; the caller commits it. `NeedsPermission` writes nothing: the caller reads
    the forge and comes again.
    """
    ask = asks.get(tx, ask_id, lock=True)
    if ask is None:
        return refuse(Reason.NOT_FOUND, ask=storable(ask_id)[:64])
    if ask.state is AskState.OPEN and ask.expires_at is not None and ask.expires_at <= tx.now:
        # The duty has not come by yet. It is over all the same, for everybody alike.
        ended = expire(tx, ask.id)
        ask = ended.ask if isinstance(ended, Ended) else ask
    standing, pointer = world_now(tx, rules)
    result = _decide(tx, standing, pointer, ask, given, voice)
    if isinstance(result, Refused):
        ledger.append(tx, _refusal(tx, ask, voice, result))
    return result


def _refusal(tx: Tx, ask: Ask, voice: Voice, refused: Refused) -> Entry:
    who = voice.principal.name if voice.principal else None
    return Entry(
        EventKind.VOTE_REFUSED,
        tx.now,
        ask=ask.id,
        run=ask.run,
        agent=ask.agent,
        principal=who,
        channel=voice.channel.value,
        reason=refused.reason,
        facts={"account": voice.account, "claim": voice.claim, **refused.facts},
    )


def _decide(tx: Tx, rules: Rules, pointer: str | None, ask: Ask, given: Answer, voice: Voice) -> Result:
    rule = rule_of(rules, ask)
    if isinstance(rule, Refused):
        return rule
    choice = _read(ask, given)
    decision = choice.decision if isinstance(choice, Choice) else Decision.APPROVE
    allowed = may_vote(
        rules.policy,
        rule,
        voice.principal,
        voice.channel,
        decision=decision,
        requester=ask.requester,
        agent_owner=ask.owner,
        candidates=ask.candidates,
        account=voice.account,
        github_permission=voice.permission,
        in_team=voice.in_team,
    )
    if not isinstance(allowed, Allowed):
        return allowed
    if isinstance(choice, Refused):
        return choice
    unasserted = _unasserted(ask, allowed.voter, choice, voice)
    if unasserted is not None:
        return unasserted
    request_hash = _request_hash(given, choice)
    cast = votes.of_ask(tx, ask.id)
    repeat = _repeat(tx, rules, rule, ask, cast, allowed.voter, choice, request_hash, voice)
    if repeat is not None:
        return repeat
    if ask.state is not AskState.OPEN:
        return _after_end(tx, ask, allowed.voter, choice, voice)
    stale = _stale(tx, rules, pointer, ask, given)
    if stale is not None:
        return stale
    vote = Vote(
        ask.id,
        allowed.voter,
        choice.decision,
        choice.option,
        choice.text,
        voice.channel,
        ask.binding,
        # Of an asserted answer nothing but what was verified is kept as its evidence.
        voice.evidence if voice.asserted is None else voice.asserted.evidence,
        voice.claim,
    )
    own = [one for one in cast if one.principal == allowed.voter]
    if own and choice.decision is not Decision.DENY:
        taken_back = own[-1].decision in (Decision.DENY, Decision.REVOKE)
        return refuse(Reason.WITHDRAWN_VOTE if taken_back else Reason.DUPLICATE, voter=allowed.voter)
    key = voice.idempotency_key
    stored = votes.add(tx, vote, len(own) + 1, idempotency_key=key, request_hash=request_hash)
    if stored is None:
        return refuse(Reason.DUPLICATE, voter=allowed.voter)
    return _count(tx, rules, rule, ask, vote, [*cast, stored])


def _read(ask: Ask, given: Answer) -> Choice | Refused:
    """Check the size and the characters of an answer, then what it says on this ask."""
    if len(given.text or "") > MAX_TEXT:
        return refuse(Reason.LIMIT_EXCEEDED, f"An answer has at most {MAX_TEXT} characters.")
    if not is_storable(given.text or ""):
        return refuse(Reason.UNPRINTABLE, "The answer holds a NUL or half a surrogate pair.")
    return choose(ask, given)


def _unasserted(ask: Ask, voter: PrincipalName, choice: Choice, voice: Voice) -> Refused | None:
    """Demand of a bound answer at the workspace that its person asserted this very answer with a passkey.

    What the statement says of policy and run is what was shown; `_stale` compares the same echo with the world.
    """
    if voice.channel is not Channel.WORKSPACE or ask.kind is not AskKind.APPROVAL:
        return None
    if voice.asserted is None:
        return refuse(Reason.ASSERTION_REQUIRED, ask=ask.id)
    said = voice.asserted.statement
    bound = (said.ask, said.person, said.verb, said.option, said.text_hash)
    if bound != (ask.id, voter, ask.verb, choice.option, hash_text(choice.text)):
        return refuse(Reason.ASSERTION_INVALID, "It is over another ask, person or answer.", ask=ask.id)
    if (said.action_hash, said.policy, said.run_version) != (
        ask.binding.action_hash,
        ask.binding.policy,
        ask.binding.run_version,
    ):
        return refuse(Reason.ASSERTION_INVALID, "It binds another action, policy or run.", ask=ask.id)
    return None


def _request_hash(given: Answer, choice: Choice) -> str:
    bound = given.binding
    echoed = None if bound is None else [bound.action_hash, bound.policy, bound.run_version]
    body = {"decision": choice.decision.value, "option": choice.option, "text": choice.text, "binding": echoed}
    return digest("gitops-bot/answer/v1", canonical(body))


def _repeat(
    tx: Tx,
    rules: Rules,
    rule: VerbRule,
    ask: Ask,
    cast: list[votes.StoredVote],
    voter: PrincipalName,
    choice: Choice,
    request_hash: str,
    voice: Voice,
) -> Result | None:
    """Find out whether this person said so already: the same again changes nothing, the same key with another body is
    a conflict."""
    own = [vote for vote in cast if vote.principal == voter]
    keyed = [vote for vote in own if voice.idempotency_key and vote.idempotency_key == voice.idempotency_key]
    if keyed and keyed[0].request_hash != request_hash:
        return refuse(Reason.IDEMPOTENCY_CONFLICT, ask=ask.id)
    if not own or (own[-1].decision, own[-1].option) != (choice.decision, choice.option):
        return None
    if choice.decision is Decision.ANSWER and own[-1].text != choice.text:
        return None
    if ask.state is AskState.OPEN:
        return Counted(ask, _quorum(rules, rule, ask, cast), repeated=True)
    if ask.state is _ENDS[choice.decision]:
        verdict = votes.verdict(tx, ask.id)
        assert verdict is not None
        return Settled(ask, verdict, _quorum(rules, rule, ask, cast), repeated=True)
    # It ended another way since. The same request again is no new one; a deny said anew takes away what came of it.
    return late(ask) if keyed else None


def _stale(tx: Tx, rules: Rules, pointer: str | None, ask: Ask, given: Answer) -> Refused | None:
    """Compare all that binds: what was echoed, the stored bytes, the policy in force, the run that asked (I4)."""
    if given.binding is None:
        return refuse(Reason.UNBINDABLE)
    moved = drift(ask.binding, given.binding)
    if moved is not None:
        return moved
    if ask.action is not None and action_hash(ask.action) != ask.binding.action_hash:
        return refuse(Reason.STALE_ACTION, "The stored action is not the one that was asked.")
    now = policy_now(tx, rules, pointer)
    if not ask.binding.policy == rules.policy.digest == now:
        return refuse(Reason.STALE_POLICY, asked=ask.binding.policy, now=now)
    if not run_stands(tx, ask):
        return refuse(Reason.STALE_RUN, asked=ask.binding.run_version)
    return None


def _quorum(rules: Rules, rule: VerbRule, ask: Ask, cast: list[votes.StoredVote]) -> Quorum:
    ordered = sorted(cast, key=lambda vote: (vote.cast_at, vote.seq))
    pairs = [(vote.principal, vote.decision) for vote in ordered]
    return tally(rules.policy, rule, pairs, requester=ask.requester, agent_owner=ask.owner)


def quorum_of(tx: Tx, rules: Rules, ask: Ask) -> Quorum | Refused:
    """Tell how far an ask is under the policy in force: who voted, who is missing."""
    rules = standing_rules(tx, rules)
    rule = rule_of(rules, ask)
    if isinstance(rule, Refused):
        return rule
    if ask.kind is AskKind.GATED:
        signed = signed_votes.decisions(signed_votes.of_ask(tx, ask.id))
        return tally(rules.policy, rule, signed, requester=ask.requester, agent_owner=ask.owner)
    return _quorum(rules, rule, ask, votes.of_ask(tx, ask.id))


_ENDS = {
    Decision.APPROVE: AskState.APPROVED,
    Decision.DENY: AskState.DENIED,
    Decision.ANSWER: AskState.ANSWERED,
    Decision.REVOKE: None,
}
_STATES = {
    QuorumState.APPROVED: AskState.APPROVED,
    QuorumState.DENIED: AskState.DENIED,
    QuorumState.ANSWERED: AskState.ANSWERED,
}


def _count(
    tx: Tx, rules: Rules, rule: VerbRule, ask: Ask, vote: Vote, cast: list[votes.StoredVote]
) -> Settled | Counted:
    quorum = _quorum(rules, rule, ask, cast)
    entry = Entry(
        EventKind.VOTE_COUNTED,
        tx.now,
        ask=ask.id,
        run=ask.run,
        agent=ask.agent,
        principal=vote.principal,
        channel=vote.channel.value,
        facts={"decision": vote.decision.value, "option": vote.option, "missing": quorum.missing, "claim": vote.claim},
    )
    state = _STATES.get(quorum.state)
    if state is None:
        ledger.append(tx, entry)
        return Counted(ask, quorum)
    by = quorum.denied_by if state is AskState.DENIED else quorum.approved_by
    verdict = Verdict(ask.id, state, vote.option, vote.text, by, tx.now)
    how = End(state, by=vote.principal, verdict=verdict, channel=vote.channel, before=(entry,))
    if not end(tx, ask, how):
        raise RuntimeError(f"ask {ask.id} ended under its own lock")
    return Settled(ask, verdict, quorum)


def _after_end(tx: Tx, ask: Ask, voter: PrincipalName, choice: Choice, voice: Voice) -> Revoked | Refused:
    """A deny on an ended ask is a revocation and wakes what is not executed; the rest is told why not."""
    if choice.decision is not Decision.DENY or ask.state is AskState.DENIED:
        return late(ask)
    fresh = votes.revoke(
        tx,
        ask.id,
        voter,
        choice.decision.value,
        voice.channel,
        text=choice.text,
        claim=voice.claim,
        evidence=voice.evidence,
    )
    if fresh:
        entry = Entry(
            EventKind.REVOCATION,
            tx.now,
            ask=ask.id,
            run=ask.run,
            agent=ask.agent,
            principal=voter,
            channel=voice.channel.value,
            facts={"state": ask.state.value},
        )
        ledger.append(tx, entry)
        if ask.state is AskState.APPROVED:
            waiters.wake(tx, ask.id, "REVOKED")
    return Revoked(ask, repeated=not fresh)
