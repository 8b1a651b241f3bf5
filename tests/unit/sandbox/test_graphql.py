"""The small GraphQL reads what clients send, says no to the rest, and stays linear."""

import contextlib
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.sandbox.graphql import LENGTH_LIMIT, QueryError, Thing, execute, parse
from tests.linear import assert_linear


def _root() -> Thing:
    def echo(given_: Mapping[str, object]) -> object:
        return str(given_)

    inner = Thing("Leaf", {"name": "leaf", "gone": None}, frozenset({"Node"}))
    return Thing("Query", {"leaf": inner, "leaves": [inner, inner], "echo": echo})


def test_fields_aliases_fragments_and_typename() -> None:
    """The whole shape of the queries that the clients send."""
    text = (
        "query Q($id: ID!) { a: leaf { __typename ... on Leaf { name } ... on Other { nope } gone } leaves { name } }"
    )
    expected = {"a": {"__typename": "Leaf", "name": "leaf", "gone": None}, "leaves": [{"name": "leaf"}] * 2}
    assert execute(parse(text), {"id": "x"}, _root()) == expected


def test_arguments_take_variables_and_literals() -> None:
    """Variables, defaults, lists, objects, strings with escapes, numbers, flags and names."""
    text = r'query($v: Int, $d: String = "def") { echo(a: $v, b: [1, {c: $d}], s: "x\"y", t: true, n: null, e: OPEN) }'
    answered = execute(parse(text), {"v": 3}, _root())["echo"]
    assert answered == str({"a": 3, "b": [1, {"c": "def"}], "s": 'x"y', "t": True, "n": None, "e": "OPEN"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{ }",
        "{ leaf }",
        "{ leaf { name { deeper } } }",
        "{ nothing }",
        "subscription { leaf { name } }",
        "{ leaf { name } } { leaf { name } }",
        "query($id: ID!) { leaf { name } }",
        "{ leaf(a: ) { name } }",
        "{ leaf @include(if: true) { name } }",
        '{ echo(a: "open) }',
        "{" * 30,
        "{ echo(a: " + "[" * 30 + "]" * 30 + ") }",
        "#" * (LENGTH_LIMIT + 1),
    ],
)
def test_a_bad_query_is_a_query_error(text: str) -> None:
    """Every fault has the one error; the tests above are its accepting twins."""
    with pytest.raises(QueryError):
        execute(parse(text), {}, _root())


@given(st.text(alphabet='{}()[]$!:=@.,"\\ \nabquery1-#…', max_size=200))
def test_nothing_but_its_error_leaves_it(text: str) -> None:
    """Whatever is sent (I20)."""
    with contextlib.suppress(QueryError):
        execute(parse(text), {}, _root())


def _reading(text: str) -> Callable[[], None]:
    def once() -> None:
        with contextlib.suppress(QueryError):
            parse(text)

    return once


@pytest.mark.parametrize("unit", ["a ", '"', '"\\', "-", "{a(b:", "...", "# ", "1", ", \ufeff"])
def test_reading_is_linear_at_the_cap(unit: str) -> None:
    """Four times the text costs about four times the time, with slack, for texts that a backtracking reader dreads."""
    whole = "{ " + unit * ((LENGTH_LIMIT - 4) // len(unit))
    assert_linear(lambda n: _reading(whole[:n]), LENGTH_LIMIT)
