"""What capture programs and keepers leave on disk: knobs of a known shape, or a refusal."""

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.capture.grammar import (
    MAX_KNOBS,
    End,
    last_line,
    read_end,
    read_job,
    read_job_name,
    read_knobs,
)
from gitops_bot.core.errors import Malformed
from tests.linear import assert_linear

JOB = {
    "v": 1, "token": "0f" * 16, "program": ["a", "b"], "timeout": 2.5,
    "cpu_seconds": None, "memory_bytes": 1, "file_bytes": None,
}  # fmt: skip


def test_knobs_are_read_and_other_members_left_alone() -> None:
    """The accepting twin; samples and errors of a fit may stand beside."""
    data = json.dumps({"v": 1, "knobs": {"MOCK_TTFT_MS": "12.5", "MOCK_A": "-3"}, "samples": {}}).encode()
    assert dict(read_knobs(data)) == {"MOCK_TTFT_MS": "12.5", "MOCK_A": "-3"}


@pytest.mark.parametrize(
    "value",
    [
        {}, [], {"knobs": {"MOCK_A": "1"}}, {"v": True, "knobs": {"MOCK_A": "1"}}, {"v": 1, "knobs": {}},
        {"v": 1, "knobs": {"MOCK_A": 1}}, {"v": 1, "knobs": {"MOCK_A": "nan"}}, {"v": 1, "knobs": {"MOCK_A": "1e9"}},
        {"v": 1, "knobs": {"MOCK_A": "1\n"}}, {"v": 1, "knobs": {"MOCK_A": "\u0661"}}, {"v": 1, "knobs": {"PATH": "1"}},
        {"v": 1, "knobs": {"MOCK_a": "1"}}, {"v": 1, "knobs": {f"MOCK_{n}": "1" for n in range(65)}},
    ],
)  # fmt: skip
def test_other_knobs_are_refused(value: object) -> None:
    """Knobs reach comments, files and simulations; only names and decimals do."""
    with pytest.raises(Malformed, match="knobs"):
        read_knobs(json.dumps(value).encode())


def test_a_member_twice_is_refused() -> None:
    """Two readers must not see two values."""
    with pytest.raises(Malformed, match="twice"):
        read_knobs(b'{"v":1,"knobs":{"MOCK_A":"1","MOCK_A":"2"}}')


def test_job_and_end_are_read_as_written() -> None:
    """The accepting twin of damaged records."""
    assert read_job(json.dumps(JOB).encode()).program == ("a", "b")
    assert read_end(b'{"v":1,"returncode":-9,"reason":null}') == End(-9, None)


@pytest.mark.parametrize(
    "change", [{"token": "x"}, {"token": "0f" * 16 + "\n"}, {"program": []}, {"program": [1]}, {"timeout": 0},
               {"timeout": True}, {"cpu_seconds": 1.5}, {"memory_bytes": True}],
)  # fmt: skip
def test_a_damaged_job_is_refused(change: dict[str, object]) -> None:
    """A token of another form could mark processes that are not the job's."""
    with pytest.raises(Malformed, match="job"):
        read_job(json.dumps({**JOB, **change}).encode())


@given(st.binary(max_size=300) | st.text(max_size=100).map(lambda text: json.dumps({"v": 1, "knobs": text}).encode()))
def test_nothing_but_malformed_leaves(data: bytes) -> None:
    """I20: whatever bytes are on the disk."""
    for read in (read_knobs, read_job, read_end):
        with contextlib.suppress(Malformed):
            read(data)


@given(
    st.dictionaries(
        st.sampled_from([*JOB, "knobs", "returncode", "reason"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers()),
    )
)
def test_nothing_but_malformed_leaves_for_any_object(value: dict[str, object]) -> None:
    """I20: members of any type."""
    for read in (read_knobs, read_job, read_end):
        with contextlib.suppress(Malformed):
            read(json.dumps(value).encode())


@given(st.text(max_size=90))
def test_a_job_name_is_a_plain_folder_name_or_refused(name: str) -> None:
    """No accepted name leaves its folder."""
    try:
        read_job_name(name)
    except Malformed:
        return
    assert "/" not in name
    assert name not in ("", ".", "..")
    assert name.isascii()


@given(st.binary(max_size=500))
def test_the_last_line_is_bounded_and_printable(output: bytes) -> None:
    """Whatever a program writes, a person's terminal is safe."""
    line = last_line(output)
    assert line.isprintable()
    assert len(line) <= 300 * 10


@pytest.mark.parametrize("knob", ['"MOCK_%d":"1"', '"%d":"1"'])
def test_knobs_cost_linear_time(knob: str) -> None:
    """At the size cap, four times the bytes cost about four times the work."""

    def build(size: int) -> Callable[[], object]:
        data = ('{"v":1,"knobs":{' + ",".join(knob % n for n in range(size // 20)) + "}}").encode()
        assert len(data) <= MAX_KNOBS

        def call() -> None:
            with pytest.raises(Malformed):
                read_knobs(data)

        return call

    assert_linear(build, MAX_KNOBS)
