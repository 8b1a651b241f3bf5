"""What stands before Flask, met by bytes on a socket: addresses in disguise, strange hosts, bodies without end, senders
who take their time, callers who leave, and the end of the process."""

import concurrent.futures
import contextlib
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.served_stage import HURRIED, PATIENCE, Served, Stream, cookie, everything, raw, serve, status_of
from tests.store_fixtures import SqliteTemplates

pytestmark = pytest.mark.xdist_group("served")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, sqlite_templates: SqliteTemplates) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("edge"), sqlite_templates)


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory, sqlite_templates: SqliteTemplates) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("hurried"), sqlite_templates, program=HURRIED)


@pytest.fixture
def served(tmp_path: Path, sqlite_templates: SqliteTemplates) -> Iterator[Served]:
    """A workspace of a test's own, to be ended."""
    yield from serve(tmp_path, sqlite_templates)


def get(served: Served, target: str, *fields: str, host: str | None = None, version: str = "1.1") -> int:
    """Ask for a target as it is written; give the status."""
    named = f"Host: {host or f'localhost:{served.port}'}\r\n" if host != "" else ""
    head = f"GET {target} HTTP/{version}\r\n{named}Connection: close\r\n" + "".join(f"{one}\r\n" for one in fields)
    return status_of(raw(served.port, f"{head}\r\n".encode("latin-1"), close=False))


@pytest.mark.parametrize(
    "target",
    [
        "/healthz/..",
        "/../healthz",
        "/./healthz",
        "/%2e%2e/healthz",
        "/.%2E/healthz",
        "//healthz",
        "/api//v1",
        "/healthz%2f",
        "/api%2Fv1/asks",
        "/healthz%5c",
        "/healthz\\",
        "/healthz%00",
        "/healthz%0a",
        "/%ff%fe",
        "/%c0%ae%c0%ae/healthz",
        "/%zz",
        "/%",
        "/healthz#here",
        "/caf\xe9",
        "/healthz?a=\xe9",
        "http://localhost/healthz",
        "http://evil.example/healthz",
        "*",
        "evil.example:443",
        "healthz",
    ],
)
def test_an_address_in_disguise_is_refused(shared: Served, target: str) -> None:
    assert get(shared, target) in (400, 404)
    assert shared.process.poll() is None


@pytest.mark.parametrize("target", ["/healthz", "/healthz?a=%2e%2e%2f", "/%68ealthz", "/healthz?"])
def test_an_address_that_is_one_is_served(shared: Served, target: str) -> None:
    assert get(shared, target) == 200


def test_only_our_names_are_answered(shared: Served) -> None:
    """Host as in the origin, as bound, or a name of loopback; any other is one that somebody made to mean us."""
    port = shared.port
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", f"LOCALHOST:{port}"):
        assert get(shared, "/healthz", host=host) == 200, host
    for host in (
        "evil.example", f"evil.example:{port}", "localhost", "localhost:1", f"localhost.evil.example:{port}",
        f"127.0.0.2:{port}", f"10.0.0.1:{port}",
    ):  # fmt: skip
        assert get(shared, "/healthz", host=host) == 421, host
    for host in ("", f"localhost:{port}/x", f"user@localhost:{port}", "local host", f"localhost:{port}:1", "a" * 300):
        assert get(shared, "/healthz", host=host) == 400, host
    assert get(shared, "/healthz", f"Host: localhost:{port}") == 400, "twice"
    assert get(shared, "/healthz", "X-Forwarded-Host: evil.example", "Forwarded: host=evil.example") == 200
    assert get(shared, "/healthz", host="", version="1.0") == 400


def test_fields_that_two_could_read_differently_are_refused(shared: Served) -> None:
    assert get(shared, "/healthz", "Authorization: Bearer a") == 200
    assert get(shared, "/healthz", "Authorization: Bearer a", "Authorization: Bearer b") == 400
    assert get(shared, "/healthz", "Cookie: a=1", "Cookie: b=2") == 400
    assert get(shared, "/healthz", "Content_Length: 3") == 400
    assert get(shared, "/healthz", "Content-Length: 0", "Transfer-Encoding: chunked") == 400
    assert get(shared, "/healthz", "X-A: 1", "X-A: 2") == 200


