"""Who is declared idempotent says `dup` to a key that it has seen, and to no other."""

from dataclasses import dataclass, field

import pytest

from gitops_bot.core.errors import Reason, Refused, Unavailable, refuse
from gitops_bot.core.executions import Done, ExecutionKey, ExecutionResult, Failed, NothingDone, check_body
from gitops_bot.verbs.conformance import check_executor

KEY = ExecutionKey("check-01")


@dataclass
class Scripted:
    """An executor that gives its answers in turn."""

    answers: list[ExecutionResult | Unavailable]
    idempotent: bool = True
    fault: Refused | Unavailable | None = None
    calls: list[tuple[str, bytes]] = field(default_factory=list)

    def check(self) -> Refused | None:
        if isinstance(self.fault, Unavailable):
            raise self.fault
        return self.fault

    def execute(self, key: ExecutionKey, body: bytes) -> ExecutionResult:
        self.calls.append((key, body))
        answer = self.answers.pop(0)
        if isinstance(answer, Unavailable):
            raise answer
        return answer


def test_done_and_then_dup_holds() -> None:
    executor = Scripted([Done("ok"), Done("dup", dup=True)])
    assert check_executor(executor, KEY).holds
    assert executor.calls == [(KEY, check_body(KEY))] * 2


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([Done("ok"), Done("ok")], "would do twice"),
        ([Done("dup", dup=True), Done("dup", dup=True)], "cannot know"),
        ([Failed("400")], "does not take the check: 400"),
        ([Done("ok"), Failed("409")], "does not take the check: 409"),
        ([Unavailable("time-out")], "no answer to the first call: time-out"),
        ([Done("ok"), Unavailable("time-out")], "no answer to the second call"),
    ],
)
def test_everything_else_does_not(answers: list[ExecutionResult | Unavailable], said: str) -> None:
    found = check_executor(Scripted(answers), KEY)
    assert not found.holds
    assert said in found.detail
    assert found.fix


def test_who_is_called_at_most_once_is_not_called_for_a_check() -> None:
    executor = Scripted([], idempotent=False)
    assert check_executor(executor, KEY).holds
    assert executor.calls == []


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("fault", [refuse(Reason.BYTES_DIFFER, "replaced"), NothingDone("no such file")])
def test_a_replaced_or_missing_program_is_a_finding_before_any_call(
    fault: Refused | Unavailable, idempotent: bool
) -> None:
    executor = Scripted([], idempotent=idempotent, fault=fault)
    found = check_executor(executor, KEY)
    assert not found.holds
    assert executor.calls == []


def test_a_test_system_may_be_checked_with_an_action_of_its_own() -> None:
    executor = Scripted([Done("ok"), Done("dup", dup=True)])
    assert check_executor(executor, KEY, b"{}").holds
    assert [body for _, body in executor.calls] == [b"{}", b"{}"]
