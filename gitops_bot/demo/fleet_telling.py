"""What the fleet demo says: sentences for what agents do, a table of them at the end. Pure but for names it learned."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

_SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "run.dispatched": "a body starts, version {version} of its run, because of: {wake}",
        "run.settled": "{outcome}; {rest}{next}",
        "run.lost": "its body is gone with the broker; its run is dispatched again{next}",
        "agent.report": "{text}",
        "ask.opened": "asks a person and ends its turn; ask {ask}",
        "ask.answered": "is answered by {people}: {option}; verdict and wake are one transaction",
        "ask.expired": "nobody decided in time; nothing is approved",
        "agent.paused": "is paused ({reason}) until a person resumes it",
        "fleet.repaired": "the reconciler repaired: {reason}",
        "message.undeliverable": "a message was not delivered: {reason}",
    }
)


class Telling:
    """Sentences with the names of agents, which entries give by id alone."""

    def __init__(self) -> None:
        """Know no name yet."""
        self._names: dict[str, str] = {}

    def sentence(self, document: Mapping[str, Any]) -> str | None:
        """Say what a ledger entry means for who watches; None for one that is of no interest."""
        facts = document["facts"]
        agent = document.get("agent") or ""
        if document["kind"] == "agent.added":
            self._names[agent] = str(facts["slug"])
            return None
        name = self._names.get(agent, agent)
        if document["kind"] == "message.posted":
            sender = _sender(facts, document)
            return f"{'message.posted':<16} @{name:<10} has a message of {sender}, and wakes"
        text = _SENTENCES.get(document["kind"])
        if text is None:
            return None
        shown = _Facts(facts, ask=document.get("ask") or "", people=", ".join(facts.get("by") or ()) or "nobody")
        shown |= {"reason": document.get("reason") or "no reason", "next": _next(facts), "rest": _rest(facts)}
        return f"{document['kind']:<16} @{name:<10} {text.format_map(shown)}"


class _Facts(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return f"({key})"


def _sender(facts: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    return str(facts.get("author") or document.get("principal") or "somebody")


def _next(facts: Mapping[str, Any]) -> str:
    return f", next wake: {facts['wake']}" if facts.get("wake") else ""


def _rest(facts: Mapping[str, Any]) -> str:
    return "nothing of it runs until a person decides" if facts.get("state") == "parked" else "the run has ended"


def table(agents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lay out agents with their status, what each is doing, and its commits below it."""
    width = max((len(one["slug"]) for one in agents), default=0)
    column = max((len(one["status"]) for one in agents), default=0)
    lines: list[str] = []
    for one in agents:
        lines.append(f"{one['slug']:<{width}}  {one['status']:<{column}}  {one['doing']}".rstrip())
        lines += [f"{'':<{width}}    {commit}" for commit in one["commits"]]
    return lines
