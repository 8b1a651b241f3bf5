"""The scores of a loop as places in a picture: what is drawn is decided here, a template writes the SVG. Pure.

Scores are compared only inside one stretch, so each has its own line, and a boundary stands between two. What is no
finite number is left out of the picture and stays in the table.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 720
HEIGHT: Final = 280
LEFT: Final = 64
RIGHT: Final = 16
TOP: Final = 28
BOTTOM: Final = 28
TICKS: Final = 4
MOST_POINTS: Final = 500
"""So many scores are drawn, the newest; the rest stays in the table's pages."""
_LOG_FROM: Final = 30.0
"""Where the largest score is so many times the smallest, the axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class Score:
    """One measured score, in the judge's unit. `kept`: it was the best so far, and the loop kept the change."""

    value: float
    kept: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """What may be compared: one regime's baseline and the scores measured after it; `label` is a short name."""

    label: str
    baseline: float | None
    scores: tuple[Score, ...] = ()


@dataclass(frozen=True, slots=True)
class Dot:
    """A score in the picture. `mark` is `baseline`, `kept` or `dropped`; `number` the stretch, from 1."""

    x: float
    y: float
    mark: str
    number: int


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the grid and what is written at it."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch's place: from `x` on, `width` wide; `path` joins its best so far ('': fewer than two scores)."""

    x: float
    width: float
    label: str
    number: int
    path: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture: sizes in its own units, and `summary`, which says in words what it shows."""

    width: int
    height: int
    bands: tuple[Band, ...]
    dots: tuple[Dot, ...]
    ticks: tuple[Tick, ...]
    summary: str


def draw(stretches: Sequence[Stretch], unit: str = "", *, least: bool = True) -> Drawing | None:
    """Place the scores, `least` the better where a smaller score is; None when there is nothing to place."""
    shown = _newest([_finite(one) for one in stretches])
    values = [value for one in shown for value, _ in _points(one)]
    if not values:
        return None
    scale = _Scale(min(values), max(values))
    step = (WIDTH - LEFT - RIGHT) / (sum(max(1, len(list(_points(one)))) for one in shown) + len(shown))
    bands: list[Band] = []
    dots: list[Dot] = []
    at = float(LEFT)
    for number, one in enumerate(shown, 1):
        points = list(_points(one))
        places = [at + step * (index + 1) for index in range(len(points))]
        here = [Dot(x, scale.place(value), mark, number) for x, (value, mark) in zip(places, points, strict=True)]
        wide = step * (max(1, len(points)) + 1)
        bands.append(Band(_round(at), _round(wide), one.label, number, _path(points, places, scale, least=least)))
        dots.extend(Dot(_round(dot.x), _round(dot.y), dot.mark, number) for dot in here)
        at += wide
    ticks = tuple(Tick(_round(scale.place(value)), f"{value:.4g}") for value in scale.ticks())
    return Drawing(WIDTH, HEIGHT, tuple(bands), tuple(dots), ticks, _summary(shown, values, unit))


def finite(text: object) -> float | None:
    """Read a score as it was stored; None for what is no finite number."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        return None
    try:
        value = float(text)
    except (ValueError, OverflowError):
        return None
    # Outside of this the arithmetic of the axis would leave the doubles; no judge measures there.
    return value if value == 0 or 1e-100 < abs(value) < 1e100 else None


def _finite(one: Stretch) -> Stretch:
    kept = tuple(score for score in one.scores if finite(score.value) is not None)
    return Stretch(one.label, finite(one.baseline), kept)


def _newest(stretches: Sequence[Stretch]) -> list[Stretch]:
    left, shown = MOST_POINTS, []
    for one in reversed(stretches):
        if left <= 0:
            break
        scores = one.scores[-left:]
        shown.append(Stretch(one.label, one.baseline, scores))
        left -= len(scores) + 1
    return shown[::-1]


def _points(one: Stretch) -> Iterator[tuple[float, str]]:
    if one.baseline is not None:
        yield one.baseline, "baseline"
    for score in one.scores:
        yield score.value, "kept" if score.kept else "dropped"


def _path(points: list[tuple[float, str]], places: list[float], scale: "_Scale", *, least: bool) -> str:
    if len(points) < 2:
        return ""
    best, said = None, []
    for (value, _), x in zip(points, places, strict=True):
        better = best is None or (value < best if least else value > best)
        if best is None:
            said.append(f"M{_round(x)} {_round(scale.place(value))}")
        else:
            said.append(f"H{_round(x)}")
            if better:
                said.append(f"V{_round(scale.place(value))}")
        best = value if better else best
    return "".join(said)


def _summary(stretches: Sequence[Stretch], values: list[float], unit: str) -> str:
    many = len(stretches)
    said = f"{len(values)} score{'' if len(values) == 1 else 's'} in {many} segment{'' if many == 1 else 's'}"
    unit = f" {unit}" if unit else ""
    return f"{said}, from {min(values):.4g} to {max(values):.4g}{unit}. Compared only inside a segment."


def _round(value: float) -> float:
    return round(value, 1)


class _Scale:
    """The vertical axis: where a score is placed, and the lines of the grid."""

    def __init__(self, low: float, high: float) -> None:
        largest = max(abs(low), abs(high))
        self._log = low > 0 and high / low > _LOG_FROM
        # Scores that differ in their last digits only would leave no room for a grid.
        room = (high - low) * 0.06 if high - low > largest * 1e-6 else largest * 0.1 or 1.0
        self._low, self._high = (low / 1.2, high * 1.2) if self._log else (low - room, high + room)

    def place(self, value: float) -> float:
        low, high = self._low, self._high
        share = math.log(value / low) / math.log(high / low) if self._log else (value - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def ticks(self) -> Iterator[float]:
        low, high = self._low, self._high
        if self._log:
            first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
            for exponent in range(first, last + 1, max(1, (last - first) // TICKS)):
                yield 10.0**exponent
            return
        step = _nice((high - low) / TICKS)
        first = math.ceil(low / step)
        for count in range(first, first + 2 * TICKS):
            if count * step <= high:
                yield count * step


def _nice(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next((nice * power for nice in (1, 2, 5) if step <= nice * power), 10 * power)
