"""The event stream as it is served: everything that is sealed, in order, once, to people who are signed in and only as
long as they are."""

import concurrent.futures
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from gitops_bot.authority import sessions
from gitops_bot.core.ledger import Entry
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import ledger, suspensions
from gitops_bot.store.person_tables import SessionKind
from gitops_bot.store.roles import Role
from tests.served_stage import PATIENCE, Served, Stream, bearer, cookie, serve
from tests.store_fixtures import SqliteTemplates

pytestmark = pytest.mark.xdist_group("served")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, sqlite_templates: SqliteTemplates) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("events"), sqlite_templates)


def head_of(shared: Served) -> int:
    with shared.host.read() as tx:
        return ledger.head(tx).seq


def test_events_come_in_sealed_order_with_ids_only(shared: Served) -> None:
    _, secret = shared.person("alice")
    shared.seal()
    begun = head_of(shared)
    with Stream(shared.port, cookie(secret)) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert stream.headers["cache-control"] == "no-store"
        assert stream.next() == ("ready", begun, {"seq": begun})
        shared.tell("ask.opened", "ask.answered", "capture.ready", ask="01jdxm2r7q8v9w0a1b2c3d4e5f")
        found = stream.take(3)
    assert [one["seq"] for one in found] == [begun + 1, begun + 2, begun + 3]
    assert [one["kind"] for one in found] == ["ask.opened", "ask.answered", "capture.ready"]
    assert all(set(one) == {"seq", "kind", "ask", "agent", "capture"} for one in found)


def test_a_stream_goes_on_where_it_was(shared: Served) -> None:
    """By Last-Event-ID, which counts before `after`, and by `after`; and a place beyond the ledger is told."""
    _, secret = shared.person("alice")
    shared.tell("a.one", "a.two", "a.three")
    head = head_of(shared)
    for headers, query in (
        ({"Last-Event-ID": str(head - 2)}, ""),
        ({"Last-Event-ID": str(head - 2)}, "?after=0"),
        ({}, f"?after={head - 2}"),
    ):
        with Stream(shared.port, cookie(secret) | headers, query) as stream:
            assert [one["seq"] for one in stream.take(2)] == [head - 1, head]
    with Stream(shared.port, cookie(secret), f"?after={head + 1000}") as stream:
        assert stream.next() == ("reset", head, {"seq": head})
    for wrong in ("?after=-1", "?after=x", "?after=1&after=2", "?before=1", "?after=" + "9" * 30):
        with Stream(shared.port, cookie(secret), wrong) as stream:
            assert stream.status == 422


def test_nothing_is_skipped_while_many_write(shared: Served) -> None:
    """Several write at once, the sealer seals in between, watches begin anywhere: each sees every place once."""
    _, secret = shared.person("bob")
    shared.seal()
    begun = head_of(shared)
    writers, each = 4, 40

    def write() -> None:
        database = shared.database.open(Role.HOST)
        for _ in range(each):
            with database.write() as tx:
                ledger.append(tx, Entry("a.written", tx.now))

    total = writers * each
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        streams = [Stream(shared.port, cookie(secret), f"?after={begun}") for _ in range(3)]
        reading = [pool.submit(stream.take, total) for stream in streams]
        writing = [pool.submit(write) for _ in range(writers)]
        while not all(one.done() for one in writing):
            shared.seal()
        for one in writing:
            one.result()
        shared.seal()
        late = Stream(shared.port, cookie(secret), f"?after={begun}")
        for found in (*(one.result(PATIENCE) for one in reading), late.take(total)):
            assert [one["seq"] for one in found] == list(range(begun + 1, begun + total + 1))
        for stream in (*streams, late):
            stream.close()


def _revoke(shared: Served, session: str) -> None:
    with shared.database.open(Role.WORKSPACE).write() as tx:
        assert sessions.end(tx, session, PrincipalName("alice"))


def _suspend(shared: Served, _session: str) -> None:
    with shared.host.write() as tx:
        suspensions.suspend(tx, PrincipalName("alice"), "lost")


