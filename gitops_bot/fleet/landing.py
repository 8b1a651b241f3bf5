"""What a turn says while it runs lands here, each marker once a run, whoever reads it (I9).

A report is a line of the agent's thread; a notice is one too, and is told to the agent's owner, or to everybody where
it has none. What counts as a marker, and how many of them, is the grammar's; asks and the outcome are left to `settle`.
"""

from collections.abc import Iterable, Mapping, Sequence

from gitops_bot.authority.rules import Rules
from gitops_bot.core.errors import Fact
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.fleet import sending
from gitops_bot.fleet.grammar import Informational, Notify, Report, Send, body_hash
from gitops_bot.fleet.turn import Turn
from gitops_bot.policy.rules import stands
from gitops_bot.store import agents, landed, ledger, notices, threads
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import RunState


def inform(tx: Tx, rules: Rules, turn: Turn, markers: Iterable[Informational]) -> bool:
    """Land informational markers of a turn, each once a run. False: the turn is over, its body is to end, and nothing
    was written."""
    run = agents.run(tx, turn.run)
    if run is None or run.state is not RunState.LIVE or run.version != turn.version:
        return False
    found = tuple(markers)
    to = sending.targets(tx, found)
    sending.hold(tx, (agent.id for agent in to.values()))
    land(tx, rules, turn, found, to)
    return True


def land(tx: Tx, rules: Rules, turn: Turn, markers: Sequence[Informational], to: Mapping[str, agents.Agent]) -> None:
    """Land markers of a turn, each once a run. `to` are whom they are sent to, with the turns and rows of
    `fleet.sending` held."""
    for marker in markers:
        if not landed.add(tx, turn.run, marker.kind.value, body_hash(marker)):
            continue
        match marker:
            case Report(text):
                _line(tx, turn, "report", text, EventKind.AGENT_REPORTED)
            case Notify(text):
                _line(tx, turn, "notice", text, EventKind.AGENT_NOTIFY)
                notices.tell(tx, _people(rules, turn), EventKind.AGENT_NOTIFY.value, f"@{turn.agent.slug}: {text}")
            case Send(slug):
                sending.send(tx, turn, marker, to.get(slug))


def _line(tx: Tx, turn: Turn, kind: str, text: str, event: EventKind) -> None:
    agent = turn.agent
    number = threads.post(tx, agent.id, kind, text, author_kind="agent", author=agent.slug, run=turn.run)
    facts: dict[str, Fact] = {"slug": agent.slug, "message": number, "text": text}
    ledger.append(tx, Entry(event, tx.now, run=turn.run, agent=agent.id, principal=agent.principal, facts=facts))


def _people(rules: Rules, turn: Turn) -> list[PrincipalName]:
    owner = turn.agent.owner
    if owner is not None and stands(rules.policy, owner):
        return [owner]
    return [name for name in rules.policy.people if stands(rules.policy, name)]
