"""Agents, their tokens (hashes only), their runs, and the loops among them."""

import hashlib
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import bindparam, insert, select, update

from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import fleet
from gitops_bot.store.bulk import insert_all, inserting
from gitops_bot.store.engine import Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.states import AgentKind, AgentState, RunState, TokenScope
from gitops_bot.store.tables import agent_tokens, agents, loops, runs

TOKEN_PREFIX: Final = "gbt_"  # noqa: S105 # a public prefix, so that secret scanners can find a leaked token


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent as stored. `principal` is the service it acts as, `owner` the person it belongs to."""

    id: str
    slug: str
    kind: AgentKind
    principal: PrincipalName
    owner: PrincipalName | None
    purpose: str
    state: AgentState
    pause_reason: str | None


@dataclass(frozen=True, slots=True)
class Bearer:
    """Whom a token stands for: an agent, what the token may do, and the one run it is limited to."""

    agent: Agent
    scope: TokenScope
    run: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """A run as stored."""

    id: str
    agent: str
    kind: str
    version: int
    state: RunState


@dataclass(frozen=True, slots=True)
class Loop:
    """A registered loop: where its bridge is. Its token is read by `loop_token`, in the broker's role only.
    `shares_user`: nothing keeps its agent from the bridge's tokens; `open_bridge`: everybody on its host steers it."""

    id: str
    agent: str
    run: str
    address: str
    log_seq: int
    shutdown_at: int | None
    shares_user: bool = True
    open_bridge: bool = False


_LOOP_COLUMNS: Final = (
    loops.c.id,
    loops.c.agent,
    loops.c.run,
    loops.c.address,
    loops.c.log_seq,
    loops.c.shutdown_at,
    loops.c.shares_user,
    loops.c.open_bridge,
)
_ADD: Final = insert(agents)
_GET: Final = select(agents).where(agents.c.id == bindparam("of"))
_BY_SLUG: Final = select(agents).where(agents.c.slug == bindparam("of"))
_PAGE: Final = select(agents).where(agents.c.slug > bindparam("after")).order_by(agents.c.slug).limit(bindparam("most"))
_SET_STATE: Final = (
    update(agents)
    .where(agents.c.id == bindparam("of"), agents.c.state != AgentState.RETIRED.value)
    .values(state=bindparam("to"), pause_reason=bindparam("why"))
)
_ADD_TOKEN: Final = insert(agent_tokens)
_ADD_TOKENS: Final = inserting(agent_tokens, "id", "agent", "scope", "run", "hash", "created_at", "expires_at")
_BEARER: Final = (
    select(agents, agent_tokens.c.scope, agent_tokens.c.run)
    .join(agents, agents.c.id == agent_tokens.c.agent)
    .where(
        agent_tokens.c.hash == bindparam("hashed"),
        agent_tokens.c.revoked_at.is_(None),
        (agent_tokens.c.expires_at.is_(None)) | (agent_tokens.c.expires_at > bindparam("at")),
        agents.c.state != AgentState.RETIRED.value,
    )
)
_REVOKE_OF_RUN: Final = (
    update(agent_tokens)
    .where(agent_tokens.c.run == bindparam("of"), agent_tokens.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("at"))
)
_REVOKE_OF_RUNS: Final = (
    update(agent_tokens)
    .where(agent_tokens.c.run.in_(bindparam("of", expanding=True)), agent_tokens.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("at"))
)
_REVOKE_OF_AGENT: Final = (
    update(agent_tokens)
    .where(agent_tokens.c.agent == bindparam("of"), agent_tokens.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("at"))
)
# As an update locks it: who writes a row that refers to an agent or a run, as an ask does, and waits for something else
# that this one holds, would wait in a circle.
_LOCK: Final = select(agents).where(agents.c.id == bindparam("of")).with_for_update(key_share=True)
_END_PARKED: Final = (
    update(runs)
    .where(runs.c.agent == bindparam("of"), runs.c.state == RunState.PARKED.value)
    .values(state=RunState.ENDED.value, ended_at=bindparam("at"), outcome=bindparam("how"))
)
_ADD_RUN: Final = insert(runs)
_GET_RUN: Final = select(runs).where(runs.c.id == bindparam("of"))
_LOCK_RUN: Final = _GET_RUN.with_for_update(key_share=True)
_RAISE_RUN: Final = (
    update(runs)
    .where(runs.c.id == bindparam("of"))
    .values(version=runs.c.version + 1, state=RunState.LIVE.value, ended_at=None, outcome=None)
)
_SET_RUN: Final = update(runs).where(runs.c.id == bindparam("of")).values(state=bindparam("to"))
_END_RUN: Final = (
    update(runs)
    .where(runs.c.id == bindparam("of"), runs.c.state != RunState.ENDED.value)
    .values(state=RunState.ENDED.value, ended_at=bindparam("at"), outcome=bindparam("how"))
)
_ADD_LOOP: Final = insert(loops)
_GET_LOOP: Final = select(*_LOOP_COLUMNS).where(loops.c.id == bindparam("of"))
_LOOPS: Final = select(*_LOOP_COLUMNS).order_by(loops.c.id)
_LOOP_TOKEN: Final = select(loops.c.broker_token).where(loops.c.id == bindparam("of"))
_MOVE_LOOP: Final = (
    update(loops)
    .where(loops.c.id == bindparam("of"))
    .values(
        address=bindparam("where"),
        broker_token=bindparam("secret"),
        log_seq=bindparam("seq"),
        registered_at=bindparam("at"),
        shutdown_at=None,
        shares_user=bindparam("shared"),
        open_bridge=bindparam("open_"),
    )
)
_OPENED: Final = update(loops).where(loops.c.id == bindparam("of")).values(open_bridge=bindparam("open_"))
_READ_LOG: Final = (
    update(loops).where(loops.c.id == bindparam("of")).values(log_seq=bindparam("seq"), shutdown_at=bindparam("gone"))
)


