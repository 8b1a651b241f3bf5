"""An address with a real server on loopback: what it gets, and what is known whatever it answers."""

import datetime
import gzip
import ipaddress
import json
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gitops_bot.core.canonical import action_bytes, action_hash
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.core.executions import (
    Done,
    ExecutionKey,
    ExecutionResult,
    Failed,
    NothingDone,
    Unknown,
    execution_body,
)
from gitops_bot.policy.model import HttpExecutor
from gitops_bot.verbs.conformance import check_executor
from gitops_bot.verbs.grammar import MAX_REPLY, MAX_TEXT
from gitops_bot.verbs.http import AddressExecutor
from tests.payee import Payee, Script, answering, listening, said

KEY = ExecutionKey("01jd0000000000000000000000")
ACTION = action_bytes("github.com/acme/ops", "production", "payments.transfer", {"amount_minor": 125000})
TOKEN = "s3cret-t0ken"
PATIENT = 120.0


def body() -> bytes:
    made = execution_body(ACTION, action_hash(ACTION), KEY)
    assert isinstance(made, bytes)
    return made


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    (folder / "bank").write_text(f"{TOKEN}\n", encoding="ascii")
    (folder / "bank").chmod(0o600)
    return folder


@pytest.fixture
def serve() -> Iterator[Callable[..., Payee]]:
    with ExitStack() as stack:
        yield lambda script, **more: stack.enter_context(listening(script, **more))


@pytest.fixture
def call(serve: Callable[..., Payee], keys: Path) -> Callable[..., ExecutionResult]:
    """Call a payee with a script of its own, once."""

    def once(script: Script, *, idempotent: bool = False, timeout: float = PATIENT) -> ExecutionResult:
        return executor(serve(script), keys, idempotent=idempotent, timeout=timeout).execute(KEY, body())

    return once


def executor(
    payee: Payee,
    keys: Path,
    *,
    idempotent: bool = False,
    timeout: float = PATIENT,
    token: str | None = None,
    **more: Any,
) -> AddressExecutor:
    url = more.pop("url", f"http://127.0.0.1:{payee.port}/transfers")
    return AddressExecutor(HttpExecutor(url, idempotent, token), keys, timeout=timeout, **more)


def raised(call: Callable[[], object]) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        call()
    return caught.value


# What it gets.