def test_heads_are_bounded(shared: Served) -> None:
    assert get(shared, "/healthz", f"X-Long: {'x' * 12_000}") == 200
    assert get(shared, "/healthz", f"X-Long: {'x' * 17_000}") == 431
    assert get(shared, "/healthz", *(f"X-{number}: 1" for number in range(101))) == 431
    assert get(shared, f"/healthz?{'q' * 5_000}") == 414
    endless = raw(shared.port, b"GET /healthz HTTP/1.1\r\nX-Endless: " + b"x" * 2_000_000, close=False)
    assert status_of(endless) in (0, 431)


def post(served: Served, body: bytes, *fields: str) -> bytes:
    """Post to the route that opens questions, with the framing that is given."""
    named = (f"Host: localhost:{served.port}", f"Authorization: Bearer {served.token}", *fields)
    head = "POST /api/v1/asks HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return raw(served.port, (head + "".join(f"{one}\r\n" for one in named) + "\r\n").encode() + body, close=False)


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def test_bodies_are_counted_before_they_are_kept(shared: Served) -> None:
    """By what is promised and by what comes; a body within the cap is the same whichever way it comes."""
    body = json.dumps({"question": "Which?"}).encode()
    assert status_of(post(shared, body, f"Content-Length: {len(body)}")) == 201
    assert status_of(post(shared, chunked(body[:9], body[9:]), "Transfer-Encoding: chunked")) == 201
    promised = post(shared, b"", "Content-Length: 10000000")
    assert status_of(promised) == 413
    assert b"application/problem+json" in promised
    assert status_of(post(shared, b"x" * 10_000_000, "Content-Length: 10000000")) in (0, 413)
    assert status_of(post(shared, chunked(*[b"x" * 65_536] * 17), "Transfer-Encoding: chunked")) == 413
    assert status_of(post(shared, chunked(b"x" * 70_000), "Transfer-Encoding: chunked")) == 413
    assert status_of(post(shared, b"", "Content-Length: 99999999999999999999999999")) in (400, 413)
    assert status_of(post(shared, b"", "Content-Length: -1")) == 400


def test_ten_megabytes_are_refused_to_a_usual_client(shared: Served) -> None:
    answer = shared.call("POST", "/asks", data=b"x" * 10_000_000)
    assert (answer.status_code, answer.json()["reason"]) == (413, "limit_exceeded")


def test_trailers_change_nothing(shared: Served) -> None:
    """What follows a chunked body is no header: not the token, not the host."""
    body = json.dumps({"question": "Which?"}).encode()
    framed = chunked(body)[:-2] + f"Authorization: Bearer {shared.token}\r\nHost: evil.example\r\n\r\n".encode()
    head = f"POST /api/v1/asks HTTP/1.1\r\nHost: localhost:{shared.port}\r\nContent-Type: application/json\r\n"
    sent = f"{head}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode() + framed
    assert status_of(raw(shared.port, sent, close=False)) == 401
    named = head.encode() + f"Authorization: Bearer {shared.token}\r\n".encode()
    sent = named + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + framed
    assert status_of(raw(shared.port, sent, close=False)) == 201


def test_a_websocket_is_not_spoken(shared: Served) -> None:
    """From whatever origin, on whatever route."""
    upgrade = ("Upgrade: websocket", "Sec-WebSocket-Key: eA==", "Sec-WebSocket-Version: 13")
    for path in ("/healthz", "/api/v1/events"):
        fields = "".join(f"{one}\r\n" for one in (*upgrade, "Origin: https://evil.example"))
        head = f"GET {path} HTTP/1.1\r\nHost: localhost:{shared.port}\r\nConnection: Upgrade, close\r\n{fields}\r\n"
        assert status_of(raw(shared.port, head.encode(), close=False)) in (400, 403)


def test_who_sends_slowly_is_cut_off(hurried: Served) -> None:
    """A head or a body that trickles ends with the connection; the same request at once is answered."""
    head = f"GET /healthz HTTP/1.1\r\nHost: localhost:{hurried.port}\r\n".encode()
    promised = post_head(hurried) + b"Content-Length: 1000\r\n\r\n"
    for begun, trickle in ((head, b"X-A: 1\r\n"), (b"", b"\r\n"), (promised, b"x")):
        with socket.create_connection(("127.0.0.1", hurried.port), timeout=PATIENCE) as connection:
            connection.sendall(begun)
            answer = trickle_until_cut(connection, trickle)
            assert status_of(answer) in (0, 408), answer
    assert status_of(raw(hurried.port, head + b"Connection: close\r\n\r\n", close=False)) == 200
    with socket.create_connection(("127.0.0.1", hurried.port), timeout=PATIENCE) as silent:
        assert everything(silent) == b"", "one that says nothing is not kept"


