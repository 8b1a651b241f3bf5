"""A card is everything that a person needs to decide an ask: rendered from the structured action, the policy and the
rows, never from the agent's words, which stand apart.

`card` only reads, in the transaction that it is given, and its cost does not grow with the number of asks. A gated
card gets its files to sign from `bootstrap.showing`.
"""

from collections.abc import Mapping
from typing import Any, Final

from gitops_bot.authority.blocking import blocked
from gitops_bot.authority.card_acts import Acts, acts_of
from gitops_bot.authority.card_effects import CAPTURE, effects_of
from gitops_bot.authority.card_gated import gated_of
from gitops_bot.authority.card_history import (
    attempts_on,
    holds_on,
    last_denial_of,
    outcome_of,
    taken_back,
    voted_on,
)
from gitops_bot.authority.card_policy import policy_sentences, voters_shown, warnings_of
from gitops_bot.authority.card_values import changes_between, is_web, params_shown, plain, short
from gitops_bot.authority.queries import AskView
from gitops_bot.authority.queries import view as read_view
from gitops_bot.authority.rules import Rules, params_of, rule_of
from gitops_bot.authority.shown import (
    AgentText,
    Card,
    Deadline,
    Link,
    OptionShown,
    ShortBinding,
    Surroundings,
    Voted,
)
from gitops_bot.authority.suspension import standing_rules
from gitops_bot.core.asks import Ask, AskKind, AskState
from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Channel
from gitops_bot.policy.model import Risk, VerbRule
from gitops_bot.policy.rules import Quorum
from gitops_bot.store import agents, captures, card_rows, inbox, snoozes
from gitops_bot.store.agents import Agent
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import RunState

NOBODY: Final = Acts(frozenset(), {}, {})


def card(
    tx: Tx, rules: Rules, ask_id: str, person: PrincipalName | None, surroundings: Surroundings | None = None
) -> Card | None:
    """Read one ask as a card for one person (None: nobody acts); None where there is no such ask."""
    view = read_view(tx, rules, ask_id)
    if view is None:
        return None
    around = surroundings or Surroundings()
    ask = view.ask
    agent = agents.get(tx, ask.agent)
    assert agent is not None, "every ask has its agent"
    rules = standing_rules(tx, rules)
    rule = rule_of(rules, ask)
    known = None if isinstance(rule, Refused) else rule
    acts = NOBODY if person is None else acts_of(tx, rules, rule, view, person)
    voted = voted_on(tx, view)
    params = params_of(ask.action) if ask.action is not None else {}
    compared = card_rows.last_approved(tx, ask.verb, ask.id) if ask.verb is not None else None
    return Card(
        view=view,
        agent=agent,
        title=_title(view, agent),
        summary=view.summary,
        text=AgentText(ask.text, agent.slug),
        why=AgentText(ask.why, agent.slug),
        risk=_risk(ask, known),
        channels=() if known is None else tuple(sorted(channel.value for channel in known.channels)),
        answerable=_answerable(tx, ask, known),
        quorum=view.quorum,
        params=params_shown(params),
        changes=() if compared is None else changes_between(params_of(compared[1]), params),
        compared_with=None if compared is None else compared[0],
        evidence=_evidence(tx, ask, params),
        policy_says=(rule.sentence,) if isinstance(rule, Refused) else policy_sentences(rule, ask),
        warnings=() if known is None else warnings_of(known, around),
        may_answer=() if known is None else voters_shown(rules.policy, known, ask, _said(voted)),
        voted=voted,
        missing=view.quorum.missing if isinstance(view.quorum, Quorum) else 0,
        missing_people=_missing(view),
        binding=ShortBinding(short(ask.binding.action_hash), short(ask.binding.policy), ask.binding.run_version),
        deadline=_deadline(tx, ask),
        last_denial=last_denial_of(tx, ask),
        holds=holds_on(tx, ask),
        attempts=attempts_on(tx, ask, around),
        outcome=outcome_of(tx, view),
        effects=effects_of(tx, ask),
        taken_back=taken_back(view),
        successor=ask.superseded_by,
        predecessor=card_rows.predecessor(tx, ask.id),
        gated=gated_of(tx, rules, known, ask, around) if ask.kind is AskKind.GATED else None,
        options=_options(ask, agent, acts),
        blocks=_blocks(tx, ask),
        assignee=ask.assignee,
        snoozed_until=None if person is None else snoozes.until(tx, ask.id, person),
        can=acts.can,
        cannot=acts.cannot,
    )


def _title(view: AskView, agent: Agent) -> str:
    if view.ask.kind is AskKind.QUESTION:
        return f"A question of {plain(agent.slug)}"
    return plain(view.summary) if view.summary else f"{plain(agent.slug)} asks for {view.ask.verb}"


def _risk(ask: Ask, rule: VerbRule | None) -> str:
    """What the policy does not know any more is treated as it would be at the worst."""
    if ask.kind is AskKind.GATED or rule is None:
        return Risk.HIGH.value
    return rule.risk.value


def _answerable(tx: Tx, ask: Ask, rule: VerbRule | None) -> bool:
    if ask.kind is AskKind.GATED or ask.state is not AskState.OPEN or rule is None:
        return False
    return Channel.WORKSPACE in rule.channels and (ask.expires_at is None or ask.expires_at > tx.now)


def _said(voted: tuple[Voted, ...]) -> dict[PrincipalName, str]:
    return {vote.name: vote.decision for vote in voted}


def _blocks(tx: Tx, ask: Ask) -> str | None:
    if ask.state is not AskState.OPEN:
        return None
    run = agents.run(tx, ask.run)
    waits = inbox.waits(tx, [ask.id]).get(ask.id, [])
    return blocked(waits, RunState.ENDED if run is None else run.state).words


def _missing(view: AskView) -> tuple[PrincipalName, ...]:
    """Whose votes could still bring it about; nobody's is missing where it has ended or enough were cast."""
    if view.ask.state is not AskState.OPEN or isinstance(view.quorum, Refused) or not view.quorum.missing:
        return ()
    named = view.quorum.may_still
    return tuple(name for name in named if not view.ask.candidates or name in view.ask.candidates)


def _deadline(tx: Tx, ask: Ask) -> Deadline:
    over = ask.expires_at is not None and ask.expires_at <= tx.now
    return Deadline(ask.opened_at, ask.expires_at, ask.due_at, tx.now, over)


def _options(ask: Ask, agent: Agent, acts: Acts) -> tuple[OptionShown, ...]:
    ours = ask.kind is not AskKind.QUESTION
    return tuple(
        OptionShown(
            option.id, option.label if ours else AgentText(option.label, agent.slug), acts.options.get(option.id)
        )
        for option in ask.options
    )


def _evidence(tx: Tx, ask: Ask, params: Mapping[str, Any]) -> tuple[Link, ...]:
    """What the ask rests on; an address is opened only when it is of the web or of this workspace."""
    found = [Link("Everything that the ledger tells of this ask", "ledger", f"/ledger?ask={ask.id}")]
    capture = captures.of_ask(tx, ask.id) if ask.verb == CAPTURE else None
    if capture is not None:
        found.append(Link("Capture", capture.id, f"/captures/{capture.id}"))
        found.append(Link("Trace", capture.trace_id))
        if capture.url is not None and is_web(capture.url):
            found.append(Link("Pull request", plain(capture.url), capture.url))
        if capture.digest is not None:
            found.append(Link("Digest of the artefact", plain(capture.digest)))
    elif isinstance(params.get("trace_id"), str):
        found.append(Link("Trace", plain(params["trace_id"])))
    return tuple(found)
