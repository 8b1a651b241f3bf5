"""The demo's payee takes one transfer a key, writes down each call, and lets nobody in without its token."""

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.core.canonical import action_bytes, action_hash
from gitops_bot.core.executions import ExecutionKey, check_body, execution_body
from gitops_bot.demo.grammar import MAX_ORDER
from gitops_bot.demo.payee import PATH, Books, Server

ACTION = action_bytes("github.com/acme/ops", "demo", "payments.transfer", {"amount_minor": 1})
KEY = ExecutionKey("01jd0000000000000000000000")


def order(action: bytes = ACTION, key: ExecutionKey = KEY) -> bytes:
    """Give what an executor sends."""
    body = execution_body(action, action_hash(action), key)
    assert isinstance(body, bytes)
    return body


class Counter:
    """A payee, and whoever calls it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.server = Server(Books(file), "secret")

    def call(self, body: bytes, *, key: str = KEY, token: str = "secret", path: str = PATH) -> tuple[int, Any]:
        """Send a body; gives the status and the answer."""
        host, port = self.server.server_address[:2]
        connection = http.client.HTTPConnection(str(host), port, timeout=30)
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key, "Content-Type": "application/json"}
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        document = json.loads(answer.read())
        connection.close()
        return answer.status, document

    def books(self) -> list[dict[str, Any]]:
        """Read what was written down."""
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []


@pytest.fixture
def counter(tmp_path: Path) -> Iterator[Counter]:
    made = Counter(tmp_path / "books.jsonl")
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_a_key_pays_once_and_says_so(counter: Counter) -> None:
    assert counter.call(order()) == (200, {"booked": KEY})
    assert counter.call(order()) == (200, {"booked": KEY, "dup": True})
    assert [(one["paid"], one["action_hash"]) for one in counter.books()] == [
        (True, action_hash(ACTION)),
        (False, action_hash(ACTION)),
    ]
    assert counter.books()[0]["body"].encode() == order()


def test_a_key_with_another_body_is_refused_and_another_key_pays_again(counter: Counter) -> None:
    other = action_bytes("github.com/acme/ops", "demo", "payments.transfer", {"amount_minor": 2})
    assert counter.call(order())[0] == 200
    assert counter.call(order(other))[0] == 422
    assert counter.call(order(other, ExecutionKey("another")), key="another") == (200, {"booked": "another"})
    assert [one["paid"] for one in counter.books()] == [True, True]


def test_a_check_pays_nothing_and_its_key_is_remembered(counter: Counter) -> None:
    assert counter.call(check_body(KEY)) == (200, {"booked": KEY})
    assert counter.call(check_body(KEY)) == (200, {"booked": KEY, "dup": True})
    assert [one["paid"] for one in counter.books()] == [False, False]


@pytest.mark.parametrize(
    ("status", "body", "more"),
    [
        (401, order(), {"token": "guess"}),
        (404, order(), {"path": "/elsewhere"}),
        (400, order(), {"key": "another"}),
        (400, order().replace(b'"amount_minor":1', b'"amount_minor":9'), {}),
        (400, order().replace(b"execution/v1", b"execution/v9"), {}),
        (400, b"{}", {}),
        (413, b" " * (MAX_ORDER + 1), {}),
    ],
)
def test_what_is_no_order_of_the_broker_pays_nothing(
    counter: Counter, status: int, body: bytes, more: dict[str, str]
) -> None:
    assert counter.call(body, **more)[0] == status
    assert counter.books() == []
    assert counter.call(order())[0] == 200
