"""What goes to a verifying process and what comes back, as frames of JSON with a length before each.

What a process answers is read as what it was asked for and nothing else: one answer for each commit, in their order,
every field of its type and size. That an answer is *true* is not known here; whoever uses one holds it against the own
checks, and the second engine verifies before anything counts.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from gitops_bot.core.errors import Malformed
from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.model import KeyKind
from gitops_bot.signed.evidence import ObjectId, SignatureKind, Signed

MAX_FRAME: Final = 64 * 1024 * 1024
"""Bytes of one frame to a process: the keys of a policy are the longest."""
MAX_ANSWER: Final = 1024 * 1024
MAX_TASK: Final = 512
"""Commits that one task may have."""
HEADER: Final = 4
_MAX_WHY: Final = 500
_MAX_KEY: Final = 8 * 1024
_MAX_TIME: Final = 2**53
_ID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PERSON: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TakenBack:
    """A remembered revocation of an OpenPGP key, from `at` (ms)."""

    key: str
    hard: bool
    at: int


@dataclass(frozen=True, slots=True)
class Ring:
    """All that the engines in process judge by, and nothing secret: certificates without armor, SSH lines with their
    first and last time (ms), and what was ever revoked of both."""

    certificates: tuple[bytes, ...] = ()
    taken_back: tuple[TakenBack, ...] = ()
    ssh: tuple[tuple[str, int, int], ...] = ()
    ssh_revoked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """What a process is told first: the keys, whose repository it reads, and the skew of clocks (ms)."""

    ring: Ring
    folder: str
    address: str
    algorithm: str
    skew: int


@dataclass(frozen=True, slots=True)
class Task:
    """Commits on one person's branch, each with the time of its receipt (ms)."""

    person: PrincipalName
    commits: tuple[tuple[ObjectId, int], ...]


Answer = Signed | None
"""The signature that verified; None says nothing: it did not, or what comes before it was not in order."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A process could not do a task: git failed in it."""

    why: str


def frame(document: object) -> bytes:
    """Write one frame."""
    body = json.dumps(document, separators=(",", ":")).encode("ascii")
    return len(body).to_bytes(HEADER, "big") + body


def frame_size(header: bytes, most: int) -> int:
    """Read how many bytes follow the first four of a frame.

    Raises:
        Malformed: more than `most`.
    """
    size = int.from_bytes(header, "big")
    if len(header) != HEADER or size > most:
        raise Malformed(f"a frame of {size} bytes", where="verifying process")
    return size


def write_order(order: Order) -> bytes:
    """Write what a process is told first."""
    ring = order.ring
    return frame(
        {
            "certificates": [base64.b64encode(content).decode("ascii") for content in ring.certificates],
            "taken_back": [[one.key, one.hard, one.at] for one in ring.taken_back],
            "ssh": [list(one) for one in ring.ssh],
            "ssh_revoked": list(ring.ssh_revoked),
            "folder": order.folder,
            "address": order.address,
            "algorithm": order.algorithm,
            "skew": order.skew,
        }
    )


def read_order(body: bytes) -> Order:
    """Read what a process is told first.

    Raises:
        Malformed: it is not `write_order`'s.
    """

    def work(said: Any) -> Order:
        ring = Ring(
            tuple(base64.b64decode(_text(one, MAX_FRAME), validate=True) for one in _list(said["certificates"])),
            tuple(TakenBack(_text(key), _flag(hard), _whole(at)) for key, hard, at in _list(said["taken_back"])),
            tuple((_text(line), _whole(first), _whole(last)) for line, first, last in _list(said["ssh"])),
            tuple(_text(line) for line in _list(said["ssh_revoked"])),
        )
        places = (_text(said["folder"]), _text(said["address"]), _text(said["algorithm"]))
        return Order(ring, *places, _whole(said["skew"]))

    return _read(body, work)


def write_task(number: int, task: Task) -> bytes:
    """Write a task under a number that its answers must name."""
    return frame([number, task.person, [list(one) for one in task.commits]])


def read_task(body: bytes) -> tuple[int, Task]:
    """Read a task and its number.

    Raises:
        Malformed: it is not `write_task`'s, or has over `MAX_TASK` commits.
    """

    def work(said: Any) -> tuple[int, Task]:
        number, person, commits = _list(said)
        if len(_list(commits)) > MAX_TASK:
            raise ValueError("too many")
        read = tuple((ObjectId(_form(_ID, oid)), _whole(at)) for oid, at in commits)
        return _whole(number), Task(PrincipalName(_form(_PERSON, person)), read)

    return _read(body, work)


def write_answers(number: int, answers: Iterable[Answer]) -> bytes:
    """Write the answers to a task, in the order of its commits."""
    return frame([number, [None if one is None else _fields(one) for one in answers]])


def write_failed(why: str) -> bytes:
    """Write that a task could not be done."""
    return frame({"failed": why[:_MAX_WHY]})


def read_answers(body: bytes, number: int, asked: int) -> tuple[Answer, ...] | Failed:
    """Read what a process says of a task of `asked` commits.

    Raises:
        Malformed: it is anything but exactly one answer for each under the task's number, or a failure.
    """

    def work(said: Any) -> tuple[Answer, ...] | Failed:
        if isinstance(said, dict):
            if set(said) != {"failed"}:
                raise ValueError("no failure")
            return Failed(_text(said["failed"], _MAX_WHY))
        named, answers = _list(said)
        if _whole(named) != number or len(_list(answers)) != asked:
            raise ValueError("not what was asked for")
        return tuple(None if one is None else _signed(one) for one in answers)

    return _read(body, work)


def _fields(signed: Signed) -> Sequence[object]:
    return (
        signed.kind.value,
        signed.key,
        signed.component,
        signed.signed_at,
        signed.proof.value,
        signed.counter,
    )


def _signed(said: Any) -> Signed:
    kind, key, component, signed_at, proof, counter = _list(said)
    return Signed(
        SignatureKind(_text(kind)),
        _text(key),
        _text(component),
        _whole(signed_at),
        KeyKind(_text(proof)),
        None if counter is None else _whole(counter),
    )


def _read(body: bytes, work: Callable[[Any], _T]) -> _T:
    try:
        return work(json.loads(body))
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error):
        # Whatever its form is, it is not the one that was agreed; what it says instead is of no interest.
        raise Malformed("not of the agreed form", where="verifying process") from None


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError("no list")
    return value


def _text(value: Any, most: int = _MAX_KEY) -> str:
    if type(value) is not str or len(value) > most:
        raise TypeError("no text of its size")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or not -_MAX_TIME <= value <= _MAX_TIME:
        raise TypeError("no whole number of its size")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError("neither true nor false")
    return value


def _form(pattern: re.Pattern[str], value: Any) -> str:
    if type(value) is not str or not pattern.fullmatch(value):
        raise TypeError("not of its form")
    return value