def _agent(row: Any) -> Agent:
    return Agent(
        row.id,
        row.slug,
        AgentKind(row.kind),
        PrincipalName(row.principal),
        PrincipalName(row.owner) if row.owner else None,
        row.purpose,
        AgentState(row.state),
        row.pause_reason,
    )


def add(
    tx: Tx, slug: str, kind: AgentKind, principal: PrincipalName, owner: PrincipalName | None, purpose: str
) -> Agent:
    """Write a new, active agent; a slug that is taken fails on its index."""
    agent = Agent(new_id(tx.now), slug, kind, principal, owner, purpose, AgentState.ACTIVE, None)
    row = {
        "id": agent.id,
        "slug": slug,
        "kind": kind.value,
        "principal": principal,
        "owner": owner,
        "purpose": purpose,
        "state": agent.state.value,
        "created_at": tx.now,
    }
    tx.execute(_ADD, row)
    return agent


def get(tx: Tx, agent: str, *, lock: bool = False) -> Agent | None:
    """Read an agent by id; with `lock` nobody else changes it until this transaction is over."""
    row = tx.execute(_LOCK if lock else _GET, {"of": agent}).one_or_none()
    return None if row is None else _agent(row)


def by_slug(tx: Tx, slug: str) -> Agent | None:
    """Read an agent by slug."""
    row = tx.execute(_BY_SLUG, {"of": slug}).one_or_none()
    return None if row is None else _agent(row)


def page(tx: Tx, after: str, limit: int) -> list[Agent]:
    """Read agents by slug after a cursor."""
    return [_agent(row) for row in tx.execute(_PAGE, {"after": after, "most": limit})]


def set_state(tx: Tx, agent: str, state: AgentState, reason: str | None = None) -> bool:
    """Set what people decide about an agent; a retired one stays retired. The fleet starts active ones alone."""
    if tx.execute(_SET_STATE, {"of": agent, "to": state.value, "why": reason}).rowcount != 1:
        return False
    fleet.rest(tx, agent, state is not AgentState.ACTIVE)
    return True


def issue_token(tx: Tx, agent: str, scope: TokenScope, *, run: str | None = None, expires_at: int | None = None) -> str:
    """Make a token and keep its hash; the token itself is given once, here."""
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    row = {
        "id": new_id(tx.now),
        "agent": agent,
        "scope": scope.value,
        "run": run,
        "hash": _hash(token),
        "created_at": tx.now,
        "expires_at": expires_at,
    }
    tx.execute(_ADD_TOKEN, row)
    return token


def issue_run_tokens(tx: Tx, wanted: Sequence[tuple[str, str, int]]) -> list[str]:
    """Make one token for each (agent, run, ms at which it expires), for that run alone; given once, here."""
    made = [TOKEN_PREFIX + secrets.token_urlsafe(32) for _ in wanted]
    rows = [
        {
            "id": new_id(tx.now),
            "agent": agent,
            "scope": TokenScope.RUN.value,
            "run": of_run,
            "hash": _hash(token),
            "created_at": tx.now,
            "expires_at": expires_at,
        }
        for (agent, of_run, expires_at), token in zip(wanted, made, strict=True)
    ]
    insert_all(tx, _ADD_TOKENS, rows)
    return made


def _hash(token: str) -> str:
    # A plain SHA-256 is enough for 256 random bits; nobody guesses one (no password is kept here).
    return hashlib.sha256(token.encode("utf-8")).hexdigest()


