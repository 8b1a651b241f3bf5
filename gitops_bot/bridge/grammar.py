"""Lines of the control bridge (protocols/control-bridge.md): bytes become one command, one reply or one `Malformed`.

Pure. The error texts are the page's own, since other programs compare them; `Malformed.where` names the command where
it is known. Unknown members are ignored, duplicate members are refused (two readers must not see two commands). Who may
send what is the table `PERMITTED`; what a command does is `loop/control`.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final, NoReturn

from gitops_bot.core.errors import Malformed

MAX_LINE: Final = 64 * 1024
MAX_KEY: Final = 256
MAX_TEXT: Final = 16 * 1024
MAX_NAME: Final = 1024
MAX_NAME_SHOWN: Final = 64
MAX_DIGITS: Final = 20
MAX_SEQ: Final = 2**53 - 1
DEFAULT_REGIME: Final = "rescoped"
DEFAULT_REASON: Final = "rejected"


class Level(IntEnum):
    """What a connection showed: no token, or one of the three. Each includes the ones before it."""

    NOBODY = 0
    VIEWER = 1
    OPERATOR = 2
    BROKER = 3


class Kind(StrEnum):
    """Commands that change something, as `input` of an admission names them."""

    STEER = "steer"
    APPROVE = "approve"
    DENY = "deny"
    RESCOPE = "rescope"
    SET_BUDGET = "set_budget"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    ABORT = "abort"

    @property
    def cmd(self) -> str:
        """The command's name on the wire."""
        return "set-budget" if self is Kind.SET_BUDGET else self.value


PERMITTED: Final[Mapping[Kind, Level]] = dict.fromkeys(Kind, Level.OPERATOR) | {Kind.RESCOPE: Level.BROKER}
"""The least token for each command; `status` and `tail` are served to everybody, `role: broker` to the broker."""

_NAMES: Final[Mapping[str, Kind | str]] = {
    "status": "status",
    "tail": "tail",
    **{kind.value: kind for kind in Kind},
    **{kind.cmd: kind for kind in Kind},
    "re-scope": Kind.RESCOPE,
}


@dataclass(frozen=True, slots=True)
class Auth:
    """The first line of a connection that shows a token."""

    token: str


@dataclass(frozen=True, slots=True)
class Status:
    """Ask how the loop is."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Subscribe to the session log after a line number; `as_broker` attaches a broker to the loop."""

    from_seq: int
    as_broker: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A command that changes something: its kind, the arguments that its idempotency key stands for, and the key."""

    kind: Kind
    arguments: Mapping[str, str | float]
    key: str | None

    def text(self, name: str) -> str | None:
        """Give a text argument, None when it was not sent."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else None


Command = Auth | Status | Tail | Change


def read_json(raw: bytes) -> object:
    """Read one JSON text strictly: UTF-8, no duplicate members, no NaN, no number that grows beyond a machine's.

    Raises:
        Malformed: anything else, nesting too deep to read included.
    """
    try:
        return json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_members,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_decimal,
        )
    except (ValueError, RecursionError) as error:
        # UnicodeDecodeError and JSONDecodeError are ValueErrors; their texts may quote the line, so they stay here.
        raise Malformed("not JSON") from error


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Malformed("a member is there twice")
    return members


def _constant(name: str) -> NoReturn:
    raise Malformed(f"{name} is no JSON number")


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise Malformed("a number with too many digits")
    return int(digits)