def post_head(served: Served) -> bytes:
    named = f"Host: localhost:{served.port}\r\nAuthorization: Bearer {served.token}\r\n"
    return f"POST /api/v1/asks HTTP/1.1\r\n{named}Content-Type: application/json\r\n".encode()


def trickle_until_cut(connection: socket.socket, trickle: bytes) -> bytes:
    connection.settimeout(0.2)
    found, deadline = b"", time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            connection.sendall(trickle)
            part = connection.recv(65_536)
        except TimeoutError:
            continue
        except ConnectionError:
            return found
        if part == b"":
            return found
        found += part
    raise AssertionError("it was never cut off")


def test_connections_without_a_request_give_way(hurried: Served) -> None:
    """More connections than may be, all silent: who comes with a request is still served."""
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", hurried.port), timeout=PATIENCE))
            silent.settimeout(PATIENCE)
            assert requests.get(f"{hurried.url}/healthz", timeout=PATIENCE).status_code == 200


def test_a_caller_who_leaves_frees_the_seat_of_its_long_poll(shared: Served) -> None:
    """All seats are taken and all their callers leave: the next poll waits again and is not answered at once."""
    ask = shared.call("POST", "/asks", json={"question": "?"}).json()["id"]
    head = f"GET /api/v1/asks/{ask}?wait=30 HTTP/1.1\r\nHost: localhost:{shared.port}\r\n"
    sent = f"{head}Authorization: Bearer {shared.token}\r\n\r\n".encode()
    polls: list[socket.socket] = []
    deadline = time.monotonic() + PATIENCE
    # A probe takes a seat itself for its second, so one more poll comes after each.
    while len(polls) < 16 or waits(shared, ask, 1):
        assert time.monotonic() < deadline, "the seats were never taken"
        poll = socket.create_connection(("127.0.0.1", shared.port), timeout=PATIENCE)
        poll.sendall(sent)
        polls.append(poll)
    for poll in polls:
        poll.close()
    while not waits(shared, ask, 1):
        assert time.monotonic() < deadline, "the seats were never given back"


def waits(served: Served, ask: str, seconds: int) -> bool:
    """Tell whether a poll finds a seat."""
    started = time.monotonic()
    assert served.call("GET", f"/asks/{ask}?wait={seconds}").status_code == 200
    return time.monotonic() - started >= seconds * 0.9


def test_requests_at_hand_are_finished_and_streams_end(served: Served) -> None:
    """SIGTERM: a long poll is answered, a stream is told, and the process ends with status 0."""
    _, secret = served.person("alice")
    ask = served.call("POST", "/asks", json={"question": "?"}).json()["id"]
    with concurrent.futures.ThreadPoolExecutor() as pool, Stream(served.port, cookie(secret)) as stream:
        assert stream.next() is not None
        poll = pool.submit(served.call, "GET", f"/asks/{ask}?wait=30")
        time.sleep(1)
        served.process.send_signal(signal.SIGTERM)
        assert poll.result(PATIENCE).json()["state"] == "OPEN"
        assert stream.to_end()[-1] == ("ended", None, {"reason": "stopping"})
        assert served.process.wait(PATIENCE) == 0
    assert "Traceback" not in served.log
    assert served.log == ""


def test_killed_it_leaves_nothing(served: Served) -> None:
    """SIGKILL: the port is free at once, no process of its own is left, and the next one starts."""
    children = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children")
    assert not children.exists() or children.read_text() == ""
    served.process.kill()
    served.process.wait()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", served.port))


def test_an_address_that_is_taken_is_named(served: Served) -> None:
    done = served.bot("workspace", "--config", str(served.folder / "gitops-bot.toml"))
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{served.port}" in done.stderr


def test_many_at_once_are_all_answered(shared: Served) -> None:
    """More connections than threads: they wait for one and are served."""
    found: list[int] = []

    def ask() -> None:
        found.append(requests.get(f"{shared.url}/healthz", timeout=PATIENCE).status_code)

    threads = [threading.Thread(target=ask) for _ in range(80)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == [200] * 80
