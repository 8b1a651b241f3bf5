"""One bounded call over HTTP, for the few documents that travel around a workflow run.

Redirects are not followed and no proxy is asked, so that a token goes to the address that was named and nowhere else;
what is not loopback is spoken to over TLS alone. Plain `http.client`: a larger library costs a command its start.
"""

import http.client
import ipaddress
import ssl
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gitops_bot.core.errors import Unavailable

MOST: Final = 262_144
"""Bytes of an answer."""
SECONDS: Final = 5.0
_PIECE: Final = 65_536


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, whatever its status."""

    status: int
    body: bytes


def is_safe(url: str) -> bool:
    """Tell whether tokens and keys may travel to and from an address: https, or this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment or not url.isascii() or not url.isprintable():
        return False
    return " " not in url and (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host)))


def call(method: str, url: str, *, bearer: str = "", body: bytes | None = None, seconds: float = SECONDS) -> Answered:
    """Send one request to a safe address and read the whole answer, at most `MOST` bytes.

    Raises:
        Unavailable: the address is not safe, or nobody answers in time and within the size.
    """
    if not is_safe(url):
        raise Unavailable("the address is not https")
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Accept": "application/json", "User-Agent": "gitops-bot"}
    if bearer:
        headers["Authorization"] = f"Bearer {bearer}"
    if body is not None:
        headers["Content-Type"] = "application/json"
    end = time.monotonic() + seconds
    connection = _connect(parts.scheme, parts.hostname or "", parts.port, seconds)
    try:
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        return Answered(response.status, _whole(response, end))
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Unavailable(f"{parts.hostname} does not answer ({type(error).__name__})") from error
    finally:
        connection.close()


def _whole(response: http.client.HTTPResponse, end: float) -> bytes:
    found = b""
    while part := response.read1(_PIECE):
        found += part
        if len(found) > MOST:
            raise Unavailable(f"an answer of more than {MOST} bytes")
        if time.monotonic() > end:
            raise Unavailable("an answer that does not end")
    return found


def _connect(scheme: str, host: str, port: int | None, seconds: float) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, port, timeout=seconds)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
