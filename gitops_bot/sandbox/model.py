"""The whole state of one forge and its rules, in three rooms that share one row of ids.

Pure: no I/O, no clock, no randomness. `now` is whole seconds since the epoch, and each id comes from one counter, so
the same calls give the same ids. It holds no git objects. One caller at a time; `world` holds the lock.
"""

from gitops_bot.sandbox.comments import Comments
from gitops_bot.sandbox.directory import Directory
from gitops_bot.sandbox.limits import Limits
from gitops_bot.sandbox.records import Ids
from gitops_bot.sandbox.threads import Threads


class Model:
    """Accounts and repositories, threads, comments, rate limits."""

    def __init__(self) -> None:
        self.ids = Ids()
        self.directory = Directory()
        self.threads = Threads(self.directory, self.ids)
        self.comments = Comments(self.directory, self.threads, self.ids)
        self.limits = Limits()
