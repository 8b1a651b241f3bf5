"""The rows of `tests/vectors/signed.toml` with the plays that act them out, so that a row without one fails a test.

A play gets a court and whether to commit the fault; it returns the commit that is judged. Played without the fault it
is the accepting twin: the same set-up counts.
"""

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet

from tests.signed_court import COUNTED, HELD, Accused, Court

ROWS: Final[dict[str, dict[str, str]]] = tomllib.loads((Path(__file__).parent / "vectors" / "signed.toml").read_text())
COUNTS_ONCE: Final = "counts once"
HELD_THEN_COUNTS: Final = "held, then counts once"
Play = Callable[[Court, bool, Any], Accused]


@dataclass(frozen=True, slots=True)
class Case:
    """One way to do what a row says."""

    table: str
    row: str
    name: str
    play: Play
    value: Any
    first: bool = True
    """Whether it is the first of its row's variants; the others are left to `make test`: `make check` is quick."""
    twin: bool = True
    """Whether this one has a twin of its own: where the sound play is the same for all variants, the first has."""

    def __str__(self) -> str:
        return f"{self.row[:48]}-{self.name}" if self.name else self.row[:60]

    @property
    def code(self) -> str:
        """What the row says: the code that is blamed, or what happens instead."""
        return ROWS[self.table][self.row]

    def act(self, court: Court, *, fault: bool) -> Accused:
        """Play it."""
        return self.play(court, fault, self.value)


@dataclass(slots=True)
class Table:
    """The plays of one table."""

    name: str
    cases: list[Case] = field(default_factory=list)

    def row(self, text: str, *, one_twin: bool = False, **variants: Any) -> Callable[[Play], Play]:
        """Register a play for a row, once for each variant, whose value it is given. With `one_twin` the play without
        the fault does not look at the value."""
        assert text in ROWS[self.name], f"no row {text!r} in the table {self.name}"

        def register(play: Play) -> Play:
            for place, (name, value) in enumerate((variants or {"": None}).items()):
                first = not any(case.row == text for case in self.cases)
                self.cases.append(Case(self.name, text, name, play, value, first, not (one_twin and place)))
            return play

        return register

    def of(self, *codes: str) -> list[Case]:
        """Give the cases whose row says one of these."""
        return [case for case in self.cases if case.code in codes]

    @property
    def refused(self) -> list[Case]:
        """Give the cases whose row names a code."""
        return [case for case in self.cases if case.code not in (COUNTS_ONCE, HELD_THEN_COUNTS)]

    @property
    def twins(self) -> list[Case]:
        """Give the cases to be played without the fault."""
        return [case for case in self.cases if case.twin]

    @property
    def missing(self) -> Iterable[str]:
        """Name the rows that nothing plays."""
        return ROWS[self.name].keys() - {case.row for case in self.cases}


def acted(cases: Iterable[Case]) -> list[ParameterSet]:
    """Give cases as parameters of a test."""
    return [pytest.param(case, id=str(case), marks=() if case.first else pytest.mark.slow) for case in cases]


def check_blamed(case: Case, court: Court) -> None:
    """Play the fault: it is refused with the row's code and no other, and nothing of it counts."""
    accused = case.act(court, fault=True)
    court.look()
    assert court.outcome(accused) == case.code
    assert court.counted(accused) <= accused.before
    court.look()
    assert court.outcome(accused) == case.code, "a second look judges otherwise"


def check_twin(case: Case, court: Court) -> None:
    """Play it without the fault: it counts, once."""
    accused = case.act(court, fault=False)
    for _ in range(2):
        court.look()
        assert court.outcome(accused) == COUNTED
        assert court.counted(accused) == accused.before + 1


def check_counts_once(case: Case, court: Court) -> None:
    """Play the fault: it changes nothing; the vote counts, and counts once."""
    accused = case.act(court, fault=True)
    for _ in range(2):
        court.look()
        assert court.outcome(accused) == COUNTED
        assert court.counted(accused) == 1


def check_held(case: Case, court: Court) -> None:
    """Play the fault: nothing is refused or counted; when the tool is back, the vote counts once."""
    accused = case.act(court, fault=True)
    for _ in range(2):
        court.look()
        assert court.outcome(accused) == HELD
        assert court.counted(accused) == 0
    court.repair()
    for _ in range(2):
        court.look()
        assert court.outcome(accused) == COUNTED
        assert court.counted(accused) == 1
