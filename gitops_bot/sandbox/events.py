"""What happened, in order, as values: the model notes it, and whoever delivers webhooks takes it away. Pure.

Only what a bot is told is here: comments on any thread, the life of pull requests and their reviews, buttons of check
runs, and what becomes of an app's installation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gitops_bot.sandbox.apps import Installation
from gitops_bot.sandbox.checks import Check
from gitops_bot.sandbox.records import Comment, Review


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: the event's name and action, on which thread, who did it, and what changed by it.

    `about` is the review, the check run whose button (`identifier`) was pressed, or the installation, of which neither
    repository nor number are said.
    """

    name: str
    action: str
    repository_id: int
    number: int
    sender_id: int
    comment: Comment | None = None
    changes: Mapping[str, object] = field(default_factory=dict)
    about: Review | Check | Installation | None = None
    identifier: str = ""


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
