"""What was said, and whether the receiver dedupes, give the result of an attempt; `next_step` of `core.executions` goes
on from there. One table for programs and addresses."""

from typing import assert_never

from gitops_bot.core.errors import Unavailable
from gitops_bot.core.executions import Done, ExecutionResult, Failed, NothingDone, Unknown
from gitops_bot.verbs.grammar import Said


def outcome(
    said: Said, reason: str, done: Done, *, idempotent: bool, retry_after: float | None = None
) -> ExecutionResult:
    """Give the result that stands for an answer; `done` where it was done, `reason` in every other case.

    Raises:
        NothingDone: the receiver says that nothing was done and to come later, and it dedupes.
        Unavailable: unclear, and it dedupes: the same call again finds out.
    """
    match said:
        case Said.DONE:
            return done
        case Said.REFUSED:
            return Failed(reason)
        case Said.BUSY:
            if idempotent:
                raise NothingDone(reason, retry_after=retry_after)
            return Failed(reason)
        case Said.LATER:
            return unclear(reason, idempotent=True, retry_after=retry_after) if idempotent else Failed(reason)
        case Said.UNCLEAR:
            return unclear(reason, idempotent=idempotent, retry_after=retry_after)
        case _:
            assert_never(said)


def unclear(reason: str, *, idempotent: bool, retry_after: float | None = None) -> Unknown:
    """End an attempt that may have been done: unknown, or another try where the receiver dedupes.

    Raises:
        Unavailable: it dedupes.
    """
    if idempotent:
        raise Unavailable(reason, retry_after=retry_after)
    return Unknown(reason)
