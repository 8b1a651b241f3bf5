"""Whatever strangers' bytes reach the signed channel, a value, a refusal or `Malformed` is all that comes of them.

In a normal run each subject is tried some thousand times from a fixed seed. With the profile `long` each is tried for
ten minutes from a seed of the moment, which is printed; `FUZZ_SECONDS` sets another time.
"""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.fuzz.fuzzer import Broken, Subject, Tally, fuzz
from tests.fuzz.subjects import subjects

EXECUTIONS: Final = 3_000
LONG: Final = 600.0


def _measure() -> tuple[str, Callable[[Tally], bool]]:
    seconds = float(os.environ.get("FUZZ_SECONDS", LONG if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 0))
    if not seconds:
        return "fixed", lambda tally: tally.executions >= EXECUTIONS
    return secrets.token_hex(8), lambda tally: tally.seconds >= seconds


@pytest.mark.slow
@pytest.mark.parametrize("subject", subjects(), ids=lambda subject: subject.name)
def test_only_typed_answers_come_of_any_bytes(subject: Subject, record_property: Callable[[str, object], None]) -> None:
    seed, enough = _measure()
    tally = fuzz(subject, seed, enough)
    told = f"{tally.executions:,} executions in {tally.seconds:.0f} s, {len(tally.behaviours)} behaviours, seed {seed}"
    record_property("fuzzed", f"{subject.name}: {told}")
    assert len(tally.behaviours) > 3


def test_an_input_that_raises_is_reported_and_kept() -> None:
    """Otherwise a fuzzer that never fails proves nothing."""

    def run(content: bytes) -> str:
        return str(1 // (len(content) - 5))

    subject = Subject("that fails", [b"abc"], run, lambda content: [content])
    with pytest.raises(Broken, match="ZeroDivisionError") as caught:
        fuzz(subject, "fixed", lambda tally: tally.executions >= 100_000)
    kept = Path(str(caught.value).rpartition(" ")[2])
    assert len(kept.read_bytes()) == 5
    kept.unlink()
