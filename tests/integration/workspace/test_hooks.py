"""Webhooks at the edge of a workspace that runs: who is heard, what is refused before it is read, what is kept."""

import itertools
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from gitops_bot.forge.hooks.grammar import MAX_BODY
from gitops_bot.forge.signature import sign
from tests.contract.described import NODE
from tests.hook_stage import NEXT_SECRET, SECRET, comment_body, counts, grown, post, secret_file
from tests.served_stage import PATIENCE, Served, everything, serve, status_of
from tests.store_fixtures import SqliteTemplates

pytestmark = pytest.mark.xdist_group("served")
EXAMPLES = NODE / "webhooks-examples" / "api.github.com" / "index.json"
APP = 29310
PULL = json.dumps(
    {
        "action": "closed",
        "number": 3,
        "pull_request": {"number": 3, "draft": True},
        "repository": {"id": 77},
    }
).encode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, sqlite_templates: SqliteTemplates) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("hooks")
    paths = [str(secret_file(home)), str(secret_file(home, "second"))]
    settings = f"[forge]\napp_id = {APP}\nwebhook_secret_files = {json.dumps(paths)}\n"
    yield from serve(home, sqlite_templates, settings)


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory, sqlite_templates: SqliteTemplates) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("none"), sqlite_templates)


def raw(served: Served, fields: dict[str, str], chunks: Iterator[bytes], *, pause: float = 0.0) -> int:
    """Send a chunked body piece by piece; the status."""
    head = {"Host": f"localhost:{served.port}", "Transfer-Encoding": "chunked", **fields}
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE) as connection:
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        connection.sendall(f"POST /hooks/github HTTP/1.1\r\n{lines}\r\n".encode())
        try:
            for chunk in chunks:
                connection.sendall(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                time.sleep(pause)
        except ConnectionError:
            pass
        return status_of(everything(connection))


def fields(body: bytes, event: str = "pull_request") -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "X-Hub-Signature-256": sign(SECRET, body),
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "Connection": "close",
    }


def test_every_example_of_github_is_taken_and_none_acts_but_those_of_our_app(served: Served) -> None:
    """Nothing is a 5xx, and only installations of the configured App leave an entry."""
    examples = [
        (kind["name"], example)
        for kind in json.loads(EXAMPLES.read_text(encoding="utf-8"))
        for example in kind["examples"]
    ]
    assert len(examples) == 329
    before = counts(served.database)
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda one: post(served.url, one[0], json.dumps(one[1]).encode()).status_code, examples)
        )
    assert set(answers) == {202}
    ours = {
        json.dumps(one)
        for name, one in examples
        if name.startswith("installation") and one["installation"]["app_id"] == APP
    }
    changed = grown(before, counts(served.database))
    assert changed.pop("hook_deliveries") > 0
    assert changed == {"ledger": len(ours)}


@pytest.mark.parametrize(
    "signature",
    [
        None,
        "",
        "sha256=",
        "sha1=" + "0" * 40,
        sign(SECRET, PULL)[:-1],
        sign(SECRET, PULL) + "0",
        sign(SECRET, PULL).upper(),
        sign(SECRET, PULL + b" "),
        sign(b"", PULL),
        sign(b"another", PULL),
        "sha256=" + "\u00e9" * 64,
        f"{sign(SECRET, PULL)}, {sign(SECRET, PULL)}",
    ],
)
def test_a_delivery_without_our_signature_is_refused_before_it_is_read(served: Served, signature: str | None) -> None:
    before = counts(served.database)
    headers = {} if signature is None else {"X_Hub_Signature_256": signature.encode("utf-8").decode("latin-1")}
    answer = post(served.url, "pull_request", PULL, secret=None, **headers)
    assert answer.status_code == 401, answer.text
    no_json = post(served.url, "pull_request", b"no JSON at all", secret=None, **headers)
    assert no_json.status_code == 401, "nothing is parsed"
    assert grown(before, counts(served.database)) == {}


def test_a_signed_delivery_is_taken_and_kept_once(served: Served) -> None:
    """The twin: by its id, and under another id by its bytes, also when it comes again much later."""
    body, before = PULL + b" ", counts(served.database)
    for guid in ("one", "one", "another", "another"):
        assert post(served.url, "pull_request", body, guid=guid).status_code == 202
    assert grown(before, counts(served.database)) == {"hook_deliveries": 3}


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-16", ""]
)
def test_only_json_is_taken(served: Served, kind: str) -> None:
    body = b"payload=%7B%7D"
    assert post(served.url, "pull_request", body, Content_Type=kind).status_code == 415
    assert post(served.url, "pull_request", PULL, Content_Type="application/json; charset=UTF-8").status_code == 202


