"""A gated action on its way out: the exact bytes an executor gets, what is known after an attempt, and what follows.

`execution_body` gives nothing but bytes whose hash was approved (I17). `next_step` is the whole rule of I12: what may
have reached the outside is called again only where the receiver dedupes, and ends as unknown elsewhere. Committing
`attempting` before each call, and applying the rule after it and after a crash, is the caller's work.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NewType

from gitops_bot.core.canonical import Digest, action_hash, canonical
from gitops_bot.core.errors import Malformed, Reason, Refused, Unavailable, refuse

PROTOCOL: Final = "gitops-bot/execution/v1"
CHECK_PROTOCOL: Final = "gitops-bot/execution-check/v1"
"""A body of this protocol names no action: whoever gets it does nothing but remember its key."""

ExecutionKey = NewType("ExecutionKey", str)
"""What the receiver tells two calls apart by: the id of the grant, or of the ask."""
_KEY: Final = re.compile(r"[0-9a-z][0-9a-z:._-]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Done:
    """The action was done, now or (`dup`) earlier under the same key. `text` is the receiver's, escaped, untrusted."""

    text: str
    dup: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The receiver said that nothing was done, or nothing was asked of it; `code` where a closed reason says why."""

    reason: str
    code: Reason | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may have been done or not, and must not be called again; a person looks."""

    reason: str


ExecutionResult = Done | Failed | Unknown


class NothingDone(Unavailable):
    """An attempt that certainly did nothing: it was not begun, or the receiver said to come later. Another may follow,
    whether or not the receiver dedupes."""


class Known(StrEnum):
    """What is known of one attempt."""

    DONE = "done"
    FAILED = "failed"
    UNCLEAR = "unclear"
    NOTHING_DONE = "nothing done"


class Step(StrEnum):
    """What follows an attempt: its end, or the same call again, later, with the same key and body."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    AGAIN = "again"


NEXT: Final[Mapping[tuple[Known, bool, bool], Step]] = MappingProxyType(
    {
        # (known of this attempt, the executor dedupes, an earlier attempt was unclear)
        (Known.DONE, True, False): Step.DONE,
        (Known.DONE, True, True): Step.DONE,
        (Known.DONE, False, False): Step.DONE,
        (Known.DONE, False, True): Step.DONE,
        (Known.FAILED, True, False): Step.FAILED,
        # A refusal may come from what stands before the receiver's memory of keys: the earlier attempt stays unclear.
        (Known.FAILED, True, True): Step.UNKNOWN,
        (Known.FAILED, False, False): Step.FAILED,
        (Known.FAILED, False, True): Step.UNKNOWN,
        (Known.UNCLEAR, True, False): Step.AGAIN,
        (Known.UNCLEAR, True, True): Step.AGAIN,
        (Known.UNCLEAR, False, False): Step.UNKNOWN,
        (Known.UNCLEAR, False, True): Step.UNKNOWN,
        (Known.NOTHING_DONE, True, False): Step.AGAIN,
        (Known.NOTHING_DONE, True, True): Step.AGAIN,
        (Known.NOTHING_DONE, False, False): Step.AGAIN,
        (Known.NOTHING_DONE, False, True): Step.UNKNOWN,
    }
)


def next_step(known: Known, *, idempotent: bool, unclear_before: bool) -> Step:
    """Decide what follows an attempt. One that a crash left as `attempting` is `Known.UNCLEAR`."""
    return NEXT[known, idempotent, unclear_before]


def may_call(*, idempotent: bool, unclear_before: bool, same_receiver: bool) -> bool:
    """Tell whether an attempt may begin. After an unclear one only a receiver that dedupes, and the very same one, may
    be called: an executor that was adopted meanwhile knows nothing of the key. Otherwise it ends as unknown."""
    return not unclear_before or (idempotent and same_receiver)


def given_up(*, unclear: bool) -> Step:
    """Decide how an effect ends whose attempts are used up; `unclear` when any of them was."""
    return Step.UNKNOWN if unclear else Step.FAILED


def known_of(came: ExecutionResult | Unavailable) -> Known:
    """Tell what an executor's result, or the error it raised, says of the attempt."""
    match came:
        case Done():
            return Known.DONE
        case Failed():
            return Known.FAILED
        case NothingDone():
            return Known.NOTHING_DONE
        case Unknown() | Unavailable():
            return Known.UNCLEAR


def execution_key(text: str) -> ExecutionKey:
    """Check a key, which becomes a header's value.

    Raises:
        Malformed: anything but 1 to 128 of `0`-`9`, `a`-`z`, `:`, `.`, `_` and `-`, the first a digit or letter.
    """
    if _KEY.fullmatch(text) is None:
        raise Malformed("1 to 128 of 0-9, a-z, ':', '.', '_' and '-'", where="execution key")
    return ExecutionKey(text)


def execution_body(action: bytes, approved: Digest, key: ExecutionKey) -> bytes | Refused:
    """Give the whole body of a call: the stored action's bytes as they are, their hash, and the key. It is canonical
    when the action is. The hash is computed here, from the bytes that leave; that a warrant stands is *not* checked."""
    found = action_hash(action)
    if found != approved:
        return refuse(Reason.BYTES_DIFFER, "The stored action is not the one that was approved.", approved=approved)
    tail = canonical({"action_hash": found, "key": key, "protocol": PROTOCOL})
    return b'{"action":' + action + b"," + tail[1:]


def check_body(key: ExecutionKey) -> bytes:
    """Give the body of a conformance check, which asks for nothing to be done."""
    return canonical({"key": key, "protocol": CHECK_PROTOCOL})
