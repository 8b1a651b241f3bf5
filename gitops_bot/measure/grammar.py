"""Bytes become values: an endpoint's address, the regime on standard input, and a line of an event stream.

Whatever arrives, only `Malformed` leaves here, at a cost linear in its length. Size caps are the callers' reads.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gitops_bot.core.captures import Regime, regime
from gitops_bot.core.errors import Malformed

MAX_REGIME: Final = 4096
MAX_LINE: Final = 64 * 1024
MAX_ADDRESS: Final = 512
PATHS: Final = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
_HOST: Final = re.compile(r"(?=.{1,253}\Z)(?:[a-z0-9-]{1,63}\.)*[a-z0-9-]{1,63}|(?=[^:]*:)[0-9a-f:.]{2,45}", re.ASCII)
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)*", re.ASCII)
_MEMBERS: Final = ("model", "concurrency", "prefixes", "max_tokens", "long_tokens", "long_frac")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go: scheme `http` or `https`, host, port, path before `/v1`, and which of the two calls."""

    scheme: str
    host: str
    port: int
    prefix: str
    api: str

    @property
    def url(self) -> str:
        """The address as the record names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}{PATHS[self.api]}"


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as an endpoint reports them; None where it does not say."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a stream: new text (may be empty), the end of the stream, usage, or an error the endpoint named."""

    text: str = ""
    done: bool = False
    usage: Usage | None = None
    error: str | None = None


def parse_endpoint(url: str, api: str) -> Endpoint:
    """Read an endpoint's base address, with or without a closing `/v1`.

    Raises:
        Malformed: no plain http(s) address; one with a user name, since the record names the address.
    """
    if len(url) > MAX_ADDRESS:
        raise Malformed(f"longer than {MAX_ADDRESS} characters", where="endpoint")
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
    except ValueError:
        raise Malformed("no address", where="endpoint") from None
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not plain or not _HOST.fullmatch(host):
        raise Malformed("must look like http://HOST:PORT", where="endpoint")
    prefix = parts.path.rstrip("/").removesuffix("/v1")
    if not _PATH.fullmatch(prefix):
        raise Malformed("has a path that no request line can hold", where="endpoint")
    return Endpoint(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), prefix, api)


def read_regime(data: bytes) -> Regime:
    """Read the members of `Regime.params()`, all of them and no other.

    Raises:
        Malformed: longer than `MAX_REGIME`, no such object, or a regime that no trace id can name.
    """
    if len(data) > MAX_REGIME:
        raise Malformed(f"longer than {MAX_REGIME} bytes", where="regime")
    value = _object(data, "regime")
    if sorted(value) != sorted(_MEMBERS):
        raise Malformed(f"must have exactly the members {', '.join(_MEMBERS)}", where="regime")
    return regime(*(value[name] for name in _MEMBERS))


def read_line(line: bytes) -> Event | None:
    """Read one line of server-sent events as completions and chat completions write them; None for any other field.

    Raises:
        Malformed: longer than `MAX_LINE`, or data that is neither `[DONE]` nor a chunk.
    """
    if len(line) > MAX_LINE:
        raise Malformed(f"longer than {MAX_LINE} bytes", where="stream")
    line = line.strip(b"\r\n")
    if not line.startswith(b"data:"):
        return None
    data = line[len(b"data:") :].strip(b" ")
    if data == b"[DONE]":
        return Event(done=True)
    chunk = _object(data, "stream")
    if chunk.get("error") is not None:
        return Event(error=_error(chunk["error"]))
    return Event(text=_text(chunk.get("choices")), usage=_usage(chunk.get("usage")))


def _object(data: bytes, where: str) -> dict[str, object]:
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_constant)
    except (ValueError, RecursionError):
        raise Malformed("no JSON object in UTF-8, each member once", where=where) from None
    if not isinstance(value, dict):
        raise Malformed("no JSON object", where=where)
    return value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member twice")
    return members


def _constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _text(choices: object) -> str:
    if choices is None or choices == []:
        return ""
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        raise Malformed("choices must be a list of objects", where="stream")
    choice = choices[0]
    delta = choice.get("delta")
    text = delta.get("content") if isinstance(delta, dict) else choice.get("text")
    if text is None:
        return ""
    if not isinstance(text, str):
        raise Malformed("a chunk's text must be a string", where="stream")
    return text


def _usage(usage: object) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = _count(details, "cached_tokens") if isinstance(details, dict) else None
    return Usage(_count(usage, "prompt_tokens"), cached, _count(usage, "completion_tokens"))


def _count(members: Mapping[str, object], name: str) -> int | None:
    count = members.get(name)
    if count is None:
        return None
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 10_000_000:
        raise Malformed(f"{name} must be a count", where="stream")
    return count


def _error(error: object) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return message[:200] if isinstance(message, str) and message else "the endpoint reported an error"