def _decimal(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Malformed("a number beyond the range of a double")
    return value


def parse_command(line: bytes) -> Command:
    """Read one request line, with or without its line end.

    Raises:
        Malformed: with the page's error text, and the command's name in `where` when it is known.
    """
    if len(line) > MAX_LINE:
        raise Malformed("line too long")
    value = read_json(line)
    if isinstance(value, str):
        value = {"cmd": value}
    if not isinstance(value, dict):
        raise Malformed("command must be a JSON object or string")
    named = next((value[member] for member in ("cmd", "command", "kind") if member in value), None)
    if named is None and isinstance(value.get("auth"), str):
        return Auth(str(value["auth"]))
    if not isinstance(named, str):
        raise Malformed("command object needs cmd")
    name = _NAMES.get(named)
    match name:
        case None:
            raise Malformed(f'unknown control command "{named[:MAX_NAME_SHOWN]}"')
        case Kind():
            return Change(name, _arguments(name, value), _key(name, value))
        case "tail":
            return _tail(value)
        case _:
            return Status()


def _tail(value: Mapping[str, object]) -> Tail:
    from_seq = value.get("from_seq", 0)
    if isinstance(from_seq, bool) or not isinstance(from_seq, int) or from_seq < 0:
        raise Malformed("from_seq must be a whole number from 0", where="tail")
    return Tail(from_seq, value.get("role") == "broker")


def _arguments(kind: Kind, value: Mapping[str, object]) -> dict[str, str | float]:
    match kind:
        case Kind.RESCOPE:
            return {"regime": _name(kind, value, "regime") or DEFAULT_REGIME}
        case Kind.APPROVE:
            return _optional(kind, value, "trace_id") | _optional(kind, value, "ask")
        case Kind.DENY:
            reason = _text(kind, value, "reason") or DEFAULT_REASON
            return {"reason": reason, **_optional(kind, value, "trace_id"), **_optional(kind, value, "ask")}
        case Kind.STEER:
            text = _text(kind, value, "text")
            if not text:
                raise Malformed("steer needs text", where=kind.cmd)
            return {"text": text}
        case Kind.SET_BUDGET:
            return {"usd": _usd(kind, value.get("usd"))}
        case Kind.PAUSE | Kind.RESUME | Kind.STOP | Kind.ABORT:
            return {}


def _optional(kind: Kind, value: Mapping[str, object], name: str) -> dict[str, str | float]:
    text = _name(kind, value, name)
    return {name: text} if text else {}


def _name(kind: Kind, value: Mapping[str, object], member: str) -> str | None:
    """Read a name; it goes into a judge's environment, so no control character is in it."""
    text = _text(kind, value, member)
    if text and (len(text) > MAX_NAME or not text.isprintable()):
        raise Malformed(f"{member} must be at most {MAX_NAME} printable characters", where=kind.cmd)
    return text


def _text(kind: Kind, value: Mapping[str, object], name: str) -> str | None:
    text = value.get(name)
    if text is None:
        return None
    if not isinstance(text, str) or not _encodable(text) or len(text.encode("utf-8")) > MAX_TEXT:
        raise Malformed(f"{name} must be a string of at most {MAX_TEXT} bytes", where=kind.cmd)
    return text.strip()


def _usd(kind: Kind, usd: object) -> float:
    if isinstance(usd, bool) or not isinstance(usd, int | float) or not usd >= 0:
        raise Malformed("usd must be a finite number from 0", where=kind.cmd)
    return float(usd)


def _key(kind: Kind, value: Mapping[str, object]) -> str | None:
    given = value.get("id")
    if given is None:
        return None
    key = given.strip() if isinstance(given, str) and _encodable(given) else ""
    if not 1 <= len(key.encode("utf-8")) <= MAX_KEY:
        raise Malformed(f"id must be a string of 1 to {MAX_KEY} bytes", where=kind.cmd)
    return key


def _encodable(text: str) -> bool:
    # A lone surrogate can be written in JSON and nowhere else.
    return not any("\ud800" <= character <= "\udfff" for character in text)


def encode(message: Mapping[str, object]) -> bytes:
    """Write one message as a line, with its line end."""
    return json.dumps(message, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def accepted(cmd: str, **members: object) -> dict[str, object]:
    """Build an `ok` reply; members that are None are left out."""
    return {"ok": True, "cmd": cmd, **{name: value for name, value in members.items() if value is not None}}


def rejected(error: str, *, cmd: str | None = None, key: str | None = None) -> dict[str, object]:
    """Build a reply that says no."""
    named = {"cmd": cmd} if cmd else {}
    keyed = {"key": key} if key else {}
    return {"ok": False, **named, **keyed, "error": error}


def duplicate(cmd: str, key: str, outcome: str | None) -> dict[str, object]:
    """Build the reply to a command that was accepted before under the same key."""
    settled = {"outcome": outcome} if outcome else {}
    return {"ok": True, "cmd": cmd, "key": key, "dup": True, **settled}


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply line as the broker reads it; `cmd` is None on a reply to `auth`."""

    ok: bool
    cmd: str | None
    dup: bool
    error: str | None


@dataclass(frozen=True, slots=True)
class LogLine:
    """A session line of a tail, with its number."""

    seq: int
    record: Mapping[str, object]
    size: int


def parse_incoming(line: bytes) -> Reply | LogLine:
    """Read what a loop sent: a reply has a boolean `ok`, a session line a whole `seq`; other members are ignored.

    Raises:
        Malformed: neither.
    """
    value = read_json(line)
    if not isinstance(value, dict):
        raise Malformed("not an object", where="bridge")
    seq = value.get("seq")
    if isinstance(seq, int) and not isinstance(seq, bool) and 0 < seq <= MAX_SEQ:
        return LogLine(seq, {name: member for name, member in value.items() if name != "seq"}, len(line))
    if not isinstance(value.get("ok"), bool):
        raise Malformed("neither a reply nor a session line", where="bridge")
    cmd, error = value.get("cmd"), value.get("error")
    return Reply(
        ok=value["ok"] is True,
        cmd=cmd if isinstance(cmd, str) else None,
        dup=value.get("dup") is True,
        error=error if isinstance(error, str) else None,
    )
