"""What a demo says about itself: sentences, the table of segments, a plot that a terminal can show."""

from gitops_bot.demo import telling
from gitops_bot.demo.scores import shortfall

SEGMENTS = (
    {"regime": "default", "baseline": 2000.0, "best": 250.0, "turns": 2, "round_robin": 2000.0,
     "scores": [(250.0, True), (260.0, False)]},
    {"regime": "c=48", "baseline": 400.0, "best": 200.0, "turns": 1, "round_robin": 1500.0, "scores": [(200.0, True)]},
)  # fmt: skip


def test_a_sentence_names_who_answered_and_what() -> None:
    """A person reads it, not a ledger; an entry of no interest is not told."""
    said = telling.sentence({"kind": "ask.answered", "facts": {"state": "DENIED", "by": ["alice"]}})
    assert said is not None
    assert "DENIED by alice" in said
    assert telling.sentence({"kind": "effect.done", "facts": {}}) is None


def test_a_sentence_without_its_facts_is_still_one() -> None:
    """An older or newer ledger entry costs a gap, not a demo."""
    assert telling.sentence({"kind": "forge.pull_request_opened", "facts": {}}) is not None


def test_the_table_sets_the_best_weights_beside_round_robin() -> None:
    """A line a segment, under one head."""
    head, first, second = telling.table(SEGMENTS)
    assert head.split()[:3] == ["regime", "round", "robin"]
    assert first.split()[:6] == ["1", "default", "2000.0", "2000.0", "250.0", "2"]
    assert second.endswith("87 % lower")


def test_the_plot_has_a_bar_between_segments_and_every_score() -> None:
    """Scores of two segments do not compare; the bar says so."""
    drawn = "\n".join(telling.plot(SEGMENTS))
    assert (drawn.count("o"), drawn.count("*"), drawn.count(" .")) == (3, 2, 1)  # one more o in `logarithmic`
    assert drawn.count("|") == 2 * telling.HEIGHT
    assert telling.plot(()) == []


def test_a_demo_that_does_not_beat_round_robin_says_so() -> None:
    """The accepting twin first."""
    assert shortfall(SEGMENTS) == ""
    assert "captured" in shortfall(SEGMENTS[:1])
    assert "round robin" in shortfall((SEGMENTS[0], {**SEGMENTS[1], "best": 1500.0}))
    assert "round robin" in shortfall((SEGMENTS[0], {**SEGMENTS[1], "round_robin": None}))
