"""Conditional listings of a repository: its comments oldest change first, its pull requests newest change first.

Nothing is kept between two calls: times and ETags are the caller's, and both are the forge's own. An ETag belongs to a
token; under another one it is answered 200 once (GitHub REST, conditional requests).
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from gitops_bot.core.readings import CommentHint, CommentPage, PullPage, PullRequest
from gitops_bot.forge import answers
from gitops_bot.forge.transport import Answer, Transport

PER_PAGE: Final = 100
MAX_PAGES: Final = 100
ENOUGH_PAGES: Final = 10
"""A listing ends early after so many pages, so that what is held at a time stays small."""
PROGRESS_MS: Final = 60_000
"""But not before it came so far beyond its start, or the next one would begin where this one did."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def comments_since(wire: Transport, path: str, repository_id: int, since: int, etag: str | None) -> CommentPage:
    """List comments updated at or after `since` (milliseconds), oldest first.

    The ETag is sent for the first page and given back only where that was the only one: comments are appended at the
    end, so an unchanged first page says nothing about a second one. The next page begins at the last time that was
    seen, not at a count: while pages are read an edited comment leaves its place and shifts the others.
    """
    found: dict[tuple[int, int], CommentHint] = {}
    begun = since - since % 1000
    start, page, kept, newest = begun, 1, None, None
    for turn in range(MAX_PAGES):
        headers = {"If-None-Match": etag} if etag and turn == 0 else {}
        answer = _comments(wire, path, start, page, headers)
        if answer.status == 304:
            return CommentPage((), unchanged=True, etag=etag, newest=None)
        listed = [(row, answers.hint(row, repository_id)) for row in answers.rows(answer.data)]
        found |= {
            (hint.comment_id, hint.updated_at): hint
            for row, hint in listed
            if not answers.is_on_plain_issue(row, hint.pull_request)
        }
        newest = listed[-1][1].updated_at if listed else newest
        if newest is None or not listed or not has_next(answer):
            kept = answer.headers.get("etag") if turn == 0 else None
            break
        if turn + 1 >= ENOUGH_PAGES and newest > begun + PROGRESS_MS:
            break
        start, page = (newest, 1) if newest > start else (start, page + 1)
    ordered = tuple(sorted(found.values(), key=lambda hint: (hint.updated_at, hint.comment_id)))
    return CommentPage(ordered, unchanged=False, etag=kept, newest=newest)


def _comments(wire: Transport, path: str, since: int, page: int, headers: Mapping[str, str]) -> Answer:
    moment = (_EPOCH + timedelta(milliseconds=since)).strftime("%Y-%m-%dT%H:%M:%SZ")
    query: dict[str, str | int] = {"sort": "updated", "direction": "asc", "since": moment}
    query |= {"per_page": PER_PAGE, "page": page}
    return wire.send("GET", path, query=query, headers=headers, also=(304,))


def pulls_since(wire: Transport, path: str, since: int | None, etag: str | None) -> PullPage:
    """List pull requests that changed at or after `since` (milliseconds), newest change first; None: the first page.

    Every change moves its pull request to the first page, so the ETag of that page speaks for all of them.
    """
    query: dict[str, str | int] = {"state": "all", "sort": "updated", "direction": "desc", "per_page": PER_PAGE}
    found: dict[int, PullRequest] = {}
    kept, newest = None, None
    for page in range(1, MAX_PAGES + 1):
        headers = {"If-None-Match": etag} if etag and page == 1 else {}
        answer = wire.send("GET", path, query={**query, "page": page}, headers=headers, also=(304,))
        if answer.status == 304:
            return PullPage((), unchanged=True, etag=etag, newest=None)
        rows = [(answers.milliseconds(row, "updated_at"), row) for row in answers.rows(answer.data)]
        if page == 1:
            kept, newest = answer.headers.get("etag"), rows[0][0] if rows else None
        for at, row in rows:
            if since is None or at >= since:
                read = answers.pull_request(row)
                found.setdefault(read.number, read)
        if since is None or not rows or rows[-1][0] < since or not has_next(answer):
            break
    return PullPage(tuple(found.values()), unchanged=False, etag=kept, newest=newest)


def has_next(answer: Answer) -> bool:
    """Tell whether a listing goes on."""
    return 'rel="next"' in answer.headers.get("link", "")
