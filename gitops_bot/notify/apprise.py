"""What Apprise reaches: chat, mail, a phone. Plain text, short, with the address where a person looks.

The addresses hold secrets: they are in no log, no error and no argument vector of ours. Apprise is heavy and imported
when the first notice leaves; it is in the extra `notify`.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.ports import Notice

_LINE: Final = 300
_SENTENCES: Final = {
    "ask.opened": "{agent} asks and waits for a person",
    "ask.answered": "An ask of {agent} was answered by {by}",
    "ask.expired": "An ask of {agent} expired; nothing was approved",
    "ask.withdrawn": "An ask of {agent} was withdrawn",
    "agent.notify": "{agent} says",
    "grant.minted": "A grant was minted by signed commits",
    "effect.failed": "Something that was to be done outside failed",
    "effect.unknown": "It is not known whether something was done outside; look at it",
    "channel.frozen": "The signed channel froze a branch",
    "policy.proposed": "A change of the policy was proposed",
}


def told(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Word an event for people: a title of ours, and a body in which an agent's words are quoted as such."""
    kind = str(payload["event"])
    names = {"agent": payload.get("agent") or "An agent", "by": payload.get("by") or "somebody"}
    title = _SENTENCES.get(kind, kind).format(**names)
    ask: Mapping[str, Any] = payload.get("ask") or {}
    lines = []
    said = (ask.get("from_agent") or payload.get("from_agent") or {}).get("text")
    if said:
        lines.append("> " + " ".join(str(said).split())[:_LINE])
    if ask.get("verb"):
        lines.append(f"Verb: {ask['verb']}")
    if ask.get("gated"):
        lines.append("Only signed commits answer this; the page shows it.")
    if ask.get("url"):
        lines.append(str(ask["url"]))
    effect: Mapping[str, Any] = payload.get("effect") or {}
    if effect:
        lines.append(f"{effect.get('kind')}: {effect.get('why')}"[:_LINE])
    return title, "\n".join(lines) or title


class AppriseNotifier:
    """Sends to every address; implements `ports.Notifier`."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = tuple(urls)
        self._sender: Any = None

    def check(self) -> None:
        """Read the addresses.

        Raises:
            ConfigError: Apprise is not installed, or an address is none that it knows; the address is not shown.
        """
        self._made()

    def _made(self) -> Any:
        if self._sender is None:
            try:
                from apprise import Apprise
            except ImportError as error:
                raise ConfigError("[notify] urls needs Apprise", fix="pip install 'gitops-bot[notify]'") from error
            # It logs the addresses that it was given.
            logging.getLogger("apprise").disabled = True
            sender = Apprise()
            for number, url in enumerate(self._urls, 1):
                if not sender.add(url):
                    raise ConfigError(f"[notify] address {number} is none that Apprise knows", fix="see its README")
            self._sender = sender
        return self._sender

    def tell(self, notice: Notice) -> None:
        """Send one event to every address.

        Raises:
            Unavailable: one of them did not take it; all of them get it again.
        """
        title, body = told(notice.payload)
        if not self._made().notify(title=title, body=body, body_format="text"):
            raise Unavailable("an address of [notify] did not take a notice")
