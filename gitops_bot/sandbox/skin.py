"""What every route shares: the call it is given, the answer it gives, how fields are read and lists are paged.

Knows no Flask: `http` turns a request into a `Call` and an `Answer` into a response, and holds the lock meanwhile.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import urlencode

from gitops_bot.sandbox.records import Account, Repository, Role, Session
from gitops_bot.sandbox.refusals import Rejected, invalid, not_found
from gitops_bot.sandbox.world import World

T = TypeVar("T")

Json = Mapping[str, object]

PER_PAGE: Final = 30
PER_PAGE_LIMIT: Final = 100


@dataclass(frozen=True, slots=True)
class Call:
    """One authenticated request: who asks, and the path, query and JSON body as they came."""

    world: World
    session: Session
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Json

    @property
    def account(self) -> Account:
        """Who asks."""
        return self.world.model.directory.accounts[self.session.account_id]

    def number(self, name: str) -> int:
        """Read a number of the path.

        Raises:
            Rejected: 404, it is none.
        """
        text = self.path[name]
        if not (text.isascii() and text.isdigit() and len(text) <= 15):
            raise not_found()
        return int(text)

    def repository(self, needed: Role = Role.READ) -> Repository:
        """Find the repository of the path, by name or id, for who holds a role in it.

        Raises:
            Rejected: 404 or 403.
        """
        directory = self.world.model.directory
        if "repository_id" in self.path:
            found = directory.repositories.get(self.number("repository_id"))
        else:
            found = directory.repository_named(f"{self.path['owner']}/{self.path['repo']}")
        if found is None:
            raise not_found()
        directory.require(found, self.session.account_id, needed)
        return found


@dataclass(frozen=True, slots=True)
class Answer:
    """What a route gives back; `payload` None is an empty body."""

    status: int
    payload: object
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """A method, a path in GitHub's notation (`{ref...}` takes slashes), and what answers it.

    `creates`: it makes content, of which a secondary limit allows less than of other writes. `by_app`: it is for an
    app that shows its JWT, and for no token.
    """

    method: str
    path: str
    answer: Callable[[Call], Answer]
    creates: bool = False
    by_app: bool = False

    @property
    def resource(self) -> str:
        """The rate limit that it counts against."""
        return "graphql" if self.path == "/graphql" else "core"


def text_field(body: Json, name: str, resource: str) -> str:
    """Read a field that must be a text.

    Raises:
        Rejected: 422, it is absent or no text.
    """
    found = optional_text(body, name, resource)
    if found is None:
        raise invalid(resource, name, "missing_field")
    return found


def optional_text(body: Json, name: str, resource: str) -> str | None:
    """Read a field that may be absent or null.

    Raises:
        Rejected: 422, it is there and no text, or holds a lone surrogate.
    """
    found = body.get(name)
    if found is None:
        return None
    if not isinstance(found, str) or any("\ud800" <= letter <= "\udfff" for letter in found):
        raise invalid(resource, name, "invalid")
    return found


def flag_field(body: Json, name: str, resource: str) -> bool:
    """Read a field that is true, false or absent (false).

    Raises:
        Rejected: 422, it is something else.
    """
    found = body.get(name, False)
    if not isinstance(found, bool):
        raise invalid(resource, name, "invalid")
    return found


def object_list(body: Json, name: str, resource: str) -> Sequence[Json]:
    """Read a field that must be a list of objects.

    Raises:
        Rejected: 422, it is something else.
    """
    found = body.get(name)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise invalid(resource, name, "invalid")
    return found


def choice(query: Mapping[str, str], name: str, allowed: Sequence[str]) -> str:
    """Read a query parameter of a closed list; its first value when absent.

    Raises:
        Rejected: 422, it is none of them.
    """
    found = query.get(name, allowed[0])
    if found not in allowed:
        raise Rejected(422, f"Invalid value for parameter {name!r}")
    return found


def page_of(call: Call, repository: Repository, rest: str, items: Sequence[T]) -> tuple[list[T], dict[str, str]]:
    """Cut one page out of a list, and give the `Link` header for its neighbours.

    `rest` is the path below the repository; links name the repository by id, as GitHub's do. `per_page` beyond 100 is
    100; a page or size that is no positive number is the default.
    """
    size = min(_positive(call.query.get("per_page"), PER_PAGE), PER_PAGE_LIMIT)
    page = _positive(call.query.get("page"), 1)
    last = max(1, -(-len(items) // size))
    links = [("prev", min(page - 1, last))] if page > 1 else []
    if page < last:
        links += [("next", page + 1), ("last", last)]
    if page > 1:
        links.append(("first", 1))
    there = f"{call.world.url}/repositories/{repository.id}{rest}"
    written = (f'<{there}?{urlencode({**call.query, "page": str(number)})}>; rel="{name}"' for name, number in links)
    header = ", ".join(written)
    return list(items[(page - 1) * size : page * size]), ({"Link": header} if header else {})


def _positive(text: str | None, default: int) -> int:
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 9):
        return default
    return int(text) or default