def bearer(tx: Tx, token: str) -> Bearer | None:
    """Find whom a token stands for now; None when it is unknown, over, revoked, or its agent retired."""
    row = tx.execute(_BEARER, {"hashed": _hash(token), "at": tx.now}).one_or_none()
    return None if row is None else Bearer(_agent(row), TokenScope(row.scope), row.run)


def revoke_run_tokens(tx: Tx, run: str) -> None:
    """End every token of a run."""
    tx.execute(_REVOKE_OF_RUN, {"of": run, "at": tx.now})


def revoke_tokens_of_runs(tx: Tx, of: Collection[str]) -> None:
    """End every token of several runs."""
    tx.execute(_REVOKE_OF_RUNS, {"of": list(of), "at": tx.now})


def revoke_tokens(tx: Tx, agent: str) -> int:
    """End every token of an agent, those of its runs included; give how many stood until now."""
    return tx.execute(_REVOKE_OF_AGENT, {"of": agent, "at": tx.now}).rowcount


def end_parked(tx: Tx, agent: str, outcome: str) -> int:
    """End the runs of an agent that have no body; give how many. One with a body ends by itself."""
    return tx.execute(_END_PARKED, {"of": agent, "at": tx.now, "how": outcome}).rowcount


def add_run(tx: Tx, agent: str, kind: str, state: RunState = RunState.LIVE) -> Run:
    """Open a run at version 1. `kind` is agent, loop or request."""
    run = Run(new_id(tx.now), agent, kind, 1, state)
    row = {"id": run.id, "agent": agent, "kind": kind, "version": 1, "state": state.value, "started_at": tx.now}
    tx.execute(_ADD_RUN, row)
    return run


def run(tx: Tx, of: str, *, lock: bool = False) -> Run | None:
    """Read a run."""
    row = tx.execute(_LOCK_RUN if lock else _GET_RUN, {"of": of}).one_or_none()
    return None if row is None else Run(row.id, row.agent, row.kind, row.version, RunState(row.state))


def raise_version(tx: Tx, of: str) -> None:
    """Start the same run again: its version rises and older bindings are stale."""
    tx.execute(_RAISE_RUN, {"of": of})


def set_run_state(tx: Tx, of: str, state: RunState) -> None:
    """Say whether a run has a body."""
    tx.execute(_SET_RUN, {"of": of, "to": state.value})


def end_run(tx: Tx, of: str, outcome: str) -> bool:
    """End a run; False when it had ended."""
    return tx.execute(_END_RUN, {"of": of, "at": tx.now, "how": outcome}).rowcount == 1


def add_loop(
    tx: Tx, loop: str, agent: str, of_run: str, address: str, broker_token: str, *, shares_user: bool = True
) -> None:
    """Register a loop with its bridge's address and the token by which the broker steers it; '' for an open bridge."""
    row = {
        "id": loop,
        "agent": agent,
        "run": of_run,
        "address": address,
        "broker_token": broker_token,
        "registered_at": tx.now,
        "shares_user": int(shares_user),
        "open_bridge": int(not broker_token),
    }
    tx.execute(_ADD_LOOP, row)


def move_loop(tx: Tx, loop: str, address: str, broker_token: str, log_seq: int, *, shares_user: bool = True) -> None:
    """Register a loop again, with where its log was read up to."""
    values = {"of": loop, "where": address, "secret": broker_token, "seq": log_seq, "at": tx.now}
    tx.execute(_MOVE_LOOP, values | {"shared": int(shares_user), "open_": int(not broker_token)})


def open_bridge(tx: Tx, loop: str, is_open: bool) -> None:
    """Remember whether a loop's bridge serves everybody."""
    tx.execute(_OPENED, {"of": loop, "open_": int(is_open)})


def _loop(row: Any) -> Loop:
    return Loop(
        row.id,
        row.agent,
        row.run,
        row.address,
        row.log_seq,
        row.shutdown_at,
        bool(row.shares_user),
        bool(row.open_bridge),
    )


def loop(tx: Tx, of: str) -> Loop | None:
    """Read a registered loop."""
    row = tx.execute(_GET_LOOP, {"of": of}).one_or_none()
    return None if row is None else _loop(row)


def loop_token(tx: Tx, of: str) -> str | None:
    """Read the token of a loop's bridge. Only the broker's role may."""
    found: str | None = tx.execute(_LOOP_TOKEN, {"of": of}).scalar_one_or_none()
    return found


def all_loops(tx: Tx) -> list[Loop]:
    """Read every registered loop."""
    return [_loop(row) for row in tx.execute(_LOOPS)]


def log_read(tx: Tx, of: str, seq: int, shutdown_at: int | None) -> None:
    """Remember up to where a loop's session log was read, and when it said that it shut down."""
    tx.execute(_READ_LOG, {"of": of, "seq": seq, "gone": shutdown_at})
