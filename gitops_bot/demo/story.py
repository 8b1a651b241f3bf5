"""A demo's ledger is followed as it is sealed: each entry is told once and kept; a scene waits for what it needs."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gitops_bot.core.errors import Unavailable
from gitops_bot.demo.stage import Stage
from gitops_bot.store import ledger
from gitops_bot.store.engine import Database

Tell = Callable[[str], None]
Document = Mapping[str, Any]
LOOK = 0.1


class Story:
    """What happened so far. `seconds` bound each wait (None: a person plays, and takes as long as they like)."""

    def __init__(
        self,
        stage: Stage,
        database: Database,
        tell: Tell,
        sentence: Callable[[Document], str | None],
        seconds: float | None,
    ) -> None:
        """Begin at the ledger's first entry."""
        self._stage, self._database, self._tell = stage, database, tell
        self._sentence, self.seconds = sentence, seconds
        self._seq = 0
        self.timeline: list[Document] = []

    def look(self) -> None:
        """Tell what was sealed since.

        Raises:
            Unavailable: a process of the demo ended.
        """
        self._stage.check()
        with self._database.read() as tx:
            entries = ledger.sealed(tx, self._seq, 500)
        for entry in entries:
            self._seq = entry.seq
            document = entry.document
            told = {name: document[name] for name in ("at", "ask", "run", "agent", "principal", "reason", "facts")}
            self.timeline.append({"event": document["kind"], "seq": entry.seq, **told})
            if (said := self._sentence(document)) is not None:
                self._tell(said)

    def found(self, event: str, **members: object) -> Sequence[Document]:
        """Give the entries of a kind whose members are these."""
        return [
            one
            for one in self.timeline
            if one["event"] == event and all(one[name] == value for name, value in members.items())
        ]

    def wait(self, what: str, seen: Callable[[], object]) -> None:
        """Follow until something is so.

        Raises:
            Unavailable: a process ended, or it is not so in time.
        """
        until = None if self.seconds is None else time.monotonic() + self.seconds
        while True:
            self.look()
            if seen():
                return
            if until is not None and time.monotonic() > until:
                raise Unavailable(f"not in {self.seconds:g} s: {what}")
            time.sleep(LOOK)

    def until(self, event: str, **members: object) -> Document:
        """Follow until there is an entry of a kind with these members; gives the last of them.

        Raises:
            Unavailable: as of `wait`.
        """
        self.wait(event, lambda: self.found(event, **members))
        return self.found(event, **members)[-1]
