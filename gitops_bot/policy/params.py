"""Parameters of a verb have a closed schema; a request's parameters fit it, or the one that does not is named.

Integers exclude booleans, free strings need a pattern, lists are flat. What cannot be shown to the person who decides
is refused whatever the schema says.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, assert_never, cast

from gitops_bot.core.canonical import MAX_INTEGER, canonical
from gitops_bot.core.errors import Malformed, Reason, Refused, refuse
from gitops_bot.policy.patterns import Pattern, compile_pattern
from gitops_bot.policy.tables import Table

UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Co", "Cn", "Cs"})
"""Character classes that a person cannot see, or sees as something else (signed-approvals, Request)."""
MAX_PARAMS: Final = 64
MAX_CHOICES: Final = 200
MAX_LIST: Final = 64
DEFAULT_LIST: Final = 16


@dataclass(frozen=True, slots=True)
class IntegerSpec:
    """An integer, bounds included."""

    at_least: int = -MAX_INTEGER
    at_most: int = MAX_INTEGER


@dataclass(frozen=True, slots=True)
class BooleanSpec:
    """true or false."""


@dataclass(frozen=True, slots=True)
class ChoiceSpec:
    """One of these strings."""

    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextSpec:
    """A string that the pattern matches in full."""

    pattern: Pattern


ScalarSpec = IntegerSpec | BooleanSpec | ChoiceSpec | TextSpec


@dataclass(frozen=True, slots=True)
class ListSpec:
    """A flat list of at most `at_most` items."""

    item: ScalarSpec
    at_most: int


ParamSpec = ScalarSpec | ListSpec


@dataclass(frozen=True, slots=True)
class Condition:
    """A tier's condition on one parameter: an integer inside both bounds, or a value that is one of `values`."""

    param: str
    at_least: int | None = None
    at_most: int | None = None
    values: tuple[str | bool, ...] = ()

    def holds(self, value: object) -> bool:
        """Tell whether a value that fits the schema meets the condition; another type never does."""
        if self.values:
            return any(type(value) is type(one) and value == one for one in self.values)
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        low = -MAX_INTEGER if self.at_least is None else self.at_least
        high = MAX_INTEGER if self.at_most is None else self.at_most
        return low <= value <= high


def printable(text: str) -> bool:
    """Tell whether every character of a text can be seen for what it is."""
    return not any(unicodedata.category(char) in UNPRINTABLE for char in text)


def read_spec(raw: object, where: str, *, nested: bool = False) -> ParamSpec:
    """Read what one parameter may be: exactly one of `integer`, `boolean`, `one_of`, `match` and `list`.

    Raises:
        Malformed: none or several of them, or bounds that nothing fits.
    """
    kinds = ("integer", "boolean", "one_of", "match") + (() if nested else ("list",))
    table = Table(raw, where, (*kinds, "ge", "le", "max"))
    named = [kind for kind in kinds if kind in table]
    if len(named) != 1:
        raise Malformed(f"must have exactly one of {', '.join(kinds)}", where=where)
    extras = {"integer": {"ge", "le"}, "list": {"max"}}.get(named[0], set())
    for key in ("ge", "le", "max"):
        if key in table and key not in extras:
            raise Malformed(f"{key} has no meaning beside {named[0]}", where=where)
    match named[0]:
        case "integer":
            return _read_integer(table)
        case "boolean":
            _must_be_true(table, "boolean")
            return BooleanSpec()
        case "one_of":
            return ChoiceSpec(_read_choices(table))
        case "match":
            return TextSpec(compile_pattern(table.text("match"), where=table.at("match")))
        case _:
            return _read_list(table)


def _must_be_true(table: Table, key: str) -> None:
    if not table.flag(key):
        raise Malformed(f"{key} can only be true; leave it out otherwise", where=table.where)


def _read_integer(table: Table) -> IntegerSpec:
    _must_be_true(table, "integer")
    spec = IntegerSpec(table.integer_or("ge", -MAX_INTEGER), table.integer_or("le", MAX_INTEGER))
    if not -MAX_INTEGER <= spec.at_least <= spec.at_most <= MAX_INTEGER:
        raise Malformed("ge and le must leave a range inside ±(2^53−1)", where=table.where)
    return spec


