"""The page for people who write agents says what is read, row by row, and an echo of it does nothing."""

import re
from pathlib import Path

from gitops_bot.core.asks import MAX_OPTIONS, MAX_TEXT
from gitops_bot.fleet.grammar import (
    MARKERS,
    MAX_ASKS,
    MAX_INFORMATIONAL,
    MAX_LINE,
    MAX_REPORT,
    MAX_SENDS,
    Outcome,
    Reader,
)

PAGE = (Path(__file__).parents[3] / "docs" / "agent-protocol.md").read_text(encoding="utf-8")


def test_the_pages_table_is_the_grammars_both_ways() -> None:
    cells = r"\| `([A-Z]+: .*)` \| (.*) \| (.*) \|"
    rows = [(line.replace("\\|", "|"), effect, when) for line, effect, when in re.findall(cells, PAGE)]
    assert rows == [(form.line, form.effect, form.when.value) for form in MARKERS]


def test_the_page_names_the_limits_and_every_outcome() -> None:
    assert (
        f"At most {MAX_ASKS} asks, {MAX_INFORMATIONAL} reports and notices together, and {MAX_SENDS} messages" in PAGE
    )
    assert f"2 to {MAX_OPTIONS} labels" in PAGE and f"over {MAX_LINE // 1024} KiB" in PAGE
    assert f"last {MAX_REPORT // 1024} KiB" in PAGE and f"over {MAX_TEXT:,} characters" in PAGE
    assert all(f"`{outcome.value}`" in PAGE for outcome in Outcome)


def test_a_page_that_is_said_again_does_nothing() -> None:
    reader = Reader()
    assert reader.feed(PAGE.encode()) == ()
    ended = reader.end()
    assert (ended.asks, ended.asked_outcome) == ((), False)
