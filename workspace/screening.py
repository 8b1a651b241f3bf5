"""What a request must be before anything is done for it: a target in one spelling, one Host that is ours, sane headers.

Whatever passes has a path that decodes in exactly one way and holds no step up, and headers that mean the same to
everybody who reads them. Who sent it, and whether they may, is *not* decided here. Pure.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

from workspace.asgi import TARGET, Scope, Turned

MAX_TARGET: Final = 4_096
MAX_HEADERS: Final = 100
MAX_HEAD: Final = 16_384
"""Bytes of the request line and all header fields."""
ONCE: Final = frozenset(
    name.encode("ascii")
    for name in (
        "host", "content-length", "content-type", "transfer-encoding", "authorization", "cookie", "origin", "referer",
        "sec-fetch-site", "x-csrf-token", "last-event-id",
    )
)  # fmt: skip
"""Fields that two readers could take differently when they come twice (RFC 9110, section 5.3)."""
_PATH: Final = re.compile(rb"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)+", re.ASCII)
_QUERY: Final = re.compile(rb"[\x21-\x7e]*", re.ASCII)
_HOST: Final = re.compile(r"(?P<name>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f/\\]")
_STEPS: Final = (".", "..")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Hosts:
    """Under which names this workspace answers: exact (name, port) pairs, and on `any_address` every literal IP address
    (which no other site can make its own name mean, as it can with a name of its own)."""

    known: frozenset[tuple[str, int]]
    any_address: int | None = None

    def admit(self, name: str, port: int) -> bool:
        """Tell whether a Host is one of ours."""
        return (name, port) in self.known or (port == self.any_address and _address(name) is not None)


def hosts_of(origin: str, bind_host: str, port: int) -> Hosts:
    """Derive the names from the site's origin and the address that is listened on: that address itself; for loopback
    its names; for all addresses, any literal one."""
    parts = urlsplit(origin)
    known = {(_bracketed(parts.hostname or ""), parts.port or _DEFAULT_PORTS.get(parts.scheme, 443))}
    bound = bind_host.strip("[]")
    address = _address(bound)
    known.add((_bracketed(bound), port))
    everywhere = bound == "" or (address is not None and address.is_unspecified)
    if everywhere or bound == "localhost" or (address is not None and address.is_loopback):
        known |= {("localhost", port), ("127.0.0.1", port), ("[::1]", port)}
    return Hosts(frozenset(known), port if everywhere else None)


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name else name.lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None


def screen(scope: Scope, hosts: Hosts) -> Turned | None:
    """Judge a request by its target and headers; None when it may go on."""
    headers: Headers = scope["headers"]
    target = _target(scope)
    if len(target) > MAX_TARGET:
        return Turned(414, f"The address is longer than {MAX_TARGET} bytes.")
    size = len(target) + sum(len(name) + len(value) + 4 for name, value in headers)
    if len(headers) > MAX_HEADERS or size > MAX_HEAD:
        return Turned(431, f"The request's head is more than {MAX_HEADERS} fields or {MAX_HEAD} bytes.")
    return _wrong_target(target) or _wrong_fields(headers) or _wrong_host(headers, scope.get("scheme", "http"), hosts)


def _target(scope: Scope) -> bytes:
    target = scope.get(TARGET)
    if isinstance(target, bytes):
        return target
    raw: bytes = scope.get("raw_path") or scope["path"].encode("utf-8")
    query: bytes = scope["query_string"]
    return raw + (b"?" + query if query else b"")


def _wrong_target(target: bytes) -> Turned | None:
    path, _, query = target.partition(b"?")
    if not _PATH.fullmatch(path) or not _QUERY.fullmatch(query) or b"#" in query:
        return Turned(400, "The address is not one that this server takes: a path, percent-encoded, and a query.")
    for segment in path[1:].split(b"/"):
        try:
            text = unquote_to_bytes(segment).decode("utf-8")
        except UnicodeDecodeError:
            return Turned(400, "The address is not UTF-8.")
        if text in _STEPS or _FORBIDDEN.search(text):
            return Turned(400, "The address holds a step, a slash in disguise or a control character.")
    return Turned(400, "The address holds an empty step.") if b"//" in path else None


def _wrong_fields(headers: Headers) -> Turned | None:
    seen: set[bytes] = set()
    for name, value in headers:
        if b"_" in name:
            # It would become the name of another field on its way to the application (RFC 3875, section 4.1.18).
            return Turned(400, "A header field's name holds an underscore.")
        if name in ONCE and name in seen:
            return Turned(400, f"The header field {name.decode('ascii')} came twice.")
        if any(octet < 0x20 and octet != 0x09 for octet in value) or 0x7F in value:
            return Turned(400, "A header field holds a control character.")
        seen.add(name)
    if {b"content-length", b"transfer-encoding"} <= seen:
        return Turned(400, "The body's length is told twice.")
    return None


def _wrong_host(headers: Headers, scheme: str, hosts: Hosts) -> Turned | None:
    found = field_of(headers, b"host")
    parsed = None if found is None or len(found) > 260 else _HOST.fullmatch(found.lower())
    if parsed is None:
        return Turned(400, "The Host field is missing or is none.")
    port = int(parsed["port"]) if parsed["port"] else None
    # Behind what terminates TLS the scheme of this hop is not the one that the browser's default port is for.
    ports = (port,) if port is not None else tuple(_DEFAULT_PORTS.values()) if scheme == "http" else (443,)
    if not any(hosts.admit(parsed["name"], one) for one in ports):
        return Turned(421, "This workspace does not answer under that name; use [workspace] origin.")
    return None


def field_of(headers: Headers, name: bytes) -> str | None:
    """Give a header field's value, None where it is missing; of several the first."""
    return next((value.decode("latin-1") for key, value in headers if key == name), None)
