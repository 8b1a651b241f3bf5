"""Steps 3 and 4 of the signed channel over the bot's repository: commits, what each adds, and the file itself.

Whoever holds a value from here holds bytes whose size was asked before they were read, and which hash to their id.
`new_commits` reads ahead for what will be wanted next. Who signed, and whether the bytes are those of a request, is
*not* checked.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from types import TracebackType
from typing import Final, Self

from gitops_bot.core.asks import AskId
from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.evidence import Change, Commit, ObjectId
from gitops_bot.signed.grammar import MAX_BLOB, read_change, read_id
from gitops_bot.signed.reading import Batch, Reader
from gitops_bot.signed.repository import Repository
from gitops_bot.signed.streams import Stream

MAX_LOOK: Final = 20_000
"""New commits of one branch that one look reads; the rest is read by the next."""


class Objects:
    """What a repository's commits say, each judged alone. Not for several threads at once; `close` ends its processes
    of git, which start again when something is asked."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._reader = Reader(repository)
        self._walker = Reader(repository)
        self._last = Batch(())
        """What was read for single questions; `_ahead` what the walk has just given."""
        self._ahead = Batch(())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End git's processes."""
        self._reader.close()
        self._walker.close()

    def commit(self, oid: ObjectId) -> Commit | Refused:
        """Read one commit in the strict form (step 3).

        Raises:
            Unavailable: we do not have it, or git failed.
        """
        return self._batch(oid).commits[oid]

    def change(self, commit: Commit, person: PrincipalName, asks_known: Callable[[AskId], bool]) -> Change | Refused:
        """Read what a commit on a person's branch adds (step 4). A root adds nothing that counts.

        Raises:
            Unavailable: we do not have it, or git failed.
        """
        if commit.parent is None:
            return refuse(Reason.ROOT_COMMIT, "A root votes for nothing.")
        batch = self._batch(commit.id)
        entries = batch.entries[commit.id]
        if isinstance(entries, Refused):
            return entries
        change = batch.changes.get(commit.id)
        if change is None or change.person != person:
            refused = read_change(entries, person=person)
            assert isinstance(refused, Refused)
            return refused
        if not asks_known(change.ask):
            return refuse(Reason.NOT_FOUND, "This environment has no such ask.", ask=change.ask)
        found = batch.places[commit.id]
        if found is None or found.oid != change.blob or found.kind != "blob":
            # The difference and a look-up read different entries, as readers of git do.
            return refuse(Reason.FETCH_REFUSED, "A tree holds two entries of one name.")
        if found.size > MAX_BLOB:
            return refuse(Reason.TOO_LARGE, f"The file has {found.size} bytes; a vote's has at most {MAX_BLOB}.")
        return change

    def blob(self, change: Change) -> bytes | Refused:
        """Read the file of a change that was read last, at most `MAX_BLOB` bytes of it.

        Raises:
            Unavailable: we do not have it, or git failed.
        """
        for batch in (self._ahead, self._last):
            if change.blob in batch.blobs:
                return batch.blobs[change.blob]
        return self._reader.blob(change.blob)

    def new_ids(
        self,
        stored: ObjectId | None,
        tip: ObjectId,
        *,
        known: Callable[[ObjectId], bool] = lambda _: False,
        most: int = MAX_LOOK,
    ) -> Generator[ObjectId, None, None]:
        """Name the commits that the tip reaches and the stored tip does not, over all parents, parents first, leaving
        out those that are known; at most `most` of them. Where so many come, more may be there: the stored tip may
        move only after a walk that gave fewer. None of them is read. A stored tip that we do not have excludes nothing.

        Raises:
            Unavailable: git failed.
        """
        walk = ["rev-list", "--topo-order", "--reverse", tip]
        if stored is not None and self._repository.kind(stored) == "commit":
            walk.append(f"^{stored}")
        with Stream(self._repository, *walk, "--") as stream:
            yield from islice((oid for oid in _lines(stream, len(tip)) if not known(oid)), most)

    def read_ahead(self, oids: Iterable[ObjectId]) -> Generator[ObjectId, None, None]:
        """Give each commit back when it, its change and its file are read: questions about the one given last, and a
        few around it, then cost no exchange with git. Its processes stay for the next walk; leaving one early ends
        them. One walk at a time.

        Raises:
            Unavailable: one is not there, or git failed.
        """
        whole = False
        try:
            for batch in self._walker.ahead(oids):
                self._ahead = batch
                yield from batch.oids
            whole = True
        finally:
            if not whole:
                # What else was asked would be read as the answer to another question.
                self._walker.close()
            self._ahead = Batch(())

    def new_commits(
        self,
        stored: ObjectId | None,
        tip: ObjectId,
        *,
        known: Callable[[ObjectId], bool] = lambda _: False,
        most: int = MAX_LOOK,
    ) -> Generator[ObjectId, None, None]:
        """Walk as `new_ids` does, with each commit read when it is given.

        Raises:
            Unavailable: git failed.
        """
        with (
            closing(self.new_ids(stored, tip, known=known, most=most)) as ids,
            closing(self.read_ahead(ids)) as walk,
        ):
            yield from walk

    def roots(self, tip: ObjectId, most: int) -> Sequence[ObjectId]:
        """List the commits without a parent that a tip reaches; at most `most` of them.

        Raises:
            Unavailable: git failed.
        """
        with Stream(self._repository, "rev-list", "--max-parents=0", tip, "--") as stream:
            return list(islice(_lines(stream, len(tip)), most))

    def _batch(self, oid: ObjectId) -> Batch:
        for batch in (self._ahead, self._last):
            if oid in batch.commits:
                return batch
        self._last = self._reader.read([oid])
        return self._last


def _lines(stream: Stream, digits: int) -> Iterator[ObjectId]:
    stream.ask(b"")
    while (line := stream.line_or_end(digits)) is not None:
        yield read_id(line.decode("ascii", "replace"))
