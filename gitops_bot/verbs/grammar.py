"""What an executor's program or address answered becomes values: what it says of the action, and text for people.

Whatever the bytes, nothing is raised here, at a cost linear in their length. The text is the receiver's: it is cut,
escaped and shown, and decides nothing; a result hangs on exit status or HTTP status, `dup` on one line or member.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gitops_bot.core.errors import Malformed
from gitops_bot.core.strictjson import load_object

MAX_REPLY: Final = 64 * 1024
"""Bytes of a reply that are kept; the rest is never read, or read and dropped."""
MAX_TEXT: Final = 2_000
"""Characters of a reply that are shown, before escaping."""
MAX_REASON: Final = 300
_LONGEST_WAIT: Final = 3_600.0
_CUT: Final = " (cut)"


class Said(StrEnum):
    """What an answer says of the action."""

    DONE = "done"
    REFUSED = "refused"
    BUSY = "busy"
    """Nothing was done; it may be asked again."""
    LATER = "later"
    """Not done for now; who is called again with the same key goes on."""
    UNCLEAR = "unclear"


EXIT: Final[Mapping[int, Said]] = MappingProxyType({0: Said.DONE, 75: Said.LATER, 76: Said.UNCLEAR})
"""Exit statuses with a meaning of their own: 75 and 76 are EX_TEMPFAIL and EX_PROTOCOL of sysexits.h."""
_SIGNALS: Final = 64

STATUS: Final[Mapping[int, Said]] = MappingProxyType(
    {
        408: Said.UNCLEAR,  # whether the whole request arrived is not known (RFC 9110 §15.5.9)
        409: Said.UNCLEAR,  # the same key is being worked on
        425: Said.BUSY,  # RFC 8470 §5.2: not processed
        429: Said.BUSY,  # RFC 6585 §4
    }
)


def read_exit(returncode: int) -> Said:
    """Read a program's exit status (negative = ended by that signal; a shell says the same as 128 and the signal)."""
    if returncode < 0 or 128 < returncode <= 128 + _SIGNALS:
        return Said.UNCLEAR
    return EXIT.get(returncode, Said.REFUSED)


def read_status(status: int, *, dup: bool) -> Said:
    """Read an HTTP status. A redirection is no answer: after a POST it may mean that the action was done."""
    if 200 <= status < 300 or (status == 409 and dup):
        return Said.DONE
    if 400 <= status < 500:
        return STATUS.get(status, Said.REFUSED)
    return Said.UNCLEAR


def dup_of_output(output: bytes) -> bool:
    """Tell whether the first line of a program's output is `dup`."""
    return output.split(b"\n", 1)[0].rstrip(b"\r") == b"dup"


def dup_of_reply(body: bytes) -> bool:
    """Tell whether a reply's body is a JSON object whose member `dup` is true."""
    try:
        return load_object(body, limit=MAX_REPLY, floats=True).get("dup") is True
    except Malformed:
        return False


def read_retry_after(value: str | None) -> float | None:
    """Read a `Retry-After` in seconds, at most an hour; None for a date or anything else."""
    if value is None or not value.isascii() or not value.isdigit() or len(value) > 9:
        return None
    return min(float(value), _LONGEST_WAIT)


def shown(raw: bytes, *, cut: bool = False) -> str:
    """Give a reply's text for people: at most `MAX_TEXT` characters, lines kept, what does not print escaped."""
    # A character of UTF-8 has at most four bytes; what is beyond those is not even decoded.
    text = raw[: MAX_TEXT * 4].decode("utf-8", "backslashreplace")
    more = cut or len(raw) > MAX_TEXT * 4 or len(text) > MAX_TEXT
    return "\n".join(_printable(line) for line in text[:MAX_TEXT].split("\n")).strip() + (_CUT if more else "")


def last_line(output: bytes) -> str:
    """Give the last line that says something, cut and escaped, for a reason."""
    lines = [line for line in output[-MAX_REPLY:].decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    return _printable(lines[-1].strip()[:MAX_REASON]) if lines else ""


def first_line(body: bytes) -> str:
    """Give the first line that says something, cut and escaped, for a reason."""
    text = body[: MAX_REASON * 8].decode("utf-8", "backslashreplace").strip()
    return _printable(text.splitlines()[0].strip()[:MAX_REASON]) if text else ""


def _printable(text: str) -> str:
    """Escape what does not print, control and direction characters among it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
