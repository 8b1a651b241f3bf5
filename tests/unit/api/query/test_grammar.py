"""Each parameter of a person's list has one form; a refusing case stands beside its accepting twin."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gitops_bot.api.query.grammar import (
    parse_agents,
    parse_export,
    parse_inbox,
    parse_ledger,
    parse_newest,
    parse_thread,
)
from gitops_bot.core.errors import Malformed

ULID = "01j9zs4v7k8m2q3r5t6w7x8y9z"
Query = dict[str, str]


def test_the_filters_of_an_inbox_are_read() -> None:
    read = parse_inbox(
        {"agent": "a", "verb": "capture.approve", "kind": "approval", "risk": "high", "channel": "forge", "text": "x",
         "snoozed": "1", "before": ULID, "limit": "7"}
    )  # fmt: skip
    assert (read.agent, read.verb, read.kind, read.risk, read.channel) == (
        "a",
        "capture.approve",
        "approval",
        "high",
        "forge",
    )
    assert (read.text, read.snoozed, read.before, read.limit) == ("x", True, ULID, 7)
    least = parse_inbox({"agent": "", "risk": ""})
    assert (least.agent, least.risk, least.snoozed, least.before, least.limit) == (None, None, False, None, 50)


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        (parse_inbox, {"kind": "gated"}, {"kind": "GATED"}),
        (parse_inbox, {"risk": "low"}, {"risk": "lowest"}),
        (parse_inbox, {"channel": "signed"}, {"channel": "mail"}),
        (parse_inbox, {"agent": "a-b"}, {"agent": "a b"}),
        (parse_inbox, {"text": "x" * 200}, {"text": "x" * 201}),
        (parse_inbox, {"text": "%_"}, {"text": "\x00"}),
        (parse_inbox, {"before": ULID}, {"before": "0"}),
        (parse_inbox, {"limit": "200"}, {"limit": "201"}),
        (parse_inbox, {"limit": "1"}, {"limit": "0"}),
        (parse_inbox, {}, {"after": ULID}),
        (parse_newest, {"before": ULID}, {"before": "x"}),
        (parse_newest, {"limit": "9"}, {"after": ULID}),
        (parse_agents, {"after": "a"}, {"after": "A"}),
        (parse_thread, {"after": "12"}, {"after": "12."[::-1]}),
        (parse_thread, {"after": f"12.{ULID}"}, {"after": f"12.{ULID}0"}),
        (parse_export, {"after": "9007199254740991"}, {"after": "9007199254740992"}),
        (parse_export, {"after": "0"}, {"after": "-1"}),
        (parse_export, {"after": "10"}, {"after": "01"}),
        (parse_ledger, {"kind": "ask.opened"}, {"kind": "ASK"}),
        (parse_ledger, {"principal": "alice"}, {"principal": "Alice"}),
        (parse_ledger, {"since": "5", "until": "6"}, {"since": "yesterday"}),
        (parse_ledger, {"ask": ULID, "agent": "a", "before": "3", "limit": "5"}, {"by": "alice"}),
    ],
)
def test_each_parameter_has_its_form(read: Callable[[Mapping[str, str]], Any], good: Query, bad: Query) -> None:
    read(good)
    with pytest.raises(Malformed):
        read(bad)
