"""The plot of scores: what is placed where, for any scores that a loop may have told of."""

import math

from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.captures import CaptureState
from tests.unit.workspace.pages.conftest import Desk
from tests.unit.workspace.pages.reading import read
from tests.unit.workspace.pages.rows import Filled
from workspace.pages.meanings import CAPTURES, cause_words, regime_words
from workspace.pages.plot import HEIGHT, MOST_POINTS, WIDTH, Score, Stretch, draw, finite

VALUES = st.floats(allow_nan=True, allow_infinity=True)
STRETCHES = st.lists(
    st.builds(
        Stretch,
        st.text(max_size=5),
        st.none() | VALUES,
        st.lists(st.builds(Score, VALUES, st.booleans()), max_size=6).map(tuple),
    ),
    max_size=6,
)


@given(STRETCHES)
def test_whatever_was_measured_stays_inside_the_picture(stretches: list[Stretch]) -> None:
    drawing = draw(stretches)
    if drawing is None:
        return
    assert all(0 <= dot.x <= WIDTH and 0 <= dot.y <= HEIGHT for dot in drawing.dots)
    assert all(0 <= tick.at <= HEIGHT for tick in drawing.ticks)
    assert len(drawing.ticks) <= 12
    assert all(math.isfinite(band.x) and 0 <= band.x <= band.x + band.width <= WIDTH + 1 for band in drawing.bands)
    assert [band.x for band in drawing.bands] == sorted(band.x for band in drawing.bands)


def test_nothing_measured_is_no_picture() -> None:
    assert draw([]) is None
    assert draw([Stretch("a", None), Stretch("b", math.nan, (Score(math.inf, True),))]) is None


def test_a_smaller_score_stands_lower_and_the_best_so_far_only_falls() -> None:
    drawing = draw([Stretch("a", 40.0, (Score(30.0, True), Score(50.0, False)))])
    assert drawing is not None
    first, better, worse = drawing.dots
    assert better.y > first.y > worse.y
    assert [dot.mark for dot in drawing.dots] == ["baseline", "kept", "dropped"]
    assert drawing.bands[0].path == f"M{first.x} {first.y}H{better.x}V{better.y}H{worse.x}"
    greatest = draw([Stretch("a", 40.0, (Score(30.0, True), Score(50.0, False)))], least=False)
    assert greatest is not None
    assert greatest.bands[0].path.endswith(f"V{worse.y}")


def test_lines_do_not_cross_from_one_segment_into_the_next() -> None:
    drawing = draw([Stretch("a", 40.0, (Score(30.0, True),)), Stretch("b", 90.0, (Score(80.0, True),))])
    assert drawing is not None
    assert all(band.path.startswith("M") and band.path.count("M") == 1 for band in drawing.bands)
    assert drawing.summary == "4 scores in 2 segments, from 30 to 90. Compared only inside a segment."


def test_the_newest_scores_are_drawn_when_there_are_too_many() -> None:
    many = [Stretch("old", 1.0), Stretch("new", 5.0, tuple(Score(float(one), True) for one in range(2 * MOST_POINTS)))]
    drawing = draw(many)
    assert drawing is not None
    assert len(drawing.dots) <= MOST_POINTS + 1
    assert [band.label for band in drawing.bands] == ["new"]


def test_only_finite_numbers_are_scores() -> None:
    assert finite("41.5") == 41.5
    assert finite(3) == 3.0
    assert [finite(one) for one in ("nan", "inf", "1e999", "x", None, True, "1e200", 10**400)] == [None] * 8


def test_the_picture_is_told_in_words_and_beside_it_in_a_table(desk: Desk, filled: Filled) -> None:
    page = read(desk.page(f"/captures/{filled.capture}"))
    (picture,) = (one for one in page.every("svg"))
    assert picture.attributes["role"] == "img"
    assert picture.attributes["aria-labelledby"] == "plot-title plot-desc"
    text = desk.page(f"/captures/{filled.capture}")
    assert "2 scores in 3 segments, from 41.5 to 96.25" in text
    assert "not measured" in text
    assert "Segments as a table" in text
    assert text.count('class="bound"') == 2


def test_a_capture_that_is_not_there_is_said_not_to_be(desk: Desk, filled: Filled) -> None:
    for capture in ("x", "0" * 26, filled.capture.upper(), "..%2f"):
        assert desk.open(f"/captures/{capture}").status_code == 404, capture


def test_every_state_and_cause_has_words_and_an_unknown_one_is_shown_as_itself() -> None:
    assert set(CAPTURES) == set(CaptureState)
    assert cause_words("EXPIRED").word == "expired"
    assert cause_words("no_way_back").meaning == "Nothing could be woken by the answer, so the ask is refused."
    assert cause_words("stirred_up").word == "stirred up"
    assert regime_words(None) == "the regime that it began with"
    assert regime_words("not a trace id") == "not a trace id"
    long = "model=a/b;c=4;p=2;mt=8;lt=512;lf=0.2500"
    assert regime_words(long) == "a/b: 4 at once, 2 prefixes, 8 tokens out, 0.2500 of them 512 long"
