"""A gated action is carried out by one fixed address: the body in a POST, and nothing of it in address or headers.

The only header that changes is `Idempotency-Key`, which is the id of the grant or ask, never a parameter. https is
verified against the name in the bundle, so that a name that resolves elsewhere is not believed; plain HTTP leaves this
machine under no name. The token is read for each call, so that it can be changed; it stands in no error and no log.
"""

import os
import re
import ssl
import stat
import time
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gitops_bot.core.errors import ConfigError, Refused
from gitops_bot.core.executions import Done, ExecutionKey, ExecutionResult, NothingDone, execution_key
from gitops_bot.policy.model import HttpExecutor
from gitops_bot.verbs.grammar import dup_of_reply, first_line, read_retry_after, read_status, shown
from gitops_bot.verbs.outcome import outcome, unclear
from gitops_bot.verbs.wire import Answer, NoAnswer, connect, exchange

TIMEOUT: Final = 60.0
"""Seconds for one call, from the first look-up of the name to the last byte kept."""
_MAX_TOKEN: Final = 4_096
_TOKEN: Final = re.compile(rb"[\x21-\x7e]{1,4096}")
_ENCODED: Final = "(a compressed reply, which is not opened)"


class AddressExecutor:
    """`ports.Executor` over an address of the bundle; `timeout` in seconds. Safe to share between threads."""

    def __init__(
        self, executor: HttpExecutor, keys: Path, *, timeout: float = TIMEOUT, authorities: Path | None = None
    ) -> None:
        """Take the executor. `keys` is the host's folder of tokens; `authorities` a file of certificates that are
        trusted besides the system's.

        Raises:
            ConfigError: the certificates cannot be read, or the address has a port that is none.
        """
        parts = urlsplit(executor.url)
        assert parts.hostname is not None
        try:
            port = parts.port
        except ValueError as error:
            raise ConfigError(f"{executor.url} has no port", fix="name a port up to 65535 in the bundle") from error
        self._executor = executor
        self._host, self._path = parts.hostname, parts.path
        self._tls = _context(authorities) if parts.scheme == "https" else None
        self._port = port or (443 if self._tls else 80)
        self._name = parts.netloc
        self._keys = keys
        self._timeout = timeout

    @property
    def idempotent(self) -> bool:
        """Whether the address is declared to do nothing twice under one key."""
        return self._executor.idempotent

    def check(self) -> Refused | None:
        """Look whether the token can be read. An address is pinned by its name: nothing is sent to it.

        Raises:
            NothingDone: it cannot.
        """
        self._authorization()
        return None

    def execute(self, key: ExecutionKey, body: bytes) -> ExecutionResult:
        """Send the body once and read what the answer says of the action.

        Raises:
            NothingDone: no connection, no token, or the receiver said to come later.
            Unavailable: no answer that says what became of it, and it is declared idempotent.
        """
        request = self._request(execution_key(key), body)
        until = time.monotonic() + self._timeout
        with connect(
            self._host, self._port, tls=self._tls, until=until, name=self._name, loopback=self._tls is None
        ) as wire:
            answer = exchange(wire, request, until)
        if isinstance(answer, NoAnswer):
            return unclear(f"{self._name}: {answer.why}", idempotent=self.idempotent)
        return self._result(answer)

    def _request(self, key: ExecutionKey, body: bytes) -> bytes:
        lines = [
            f"POST {self._path} HTTP/1.1",
            f"Host: {self._name}",
            "User-Agent: gitops-bot",
            "Accept: application/json",
            "Accept-Encoding: identity",
            "Connection: close",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            f"Idempotency-Key: {key}",
            *self._authorization(),
        ]
        return "\r\n".join([*lines, "", ""]).encode("ascii") + body

    def _authorization(self) -> tuple[str, ...]:
        name = self._executor.token_file
        return () if name is None else (f"Authorization: Bearer {read_token(self._keys, name)}",)

    def _result(self, answer: Answer) -> ExecutionResult:
        plain = answer.headers.get("content-encoding", "identity").strip().lower() in ("", "identity")
        dup = plain and not answer.cut and dup_of_reply(answer.body)
        why = f": {first_line(answer.body)}" if plain and answer.body else ""
        if 300 <= answer.status < 400:
            why = ", which leads elsewhere and is not followed; the bundle must name the final address"
        return outcome(
            read_status(answer.status, dup=dup),
            f"{self._name}: {answer.status}{why}",
            Done(shown(answer.body, cut=answer.cut) if plain else _ENCODED, dup=dup),
            idempotent=self.idempotent,
            retry_after=read_retry_after(answer.headers.get("retry-after")),
        )


def read_token(folder: Path, name: str) -> str:
    """Read a token from the host's folder of keys, which only its owner may read.

    Raises:
        NothingDone: no such file, one that others may read or replace, or one that holds no token.
    """
    try:
        keys = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            about = os.fstat(keys)
            if about.st_uid not in (0, os.geteuid()) or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise NothingDone(f"others may write {folder}; chmod 700 {folder}")
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=keys)
        finally:
            os.close(keys)
        with os.fdopen(file, "rb") as opened:
            about = os.fstat(file)
            private = stat.S_ISREG(about.st_mode) and not about.st_mode & 0o077
            if not private or about.st_uid not in (0, os.geteuid()):
                raise NothingDone(f"others may read the token {folder / name}; chmod 600 {folder / name}")
            raw = opened.read(_MAX_TOKEN + 2).strip()
    except OSError as error:
        raise NothingDone(f"cannot read the token {folder / name}: {error.strerror}") from error
    if _TOKEN.fullmatch(raw) is None:
        raise NothingDone(f"{folder / name} holds no token: one word of printable ASCII")
    return raw.decode("ascii")


def _context(authorities: Path | None) -> ssl.SSLContext:
    # Built by hand: the default context would write the session's secrets where SSLKEYLOGFILE names a file.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_default_certs()
    if authorities is not None:
        try:
            context.load_verify_locations(authorities)
        except OSError as error:
            raise ConfigError(f"no certificates in {authorities}", fix="name a PEM file of certificates") from error
    return context
