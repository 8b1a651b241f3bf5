"""Bodies at the door: nothing but their typed error leaves them, whatever arrives, at a cost in the size of it."""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.api.door import grammar
from gitops_bot.core.errors import Malformed

READERS: Final[list[Callable[[bytes], Any]]] = [
    grammar.parse_nothing,
    grammar.parse_finish,
    grammar.parse_enrol,
    grammar.parse_label,
    grammar.parse_act,
    grammar.parse_confirming,
    grammar.parse_fresh,
    grammar.parse_shell,
    grammar.parse_take,
    grammar.parse_preferences,
    grammar.parse_read,
    grammar.parse_provided,
]
NAMES: Final = ("ceremony", "credential", "code", "label", "act", "fresh", "secret", "single_keys", "upto", "state")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=4),
    max_leaves=8,
)
bodies = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), values, max_size=4).map(
    lambda body: json.dumps(body).encode()
)


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
@given(raw=st.binary(max_size=200) | bodies)
def test_nothing_but_its_typed_error_leaves_it(read: Callable[[bytes], Any], raw: bytes) -> None:
    try:
        read(raw)
    except Malformed as error:
        assert error.where == "body"


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_a_body_larger_than_any_is_not_read(read: Callable[[bytes], Any]) -> None:
    for raw in (b" " * 70_000, b"[" * 65_000, b'{"act":' * 9_000, b'{"label":"' + b"x" * 66_000 + b'"}'):
        with pytest.raises(Malformed):
            read(raw)


ACCEPTED: Final[list[tuple[Callable[[bytes], Any], object, Any]]] = [
    (grammar.parse_enrol, {"code": " AB-CD ", "label": "my\n key"}, grammar.Enrol("AB-CD", "my key")),
    (grammar.parse_label, {}, ""),
    (grammar.parse_label, {"label": None, "fresh": None}, ""),
    (grammar.parse_act, {"act": {"act": "x"}}, {"act": "x"}),
    (grammar.parse_fresh, {"label": "x"}, None),
    (grammar.parse_fresh, {"fresh": {"ceremony": "a", "credential": {"x": 1.5}}}, grammar.Finish("a", {"x": 1.5})),
    (grammar.parse_shell, {"code": "ABCD-EFGH"}, "ABCD-EFGH"),
    (grammar.parse_take, {"secret": "x" * 43}, "x" * 43),
    (grammar.parse_preferences, {"single_keys": False}, False),
    (grammar.parse_read, {"upto": 7}, 7),
    (grammar.parse_provided, {"code": "4/x y", "state": "a.b"}, grammar.Provided("4/x y", "a.b")),
]


@pytest.mark.parametrize(("read", "body", "found"), ACCEPTED)
def test_what_is_meant_is_read(read: Callable[[bytes], Any], body: object, found: Any) -> None:
    assert read(json.dumps(body).encode()) == found


REFUSED: Final[list[tuple[Callable[[bytes], Any], object]]] = [
    (grammar.parse_nothing, {"x": 1}),
    (grammar.parse_finish, {"ceremony": "a"}),
    (grammar.parse_finish, {"ceremony": "a", "credential": []}),
    (grammar.parse_finish, {"ceremony": "a b", "credential": {}}),
    (grammar.parse_finish, {"ceremony": "a" * 129, "credential": {}}),
    (grammar.parse_finish, {"ceremony": "a", "credential": {}, "principal": "alice"}),
    (grammar.parse_enrol, {"code": "x", "label": "x" * 61}),
    (grammar.parse_enrol, {"label": "x"}),
    (grammar.parse_enrol, {"code": "x", "principal": "alice"}),
    (grammar.parse_act, {"act": {}}),
    (grammar.parse_act, {"act": {"x": 1.5}}),
    (grammar.parse_act, {"act": "x"}),
    (grammar.parse_fresh, {"fresh": {"ceremony": "a"}}),
    (grammar.parse_fresh, {"fresh": {"ceremony": "a", "credential": {}, "act": {}}}),
    (grammar.parse_take, {"secret": ""}),
    (grammar.parse_preferences, {"single_keys": 1}),
    (grammar.parse_preferences, {"single_keys": None}),
    (grammar.parse_read, {"upto": -1}),
    (grammar.parse_read, {"upto": True}),
    (grammar.parse_provided, {"code": "x\n", "state": "a"}),
    (grammar.parse_provided, {"code": "", "state": "a"}),
]


@pytest.mark.parametrize(("read", "body"), REFUSED)
def test_what_is_not_exactly_so_is_refused(read: Callable[[bytes], Any], body: object) -> None:
    with pytest.raises(Malformed):
        read(json.dumps(body).encode())
