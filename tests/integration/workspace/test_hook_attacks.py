"""Webhooks against who sends slowly, much, or in another shape, and secrets that change while a body is on its way."""

import contextlib
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote_plus

import pytest

from gitops_bot.forge.hooks.grammar import MAX_BODY
from gitops_bot.forge.signature import sign
from tests.hook_stage import NEXT_SECRET, SECRET, comment_body, counts, grown, post, secret_file
from tests.served_stage import PATIENCE, Served, everything, serve, status_of
from tests.store_fixtures import SqliteTemplates

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("served-hooks")]
COMMENT = comment_body(77, 1, 5, "/capture-help")
ROTATES = 0.3
"""Seconds after which a secret that changed is read again."""
SLOW = 60


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, sqlite_templates: SqliteTemplates) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("hooks")
    paths = [str(secret_file(home)), str(secret_file(home, "second"))]
    yield from serve(home, sqlite_templates, f"[forge]\nwebhook_secret_files = {json.dumps(paths)}\n")


@contextlib.contextmanager
def begun(served: Served, body: bytes, secret: bytes, **more: str) -> Iterator[socket.socket]:
    """Send a delivery's head and the first half of its body."""
    fields = {
        "Host": f"localhost:{served.port}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "X-GitHub-Event": "issue_comment",
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "X-Hub-Signature-256": sign(secret, body),
        "Connection": "close",
        **more,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE) as connection:
        connection.sendall(f"POST /hooks/github HTTP/1.1\r\n{head}\r\n".encode() + body[: len(body) // 2])
        yield connection


def rotate(path: Path, secret: bytes) -> None:
    """Change a secret, and wait until that is seen."""
    path.write_bytes(secret)
    os.utime(path, ns=(time.time_ns(), time.time_ns()))
    time.sleep(ROTATES)


def ended(connection: socket.socket, body: bytes) -> int:
    """Send the other half; the status."""
    connection.sendall(body[len(body) // 2 :])
    return status_of(everything(connection))


def test_a_secret_that_changes_while_a_body_is_on_its_way_counts_as_it_is_at_the_end(served: Served) -> None:
    """What becomes live meanwhile signs, what was taken away meanwhile does not, and the other goes on throughout."""
    path = served.folder.parent / "second"
    with begun(served, COMMENT, NEXT_SECRET) as early, begun(served, COMMENT, SECRET) as throughout:
        rotate(path, NEXT_SECRET)
        assert ended(early, COMMENT) == 202
        assert ended(throughout, COMMENT) == 202
    with begun(served, COMMENT, NEXT_SECRET) as late, begun(served, COMMENT, SECRET) as throughout:
        rotate(path, b"and another one after it")
        assert ended(late, COMMENT) == 401
        assert ended(throughout, COMMENT) == 202
    rotate(path, SECRET)


def test_thirty_signed_megabytes_in_chunks_are_refused_and_nothing_is_kept(served: Served) -> None:
    """A good signature opens no larger door; what fits is taken in chunks too."""
    body, before = b"{}" + b" " * (30 * 1024 * 1024), counts(served.database)
    chunk = 65_536
    with begun(served, b"", SECRET, **{"Content-Length": "", "Transfer-Encoding": "chunked"}) as connection:
        with contextlib.suppress(ConnectionError):
            for begin in range(0, len(body), chunk):
                piece = body[begin : begin + chunk]
                connection.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        assert status_of(everything(connection)) == 413
    assert grown(before, counts(served.database)) == {}
    whole = b"{}" + b" " * (MAX_BODY - 2)
    more = {"Content-Length": "", "Transfer-Encoding": "chunked", "X-Hub-Signature-256": sign(SECRET, whole)}
    with begun(served, b"", SECRET, **more) as connection:
        connection.sendall(f"{len(whole):x}\r\n".encode() + whole + b"\r\n0\r\n\r\n")
        assert status_of(everything(connection)) == 202


def test_a_form_that_is_signed_is_refused_and_the_same_in_json_is_taken(served: Served) -> None:
    """The other content type that a webhook of GitHub may have."""
    form, before = b"payload=" + quote_plus(COMMENT).encode(), counts(served.database)
    kind = "application/x-www-form-urlencoded"
    assert post(served.url, "issue_comment", form, Content_Type=kind).status_code == 415
    assert post(served.url, "issue_comment", form).status_code == 400
    assert grown(before, counts(served.database)) == {}
    assert post(served.url, "issue_comment", COMMENT + b" ").status_code == 202
    assert grown(before, counts(served.database)) != {}


def test_many_who_send_slowly_hold_nobody_up(served: Served) -> None:
    """Sixty that begin a body and sixty that begin a head: deliveries are served meanwhile, and each is ended."""
    with contextlib.ExitStack() as stack:
        bodies = [stack.enter_context(begun(served, COMMENT, SECRET)) for _ in range(SLOW)]
        heads = [
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE))
            for _ in range(SLOW)
        ]
        for number, head in enumerate(heads):
            head.sendall(b"POST /hooks/github HTTP/1.1\r\nHost: localhost\r\nX-A: "[: 20 + number % 30])
        for number in range(10):
            assert post(served.url, "issue_comment", COMMENT + b"\n" * number).status_code == 202
        assert {status_of(everything(one)) for one in bodies} == {408}
        assert {status_of(everything(one)) for one in heads} <= {0, 408}
    assert post(served.url, "issue_comment", COMMENT).status_code == 202
    assert "Traceback" not in served.log