def _read_choices(table: Table) -> tuple[str, ...]:
    choices = table.texts("one_of")
    if not 0 < len(choices) <= MAX_CHOICES or not all(choice and printable(choice) for choice in choices):
        raise Malformed(f"one_of needs 1 to {MAX_CHOICES} printable strings", where=table.where)
    return choices


def _read_list(table: Table) -> ListSpec:
    item = read_spec(table.raw("list"), table.at("list"), nested=True)
    at_most = table.integer_or("max", DEFAULT_LIST)
    if isinstance(item, ListSpec) or not 0 < at_most <= MAX_LIST:
        raise Malformed(f"max must be from 1 to {MAX_LIST}", where=table.where)
    return ListSpec(item, at_most)


def check_closed(specs: Mapping[str, ParamSpec], params: Mapping[str, object]) -> Refused | None:
    """Hold parameters against a closed schema: every one there, none beside, each fitting."""
    for name in params:
        if name not in specs:
            detail = f"The parameter {ascii(name)[1:-1][:80]} is not in the verb's schema."
            return refuse(Reason.BAD_PARAMS, detail, param=ascii(name)[1:-1][:80])
    for name, spec in specs.items():
        if name not in params:
            return refuse(Reason.BAD_PARAMS, f"The parameter {name} is missing.", param=name)
        fault = _fault(spec, params[name])
        if fault is not None:
            return refuse(Reason.BAD_PARAMS, f"{name} {fault}.", param=name)
    return None


def _fault(spec: ParamSpec, value: object) -> str | None:
    match spec:
        case IntegerSpec():
            if isinstance(value, bool) or not isinstance(value, int):
                return "must be an integer"
            return None if spec.at_least <= value <= spec.at_most else f"must be {_span(spec)}"
        case BooleanSpec():
            return None if isinstance(value, bool) else "must be true or false"
        case ChoiceSpec():
            fits = isinstance(value, str) and value in spec.choices
            return None if fits else f"must be one of {', '.join(spec.choices)}"[:400]
        case TextSpec():
            fits = isinstance(value, str) and spec.pattern.matches(value)
            return None if fits else f"must match {spec.pattern.text}"
        case ListSpec():
            if not isinstance(value, list | tuple):
                return "must be a list"
            items = cast("list[object]", value)
            if len(items) > spec.at_most:
                return f"must have at most {spec.at_most} items"
            faults = (_fault(spec.item, item) for item in items)
            return next((f"holds an item that {fault}" for fault in faults if fault is not None), None)
        case _:
            assert_never(spec)


def _span(spec: IntegerSpec) -> str:
    low = "" if spec.at_least == -MAX_INTEGER else f"at least {spec.at_least}"
    high = "" if spec.at_most == MAX_INTEGER else f"at most {spec.at_most}"
    return " and ".join(part for part in (low, high) if part) or "inside ±(2^53−1)"


def check_values(params: object) -> Refused | None:
    """Hold parameters against what every action must be: canonical values whose strings and names can be shown."""
    if not isinstance(params, Mapping):
        return refuse(Reason.BAD_PARAMS, "Parameters are an object.")
    try:
        canonical(params)
    except Malformed as error:
        return refuse(Reason.BAD_PARAMS, f"The parameters hold {error.message}.")
    hidden = _hidden(cast("Mapping[str, object]", params))
    if hidden is not None:
        name, char = hidden
        return refuse(Reason.UNPRINTABLE, param=ascii(name)[:80], character=f"U+{ord(char):04X}")
    return None


def _hidden(params: Mapping[str, object]) -> tuple[str, str] | None:
    """Find the first character that cannot be shown, with the parameter it stands in."""
    pending: list[tuple[str, object]] = [(name, {name: value}) for name, value in params.items()]
    while pending:
        name, value = pending.pop()
        if isinstance(value, str):
            for char in value:
                if unicodedata.category(char) in UNPRINTABLE:
                    return name, char
        elif isinstance(value, Mapping):
            pairs = cast("Mapping[str, object]", value)
            pending += [(name, key) for key in pairs] + [(name, inner) for inner in pairs.values()]
        elif isinstance(value, list | tuple):
            pending += [(name, inner) for inner in cast("list[object]", value)]
    return None
