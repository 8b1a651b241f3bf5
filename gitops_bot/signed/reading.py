"""Many objects of git read at once: commits, what each changes, and the small file it adds.

The answers of one batch are read while git works on the next, stage by stage, so that neither waits for the other. The
size of each is asked before a byte is read, and what is read hashes to its id. What the objects mean is
`signed.grammar`'s.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from gitops_bot.core.errors import Malformed, Reason, Refused, Unavailable, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.differences import Differences, Entries
from gitops_bot.signed.evidence import Change, Commit, ObjectId
from gitops_bot.signed.grammar import MAX_BLOB, MAX_COMMIT, hash_object, read_change, read_commit, read_id
from gitops_bot.signed.repository import Repository
from gitops_bot.signed.streams import Stream

_BATCH: Final = 128
_LINE: Final = 4096


@dataclass(frozen=True, slots=True)
class Found:
    """What git has under a name, before it is read."""

    oid: ObjectId
    kind: str
    size: int


@dataclass(slots=True)
class Batch:
    """Some commits and what is known of them so far."""

    oids: Sequence[ObjectId]
    wanted: list[Found] = field(default_factory=list)
    compared: Sequence[Commit] = ()
    commits: dict[ObjectId, Commit | Refused] = field(default_factory=dict)
    entries: dict[ObjectId, Entries | Refused] = field(default_factory=dict)
    changes: dict[ObjectId, Change] = field(default_factory=dict)
    """Changes that may be votes of whom they name."""
    places: dict[ObjectId, Found | None] = field(default_factory=dict)
    """What git finds at a change's path in the commit's tree: another reading of the tree than the difference's."""
    files: list[Found] = field(default_factory=list)
    blobs: dict[ObjectId, bytes] = field(default_factory=dict)

    def children(self) -> Sequence[Commit]:
        """List the commits of a good form that have a parent."""
        return [commit for commit in self.commits.values() if isinstance(commit, Commit) and commit.parent is not None]


class Reader:
    """Two processes of git, asked in one order and read in the same; they start when something is asked."""

    def __init__(self, repository: Repository) -> None:
        self._files = Stream(repository, "cat-file", "--batch-command", "--buffer")
        self._differences = Differences(repository)

    def close(self) -> None:
        """End the processes."""
        self._files.close()
        self._differences.close()

    def read(self, oids: Sequence[ObjectId]) -> Batch:
        """Read some commits and all that they will be asked for.

        Raises:
            Unavailable: one is not there, or git failed.
        """
        (batch,) = self.ahead(oids, most=max(1, len(oids)))
        return batch

    def ahead(self, oids: Iterable[ObjectId], *, most: int = _BATCH) -> Iterator[Batch]:
        """Read commits in batches, several on their way at a time.

        Raises:
            Unavailable: one is not there, or git failed.
        """
        source = iter(oids)
        at: list[Batch | None] = [None] * 5
        begun = self._begin(list(islice(source, most)))
        while begun is not None or any(at):
            # What was asked first is answered first: the order of the stages here is the order of the questions.
            following = self._begin(list(islice(source, most))) if begun is not None else None
            at = [begun, *at[:4]]
            begun = following
            if at[0] is not None:
                self._sizes(at[0])
            if at[1] is not None:
                self._commits(at[1])
            if at[2] is not None:
                self._entries(at[2])
            if at[1] is not None:
                self._differences.ask(at[1].compared)
            if at[3] is not None:
                self._places(at[3])
            done = at[4]
            if done is not None:
                self._blobs(done)
                yield done

    def blob(self, oid: ObjectId) -> bytes | Refused:
        """Read one small file.

        Raises:
            Unavailable: it is not there, or git failed.
        """
        self._ask("info", [oid])
        found = self._found()
        if found is None or found.kind != "blob":
            raise self._lost(oid)
        if found.size > MAX_BLOB:
            return refuse(Reason.TOO_LARGE, f"The file has {found.size} bytes; a vote's has at most {MAX_BLOB}.")
        self._ask("contents", [oid])
        return self._file(found)

    def _begin(self, oids: Sequence[ObjectId]) -> Batch | None:
        if not oids:
            return None
        self._ask("info", oids)
        return Batch(oids)

    def _sizes(self, batch: Batch) -> None:
        for oid in batch.oids:
            found = self._found()
            if found is None:
                raise self._lost(oid)
            if found.kind != "commit":
                batch.commits[oid] = refuse(Reason.MALFORMED_COMMIT, f"It is a {found.kind}, not a commit.")
            elif found.size > MAX_COMMIT:
                detail = f"The commit has {found.size} bytes; a vote's has at most {MAX_COMMIT}."
                batch.commits[oid] = refuse(Reason.TOO_LARGE, detail)
            else:
                batch.wanted.append(found)
        self._ask("contents", [found.oid for found in batch.wanted])

    def _commits(self, batch: Batch) -> None:
        for found in batch.wanted:
            batch.commits[found.oid] = read_commit(found.oid, self._content(found))
        batch.compared = batch.children()

    def _entries(self, batch: Batch) -> None:
        batch.entries = self._differences.answers(batch.compared)
        asked = []
        for commit in batch.compared:
            entries = batch.entries[commit.id]
            if isinstance(entries, Refused) or len(entries) != 1:
                continue
            change = read_change(entries, person=_named(entries[0].path))
            if isinstance(change, Change):
                batch.changes[commit.id] = change
                asked.append(f"{commit.tree}:{change.path}")
        self._ask("info", asked)

    def _places(self, batch: Batch) -> None:
        for oid in batch.changes:
            found = batch.places[oid] = self._found()
            if found is not None and found.kind == "blob" and found.size <= MAX_BLOB:
                batch.files.append(found)
        self._ask("contents", [found.oid for found in batch.files])

    def _blobs(self, batch: Batch) -> None:
        for found in batch.files:
            batch.blobs[found.oid] = self._file(found)

    def _ask(self, what: str, names: Sequence[str]) -> None:
        if names:
            self._files.ask("".join(f"{what} {name}\n" for name in names).encode("ascii") + b"flush\n")

    def _found(self) -> Found | None:
        line = self._files.line(_LINE)
        if line.endswith(b" missing"):
            return None
        try:
            oid, kind, size = line.decode("ascii", "replace").split(" ")
            return Found(read_id(oid), kind, int(size))
        except (ValueError, Malformed) as error:
            raise Unavailable(f"git cat-file answered {line[:80]!r}") from error

    def _content(self, wanted: Found) -> bytes:
        if self._files.line(_LINE) != f"{wanted.oid} {wanted.kind} {wanted.size}".encode("ascii"):
            raise self._lost(wanted.oid)
        return self._files.exactly(wanted.size + 1)[:-1]

    def _file(self, wanted: Found) -> bytes:
        raw = self._content(wanted)
        if hash_object("blob", raw, wanted.oid) != wanted.oid:
            raise self._lost(wanted.oid)
        return raw

    def _lost(self, oid: ObjectId) -> Unavailable:
        # What else was asked would be read as the answer to another question.
        self.close()
        return Unavailable(f"the object {oid} is missing or damaged in the repository of approvals")


def _named(path: bytes) -> PrincipalName:
    """Give the person that a path seems to name: whose branch it is, is not known here."""
    return PrincipalName(path.rpartition(b"/")[2].partition(b".")[0].decode("ascii", "replace"))