def test_i17_the_payee_gets_the_body_in_one_post_and_nothing_else(
    serve: Callable[..., Payee], keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole request, byte for byte: no parameter in its line or headers, no secret but the token."""
    monkeypatch.setenv("BANK_SECRET", "s3cret")
    payee = serve(answering(said("200 OK", b'{"id":7}')))
    assert executor(payee, keys, token="bank").execute(KEY, body()) == Done('{"id":7}')
    (request,) = payee.requests
    head, _, sent = request.partition(b"\r\n\r\n")
    assert sent == body()
    assert head.decode().split("\r\n") == [
        "POST /transfers HTTP/1.1",
        f"Host: 127.0.0.1:{payee.port}",
        "User-Agent: gitops-bot",
        "Accept: application/json",
        "Accept-Encoding: identity",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body())}",
        f"Idempotency-Key: {KEY}",
        f"Authorization: Bearer {TOKEN}",
    ]


def test_without_a_token_none_is_sent(serve: Callable[..., Payee], keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that a .netrc names for this machine."""
    (keys / ".netrc").write_text("machine 127.0.0.1 login evil password s3cret\n", encoding="ascii")
    monkeypatch.setenv("HOME", str(keys))
    monkeypatch.setenv("NETRC", str(keys / ".netrc"))
    payee = serve(answering(said("200 OK")))
    executor(payee, keys).execute(KEY, body())
    assert b"uthorization" not in payee.requests[0]


def test_no_proxy_of_the_environment_is_asked(
    serve: Callable[..., Payee], keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, payee = serve(answering(said("200 OK"))), serve(answering(said("200 OK")))
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    assert isinstance(executor(payee, keys, token="bank").execute(KEY, body()), Done)
    assert (len(payee.requests), len(proxy.requests)) == (1, 0)


def test_the_token_is_read_anew_for_each_call(serve: Callable[..., Payee], keys: Path) -> None:
    payee = serve(answering(said("200 OK")))
    bank = executor(payee, keys, token="bank")
    bank.execute(KEY, body())
    (keys / "bank").write_text("turned", encoding="ascii")
    bank.execute(KEY, body())
    assert [b"Bearer turned" in request for request in payee.requests] == [False, True]


def _others_may_read(keys: Path) -> None:
    (keys / "bank").chmod(0o640)


def _others_may_replace(keys: Path) -> None:
    keys.chmod(0o777)


def _a_link(keys: Path) -> None:
    (keys / "bank").rename(keys / "elsewhere")
    (keys / "bank").symlink_to("elsewhere")


def _gone(keys: Path) -> None:
    (keys / "bank").unlink()


def _no_folder(keys: Path) -> None:
    keys.rename(keys.with_name("away"))


def _empty(keys: Path) -> None:
    (keys / "bank").write_text("\n", encoding="ascii")


def _two_lines(keys: Path) -> None:
    (keys / "bank").write_text(f"{TOKEN}\r\nX-Evil: 1\n", encoding="ascii")


def _too_long(keys: Path) -> None:
    (keys / "bank").write_text("a" * 5_000, encoding="ascii")


def _a_fifo(keys: Path) -> None:
    (keys / "bank").unlink()
    os.mkfifo(keys / "bank", 0o600)


@pytest.mark.parametrize(
    "spoil",
    [
        _others_may_read, _others_may_replace, _a_link, _gone, _no_folder, _empty, _two_lines, _too_long, _a_fifo,
    ],
)  # fmt: skip
def test_without_its_token_nothing_is_sent_and_none_is_told(
    serve: Callable[..., Payee], keys: Path, spoil: Callable[[Path], None]
) -> None:
    """Nothing was done, so it may be tried again when the host is repaired, even where nothing dedupes."""
    payee = serve(answering(said("200 OK")))
    bank = executor(payee, keys, token="bank")
    assert bank.check() is None
    assert isinstance(bank.execute(KEY, body()), Done)
    spoil(keys)
    for error in (raised(bank.check), raised(lambda: bank.execute(KEY, body()))):
        assert isinstance(error, NothingDone)
        assert TOKEN not in str(error)
    assert len(payee.requests) == 1


@pytest.mark.parametrize("status", ["200 OK", "403 Forbidden", "500 Oh", "302 Found"])
def test_the_token_is_in_no_result_error_or_log(
    serve: Callable[..., Payee], keys: Path, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    payee = serve(answering(said(status)))
    try:
        told = repr(executor(payee, keys, token="bank").execute(KEY, body()))
    except Unavailable as error:
        told = repr(error)
    assert TOKEN in payee.requests[0].decode()
    assert TOKEN not in told + caplog.text


# What it answers.


@pytest.mark.parametrize(
    ("answer", "once", "deduped"),
    [
        (said("200 OK", b"paid"), Done("paid"), Done("paid")),
        (said("201 Created", b"paid"), Done("paid"), Done("paid")),
        (said("204 No Content", b""), Done(""), Done("")),
        (said("200 OK", b'{"dup":true}'), Done('{"dup":true}', dup=True), Done('{"dup":true}', dup=True)),
        (said("409 Conflict", b'{"dup":true}'), Done('{"dup":true}', dup=True), Done('{"dup":true}', dup=True)),
        (said("400 Bad", b"no funds\nmore"), Failed, Failed),
        (said("422 No", b'{"dup":true}'), Failed, Failed),
        (said("429 Slow down"), Failed, NothingDone),
        (said("409 Conflict"), Unknown, Unavailable),
        (said("500 Oh"), Unknown, Unavailable),
        (said("503 Oh", b"", "Retry-After: 7"), Unknown, Unavailable),
        (said("302 Found", b"", "Location: http://localhost/"), Unknown, Unavailable),
        (said("101 Switching Protocols", b""), Unknown, Unavailable),
        (b"", Unknown, Unavailable),
        (b"no HTTP at all\r\n\r\n", Unknown, Unavailable),
        (b"HTTP/1.1 200 OK\r\nContent-", Unknown, Unavailable),
    ],
)
def test_i12_each_answer_has_its_result(
    call: Callable[..., ExecutionResult], answer: bytes, once: object, deduped: object
) -> None:
    first = call(answering(answer))
    assert first == once or type(first) is once
    if isinstance(deduped, type) and issubclass(deduped, Unavailable):
        assert type(raised(lambda: call(answering(answer), idempotent=True))) is deduped
    else:
        second = call(answering(answer), idempotent=True)
        assert second == deduped or type(second) is deduped


def test_a_wait_is_handed_on(call: Callable[..., ExecutionResult]) -> None:
    busy = answering(said("429 Slow down", b"", "Retry-After: 7"))
    assert raised(lambda: call(busy, idempotent=True)).retry_after == 7.0


def test_a_refusal_says_why_in_one_escaped_line(call: Callable[..., ExecutionResult]) -> None:
    result = call(answering(said("402 No", "no funds \x1b[2J\u202e\nmore".encode())))
    assert isinstance(result, Failed)
    assert result.reason.endswith(": 402: no funds \\x1b[2J\\u202e")


def test_a_redirection_is_not_followed_and_takes_no_token_along(serve: Callable[..., Payee], keys: Path) -> None:
    elsewhere = serve(answering(said("200 OK", b'{"dup":true}')))
    for status in ("301 M", "302 F", "303 S", "307 T", "308 P"):
        location = f"Location: http://127.0.0.1:{elsewhere.port}/"
        payee = serve(answering(said(status, b"", location, "Refresh: 0; url=http://localhost")))
        result = executor(payee, keys, token="bank").execute(KEY, body())
        assert isinstance(result, Unknown)
        assert "not followed" in result.reason
    assert elsewhere.requests == []


# Hostile answers. Each ends within its bounds; none changes what is known.


def test_a_body_of_a_gibibyte_is_left_after_its_cap(call: Callable[..., ExecutionResult]) -> None:
    sent = 0

    def flood(connection: socket.socket, request: bytes) -> None:
        nonlocal sent
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
        for _ in range(16_384):
            connection.sendall(b"a" * 65_536)
            sent += 65_536

    assert call(flood) == Done("a" * MAX_TEXT + " (cut)")
    assert sent < 64 * 1024 * 1024  # what the buffers of two sockets hold, and far from all


def test_a_compressed_bomb_stays_compressed(call: Callable[..., ExecutionResult]) -> None:
    bomb = gzip.compress(b"\x00" * 30_000_000)
    assert call(answering(said("200 OK", bomb, "Content-Encoding: gzip"))) == Done(
        "(a compressed reply, which is not opened)"
    )
    refused = call(answering(said("400 No", bomb, "Content-Encoding: gzip")))
    assert isinstance(refused, Failed)
    assert refused.reason.endswith(": 400")


def test_dup_in_a_compressed_or_cut_body_is_not_heard(call: Callable[..., ExecutionResult]) -> None:
    hidden = gzip.compress(b'{"dup":true}')
    assert call(answering(said("200 OK", hidden, "Content-Encoding: gzip"))) == Done(
        "(a compressed reply, which is not opened)"
    )
    long = b'{"dup":true}' + b" " * MAX_REPLY
    result = call(answering(said("200 OK", long)))
    assert isinstance(result, Done)
    assert not result.dup


@pytest.mark.parametrize(
    ("begin", "again", "known"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-Flood: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n", Unknown),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y" * 1024, Unknown),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", Unknown),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", Done),
    ],
)
def test_a_flood_without_an_end_is_left(
    call: Callable[..., ExecutionResult], begin: bytes, again: bytes, known: type
) -> None:
    def flood(connection: socket.socket, request: bytes) -> None:
        connection.sendall(begin)
        while True:
            connection.sendall(again * 100)

    assert type(call(flood)) is known


def dripping(begin: bytes) -> Script:
    def drip(connection: socket.socket, request: bytes) -> None:
        connection.sendall(begin)
        while True:
            connection.sendall(b"a")
            time.sleep(0.02)

    return drip


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 ", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_i12_an_answer_that_drips_is_left_at_the_deadline_and_unclear(
    call: Callable[..., ExecutionResult], begin: bytes
) -> None:
    """Each byte comes in time; the whole does not."""
    result = call(dripping(begin), timeout=0.7)
    assert isinstance(result, Unknown)
    assert "in time" in result.reason
    raised(lambda: call(dripping(begin), timeout=0.7, idempotent=True))


