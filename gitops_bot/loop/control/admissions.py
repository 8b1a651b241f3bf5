"""`admissions.jsonl`: an accepted command is on disk before it has any effect, and is settled at most once.

The key of a command is its identity: the same key with the same input is the same command, with another it is a
conflict. What an admission does is `loop/control/steering`; this module keeps the record and its index.
"""

import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from gitops_bot.bridge.grammar import Kind
from gitops_bot.core.errors import Unavailable

_ARGUMENTS: Final = ("regime", "reason", "trace_id", "ask", "text", "usd")


class Outcome(StrEnum):
    """How an admission ended."""

    APPLIED = "applied"
    SUPERSEDED = "superseded"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Admission:
    """One accepted command. `claimed` when a broker decides about it; `outcome` None while it is unsettled."""

    key: str
    seq: int
    kind: Kind
    arguments: Mapping[str, str | float]
    claimed: bool = False
    outcome: Outcome | None = None

    def text(self, name: str) -> str | None:
        """Give a text argument, None when there is none."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else None


class AdmissionLedger:
    """The ledger of one loop; safe to share between threads. `now` gives seconds since 1970, for the record only.

    A file that cannot be read is set aside under another name; `notes` says so.

    Raises:
        Unavailable: the ledger cannot be opened for writing.
    """

    def __init__(self, path: Path, now: Callable[[], int]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[str, Admission] = {}
        self._seq = 0
        self.notes: list[str] = []
        raw = self._load(path)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            if raw and not raw.endswith(b"\n"):
                os.pwrite(self._file, b"\n", len(raw))
                raw += b"\n"
            self._size = len(raw)
        except OSError as error:
            raise Unavailable(f"admission ledger: {error.strerror}") from error

    def _load(self, path: Path) -> bytes:
        try:
            raw = path.read_bytes()
            raw.decode("utf-8")
        except FileNotFoundError:
            return b""
        except (OSError, UnicodeDecodeError):
            aside = path.with_name(f"{path.name}.unreadable-{self._now()}")
            try:
                path.rename(aside)
            except OSError as error:
                raise Unavailable(f"admission ledger: {error.strerror}") from error
            self.notes.append(f"the admission ledger could not be read; it is kept as {aside.name}")
            return b""
        for line in raw.split(b"\n"):
            self._fold(_decode(line))
        return raw

    def _fold(self, record: Mapping[str, object]) -> None:
        key, kind = record.get("key"), record.get("kind")
        if not isinstance(key, str):
            return
        if kind == "admitted" and key not in self._known:
            name, seq = record.get("input"), record.get("seq")
            if isinstance(name, str) and name in tuple(Kind) and isinstance(seq, int):
                given = {member: record[member] for member in _ARGUMENTS if member in record}
                arguments = {m: v for m, v in given.items() if isinstance(v, str | float | int)}
                self._known[key] = Admission(key, seq, Kind(name), arguments, record.get("claimed") is True)
                self._seq = max(self._seq, seq)
        elif kind == "settled" and key in self._known and self._known[key].outcome is None:
            outcome = record.get("outcome")
            if isinstance(outcome, str) and outcome in tuple(Outcome):
                self._known[key] = replace(self._known[key], outcome=Outcome(outcome))

    def find(self, key: str) -> Admission | None:
        """Give the admission of a key."""
        with self._lock:
            return self._known.get(key)

    def all(self) -> list[Admission]:
        """Give every admission, in the order of acceptance."""
        with self._lock:
            return sorted(self._known.values(), key=lambda admission: admission.seq)

    def admit(self, kind: Kind, arguments: Mapping[str, str | float], key: str, *, claimed: bool = False) -> Admission:
        """Record an accepted command durably. The caller has looked for the key before, under its own lock.

        Raises:
            Unavailable: it is not on disk, so it must have no effect.
        """
        with self._lock:
            admission = Admission(key, self._seq + 1, kind, dict(arguments), claimed)
            record: dict[str, object] = {"kind": "admitted", "key": key, "seq": admission.seq, "ts": self._now()}
            record |= {"input": kind.value, **arguments} | ({"claimed": True} if claimed else {})
            self._write(record)
            self._seq = admission.seq
            self._known[key] = admission
            return admission

    def settle(self, key: str, outcome: Outcome, note: str = "") -> bool:
        """Record how an admission ended; False when there is none or it ended before.

        A settlement that cannot be written holds in memory all the same: after a crash the command is only seen as
        unsettled, and whoever resumes compares with the session log.
        """
        with self._lock:
            admission = self._known.get(key)
            if admission is None or admission.outcome is not None:
                return False
            self._known[key] = replace(admission, outcome=outcome)
            noted = {"note": note} if note else {}
            try:
                self._write({"kind": "settled", "key": key, "outcome": outcome.value, "ts": self._now(), **noted})
            except Unavailable as error:
                self.notes.append(str(error))
            return True

    def _write(self, record: Mapping[str, object]) -> None:
        line = json.dumps({"v": 1, **record}, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            if os.pwrite(self._file, line, self._size) != len(line):
                raise OSError(28, "the disk is full")
            os.fsync(self._file)
        except OSError as error:
            self._undo()
            raise Unavailable(f"admission ledger: {error.strerror}") from error
        self._size += len(line)

    def _undo(self) -> None:
        # What was refused must not be found by a resume.
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            return

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _decode(line: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
