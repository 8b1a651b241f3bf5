"""Each file is taken over once, by the digest of its bytes: an open one as an ask, an ended one as a record.

A record claims nothing: what the file says of an answer and of who gave it was written by nobody knows whom, so it is a
line in the thread, and no vote, verdict or wake comes of it (I3, I15). An ask is marked as imported the same way.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gitops_bot.authority.asking import Opened, Waiter, Wish, open_ask
from gitops_bot.authority.imports.grammar import ApprovalFile, FileState, parse
from gitops_bot.authority.rules import Rules
from gitops_bot.core.asks import MAX_TEXT
from gitops_bot.core.errors import Fact, Malformed, Refused
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.texts import storable
from gitops_bot.store import agents, imported, ledger, threads, turns
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import AgentKind, RunState, WaiterKind

_NAME: Final = 200


class Came(StrEnum):
    """What became of a file."""

    ASKED = "asked"
    RECORDED = "recorded"
    KNOWN = "known"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Imported:
    """One file and what became of it; `why` where it was refused, `ask` where it is one now, `ignored` keys."""

    name: str
    came: Came
    ask: str | None = None
    why: str | None = None
    ignored: tuple[str, ...] = ()


def digest_of(raw: bytes) -> str:
    """Name a file by its bytes."""
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def take(tx: Tx, rules: Rules, agent: agents.Agent, name: str, raw: bytes) -> Imported:
    """Take one file over for an agent, in this transaction; a second time it is known. A refusal has written nothing
    but its ledger entry."""
    shown = storable(name)[:_NAME]
    try:
        found = parse(raw)
    except Malformed as error:
        return Imported(shown, Came.REFUSED, why=error.message)
    digest = digest_of(raw)
    turns.take(tx, f"import:{digest}")
    known = imported.get(tx, digest)
    if known is not None:
        return Imported(shown, Came.KNOWN, ask=known.ask)
    if found.state is FileState.ENDED:
        threads.post(tx, agent.id, "message", _record(shown, digest, found))
        return _keep(tx, agent, shown, digest, found, None)
    is_fleet = agent.kind is AgentKind.AGENT
    run = agents.add_run(tx, agent.id, "agent" if is_fleet else "request", RunState.PARKED)
    wish = Wish(
        agent=agent,
        run=run,
        waiter=Waiter(WaiterKind.RUN if is_fleet else WaiterKind.REQUEST, run.id),
        text=found.question,
        labels=found.options,
        why=_why(shown, found),
        idempotency_key=f"import:{digest}",
    )
    opened = open_ask(tx, rules, wish)
    if not isinstance(opened, Opened):
        agents.end_run(tx, run.id, "refused")
        return Imported(shown, Came.REFUSED, why=_told(opened), ignored=found.ignored)
    line = f"Imported from the file {shown} ({digest}). Who wrote it is not known."
    threads.post(tx, agent.id, "message", line, ask=opened.ask.id)
    return _keep(tx, agent, shown, digest, found, opened.ask.id)


def _told(refused: Refused) -> str:
    return f"{refused.reason.value}: {refused.sentence}"


def _keep(tx: Tx, agent: agents.Agent, name: str, digest: str, found: ApprovalFile, ask: str | None) -> Imported:
    imported.add(tx, digest, name, ask)
    facts: dict[str, Fact] = {"file": name, "digest": digest, "state": found.said}
    ledger.append(tx, Entry(EventKind.ASK_IMPORTED, tx.now, ask=ask, agent=agent.id, facts=facts))
    return Imported(name, Came.RECORDED if ask is None else Came.ASKED, ask, ignored=found.ignored)


def _why(name: str, found: ApprovalFile) -> str:
    return f"(imported from the file {name})\n\n{found.body}"[:MAX_TEXT].rstrip()


def _record(name: str, digest: str, found: ApprovalFile) -> str:
    lines = [
        f"A record from the file {name} ({digest}). It is no verdict here, and who wrote it is not known.",
        f"It asked: {found.question}",
        f"It says that its state is {found.said}.",
        *([f"It says that the answer was: {found.answer}"] if found.answer else []),
        *([f"It says that this was answered by: {found.by}"] if found.by else []),
    ]
    return "\n".join(lines)[:MAX_TEXT]
