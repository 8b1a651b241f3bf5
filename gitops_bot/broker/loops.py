"""The loops that a broker serves: registered with their bridge, heard through their log, let go when they give up.

A loop is a run whose version is the number of its starts without `--resume`. What its log says is believed about the
loop itself and nothing else; it decides nothing for anybody. What an operator said at its bridge is left as a claim
(`authority.operator_claims`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.authority.duties import FINISHED, Again, Outcome
from gitops_bot.authority.operator_claims import leave_claim
from gitops_bot.broker.captures import leave
from gitops_bot.core.errors import Fact, Reason, Refused, Unavailable, refuse
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.texts import storable
from gitops_bot.ports import LoopLink
from gitops_bot.store import agents, captures, due, ledger, outbox, seats
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.states import TokenScope

DUTY: Final = "loop"
LOOP_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:]{2,45}\]):[0-9]{1,5}", re.ASCII)
MODES: Final = ("block", "continue")
LISTEN_MS: Final = 500
ABSENT_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Registered:
    """What a loop is told: its run and the token of that run, which dies when the run is started anew."""

    run: agents.Run
    agent_token: str


def register(
    tx: Tx,
    *,
    agent: agents.Agent,
    loop_id: str,
    address: str,
    broker_token: str,
    resume: bool,
    shares_user: bool = True,
    open_bridge: bool = False,
) -> Registered | Refused:
    """Register a loop, or register it again after a restart. That `agent` holds a loop token is *not* checked.

    `shares_user`: nothing keeps the loop's agent from the bridge's tokens. `open_bridge`: it takes no token, and no
    operator's claim is taken from it. A start without `resume` is a new version: what the earlier start waited for is
    let go, in this transaction.
    """
    if not LOOP_ID.fullmatch(loop_id) or not ADDRESS.fullmatch(address):
        return refuse(Reason.BAD_PARAMS, "id is [a-z0-9._-]{1,64}, address is host:port.")
    if not (16 <= len(broker_token) <= 512 or (open_bridge and not broker_token)):
        return refuse(Reason.BAD_PARAMS, "broker_token has 16 to 512 characters.")
    known = agents.loop(tx, loop_id)
    if known is None:
        run = agents.add_run(tx, agent.id, "loop")
        agents.add_loop(tx, loop_id, agent.id, run.id, address, broker_token, shares_user=shares_user)
    elif known.agent != agent.id:
        return refuse(Reason.NOT_AUTHORISED, "This loop id belongs to another agent.", loop=loop_id)
    else:
        if not resume:
            leave(tx, loop_id, "restarted")
            agents.raise_version(tx, known.run)
        heard = known.log_seq if resume else 0
        agents.move_loop(tx, loop_id, address, broker_token, heard, shares_user=shares_user)
        agents.revoke_run_tokens(tx, known.run)
        again = agents.run(tx, known.run)
        assert again is not None
        run = again
    facts: dict[str, Fact] = {"loop": loop_id, "address": address, "version": run.version, "resumed": resume}
    facts |= {"shares_user": shares_user, "open_bridge": not broker_token}
    ledger.append(tx, Entry(EventKind.LOOP_REGISTERED, tx.now, run=run.id, agent=agent.id, facts=facts))
    due.set_due(tx, DUTY, loop_id, tx.now)
    # What could not be told while it was away is told now.
    due.set_due(tx, outbox.DUTY, f"loop:{loop_id}", tx.now)
    return Registered(run, agents.issue_token(tx, agent.id, TokenScope.RUN, run=run.id))


class Listener:
    """Reads the session logs of loops that wait for something; `one` is the handler of the duty `loop`."""

    def __init__(self, database: Database, link: LoopLink, resume_grace: int, listen_ms: int = LISTEN_MS) -> None:
        self._database = database
        self._link = link
        self._grace = resume_grace
        self._listen_ms = listen_ms

    def one(self, claimed: Claimed) -> Outcome:
        """Read what one loop wrote since, and act on it. A loop that is away is asked again later."""
        with self._database.read() as tx:
            loop = agents.loop(tx, claimed.key)
            token = agents.loop_token(tx, claimed.key)
            waits = bool(captures.waiting_seats_of_loop(tx, claimed.key))
        if loop is None or token is None:
            return FINISHED
        if loop.shutdown_at is not None:
            return self._after_shutdown(loop, waits)
        try:
            lines = self._link.read_log(loop.address, token, loop.log_seq)
        except Unavailable:
            return Again(ABSENT_MS)
        if lines:
            with self._database.write() as tx:
                self._hear(tx, loop, lines)
        return Again(self._listen_ms)

    def _after_shutdown(self, loop: agents.Loop, waits: bool) -> Outcome:
        assert loop.shutdown_at is not None
        if not waits:
            return FINISHED
        with self._database.write() as tx:
            again = agents.loop(tx, loop.id)
            if again is None or again.shutdown_at is None:
                return Again(0)
            left = again.shutdown_at + self._grace - tx.now
            if left > 0:
                return Again(left)
            leave(tx, loop.id, "shutdown without a resume")
        return FINISHED

    def _hear(self, tx: Tx, loop: agents.Loop, lines: tuple[tuple[int, Mapping[str, object]], ...]) -> None:
        current = agents.loop(tx, loop.id)
        if current is None or (current.address, current.log_seq) != (loop.address, loop.log_seq):
            return  # registered again, or read by somebody else meanwhile
        seq, shutdown_at = current.log_seq, current.shutdown_at
        for number, line in lines:
            if number <= seq:
                continue
            seq = number
            shutdown_at = tx.now if line.get("kind") == "shutdown" else None
            self._line(tx, current, number, line)
        agents.log_read(tx, loop.id, seq, shutdown_at)

    def _line(self, tx: Tx, loop: agents.Loop, number: int, line: Mapping[str, object]) -> None:
        match line.get("kind"):
            case "start" | "recovery" if isinstance(line.get("insecure_bridge"), bool):
                # A loop that takes no token stays open, whatever it says.
                agents.open_bridge(tx, loop.id, line["insecure_bridge"] is True or not agents.loop_token(tx, loop.id))
            case "approval_claimed":
                leave_claim(tx, agents.loop(tx, loop.id) or loop, number, line)
            case "approval_wait" if line.get("mode") in MODES:
                # Whoever asked by a tool said no mode: the marker did, and the loop read it.
                seats.waits_in(tx, loop.id, storable(str(line.get("trace_id"))), str(line["mode"]))
            case "parked":
                self._note(tx, loop, EventKind.LOOP_PARKED, line, ("trace_id",))
            case "segment":
                self._note(tx, loop, EventKind.LOOP_SEGMENT, line, ("fingerprint", "regime", "baseline_score"))
            case "row" if isinstance(line.get("row"), Mapping):
                self._note(tx, loop, EventKind.LOOP_SCORED, _row(line["row"]), ("iter", "score", "kept"))
            case "approval_resolved" if line.get("outcome") == "timeout":
                leave(tx, loop.id, "the loop's --max-park ran out")
            case "escalation":
                leave(tx, loop.id, "the loop escalated")
            case _:
                return  # unknown kinds degrade

    def _note(
        self, tx: Tx, loop: agents.Loop, kind: EventKind, line: Mapping[str, object], members: tuple[str, ...]
    ) -> None:
        facts: dict[str, Fact] = {"loop": loop.id}
        for member in members:
            value = line.get(member)
            if isinstance(value, str | int | float):
                facts[member] = storable(str(value))[:400]
        ledger.append(tx, Entry(kind, tx.now, run=loop.run, agent=loop.agent, facts=facts))


def _row(row: object) -> Mapping[str, object]:
    """Take of a turn what a plot shows: its number, its score, and whether the loop kept what it tried."""
    assert isinstance(row, Mapping)
    kept = "yes" if row.get("decision") == "keep" else "no"
    return {"iter": row.get("iter"), "score": row.get("score"), "kept": kept}
