"""Node ids and times go out and come back; foreign text gives None and costs nothing."""

from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.sandbox.records import Node, node_id, read_node_id, read_timestamp, timestamp


@given(st.sampled_from(Node), st.lists(st.integers(0, 2**53), min_size=1, max_size=3))
def test_a_node_id_finds_its_object_again(kind: Node, parts: list[int]) -> None:
    """What `node_id` gives, `read_node_id` reads, whatever the ids."""
    assert read_node_id(node_id(kind, *parts)) == (kind, tuple(str(part) for part in parts))


@given(st.text(max_size=60) | st.from_regex(r"IC_[A-Za-z0-9_-]{0,30}", fullmatch=True))
def test_foreign_text_is_no_node_id_and_never_an_error(text: str) -> None:
    """Any text is read as an id or as None."""
    read = read_node_id(text)
    assert read is None or isinstance(read[0], Node)


@given(st.integers(0, 4_000_000_000))
def test_a_time_keeps_its_second(seconds: int) -> None:
    """Times have the resolution of the REST answers."""
    assert read_timestamp(timestamp(seconds)) == seconds


def test_a_time_needs_its_zone() -> None:
    """A wall clock without a zone is no time; the same with Z or an offset is, cut to the second."""
    assert timestamp(1_700_000_000) == "2023-11-14T22:13:20Z"
    assert read_timestamp("2023-11-14T22:13:20.900Z") == 1_700_000_000
    assert read_timestamp("2023-11-15T00:13:20+02:00") == 1_700_000_000
    assert read_timestamp("2023-11-14T22:13:20") is None
    assert read_timestamp("yesterday") is None
