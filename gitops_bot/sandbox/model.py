"""The whole state of one forge and its rules, in rooms that share one row of ids and one journal of events.

Pure: no I/O, no clock, no randomness. `now` is whole seconds since the epoch, and each id comes from one counter, so
the same calls give the same ids. It holds no git objects. One caller at a time; `world` holds the lock.
"""

from gitops_bot.sandbox.apps import Apps
from gitops_bot.sandbox.checks import Check, Checks
from gitops_bot.sandbox.comments import Comments
from gitops_bot.sandbox.directory import Directory
from gitops_bot.sandbox.events import Event, Journal
from gitops_bot.sandbox.hooks import Hooks
from gitops_bot.sandbox.kept import Tables
from gitops_bot.sandbox.limits import Limits, SecondaryLimits
from gitops_bot.sandbox.records import Ids
from gitops_bot.sandbox.reviews import Reviews
from gitops_bot.sandbox.rulesets import Rulesets
from gitops_bot.sandbox.teams import Teams
from gitops_bot.sandbox.threads import Threads


class Model:
    """Accounts and repositories, apps, teams, threads, comments, reviews, check runs, webhooks, rulesets, rate limits;
    `facts` are of the forge as a whole: its port, and whether its seed was planted."""

    def __init__(self) -> None:
        self.ids = Ids()
        self.journal = Journal()
        self.directory = Directory()
        self.apps = Apps()
        self.teams = Teams()
        self.threads = Threads(self.directory, self.ids, self.journal)
        self.comments = Comments(self.directory, self.threads, self.ids, self.journal)
        self.reviews = Reviews(self.directory, self.ids, self.journal)
        self.checks = Checks(self.ids, self._pressed)
        self.hooks = Hooks(self.ids)
        self.rulesets = Rulesets(self.ids)
        self.limits = Limits()
        self.secondary = SecondaryLimits()
        self.facts: dict[str, int] = {}

    def _pressed(self, check: Check, identifier: str, presser_id: int) -> None:
        event = Event(
            "check_run", "requested_action", check.repository_id, 0, presser_id, about=check, identifier=identifier
        )
        self.journal.note(event)

    def tables(self) -> Tables:
        """Give everything that outlives a process, by name (`kept`)."""
        return {
            "facts": self.facts,
            "ids": self.ids.counter,
            "accounts": self.directory.accounts,
            "sessions": self.directory.sessions,
            "repositories": self.directory.repositories,
            "grants": self.directory.grants,
            "apps": self.apps.registered,
            "installations": self.apps.installations,
            "teams": self.teams.teams,
            "hidden teams": self.teams.hidden_from,
            "memberships": self.teams.members,
            "threads": self.threads.numbered,
            "comments": self.comments.written,
            "reactions": self.comments.left,
            "reviews": self.reviews.written,
            "checks": self.checks.runs,
            "hooks": self.hooks.registered,
            "rulesets": self.rulesets.made,
            "deliveries": self.hooks.sent,
            "outgoing": self.hooks.outgoing,
        }