def test_a_body_that_drips_is_cut_and_the_status_stands(call: Callable[..., ExecutionResult]) -> None:
    result = call(dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"), timeout=4)
    assert isinstance(result, Done)
    assert result.text.endswith("a (cut)")


def test_i12_no_answer_at_all_is_unclear(call: Callable[..., ExecutionResult], serve: Callable[..., Payee]) -> None:
    def silent(connection: socket.socket, request: bytes) -> None:
        while connection.recv(1):
            pass

    assert isinstance(call(silent, timeout=0.5), Unknown)
    assert not isinstance(raised(lambda: call(silent, timeout=0.5, idempotent=True)), NothingDone)


def test_i12_a_connection_broken_off_after_the_request_is_unclear(call: Callable[..., ExecutionResult]) -> None:
    def reset(connection: socket.socket, request: bytes) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")

    assert isinstance(call(reset), Unknown)
    assert isinstance(call(answering(said("200 OK"))), Done)


def test_who_answers_before_reading_everything_is_heard(serve: Callable[..., Payee], keys: Path) -> None:
    """A body that is too large is refused by its length."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        bank = AddressExecutor(
            HttpExecutor(f"http://127.0.0.1:{server.getsockname()[1]}/t", False, None), keys, timeout=PATIENT
        )

        def early() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(10)
                connection.sendall(said("413 Too Large"))
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass

        thread = threading.Thread(target=early)
        thread.start()
        result = bank.execute(KEY, b"{" + b" " * 1_000_000 + b"}")
        thread.join(60)
    assert isinstance(result, Failed)


# Where it goes.


@pytest.mark.parametrize("idempotent", [True, False])
def test_i12_where_nobody_listens_nothing_was_done(keys: Path, idempotent: bool) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/transfers"
        bank = AddressExecutor(HttpExecutor(url, idempotent, None), keys)
        assert isinstance(raised(lambda: bank.execute(KEY, body())), NothingDone)


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Let every name resolve to some addresses."""

    def found(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", found)


def test_plain_http_never_leaves_this_machine_whatever_a_name_resolves_to(
    serve: Callable[..., Payee], keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`localhost` is a name like any other to a resolver."""
    payee = serve(answering(said("200 OK")))
    local = executor(payee, keys, url=f"http://localhost:{payee.port}/transfers")
    assert isinstance(local.execute(KEY, body()), Done)
    resolving(monkeypatch, "192.0.2.1", "::ffff:192.0.2.1")
    error = raised(lambda: local.execute(KEY, body()))
    assert isinstance(error, NothingDone)
    assert "not this machine" in str(error)
    resolving(monkeypatch, "192.0.2.1", "127.0.0.1")
    assert isinstance(local.execute(KEY, body()), Done)


def test_a_name_without_an_address_is_nothing_done(keys: Path) -> None:
    bank = AddressExecutor(HttpExecutor("https://bank.invalid/transfers", False, None), keys, timeout=PATIENT)
    assert isinstance(raised(lambda: bank.execute(KEY, body())), NothingDone)


class Authority:
    """A certificate authority for tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
        self.certificate = self._built(name, self.key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        ).sign(self.key, hashes.SHA256())  # fmt: skip
        self.file = folder / "authority.pem"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def _built(self, name: x509.Name, key: Any, *, days: int = 2) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")]))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=3))
            .not_valid_after(now + datetime.timedelta(days=days))
        )

    def server(self, *, address: str = "127.0.0.1", days: int = 2) -> ssl.SSLContext:
        """Make what a server with a certificate for an address needs."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address)), x509.DNSName("localhost")])
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bank")])
        signed = (
            self._built(name, key.public_key(), days=days).add_extension(names, False).sign(self.key, hashes.SHA256())
        )
        file = self.folder / f"server-{address}-{days}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + signed.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def secure(payee: Payee, keys: Path, authorities: Path | None, **more: Any) -> AddressExecutor:
    return executor(
        payee, keys, url=f"https://127.0.0.1:{payee.port}/transfers", authorities=authorities, token="bank", **more
    )


def test_over_tls_the_payee_is_known_by_its_certificate(
    serve: Callable[..., Payee], keys: Path, authority: Authority
) -> None:
    payee = serve(answering(said("200 OK", b"paid")), tls=authority.server())
    assert secure(payee, keys, authority.file).execute(KEY, body()) == Done("paid")
    assert payee.requests[0].endswith(body())


def test_whom_its_certificate_does_not_name_gets_no_byte(
    serve: Callable[..., Payee], keys: Path, authority: Authority
) -> None:
    """A name that was made to resolve elsewhere, an unknown authority, an old certificate, no TLS at all. Nothing was
    done, so it may be tried again even where nothing dedupes."""
    paid = answering(said("200 OK"))
    elsewhere = serve(paid, tls=authority.server(address="192.0.2.1"))
    late = serve(paid, tls=authority.server(days=-1))
    good = serve(paid, tls=authority.server())
    plain = serve(paid)
    for payee, file in ((elsewhere, authority.file), (late, authority.file), (good, None), (plain, authority.file)):
        error = raised(lambda payee=payee, file=file: secure(payee, keys, file, timeout=3).execute(KEY, body()))  # type: ignore[misc] # bound now, called at once
        assert isinstance(error, NothingDone)
        assert payee.requests == []


def test_old_tls_is_refused(serve: Callable[..., Payee], keys: Path, authority: Authority) -> None:
    context = authority.server()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert isinstance(
        secure(serve(answering(said("200 OK")), tls=context), keys, authority.file).execute(KEY, body()), Done
    )
    bank = secure(Payee(1, answering(b"")), keys, authority.file)
    assert bank._tls is not None
    assert bank._tls.minimum_version is ssl.TLSVersion.TLSv1_2


def test_the_secrets_of_a_session_are_written_nowhere(
    serve: Callable[..., Payee], keys: Path, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default context obeys SSLKEYLOGFILE."""
    log = tmp_path / "log"
    monkeypatch.setenv("SSLKEYLOGFILE", str(log))
    payee = serve(answering(said("200 OK")), tls=authority.server())
    assert isinstance(secure(payee, keys, authority.file).execute(KEY, body()), Done)
    assert not log.exists()


def test_a_handshake_that_never_ends_is_nothing_done(keys: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        url = f"https://127.0.0.1:{server.getsockname()[1]}/transfers"
        bank = AddressExecutor(HttpExecutor(url, False, None), keys, timeout=0.5)
        assert isinstance(raised(lambda: bank.execute(KEY, body())), NothingDone)


def test_authorities_that_cannot_be_read_stop_the_start(keys: Path, tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("none", encoding="ascii")
    for file in (tmp_path / "gone.pem", tmp_path / "none.pem"):
        with pytest.raises(ConfigError):
            AddressExecutor(HttpExecutor("https://bank.invalid/t", False, None), keys, authorities=file)


def test_a_port_that_is_none_stops_the_start(keys: Path) -> None:
    AddressExecutor(HttpExecutor("https://bank.invalid:65535/t", False, None), keys)
    with pytest.raises(ConfigError):
        AddressExecutor(HttpExecutor("https://bank.invalid:65536/t", False, None), keys)


# The check that an executor declared idempotent dedupes.


def deduping(paid: list[object]) -> Script:
    """A payee as docs/executors.md describes one."""
    seen: dict[str, bytes] = {}

    def play(connection: socket.socket, request: bytes) -> None:
        head, _, raw = request.partition(b"\r\n\r\n")
        asked = json.loads(raw)
        assert f"\r\nIdempotency-Key: {asked['key']}\r\n".encode() in head + b"\r\n"
        earlier = seen.setdefault(asked["key"], raw)
        if earlier != raw:
            connection.sendall(said("422 Unprocessable", b"another body under this key"))
        elif earlier is not raw:
            connection.sendall(said("200 OK", b'{"dup":true}'))
        else:
            if asked["protocol"] == "gitops-bot/execution/v1":
                paid.append(asked["action"])
            connection.sendall(said("200 OK", b'{"dup":false}'))

    return play


def test_a_payee_that_dedupes_passes_the_check_without_paying(serve: Callable[..., Payee], keys: Path) -> None:
    paid: list[object] = []
    bank = executor(serve(deduping(paid)), keys, idempotent=True)
    assert check_executor(bank, ExecutionKey("check-1")).holds
    assert paid == []
    assert isinstance(bank.execute(KEY, body()), Done)
    assert bank.execute(KEY, body()) == Done('{"dup":true}', dup=True)
    assert isinstance(bank.execute(KEY, body() + b" "), Failed)
    assert paid == [json.loads(ACTION)]


def test_a_payee_that_pays_twice_does_not(serve: Callable[..., Payee], keys: Path) -> None:
    bank = executor(serve(answering(said("200 OK", b"paid"))), keys, idempotent=True)
    found = check_executor(bank, ExecutionKey("check-1"))
    assert not found.holds
    assert "twice" in found.detail


def test_who_may_be_called_once_is_not_called_for_a_check(serve: Callable[..., Payee], keys: Path) -> None:
    payee = serve(answering(said("200 OK", b"paid")))
    assert check_executor(executor(payee, keys), ExecutionKey("check-1")).holds
    assert payee.requests == []
