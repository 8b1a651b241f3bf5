"""Webhooks as a receiver on this machine gets them: signed, in GitHub's shape, once each, on bad days otherwise."""

import hashlib
import hmac
import json
import queue
import threading
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
from jsonschema import Draft7Validator

from tests.contract.described import FORMATS, NODE

REPOSITORY = "acme/judge"
SECRET = "between us"
SCHEMAS = NODE / "webhooks-schemas" / "schema.json"
EXAMPLES = NODE / "webhooks-examples" / "api.github.com" / "index.json"


class Receiver:
    """A server that keeps what it gets and answers as it is told."""

    def __init__(self) -> None:
        self.got: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()
        self.status = 202
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.put(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(receiver.status)
                self.send_header("Content-Length", "4")
                self.end_headers()
                self.wfile.write(b"kept")

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hooks/github"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def all(self) -> list[tuple[dict[str, str], dict]]:
        """Give what has come, parsed."""
        found = []
        while not self.got.empty():
            headers, body = self.got.get()
            found.append((headers, json.loads(body)))
        return found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()
    made.thread.join()


@pytest.fixture
def hook(forge, receiver: Receiver) -> int:
    """A webhook to the receiver, its ping taken."""
    made = forge.sandbox.add_hook(REPOSITORY, receiver.url, SECRET)
    assert forge.sandbox.wait_for_deliveries()
    ((headers, ping),) = receiver.all()
    assert (headers["x-github-event"], ping["hook_id"]) == ("ping", made)
    return made


@cache
def _schemas() -> dict:
    return json.loads(SCHEMAS.read_bytes())["definitions"]


def _check(name: str, payload: dict) -> None:
    if SCHEMAS.exists():
        schema = {"definitions": _schemas(), "$ref": f"#/definitions/{name}"}
        errors = Draft7Validator(schema, format_checker=FORMATS).iter_errors(payload)
        wrong = [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in errors]
        assert not wrong, f"{name}: {wrong[:10]}"


def test_comments_are_told_signed_and_in_github_s_shape(forge, hook: int, receiver: Receiver) -> None:
    """Created, edited (by somebody else), deleted; each under the signature of its raw bytes."""
    number = forge.draft().number
    assert forge.sandbox.wait_for_deliveries()
    receiver.all()
    made = forge.sandbox.comment(REPOSITORY, number, "carol", "/capture-status\n…é")
    forge.sandbox.edit_comment(REPOSITORY, made, "alice", "changed")
    forge.sandbox.delete_comment(REPOSITORY, made, "alice")
    assert forge.sandbox.wait_for_deliveries()
    raw = [receiver.got.get() for _ in range(3)]
    told = [(headers, json.loads(body)) for headers, body in raw]
    assert [payload["action"] for _, payload in told] == ["created", "edited", "deleted"]
    assert [payload["sender"]["login"] for _, payload in told] == ["carol", "alice", "alice"]
    assert told[1][1]["changes"] == {"body": {"from": "/capture-status\n…é"}}
    for headers, body in raw:
        expected = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        assert headers["x-hub-signature-256"] == expected
        assert (headers["x-github-event"], headers["content-type"]) == ("issue_comment", "application/json")
    assert len({headers["x-github-delivery"] for headers, _ in raw}) == 3
    for _, payload in told:
        assert payload["comment"]["id"] == made
        assert payload["issue"]["draft"] is True
        assert payload["issue"]["pull_request"]["url"].endswith("/pulls/1")
        assert "sha" not in json.dumps(payload["issue"]), "no head stands in a comment's event"
        _check(f"issue_comment${payload['action']}", payload)


def test_the_life_of_a_pull_request_is_told(forge, hook: int, receiver: Receiver) -> None:
    pull = forge.draft()
    asked = pull.head.sha
    forge.sandbox.set_draft(REPOSITORY, pull.number, "alice", False)
    forge.sandbox.set_draft(REPOSITORY, pull.number, "alice", True)
    head = forge.sandbox.push(REPOSITORY, pull.head.ref, {"more": b"x"}, "alice")
    pull.edit(title="Another title", body="another body")
    forge.sandbox.lock_thread(REPOSITORY, pull.number, login="alice")
    forge.sandbox.lock_thread(REPOSITORY, pull.number, locked=False)
    pull.edit(state="closed")
    pull.edit(state="open")
    forge.sandbox.set_draft(REPOSITORY, pull.number, "alice", False)
    forge.sandbox.merge(REPOSITORY, pull.number, "alice")
    assert forge.sandbox.wait_for_deliveries()
    told = [payload for _, payload in receiver.all()]
    assert [payload["action"] for payload in told] == [
        *("opened", "ready_for_review", "converted_to_draft", "synchronize", "edited", "locked", "unlocked"),
        *("closed", "reopened", "ready_for_review", "closed"),
    ]
    moved = told[3]
    assert (moved["before"], moved["after"], moved["sender"]["login"]) == (asked, head, "alice")
    assert moved["pull_request"]["head"]["sha"] == head
    assert told[4]["changes"] == {"title": {"from": "A capture"}, "body": {"from": "what it costs"}}
    assert [payload["pull_request"]["merged"] for payload in told if payload["action"] == "closed"] == [False, True]
    for payload in told:
        _check(f"pull_request${payload['action']}", payload)


def test_the_ping_is_in_github_s_shape(forge, receiver: Receiver) -> None:
    forge.sandbox.add_hook(REPOSITORY, receiver.url, SECRET)
    assert forge.sandbox.wait_for_deliveries()
    ((_, payload),) = receiver.all()
    assert payload["hook"]["config"]["secret"] == "********"
    _check("ping$event", payload)


@pytest.mark.slow
def test_no_member_of_the_published_examples_is_missing(forge, hook: int, receiver: Receiver) -> None:
    """Whatever stands in each of GitHub's own payloads stands in ours (their schema became stricter since)."""
    events = {event["name"]: event["examples"] for event in json.loads(EXAMPLES.read_bytes())}
    number = forge.draft().number
    forge.sandbox.comment(REPOSITORY, number, "carol", "text")
    assert forge.sandbox.wait_for_deliveries()
    for headers, ours in receiver.all():
        examples = events[headers["x-github-event"]]
        for part in (None, "comment", "issue", "pull_request", "repository", "sender"):
            theirs = [example if part is None else example[part] for example in examples if part in {None, *example}]
            mine = ours if part is None else ours.get(part, {})
            if theirs and mine:
                assert set.intersection(*map(set, theirs)) - set(mine) == set(), part


def test_nothing_is_sent_twice_by_itself(forge, hook: int, receiver: Receiver) -> None:
    """Not after a 500, and not where nobody listens; the log says how it went."""
    number = forge.draft().number
    assert forge.sandbox.wait_for_deliveries()
    receiver.all()
    receiver.status = 500
    forge.sandbox.comment(REPOSITORY, number, "carol", "one")
    assert forge.sandbox.wait_for_deliveries()
    assert len(receiver.all()) == 1
    newest = forge.sandbox.deliveries(REPOSITORY, hook)[0]
    assert (newest.status_code, newest.answered[1], newest.redelivery) == (500, "kept", False)


def test_a_delivery_is_sent_again_on_demand_with_its_id(forge, hook: int, receiver: Receiver) -> None:
    """Over REST, as an administrator: the log, one delivery, another attempt; same guid and bytes, fresh signature."""
    forge.sandbox.grant(REPOSITORY, "alice", "admin")
    number = forge.draft().number
    forge.sandbox.comment(REPOSITORY, number, "carol", "one")
    assert forge.sandbox.wait_for_deliveries()
    before = [receiver.got.get() for _ in range(2)][1]
    requester = forge.client("alice").requester
    here = f"/repos/{REPOSITORY}/hooks/{hook}/deliveries"
    _, listed = requester.requestJsonAndCheck("GET", here)
    assert [row["event"] for row in listed] == ["issue_comment", "pull_request", "ping"]
    _, shown = requester.requestJsonAndCheck("GET", f"{here}/{listed[0]['id']}")
    assert shown["request"]["payload"]["comment"]["body"] == "one"
    assert SECRET not in json.dumps(shown)
    forge.sandbox.change_hook(REPOSITORY, hook, secret="rotated")
    status, _, _ = requester.requestJson("POST", f"{here}/{listed[0]['id']}/attempts")
    assert status == 202
    assert forge.sandbox.wait_for_deliveries()
    headers, body = receiver.got.get()
    assert body == before[1]
    assert headers["x-github-delivery"] == before[0]["x-github-delivery"]
    assert headers["x-hub-signature-256"] == "sha256=" + hmac.new(b"rotated", body, hashlib.sha256).hexdigest()
    _, again = requester.requestJsonAndCheck("GET", here)
    assert (again[0]["guid"], again[0]["redelivery"], again[1]["redelivery"]) == (listed[0]["guid"], True, False)


def test_deliveries_are_lost_doubled_unsigned_and_out_of_order(forge, hook: int, receiver: Receiver) -> None:
    number = forge.draft().number
    assert forge.sandbox.wait_for_deliveries()
    receiver.all()

    def heard(*bodies: str) -> list[tuple[str, bool]]:
        for body in bodies:
            forge.sandbox.comment(REPOSITORY, number, "carol", body)
        assert forge.sandbox.wait_for_deliveries()
        return [(told["comment"]["body"], "x-hub-signature-256" in headers) for headers, told in receiver.all()]

    forge.sandbox.mishap("drop")
    assert heard("lost", "heard") == [("heard", True)]
    forge.sandbox.mishap("duplicate")
    assert heard("twice") == [("twice", True), ("twice", True)]
    forge.sandbox.mishap("unsigned")
    assert heard("bare") == [("bare", False)]
    forge.sandbox.hold_deliveries()
    assert heard("first", "second", "third") == []
    forge.sandbox.release_deliveries(backwards=True)
    assert heard("fourth") == [("third", True), ("second", True), ("first", True), ("fourth", True)]


def test_who_is_not_told(forge, hook: int, receiver: Receiver) -> None:
    """A hook that is off, another repository's, and comments on plain issues tell of no pull request."""
    forge.sandbox.add_repository("acme/other", 502)
    elsewhere = forge.sandbox.issue("acme/other", "carol", "Q")
    forge.sandbox.comment("acme/other", elsewhere, "carol", "x")
    forge.sandbox.change_hook(REPOSITORY, hook, active=False)
    forge.sandbox.comment(REPOSITORY, forge.sandbox.issue(REPOSITORY, "carol", "Q"), "carol", "x")
    assert forge.sandbox.wait_for_deliveries()
    assert receiver.all() == []
    forge.sandbox.change_hook(REPOSITORY, hook, active=True)
    forge.sandbox.comment(REPOSITORY, forge.sandbox.issue(REPOSITORY, "carol", "Q"), "carol", "x")
    assert forge.sandbox.wait_for_deliveries()
    ((_, told),) = receiver.all()
    assert "pull_request" not in told["issue"]
    _check("issue_comment$created", told)


@pytest.mark.parametrize(
    "url",
    [
        *("http://example.com/", "http://10.0.0.1/", "https://127.0.0.1/", "http://localhost.example.com/"),
        *(
            "http://127.0.0.1@example.com/",
            "http://user@127.0.0.1/",
            "file:///etc/passwd",
            "",
            "http://[::1",
            "x" * 2000,
        ),
    ],
)
def test_nothing_is_sent_off_this_machine(forge, receiver: Receiver, url: str) -> None:
    forge.sandbox.grant(REPOSITORY, "alice", "admin")
    headers = {"Authorization": f"token {forge.tokens['alice']}"}
    there = f"{forge.sandbox.url}/repos/{REPOSITORY}/hooks"
    body = {"config": {"url": url, "content_type": "json"}, "events": ["issue_comment"]}
    assert requests.post(there, json=body, headers=headers, timeout=60).status_code == 422
    body["config"]["url"] = receiver.url
    made = requests.post(there, json=body, headers=headers, timeout=60)
    assert made.status_code == 201
    assert requests.delete(f"{there}/{made.json()['id']}", headers=headers, timeout=60).status_code == 204
    assert forge.sandbox.wait_for_deliveries()


def test_only_an_administrator_sees_webhooks(forge, hook: int) -> None:
    headers = {"Authorization": f"token {forge.tokens['alice']}"}
    there = f"{forge.sandbox.url}/repos/{REPOSITORY}/hooks"
    for path in (there, f"{there}/{hook}", f"{there}/{hook}/deliveries"):
        assert requests.get(path, headers=headers, timeout=60).status_code == 403
        forge.sandbox.grant(REPOSITORY, "alice", "admin")
        assert requests.get(path, headers=headers, timeout=60).status_code == 200
        forge.sandbox.grant(REPOSITORY, "alice", "write")


def test_a_forge_that_closes_sends_no_more_and_waits_for_nobody(forge, hook: int, receiver: Receiver) -> None:
    """What was not sent by then is lost, as at GitHub on a bad day; polling repairs."""
    number = forge.draft().number
    assert forge.sandbox.wait_for_deliveries()
    receiver.all()
    forge.sandbox.hold_deliveries()
    for body in ("one", "two", "three"):
        forge.sandbox.comment(REPOSITORY, number, "carol", body)
    deliverer = forge.sandbox._deliverer
    with forge.sandbox.world.lock:  # the answer to the first cannot be logged meanwhile
        forge.sandbox.release_deliveries()
        receiver.got.get(timeout=60)  # the first has left before the forge begins to close
        closing = threading.Thread(target=forge.sandbox.close)
        closing.start()
        while not deliverer._closing:  # nor the second be taken up, before the forge has begun
            threading.Event().wait(0.01)
    closing.join(60)
    assert not closing.is_alive()
    assert receiver.all() == []
