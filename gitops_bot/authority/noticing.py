"""Each event that people or programs outside want to hear of becomes effects, one a receiver, once.

Read in sealed order after a cursor of the receiver's own, which moves in the transaction that writes the effects: a
broker that dies loses none, and none is written twice. Whoever is set up later hears of nothing that was before. What
is told carries the binding that an answer must echo (I4); it gives nobody a right to answer.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority.blocking import badges, blocked
from gitops_bot.authority.duties import IDLE_SECONDS
from gitops_bot.core.asks import Ask, AskId, AskKind, AskState
from gitops_bot.core.errors import Unavailable
from gitops_bot.core.ledger import EventKind
from gitops_bot.store import agents, asks, inbox, ledger, outbox, settings
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.inbox import Open
from gitops_bot.store.ledger import Sealed

DUTY: Final = "notices"
KINDS: Final = (
    EventKind.ASK_OPENED,
    EventKind.ASK_ANSWERED,
    EventKind.ASK_EXPIRED,
    EventKind.ASK_WITHDRAWN,
    EventKind.AGENT_NOTIFY,
    EventKind.GRANT_MINTED,
    EventKind.EFFECT_FAILED,
    EventKind.EFFECT_UNKNOWN,
    EventKind.CHANNEL_FROZEN,
    EventKind.POLICY_PROPOSED,
)
"""Everything that is ever told."""
EFFECT: Final = "notice"
LANES: Final = 4
"""So many of one receiver's are told at once."""
_BATCH: Final = 200
_TEXT: Final = 2_000


@dataclass(frozen=True, slots=True)
class Receiver:
    """Somebody outside: a name of our own, the kinds of events that it wants, and whether it is a person, who hears of
    an ask only when an agent stands still for it (I8)."""

    name: str
    kinds: frozenset[str]
    is_person: bool


class Noticing:
    """Writes effects for what was sealed; implements `ports.Duty`. `origin` is where the workspace is."""

    name = DUTY

    def __init__(self, database: Database, receivers: Sequence[Receiver], origin: str) -> None:
        self._database = database
        self._receivers = tuple(receivers)
        self._origin = origin
        self._seen: int | None = None

    def arm(self) -> None:
        """Let each receiver that is new begin with what is sealed from now on."""
        with self._database.write() as tx:
            for one in self._receivers:
                if settings.cursor(tx, _cursor(one)) is None:
                    settings.set_cursor(tx, _cursor(one), str(ledger.head(tx).seq))

    def step(self) -> float:
        """Tell of one batch. Gives the seconds until there may be more."""
        try:
            if not self._receivers or not self._is_behind():
                return IDLE_SECONDS / 4
            with self._database.write() as tx:
                most = max(self._tell(tx, one) for one in self._receivers)
        except Unavailable:
            return IDLE_SECONDS
        return 0.0 if most == _BATCH else IDLE_SECONDS / 4

    def _is_behind(self) -> bool:
        # Looking takes no turn at the database, and most looks find nothing.
        with self._database.read() as tx:
            head = ledger.head(tx).seq
        if head == self._seen:
            return False
        self._seen = head
        return True

    def _tell(self, tx: Tx, receiver: Receiver) -> int:
        after = int(settings.cursor(tx, _cursor(receiver)) or "0")
        found = ledger.sealed(tx, after, _BATCH)
        for sealed in found:
            if str(sealed.document["kind"]) not in receiver.kinds or _is_own(sealed.document):
                continue
            told = self._payload(tx, sealed)
            if receiver.is_person and not told["needs_person"]:
                continue
            key = f"notice:{receiver.name}:{sealed.seq}"
            lane = f"notice:{receiver.name}:{sealed.seq % LANES}"
            payload = {"to": receiver.name, "told": told}
            outbox.enqueue(tx, outbox.Effect(key, lane, EFFECT, payload), outbox.NOTICES)
        if found:
            settings.set_cursor(tx, _cursor(receiver), str(found[-1].seq))
        if len(found) == _BATCH:
            self._seen = None
        return len(found)

    def _payload(self, tx: Tx, sealed: Sealed) -> dict[str, Any]:
        entry = sealed.document
        told: dict[str, Any] = {
            "v": 1,
            "seq": sealed.seq,
            "event": entry["kind"],
            "at": entry["at"],
            "reason": entry["reason"],
            "by": entry["principal"],
            "channel": entry["channel"],
            "agent": _slug(tx, entry["agent"]),
            "run": entry["run"],
            "needs_person": True,
            "ask": None,
        }
        facts: Mapping[str, Any] = entry["facts"]
        if entry["kind"] in (EventKind.EFFECT_FAILED, EventKind.EFFECT_UNKNOWN):
            told["effect"] = {name: facts.get(name) for name in ("key", "kind", "why")}
        if entry["kind"] == EventKind.AGENT_NOTIFY:
            told["from_agent"] = {"text": str(facts.get("text", ""))[:_TEXT]}
        ask = asks.get(tx, str(entry["ask"])) if entry["ask"] is not None else None
        if ask is not None:
            told["ask"] = self._ask(ask)
            if entry["kind"] == EventKind.ASK_OPENED:
                told["needs_person"] = _needs_person(tx, ask)
        return told

    def _ask(self, ask: Ask) -> dict[str, Any]:
        """Tell of an ask with what an answer must echo; what its agent wrote stands apart, under its own name."""
        gated = ask.kind is AskKind.GATED
        return {
            "id": ask.id,
            "kind": ask.kind.value,
            "verb": ask.verb,
            "state": ask.state.value,
            "gated": gated,
            "answerable": ask.state is AskState.OPEN and not gated,
            "action_hash": ask.binding.action_hash,
            "policy": ask.binding.policy,
            "run_version": ask.binding.run_version,
            "expires_at": ask.expires_at,
            "url": f"{self._origin}/asks/{ask.id}",
            "from_agent": {
                "text": ask.text[:_TEXT],
                "why": ask.why[:_TEXT],
                "options": [{"id": option.id, "label": option.label} for option in ask.options],
            },
        }


def _cursor(receiver: Receiver) -> str:
    return f"notices:{receiver.name}"


def _is_own(entry: Mapping[str, Any]) -> bool:
    # That a notice could not be told is told in the ledger; to tell it the same way would never end.
    return entry["kind"] in (EventKind.EFFECT_FAILED, EventKind.EFFECT_UNKNOWN) and (
        entry["facts"].get("kind") == EFFECT
    )


def _slug(tx: Tx, agent: object) -> str | None:
    found = agents.get(tx, str(agent)) if agent is not None else None
    return None if found is None else found.slug


def _needs_person(tx: Tx, ask: Ask) -> bool:
    """Tell whether an agent stands still for an ask that was opened; one that ended meanwhile needs nobody."""
    agent, run = agents.get(tx, ask.agent), agents.run(tx, ask.run)
    if ask.state is not AskState.OPEN or agent is None or run is None:
        return False
    opened = Open(ask, agent.slug, agent.state, run.state, False, None)
    waits: dict[str, list[inbox.Waits]] = inbox.waits(tx, [AskId(ask.id)])
    return badges(opened, blocked(waits.get(ask.id, ()), run.state))


def receivers(hook_kinds: Collection[str] | None, has_urls: bool) -> list[Receiver]:
    """Name who is told: the hook with its kinds (None: there is none), and whom Apprise reaches."""
    found = [] if hook_kinds is None else [Receiver("hook", frozenset(hook_kinds or KINDS), is_person=False)]
    return [*found, Receiver("apprise", frozenset(KINDS), is_person=True)] if has_urls else found
