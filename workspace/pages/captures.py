"""The captures, and each with its regime, its knobs, and the scores of the loops that wait for it as a plot."""

from typing import Final

from flask import Blueprint, abort, request

from gitops_bot.api.grammar import ID
from gitops_bot.authority.captures_read import Segment, capture_shown, captures_page
from gitops_bot.store import asks
from workspace.capturing import may_cancel
from workspace.pages.frame import open_page
from workspace.pages.meanings import regime_words
from workspace.pages.plot import Score, Stretch, draw

captures: Final = Blueprint("captures", __name__)

ROWS: Final = 50


@captures.get("/captures")
def every() -> str:
    """List the captures, newest first."""
    before = request.args.get("before", "")
    before = before if ID.fullmatch(before) else ""
    with open_page() as page:
        found = captures_page(page.tx, before or None, ROWS)
        return page.show("captures/list.html", captures=found.rows, next=found.next, before=before)


@captures.get("/captures/<capture_id>")
def one(capture_id: str) -> str:
    """Show one capture whole."""
    with open_page() as page:
        shown = capture_shown(page.tx, capture_id) if ID.fullmatch(capture_id) else None
        if shown is None:
            abort(404)
        ask = None if shown.row.ask is None else asks.get(page.tx, shown.row.ask)
        drawing = draw([stretch_of(segment) for segment in shown.segments])
        cancel = may_cancel(page.tx, shown.row.id, page.name)
        return page.show("captures/one.html", shown=shown, capture=shown.row, ask=ask, drawing=drawing, cancel=cancel)


def stretch_of(segment: Segment) -> Stretch:
    """Give a segment as the plot takes it."""
    scores = tuple(Score(one.score, one.kept) for one in segment.scores)
    return Stretch(regime_words(segment.regime), segment.baseline_score, scores)
