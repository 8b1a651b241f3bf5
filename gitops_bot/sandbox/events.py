"""What happened, in order, as values: the model notes it, and whoever delivers webhooks takes it away. Pure.

Only what a pull request's watchers are told is here: comments on any thread, and the life of pull requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gitops_bot.sandbox.records import Comment


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: the event's name and action, on which thread, who did it, and what changed by it."""

    name: str
    action: str
    repository_id: int
    number: int
    sender_id: int
    comment: Comment | None = None
    changes: Mapping[str, object] = field(default_factory=dict)


class Journal:
    """Events that nobody has taken yet, oldest first."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def note(self, event: Event) -> None:
        """Add one."""
        self._events.append(event)

    def take(self) -> tuple[Event, ...]:
        """Give all and keep none."""
        taken, self._events = tuple(self._events), []
        return taken