def test_another_event_s_name_over_signed_bytes_does_nothing(served: Served) -> None:
    """The name is not under the signature: bytes that do not look like it are dropped."""
    before = counts(served.database)
    comment = comment_body(77, 1, 5, "/capture-help")
    for event in ("pull_request", "check_run", "installation", "ping", "push", "unheard_of"):
        assert post(served.url, event, comment).status_code == 202
    assert post(served.url, "issue_comment", PULL).status_code == 202
    assert grown(before, counts(served.database)) == {}
    assert post(served.url, "issue_comment", comment).status_code == 202
    assert grown(before, counts(served.database)) == {"hook_deliveries": 2}, (
        "a comment elsewhere is known and left alone"
    )


@pytest.mark.parametrize("field", ["X_GitHub_Event", "X_GitHub_Delivery"])
@pytest.mark.parametrize("value", ["", "a b", "x" * 65, "../1"])
def test_names_of_events_and_deliveries_are_bounded(served: Served, field: str, value: str) -> None:
    assert post(served.url, "pull_request", PULL, **{field: value}).status_code == 400


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"a":1,"a":1}', b'{"a":NaN}', b"\xff", b"[" * 100_000])
def test_signed_bytes_that_are_no_object_are_refused_and_never_a_failure(served: Served, body: bytes) -> None:
    assert post(served.url, "pull_request", body).status_code == 400


@pytest.mark.parametrize("text", ["\U0001f680 /capture-help", "a\r\nb\r\n", "\u2028", "\\ud83d", "\x00"])
def test_any_text_is_signed_as_bytes(served: Served, text: str) -> None:
    assert post(served.url, "issue_comment", comment_body(77, 1, 6, text)).status_code == 202


def test_a_body_over_the_cap_is_refused_at_once_and_one_at_the_cap_is_not(served: Served) -> None:
    over = b"{}" + b" " * MAX_BODY
    assert post(served.url, "push", over).status_code == 413
    assert post(served.url, "push", over[:MAX_BODY]).status_code == 202


def test_thirty_megabytes_in_chunks_are_refused_on_the_way(served: Served) -> None:
    chunk = b" " * 65_536
    sent = itertools.count()

    def chunks() -> Iterator[bytes]:
        while next(sent) < 480:
            yield chunk

    assert raw(served, fields(b""), chunks()) == 413
    assert raw(served, fields(PULL), iter((PULL[:9], PULL[9:], b""))) == 202, "chunks as such are fine"


def test_who_sends_slowly_is_told_so_and_others_are_served_meanwhile(served: Served) -> None:
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(raw, served, fields(PULL), iter([b" "] * 30), pause=0.5)
        time.sleep(0.5)
        assert post(served.url, "pull_request", PULL).status_code == 202
        assert slow.result() == 408


def test_two_secrets_are_live_and_one_is_changed_while_it_runs(served: Served) -> None:
    """A rotation without a restart: for a while both sign, and what was taken away signs nothing."""
    path = served.folder.parent / "second"
    assert post(served.url, "push", b"{}", secret=NEXT_SECRET).status_code == 401
    path.write_bytes(NEXT_SECRET)
    os.utime(path, ns=(1, 1))
    time.sleep(0.3)
    for secret in (SECRET, NEXT_SECRET):
        assert post(served.url, "push", b"{}", secret=secret).status_code == 202
    path.unlink()
    time.sleep(0.3)
    assert post(served.url, "push", b"{}", secret=NEXT_SECRET).status_code == 401
    assert post(served.url, "push", b"{}", secret=SECRET).status_code == 202
    assert "secret" in served.log
    assert NEXT_SECRET.decode() not in served.log


def test_without_a_secret_there_is_no_webhook(without: Served) -> None:
    for secret in (None, b"", SECRET):
        assert post(without.url, "push", b"{}", secret=secret).status_code == 404


def test_only_posting_is_served(served: Served) -> None:
    answer = requests.get(f"{served.url}/hooks/github", timeout=60)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
