"""Times, hashes and names as people read them; the filters of the templates. Times come in ms since 1970 UTC.

What is written here is exact enough to act on and the exact value is always in the element's title.
"""

from datetime import UTC, datetime
from typing import Final

from flask import Flask

from gitops_bot.core.asks import AskState
from gitops_bot.core.verdicts import Channel
from workspace import texts

_SECOND: Final = 1_000
_STEPS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))
CHANNELS: Final = {
    Channel.WORKSPACE.value: "workspace",
    Channel.FORGE.value: "pull request",
    Channel.OPERATOR.value: "operator",
    Channel.APP.value: "application",
    Channel.SIGNED.value: "signed commits",
}
STATES: Final = {
    AskState.OPEN.value: "open",
    AskState.APPROVED.value: "approved",
    AskState.DENIED.value: "denied",
    AskState.ANSWERED.value: "answered",
    AskState.WITHDRAWN.value: "withdrawn",
    AskState.EXPIRED.value: "expired",
    AskState.SUPERSEDED.value: "asked anew",
}


def utc(at: int) -> str:
    """Write an instant for machines, in whole seconds of UTC."""
    return datetime.fromtimestamp(at // _SECOND, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_words(at: int) -> str:
    """Write an instant for people, with its zone."""
    return datetime.fromtimestamp(at // _SECOND, tz=UTC).strftime("%-d %b %Y, %H:%M:%S UTC")


def span(milliseconds: int) -> str:
    """Write a length of time in its largest unit, rounded down; less than a minute in seconds."""
    seconds = max(0, milliseconds) // _SECOND
    for length, unit in _STEPS:
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def ago(at: int, now: int) -> str:
    """Write how long ago an instant was."""
    return "just now" if now - at < 10 * _SECOND else f"{span(now - at)} ago"


def left(until: int, now: int) -> str:
    """Write how much time is left until an instant."""
    return f"{span(until - now)} left" if until > now else "time is over"


def short_hash(digest: str) -> str:
    """Write the part of a digest that people compare at a glance; the whole stands in the title beside it."""
    kind, _, value = digest.rpartition(":")
    return f"{kind}:{value[:12]}" if kind else value[:12]


def install(app: Flask) -> None:
    """Give the templates these words."""
    app.jinja_env.filters.update(
        utc=utc,
        utc_words=utc_words,
        span=span,
        ago=ago,
        left=left,
        short_hash=short_hash,
        said=texts.said,
        visible=texts.visible,
        channel=lambda value: CHANNELS.get(str(value), str(value)),
        state=lambda value: STATES.get(str(value), str(value)),
    )
