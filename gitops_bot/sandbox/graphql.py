"""A small GraphQL: reads one operation of the shapes that clients of the forge send, and runs it over plain objects.

Pure. Knows queries, mutations, variables, aliases, arguments and inline fragments; no named fragments, directives or
introspection but `__typename`. The objects (`Thing`) and the roots come from `routes.graphql`. Cost is linear in the
query, which is capped in length and depth.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

LENGTH_LIMIT: Final = 20_000
DEPTH_LIMIT: Final = 20

_TOKEN: Final = re.compile(
    r'[\s,\ufeff]+|#[^\n]*|(\.\.\.|[$!():={}\[\]@|&]|-?[0-9]+|[_A-Za-z][_A-Za-z0-9]*|"(?:[^"\\\n]|\\.)*")'
)


class QueryError(Exception):
    """A query that is not answered; `type` is GitHub's error type, such as NOT_FOUND."""

    def __init__(self, message: str, kind: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable where a value stands."""

    name: str


@dataclass(frozen=True, slots=True)
class Selection:
    """A field with its alias and arguments, or (name empty) an inline fragment on a type."""

    name: str
    key: str
    arguments: Mapping[str, object]
    selections: tuple["Selection", ...] | None
    on_type: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: its kind and fields, and which variables it must be given."""

    kind: str
    selections: tuple[Selection, ...]
    required: frozenset[str]
    defaults: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Thing:
    """An object that can be asked: its type name, and values (or functions of the arguments) by field."""

    typename: str
    fields: Mapping[str, object] = field(default_factory=dict)
    interfaces: frozenset[str] = frozenset()


Arguments = Mapping[str, object]
Resolver = Callable[[Arguments], object]


class _Reader:
    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_LIMIT:
            raise QueryError("Query is too long")
        self.tokens: list[str] = []
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise QueryError(f'Expected one of SCHEMA, actual: "{text[place]}" at position {place}')
            if match[1] is not None:
                self.tokens.append(match[1])
            place = match.end()
        self.place = 0

    def peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise QueryError(f'Expected "{wanted or "more"}", actual: "{token or "end of query"}"')
        self.place += 1
        return token

    def name(self) -> str:
        token = self.take()
        if not re.fullmatch(r"[_A-Za-z][_A-Za-z0-9]*", token):
            raise QueryError(f'Expected a name, actual: "{token}"')
        return token

    def operation(self) -> Operation:
        kind = "query"
        required: set[str] = set()
        defaults: dict[str, object] = {}
        if self.peek() != "{":
            kind = self.name()
            if kind not in {"query", "mutation"}:
                raise QueryError(f'Operation type "{kind}" is not supported')
            if self.peek() not in {"(", "{"}:
                self.name()
            if self.peek() == "(":
                self._variables(required, defaults)
        selections = self.selection_set(0)
        if self.peek():
            raise QueryError("Only one operation is supported")
        return Operation(kind, selections, frozenset(required), defaults)

    def _variables(self, required: set[str], defaults: dict[str, object]) -> None:
        self.take("(")
        while self.peek() != ")":
            self.take("$")
            name = self.name()
            self.take(":")
            while self.peek() == "[":
                self.take()
            self.name()
            must = False
            while self.peek() in {"]", "!"}:
                must = self.take() == "!"
            if self.peek() == "=":
                self.take()
                defaults[name] = self.value(0)
            elif must:
                required.add(name)
        self.take(")")

    def selection_set(self, depth: int) -> tuple[Selection, ...]:
        if depth > DEPTH_LIMIT:
            raise QueryError("Query is too deep")
        self.take("{")
        found = []
        while self.peek() != "}":
            found.append(self.selection(depth))
        self.take("}")
        if not found:
            raise QueryError("Field must have selections")
        return tuple(found)

    def selection(self, depth: int) -> Selection:
        if self.peek() == "...":
            self.take()
            self.take("on")
            return Selection("", "", {}, on_type=self.name(), selections=self.selection_set(depth + 1))
        key = name = self.name()
        if self.peek() == ":":
            self.take()
            name = self.name()
        arguments: dict[str, object] = {}
        if self.peek() == "(":
            self.take()
            while self.peek() != ")":
                argument = self.name()
                self.take(":")
                arguments[argument] = self.value(depth)
            self.take(")")
        inner = self.selection_set(depth + 1) if self.peek() == "{" else None
        return Selection(name, key, arguments, inner)

    def value(self, depth: int) -> object:
        if depth > DEPTH_LIMIT:
            raise QueryError("Query is too deep")
        word = self.take()
        if word == "$":
            return Variable(self.name())
        if word == "[":
            items = []
            while self.peek() != "]":
                items.append(self.value(depth + 1))
            self.take("]")
            return items
        if word == "{":
            members = {}
            while self.peek() != "}":
                name = self.name()
                self.take(":")
                members[name] = self.value(depth + 1)
            self.take("}")
            return members
        if word[0] == '"':
            return _string(word)
        if re.fullmatch(r"-?[0-9]{1,15}", word):
            return int(word)
        if word in {"true", "false", "null"}:
            return {"true": True, "false": False, "null": None}[word]
        if re.fullmatch(r"[_A-Za-z]\w*", word):
            return word
        raise QueryError(f'Expected a value, actual: "{word}"')


def _string(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        raise QueryError(f"Bad string {token[:40]}") from None


def parse(text: str) -> Operation:
    """Read one operation.

    Raises:
        QueryError: the text is none, or too long or deep.
    """
    return _Reader(text).operation()


def execute(operation: Operation, variables: Arguments, root: Thing) -> dict[str, object]:
    """Give what an operation selects from a root object.

    Raises:
        QueryError: a variable is missing, a field does not exist, or a resolver says no.
    """
    values = {**operation.defaults, **variables}
    missing = sorted(name for name in operation.required if values.get(name) is None)
    if missing:
        raise QueryError(f"Variable ${missing[0]} was provided invalid value")
    return _select(root, operation.selections, values)


def _select(thing: Thing, selections: Sequence[Selection], values: Arguments) -> dict[str, object]:
    out: dict[str, object] = {}
    for selection in selections:
        if selection.on_type is not None:
            if selection.on_type == thing.typename or selection.on_type in thing.interfaces:
                out |= _select(thing, selection.selections or (), values)
            continue
        if selection.name == "__typename":
            out[selection.key] = thing.typename
            continue
        if selection.name not in thing.fields:
            raise QueryError(f"Field '{selection.name}' doesn't exist on type '{thing.typename}'")
        found = thing.fields[selection.name]
        if callable(found):
            found = found({name: _fill(value, values) for name, value in selection.arguments.items()})
        out[selection.key] = _complete(found, selection, values)
    return out


def _complete(found: object, selection: Selection, values: Arguments) -> object:
    if isinstance(found, Thing):
        if selection.selections is None:
            raise QueryError(f"Field must have selections (field '{selection.name}' returns {found.typename})")
        return _select(found, selection.selections, values)
    if isinstance(found, list | tuple):
        return [_complete(item, selection, values) for item in found]
    if selection.selections is not None and found is not None:
        raise QueryError(f"Selections can't be made on scalars (field '{selection.name}')")
    return found


def _fill(value: object, values: Arguments) -> object:
    if isinstance(value, Variable):
        return values.get(value.name)
    if isinstance(value, list):
        return [_fill(item, values) for item in value]
    if isinstance(value, dict):
        return {name: _fill(item, values) for name, item in value.items()}
    return value
