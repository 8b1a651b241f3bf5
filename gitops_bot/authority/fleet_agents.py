"""An agent of the fleet comes into being: as any agent does, and with how it is run and when it is due first.

It has no token of its own: each of its runs gets one, which dies with the run. What its command may do on the host is
the isolation's matter; that its schedule can be read is *not* checked here (`fleet.schedule` does).
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from gitops_bot.authority.agents import Wanted, wrong
from gitops_bot.core.errors import Fact, Reason, Refused, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.model import Policy
from gitops_bot.store import agents, fleet, ledger, turns
from gitops_bot.store.engine import Tx
from gitops_bot.store.fleet import Setup
from gitops_bot.store.states import AgentKind, WakePolicy

LANE: Final = re.compile(r"(command|acpx|acp):[a-z0-9][a-z0-9._-]{0,40}", re.ASCII)
MOST_WORDS: Final = 64
MOST_CHARACTERS: Final = 4096
SHORTEST_TURN: Final = 1_000
LONGEST_TURN: Final = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Added:
    """The new agent, and when it is due first (ms; None: when somebody wakes it)."""

    agent: agents.Agent
    due_at: int | None


def add(
    tx: Tx, policy: Policy, wanted: Wanted, setup: Setup, first_at: int | None, by: PrincipalName | None = None
) -> Added | Refused:
    """Add an agent that the fleet runs; `by` is the person who does, None for the host. `first_at` is the schedule's
    first time (ms), for a scheduled one alone. A refusal has written nothing."""
    refused = wrong(policy, wanted) or _wrong(setup, first_at)
    if refused is not None:
        return refused
    turns.take(tx, f"agent:{wanted.slug}")
    if agents.by_slug(tx, wanted.slug) is not None:
        detail = f"There is an agent {wanted.slug}; choose another name."
        return refuse(Reason.ALREADY_SETTLED, detail, slug=wanted.slug)
    principal = PrincipalName(wanted.principal)
    agent = agents.add(tx, wanted.slug, AgentKind.AGENT, principal, wanted.owner, wanted.purpose)
    due_at, reason = _first(tx, setup, first_at)
    fleet.add(tx, agent.id, setup, due_at, reason)
    facts: dict[str, Fact] = {
        "slug": agent.slug,
        "kind": AgentKind.AGENT.value,
        "owner": agent.owner,
        "as": agent.principal,
        "harness": setup.harness.value,
        "lane": setup.lane,
        "wakes": setup.policy.value,
    }
    ledger.append(
        tx, Entry(EventKind.AGENT_ADDED, tx.now, agent=agent.id, principal=by or agent.principal, facts=facts)
    )
    return Added(agent, due_at)


def _first(tx: Tx, setup: Setup, first_at: int | None) -> tuple[int | None, str | None]:
    match setup.policy:
        case WakePolicy.CONTINUOUS:
            return tx.now, "first"
        case WakePolicy.SCHEDULED:
            return first_at, "schedule"
        case WakePolicy.EVENT | WakePolicy.MANUAL:
            return None, None


def _wrong(setup: Setup, first_at: int | None) -> Refused | None:
    if not setup.command or len(setup.command) > MOST_WORDS or sum(map(len, setup.command)) > MOST_CHARACTERS:
        detail = f"A command is one to {MOST_WORDS} words of {MOST_CHARACTERS} characters in all."
        return refuse(Reason.BAD_PARAMS, detail)
    if any("\0" in word for word in (*setup.command, setup.folder)):
        return refuse(Reason.UNPRINTABLE, "A command and a folder hold no zero.")
    if not PurePosixPath(setup.folder).is_absolute() or len(setup.folder) > MOST_CHARACTERS:
        return refuse(Reason.BAD_PARAMS, "The folder of an agent is an absolute path.")
    if not LANE.fullmatch(setup.lane) or not setup.lane.startswith(f"{setup.harness.value}:"):
        return refuse(Reason.BAD_PARAMS, "A lane is its harness, a colon, and the provider in small letters.")
    if not SHORTEST_TURN <= setup.turn_limit <= LONGEST_TURN:
        return refuse(Reason.BAD_PARAMS, "A turn may take one second to a day.")
    if setup.turns_a_day is not None and setup.turns_a_day < 1:
        return refuse(Reason.BAD_PARAMS, "An agent has at least one turn a day; pause it to give it none.")
    is_scheduled = setup.policy is WakePolicy.SCHEDULED
    if is_scheduled != (setup.cron is not None and setup.zone is not None) or is_scheduled != (first_at is not None):
        return refuse(Reason.BAD_PARAMS, "A scheduled agent has a cron expression in a time zone; no other has one.")
    return None
