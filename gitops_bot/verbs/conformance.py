"""An executor that is declared idempotent proves it: the same key twice, and the second answer says `dup`.

What is sent asks for nothing to be done (`core.executions.check_body`), so that this may be run where real money moves.
An executor that is called at most once is never called for a check. That a real action is deduped as the check is, is
the receiver's word; docs/executors.md says how to make it one path.
"""

from dataclasses import dataclass

from gitops_bot.core.errors import Refused, Unavailable
from gitops_bot.core.executions import Done, ExecutionKey, ExecutionResult, Failed, Unknown, check_body
from gitops_bot.ports import Executor

_GUIDE = 'see docs/executors.md, "The check"'


@dataclass(frozen=True, slots=True)
class Conformance:
    """What a check found, in the form of a finding: whether it holds, what was seen, and the line that repairs it."""

    holds: bool
    detail: str
    fix: str = ""


def check_executor(executor: Executor, key: ExecutionKey, body: bytes | None = None) -> Conformance:
    """Call an idempotent executor twice with a key that was never used before; making it is the caller's work. `body`
    replaces the harmless one, for a test system that is to be checked with an action of its own."""
    try:
        refused = executor.check()
    except Unavailable as error:
        return Conformance(False, str(error), "repair it on this host")
    if isinstance(refused, Refused):
        fix = "put the pinned program back, or have its new digest adopted"
        return Conformance(False, f"{refused.reason}: {refused.detail}", fix)
    if not executor.idempotent:
        return Conformance(True, "declared at most once; not called")
    sent = check_body(key) if body is None else body
    for expected, number in ((False, "first"), (True, "second")):
        try:
            came = executor.execute(key, sent)
        except Unavailable as error:
            return Conformance(False, f"no answer to the {number} call: {error}", _GUIDE)
        fault = _fault(came, expected)
        if fault:
            return Conformance(False, f"{fault} (the {number} call)", _GUIDE)
    return Conformance(True, "answers `dup` to a key that it has seen")


def _fault(came: ExecutionResult, expected: bool) -> str:
    match came:
        case Done(_, dup) if dup is expected:
            return ""
        case Done(_, dup):
            known = "answers `dup` to a key that it cannot know"
            return known if dup else "does not answer `dup`, so it would do twice what it is asked twice"
        case Failed(reason) | Unknown(reason):
            return f"does not take the check: {reason}"
