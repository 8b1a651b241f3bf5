"""What the inbox is narrowed to, read from the address and written back to it; what makes no sense there is nothing.

The address is the only place where a choice is kept, so that a link shows the same to somebody else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar
from urllib.parse import urlencode

from gitops_bot.api.grammar import ID
from gitops_bot.authority.inbox import Filters
from gitops_bot.core.asks import AskKind
from gitops_bot.core.texts import storable
from gitops_bot.core.verdicts import Channel
from gitops_bot.policy.model import Risk

MOST: Final = 200
"""Characters of a text to search for; names are shorter."""
_NAMES: Final = ("q", "agent", "verb", "kind", "risk", "channel")
E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The choices as the address holds them; '' chooses nothing. `count` is of those behind the button."""

    q: str = ""
    agent: str = ""
    verb: str = ""
    kind: str = ""
    risk: str = ""
    channel: str = ""
    snoozed: bool = False

    @property
    def count(self) -> int:
        """Count what narrows the list beside the search."""
        return sum(map(bool, (self.agent, self.verb, self.kind, self.risk, self.channel, self.snoozed)))

    @property
    def filters(self) -> Filters:
        """Give them as the inbox takes them."""
        return Filters(
            agent=self.agent or None,
            verb=self.verb or None,
            kind=AskKind(self.kind) if self.kind else None,
            risk=Risk(self.risk) if self.risk else None,
            channel=Channel(self.channel) if self.channel else None,
            text=self.q or None,
            snoozed=self.snoozed,
        )

    def query(self, **more: str | None) -> str:
        """Write the choices and more as a query, without what chooses nothing; '' when nothing is left."""
        kept = {name: getattr(self, name) for name in _NAMES}
        kept["snoozed"] = "1" if self.snoozed else ""
        pairs = {name: value for name, value in {**kept, **more}.items() if value}
        return f"?{urlencode(pairs)}" if pairs else ""


def choose(given: Mapping[str, str]) -> Chosen:
    """Read the choices out of a query."""

    def words(name: str, most: int) -> str:
        return storable(given.get(name, "").strip())[:most]

    return Chosen(
        q=words("q", MOST),
        agent=words("agent", 64),
        verb=words("verb", 64),
        kind=_one_of(AskKind, given.get("kind")),
        risk=_one_of(Risk, given.get("risk")),
        channel=_one_of(Channel, given.get("channel")),
        snoozed=given.get("snoozed") == "1",
    )


def _one_of(values: type[E], given: str | None) -> str:
    return given if given is not None and given in {value.value for value in values} else ""


def id_of(text: str | None) -> str | None:
    """Read an ask's id or a cursor out of a query; None when it is none."""
    return text if text is not None and ID.fullmatch(text) else None
