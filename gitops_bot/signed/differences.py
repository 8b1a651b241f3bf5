"""What commits change against their parent, read from `git diff-tree` in bounds of time and size (step 4).

One process compares whole trees for many commits at once. Trees can be made so that this takes for ever without a
word (folders of the same folders, nested and empty); a commit that is not answered in time is compared anew, one
level of its tree at a time, which cannot grow so, and after a few of these all are. What a difference means is
`signed.grammar`'s.
"""

import secrets
from collections.abc import Sequence
from typing import Final

from gitops_bot.core.errors import Malformed, Reason, Refused, Unavailable, refuse
from gitops_bot.signed.evidence import Commit, ObjectId
from gitops_bot.signed.grammar import EMPTY_TREES, MAX_DIFFERENCE, Entry, read_changes, read_comparison
from gitops_bot.signed.repository import Repository
from gitops_bot.signed.streams import Flood, Slow, Stream

PATIENCE: Final = 3.0
"""Seconds that one commit may take in the quick way."""
_TRUST: Final = 3
_DEPTH: Final = 8
_TREE: Final = "040000"
_OPTIONS: Final = ("--raw", "-z", "--no-renames", "--no-abbrev")

Entries = tuple[Entry, ...]


class Differences:
    """Compares commits with their one parent."""

    def __init__(self, repository: Repository) -> None:
        self._whole = Stream(repository, "diff-tree", "--stdin", "-r", *_OPTIONS, patience=PATIENCE)
        self._level = Stream(repository, "diff-tree", "--stdin", *_OPTIONS)
        # Git repeats what is no object id. Paths may hold any bytes, but nobody can guess this.
        self._mark = f"-{secrets.token_hex(16)}\n".encode()
        self._slow = 0

    def close(self) -> None:
        """End git's processes; they start again when something is asked."""
        self._whole.close()
        self._level.close()

    def ask(self, commits: Sequence[Commit]) -> None:
        """Begin to compare some commits; `answers` is due before the next are asked for."""
        if self._slow < _TRUST:
            self._whole.ask(b"".join(commit.id.encode() + b"\n" + self._mark for commit in commits))

    def answers(self, commits: Sequence[Commit]) -> dict[ObjectId, Entries | Refused]:
        """Read what each of the commits that were asked for changes; one that changes more than is looked at is
        refused.

        Raises:
            Unavailable: git failed.
        """
        read: dict[ObjectId, Entries | Refused] = {}
        for place, commit in enumerate(commits):
            if self._slow >= _TRUST:
                read[commit.id] = self._by_level(commit)
                continue
            try:
                raw = self._whole.line(MAX_DIFFERENCE, self._mark)
            except Flood:
                read[commit.id] = _too_much()
            except Slow:
                self._slow += 1
                read[commit.id] = self._by_level(commit)
            else:
                read[commit.id] = _entries(commit, raw)
                continue
            # The process is gone, with what the rest had asked of it.
            self.ask(commits[place + 1 :])
        return read

    def _by_level(self, commit: Commit) -> Entries | Refused:
        folder = b""
        self._level.ask(commit.id.encode() + b"\n" + self._mark)
        try:
            raw = self._level.line(MAX_DIFFERENCE, self._mark)
            entries = _entries(commit, raw)
            for _ in range(_DEPTH):
                if len(entries) != 1 or entries[0].mode != _TREE:
                    return tuple(_under(folder, entry) for entry in entries)
                entry = entries[0]
                if entry.status not in {"A", "M"}:
                    return refuse(Reason.UNEXPECTED_CHANGE, "It puts a folder where a file was.")
                before = entry.before if entry.status == "M" else _empty(commit.id)
                folder += entry.path + b"/"
                entries = self._compared(before, entry.after)
        except Flood:
            return _too_much()
        return _too_much()

    def _compared(self, before: ObjectId, after: ObjectId) -> Entries:
        self._level.ask(f"{before} {after}\n".encode() + self._mark)
        raw = self._level.line(MAX_DIFFERENCE, self._mark)
        try:
            return read_comparison(before, after, raw)
        except Malformed as error:
            raise Unavailable(f"git diff-tree answered strangely: {error}") from error


def _entries(commit: Commit, raw: bytes) -> Entries:
    try:
        return read_changes(commit.id, raw)
    except Malformed as error:
        raise Unavailable(f"git diff-tree answered strangely: {error}") from error


def _under(folder: bytes, entry: Entry) -> Entry:
    return Entry(entry.status, entry.mode, entry.before, entry.after, folder + entry.path)


def _empty(like: ObjectId) -> ObjectId:
    return next(ObjectId(tree) for tree in EMPTY_TREES if len(tree) == len(like))


def _too_much() -> Refused:
    return refuse(Reason.UNEXPECTED_CHANGE, "It changes more than is looked at.")
