"""What a route of the HTTP API says of itself, so that the OpenAPI document is generated from the code that answers.

A route under `/api/v1` without a description fails a test, and so does an answer that the description does not name.
Descriptions change nothing about what a route does: no value is checked here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar

Schema = Mapping[str, Any]
"""A JSON Schema (2020-12) as Python values."""

PERSON: Final = "person"
AGENT: Final = "agent"
ANYONE: Final = "anyone"
SCREENED: Final = frozenset({400, 414, 421, 431})
"""What the edge says of a request whose address, fields or host it does not take."""
JSON: Final = "application/json"
_ATTRIBUTE: Final = "__described__"
_NOTHING: Final[Mapping[str, Schema]] = MappingProxyType({})
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Media:
    """An answer that is no JSON: its content type, and a schema where one says something."""

    content_type: str
    schema: Schema = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True)
class Description:
    """One operation. `by`: who may call it (`person`, `agent`, `anyone`); `body` None: none is read; `answers`: what is
    sent for each status that means yes (None: no content); `refusals`: statuses beside those that follow from the rest
    (`statuses`)."""

    summary: str
    by: tuple[str, ...]
    answers: Mapping[int, Schema | Media | None]
    body: Schema | None = None
    optional_body: bool = False
    query: Mapping[str, Schema] = field(default_factory=dict)
    path: Mapping[str, Schema] = field(default_factory=dict)
    refusals: tuple[int, ...] = ()

    def statuses(self, *, in_path: bool, unsafe: bool) -> tuple[int, ...]:
        """Give every status that may be told as a problem document: what any such route may say, and its own."""
        told = {*SCREENED, 503, *self.refusals}
        if ANYONE not in self.by:
            told |= {401, 403}
        if in_path:
            told.add(404)
        if self.body is not None:
            told |= {413, 415, 422}
        if unsafe:
            # A body that nobody reads is refused by its size; the origin and the token of a page, by 403; floods.
            told |= {403, 408, 413, 429}
        # A query that the route does not know is refused as one that it cannot read.
        return tuple(sorted(told | {422}))


def described(
    summary: str,
    *,
    by: tuple[str, ...],
    answers: Mapping[int, Schema | Media | None],
    body: Schema | None = None,
    optional_body: bool = False,
    query: Mapping[str, Schema] = _NOTHING,
    path: Mapping[str, Schema] = _NOTHING,
    refusals: tuple[int, ...] = (),
) -> Callable[[F], F]:
    """Describe a view; put it under the route's decorator. `path` is for parameters that `openapi.PATH` leaves out."""
    description = Description(summary, by, answers, body, optional_body, query, path, refusals)

    def attach(view: F) -> F:
        setattr(view, _ATTRIBUTE, description)
        return view

    return attach


def description_of(view: object) -> Description | None:
    """Read what a view says of itself; None when it says nothing."""
    found = getattr(view, _ATTRIBUTE, None)
    return found if isinstance(found, Description) else None


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that another part than Flask answers (the edge). `path` as OpenAPI writes it."""

    method: str
    path: str
    name: str
    description: Description
