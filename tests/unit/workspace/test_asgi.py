"""What is answered in front of Flask is as guarded as what Flask answers."""

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

from tests.unit.workspace.conftest import Workplace
from workspace.asgi import Turned, turn_away
from workspace.guards import ALWAYS, NO_PAGE


def turned(away: Turned) -> tuple[dict[str, str], dict[str, Any]]:
    """Turn a request away; give the headers and the document."""
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(turn_away(send, away))
    names = [name.decode() for name, _ in sent[0]["headers"]]
    assert len(names) == len(set(names)), "each header once"
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return headers, json.loads(sent[1]["body"])


def test_the_edge_and_flask_guard_an_answer_alike(workplace: Workplace) -> None:
    """One source of the headers: a value that is changed changes for both."""
    headers, document = turned(Turned(431, "Too much.", "limit_exceeded"))
    flask = workplace.client.get("/nowhere").headers
    for name in (*ALWAYS, "Content-Security-Policy", "Cache-Control", "Content-Type"):
        assert headers[name.lower()] == flask[name], name
    assert headers["content-security-policy"] == NO_PAGE
    assert (document["status"], document["reason"]) == (431, "limit_exceeded")


def test_what_is_added_for_one_answer_stands_beside_them() -> None:
    headers, _ = turned(Turned(503, "Later.", headers={"retry-after": "1"}))
    assert (headers["retry-after"], headers["x-frame-options"], headers["connection"]) == ("1", "DENY", "close")