@pytest.mark.parametrize("end", [_revoke, _suspend])
def test_a_stream_ends_with_its_session(
    tmp_path: Path, sqlite_templates: SqliteTemplates, end: Callable[[Served, str], None]
) -> None:
    """A session that was ended or whose person was stopped closes its streams, and opens none; bob's go on."""
    for served in serve(tmp_path, sqlite_templates):
        session, secret = served.person("alice")
        _, other = served.person("bob")
        with Stream(served.port, cookie(secret)) as stream, Stream(served.port, cookie(other)) as kept:
            assert stream.next() is not None
            assert kept.next() is not None
            end(served, session)
            started = time.monotonic()
            assert stream.to_end()[-1] == ("ended", None, {"reason": "signed_out"})
            assert time.monotonic() - started < PATIENCE / 2
            with Stream(served.port, cookie(secret)) as refused:
                assert refused.status == 401
            served.tell("a.later")
            assert kept.take(1)[-1]["kind"]


def test_only_people_watch(shared: Served) -> None:
    """An agent's token, a strange one and none at all are refused; a browser's cookie and a shell's bearer are not."""
    _, browser = shared.person("alice")
    _, shell = shared.person("alice", SessionKind.SHELL)
    for headers, status in (
        (bearer(shared.token), 403),
        (bearer("gbs_" + "x" * 43), 401),
        ({}, 401),
        (cookie("x" * 43), 401),
        (cookie(shell), 401),
        (bearer(browser), 403),
        (cookie(browser) | bearer(shared.token), 403),
        (cookie(browser), 200),
        (bearer(shell), 200),
    ):
        with Stream(shared.port, headers) as stream:
            assert stream.status == status, headers


def test_pages_of_another_origin_do_not_watch(shared: Served) -> None:
    _, secret = shared.person("alice")
    ours = f"http://localhost:{shared.port}"
    for headers, status in (
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": ours}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ):
        with Stream(shared.port, cookie(secret) | headers) as stream:
            assert stream.status == status, headers
            assert "access-control-allow-origin" not in stream.headers


def test_streams_of_a_session_are_bounded(shared: Served) -> None:
    """Eight of one session; another's are not counted, and one that is closed makes room."""
    _, secret = shared.person("bob")
    _, other = shared.person("bob")
    streams = [Stream(shared.port, cookie(secret)) for _ in range(8)]
    assert [one.status for one in streams] == [200] * 8
    with Stream(shared.port, cookie(secret)) as more, Stream(shared.port, cookie(other)) as free:
        assert (more.status, more.headers["retry-after"], free.status) == (429, "10", 200)
    streams.pop().close()
    deadline = time.monotonic() + PATIENCE
    while (again := Stream(shared.port, cookie(secret))).status != 200:
        again.close()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for stream in (*streams, again):
        stream.close()


def test_a_watch_takes_no_other_method(shared: Served) -> None:
    _, secret = shared.person("alice")
    url = f"http://localhost:{shared.port}/api/v1/events"
    answer = requests.post(url, headers=cookie(secret), timeout=PATIENCE)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET")


def test_a_reader_who_does_not_read_is_dropped(shared: Served) -> None:
    """It holds no memory without bound: the connection is cut, while one who reads gets everything."""
    _, secret = shared.person("alice")
    shared.seal()
    begun = head_of(shared)
    with shared.host.write() as tx:
        ledger.append(tx, *(Entry("a.flood", tx.now, ask="a" * 26, agent="b" * 26) for _ in range(60_000)))
    shared.seal()
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    slow.settimeout(PATIENCE)
    slow.connect(("127.0.0.1", shared.port))
    ask = f"GET /api/v1/events?after={begun} HTTP/1.1\r\nHost: localhost:{shared.port}\r\n"
    slow.sendall(f"{ask}Cookie: __Host-gitops-bot={secret}\r\n\r\n".encode("ascii"))
    found: list[int] = []

    def read() -> None:
        with Stream(shared.port, cookie(secret), f"?after={begun}") as quick:
            found.extend(one["seq"] for one in quick.take(60_000))

    reader = threading.Thread(target=read)
    reader.start()
    reader.join(PATIENCE * 4)
    assert found == list(range(begun + 1, begun + 60_001))
    deadline = time.monotonic() + PATIENCE
    # What was under way may still be read; then there is nothing, long before the end.
    while time.monotonic() < deadline and not _is_cut(slow):
        time.sleep(0.2)
    assert _is_cut(slow)
    slow.close()


def _is_cut(connection: socket.socket) -> bool:
    """Tell, by the kernel's own table, whether the other side is gone; reading would make room."""
    state: int = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state != 1
