"""What was said gives the result; only a receiver that dedupes is ever called again after an unclear attempt."""

import pytest

from gitops_bot.core.errors import Unavailable
from gitops_bot.core.executions import Done, ExecutionResult, Failed, NothingDone, Unknown
from gitops_bot.verbs.grammar import Said
from gitops_bot.verbs.outcome import outcome

DONE = Done("paid")


def result(said: Said, idempotent: bool) -> ExecutionResult | Unavailable:
    try:
        return outcome(said, "why", DONE, idempotent=idempotent, retry_after=7.0)
    except Unavailable as error:
        return error


@pytest.mark.parametrize(
    ("said", "idempotent", "not_idempotent"),
    [
        (Said.DONE, DONE, DONE),
        (Said.REFUSED, Failed("why"), Failed("why")),
        (Said.BUSY, NothingDone, Failed("why")),
        (Said.LATER, Unavailable, Failed("why")),
        (Said.UNCLEAR, Unavailable, Unknown("why")),
    ],
)
def test_each_word_has_its_result(said: Said, idempotent: object, not_idempotent: ExecutionResult) -> None:
    assert result(said, False) == not_idempotent
    deduped = result(said, True)
    assert (type(deduped) if isinstance(deduped, Unavailable) else deduped) == idempotent


@pytest.mark.parametrize("said", [Said.BUSY, Said.UNCLEAR])
def test_a_wait_that_was_named_is_handed_on(said: Said) -> None:
    came = result(said, True)
    assert isinstance(came, Unavailable)
    assert came.retry_after == 7.0
