"""What an agent's text says to us is read here, line by line, from bytes that arrive in arbitrary pieces.

Pure (design: protocols/agent-turn.md). A marker counts once a turn, on a whole line, outside of fenced code (CommonMark
§4.5), within the limits; everything else is the turn's report. What is given out can be stored and, as an ask, opened:
no NUL, no half surrogate, no blank or overlong text. The state of a `Reader` is bounded whatever comes (I20). That a
marker lands once a run, whoever reads it, is kept by who lands it under `body_hash` (I9). `MARKERS` is the table that
the contract in the capsule and docs/agent-protocol.md are made from.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final

from gitops_bot.core.asks import MAX_OPTIONS, MAX_TEXT, is_blank
from gitops_bot.core.canonical import canonical
from gitops_bot.core.texts import storable

MAX_LINE: Final = 64 * 1024
"""Bytes. A longer line is plain text: no marker and no fence."""
MAX_REPORT: Final = 16 * 1024
"""Bytes of UTF-8 of the report; its end is kept."""
MAX_ASKS: Final = 10
MAX_INFORMATIONAL: Final = 50
"""REPORT and NOTIFY together."""
MAX_SENDS: Final = 20
CUT: Final = " … (cut)"


class Outcome(StrEnum):
    """How a turn ended, in its agent's own words; without one it is NO_WORK."""

    WORK_DONE = "WORK_DONE"
    NO_WORK = "NO_WORK"
    BLOCKED = "BLOCKED"
    RATE_LIMITED = "RATE_LIMITED"
    RETRYABLE_ERROR = "RETRYABLE_ERROR"


class Kind(StrEnum):
    """What a marker is called where it is stored."""

    ASK = "ask"
    REPORT = "report"
    NOTIFY = "notify"
    SEND = "send"


class When(StrEnum):
    """When a marker takes effect."""

    END = "when the turn ends"
    LINE = "as soon as the line is complete"


@dataclass(frozen=True, slots=True)
class Form:
    """One row of the contract: the key, its value as it is shown, what follows from it, and when."""

    key: str
    value: str
    effect: str
    when: When

    @property
    def line(self) -> str:
        """The line as the contract shows it; as it stands there it is an example and never counts."""
        return f"{self.key}: {self.value}"


MARKERS: Final = (
    Form("OUTCOME", " | ".join(Outcome), "one of these words; the last valid one wins, none means NO_WORK", When.END),
    Form(
        "ASK", "<question>", "a question to a person; your turn ends here, and you are woken with the answer", When.END
    ),
    Form("OPTIONS", "a | b | c", "the choices of the ASK on the line directly above, two or more", When.END),
    Form("REPORT", "<line>", "a line in your thread, which people read", When.LINE),
    Form("NOTIFY", "<line>", "a notice to the people; nothing waits on it", When.LINE),
    Form("SEND", "@<slug> <text>", "a message to another agent, which it wakes with", When.LINE),
)


@dataclass(frozen=True, slots=True)
class Report:
    """A line for the agent's thread."""

    kind: ClassVar[Kind] = Kind.REPORT
    text: str


@dataclass(frozen=True, slots=True)
class Notify:
    """A notice to people."""

    kind: ClassVar[Kind] = Kind.NOTIFY
    text: str


@dataclass(frozen=True, slots=True)
class Send:
    """A message to an agent; `slug` is what was written after the @, at most 64 characters, of any agent or none."""

    kind: ClassVar[Kind] = Kind.SEND
    slug: str
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a person; without options it is answered in words."""

    kind: ClassVar[Kind] = Kind.ASK
    text: str
    options: tuple[str, ...] = ()


Informational = Report | Notify | Send


@dataclass(frozen=True, slots=True)
class Ended:
    """What a turn came to: the informational markers of its last line, its asks in order, its outcome and whether it
    said one, how many markers of each kind were over the limit, and its report."""

    late: tuple[Informational, ...]
    asks: tuple[Asked, ...]
    outcome: Outcome
    asked_outcome: bool
    dropped: Mapping[str, int]
    report: str


def body_hash(marker: Informational | Asked) -> str:
    """Give what tells a marker of one kind from another, as 64 hex digits: SHA-256 over a canonical form."""
    match marker:
        case Asked():
            body: dict[str, object] = {"options": marker.options, "text": marker.text}
        case Send():
            body = {"slug": marker.slug, "text": marker.text}
        case Report() | Notify():
            body = {"text": marker.text}
    return hashlib.sha256(canonical({"body": body, "kind": marker.kind.value})).hexdigest()


_BREAK: Final = re.compile(rb"\r\n?|\n")
_LINE: Final = re.compile(rb" *(" + b"|".join(form.key.encode("ascii") for form in MARKERS) + rb"):(.*)", re.DOTALL)
_CANDIDATE: Final = re.compile(
    rb"(?:\A|(?<=[\r\n])) *(?:`{3}|~{3}|(?:" + b"|".join(form.key.encode("ascii") for form in MARKERS) + rb"):)"
)
_FENCE: Final = re.compile(rb" {0,3}(?P<run>`{3,}+(?=[^`]*\Z)|~{3,}+)", re.DOTALL)
_SEND: Final = re.compile(r"@(?P<slug>[^\s<]\S{0,63})\s+(?P<text>[^\s<].*)", re.DOTALL)
_SHOWN: Final = MappingProxyType({form.key: form.value for form in MARKERS})
_KEPT: Final = 2 * MAX_REPORT
_TORN: Final = re.compile(rb"\A[\x80-\xbf]{1,3}")
_MOST: Final[Mapping[Kind, tuple[str, int]]] = MappingProxyType(
    {
        Kind.ASK: ("asks", MAX_ASKS),
        Kind.REPORT: ("informational", MAX_INFORMATIONAL),
        Kind.NOTIFY: ("informational", MAX_INFORMATIONAL),
        Kind.SEND: ("sends", MAX_SENDS),
    }
)


class Reader:
    """Reads one turn's text, in pieces of any size; how it is cut into pieces changes nothing but when markers come."""

    __slots__ = (
        "_after_cr",
        "_asking",
        "_asks",
        "_counted",
        "_dropped",
        "_fence",
        "_line",
        "_outcome",
        "_over",
        "_seen",
        "_tail",
    )

    def __init__(self) -> None:
        self._line = bytearray()
        self._over = False  # the present line is longer than MAX_LINE, and its start is in the report already
        self._after_cr = False
        self._fence: tuple[bytes, int] | None = None
        self._outcome: Outcome | None = None
        self._asking: Asked | None = None  # the ask on the line directly above
        self._asks: list[Asked] = []
        self._seen: set[Informational | Asked] = set()
        self._counted: dict[str, int] = {}
        self._dropped: dict[str, int] = {}
        self._tail = bytearray()

    def feed(self, piece: bytes) -> tuple[Informational, ...]:
        """Take the next piece of text; give the informational markers whose lines are complete now, in order."""
        if not piece:
            return ()
        found: list[Informational] = []
        start = 1 if self._after_cr and piece.startswith(b"\n") else 0  # the second half of a CR LF
        self._after_cr = piece.endswith(b"\r")
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
        while start < end:
            if not self._line and not self._over and self._asking is None:
                start = self._pass_over(piece, start, end)
                if start == end:
                    break
            hit = _BREAK.search(piece, start, end)
            assert hit is not None  # the last byte before `end` is a break
            self._take(piece[start : hit.start()])
            found += self._complete()
            start = hit.end()
        self._take(piece[start:])
        return tuple(found)

    def end(self, *, whole: bool = True) -> Ended:
        """Say what the turn came to. Its last line counts, unless the text is not `whole`: a line that was torn off in
        the middle is no marker. Nothing may be fed afterwards."""
        late: list[Informational] = []
        if self._line and whole:
            late = self._complete()
        self._tail += self._line
        self._line.clear()
        self._settle_ask()
        outcome = self._outcome or Outcome.NO_WORK
        dropped = MappingProxyType(dict(self._dropped))
        report = _report(bytes(self._tail))
        return Ended(tuple(late), tuple(self._asks), outcome, self._outcome is not None, dropped, report)

    def _pass_over(self, piece: bytes, start: int, end: int) -> int:
        """Keep the whole lines from `start` that can be neither marker nor fence; give where the next other begins."""
        hit = _CANDIDATE.search(piece, start, end)
        until = end if hit is None else hit.start()
        # The break after a CR at a piece's end is left out there; here each break is one line feed alike.
        self._keep(piece[start:until].replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
        return until

    def _take(self, part: bytes) -> None:
        if self._over:
            self._keep(part)
            return
        self._line += part
        if len(self._line) > MAX_LINE:
            self._over = True
            self._keep(bytes(self._line))
            self._line.clear()

    def _complete(self) -> list[Informational]:
        line = bytes(self._line)
        self._line.clear()
        over, self._over = self._over, False
        if over:
            self._settle_ask()
        elif (found := self._read(line)) is not None:
            return found
        self._keep(line + b"\n")
        return []

    def _read(self, line: bytes) -> list[Informational] | None:
        """Read one whole line; give the markers to land now, or None where it is plain text."""
        asking = self._asking
        hit = None if self._fenced(line) else _LINE.fullmatch(line)
        if hit is not None and hit[1] == b"OPTIONS" and asking is not None:
            options = _options(_value(hit))
            self._asking = Asked(asking.text, options)
            self._settle_ask()
            return [] if options else None
        self._settle_ask()
        return None if hit is None else self._mark(hit[1].decode("ascii"), _value(hit))

    def _mark(self, key: str, value: str) -> list[Informational] | None:
        if is_blank(value) or value.startswith("<") or value == _SHOWN[key]:
            return None
        match key:
            case "OUTCOME" if value in Outcome.__members__:
                self._outcome = Outcome(value)
                return []
            case "ASK":
                self._asking = Asked(_cut(value))
                return []
            case "REPORT":
                return self._admit(Report(_cut(value)))
            case "NOTIFY":
                return self._admit(Notify(_cut(value)))
            case "SEND" if (sent := _SEND.fullmatch(value)) is not None and not is_blank(sent["text"]):
                return self._admit(Send(sent["slug"], _cut(sent["text"])))
            case _:
                return None

    def _admit(self, marker: Informational) -> list[Informational]:
        return [marker] if self._counts(marker) else []

    def _settle_ask(self) -> None:
        asked, self._asking = self._asking, None
        if asked is not None and self._counts(asked):
            self._asks.append(asked)

    def _counts(self, marker: Informational | Asked) -> bool:
        """Tell whether a marker is new in this turn and within its limit; count it when it is over."""
        if marker in self._seen:
            return False
        group, most = _MOST[marker.kind]
        if self._counted.get(group, 0) >= most:
            self._dropped[marker.kind.value] = self._dropped.get(marker.kind.value, 0) + 1
            return False
        self._counted[group] = self._counted.get(group, 0) + 1
        self._seen.add(marker)
        return True

    def _fenced(self, line: bytes) -> bool:
        """Tell whether a line is fenced code or one of its fences, and go in or out with it."""
        hit = _FENCE.match(line)
        if self._fence is None:
            if hit is not None:
                self._fence = (hit["run"][:1], len(hit["run"]))
            return hit is not None
        mark, length = self._fence
        closes = hit is not None and hit["run"][:1] == mark and len(hit["run"]) >= length
        if hit is not None and closes and not line[hit.end() :].strip(b" \t"):
            self._fence = None
        return True

    def _keep(self, text: bytes) -> None:
        self._tail += text[-_KEPT:]
        if len(self._tail) > 2 * _KEPT:
            del self._tail[:-_KEPT]


def _value(hit: re.Match[bytes]) -> str:
    return storable(hit[2].decode("utf-8", "replace")).strip()


def _options(value: str) -> tuple[str, ...]:
    """Give the labels of an OPTIONS line; none unless there are two or more that differ, as an ask would take them."""
    if value.startswith("<") or value == _SHOWN["OPTIONS"]:
        return ()
    labels = tuple(label for part in value.split("|") if not is_blank(label := part.strip()))
    fits = 2 <= len(labels) <= MAX_OPTIONS and all(len(label) <= MAX_TEXT for label in labels)
    return labels if fits and len(set(labels)) == len(labels) else ()


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - len(CUT)] + CUT


def _report(tail: bytes) -> str:
    """Decode what was kept of a text and give its end: at most `MAX_REPORT` bytes of UTF-8."""
    if len(tail) > _KEPT:
        tail = _TORN.sub(b"", tail[-_KEPT:])
    report = storable(tail.decode("utf-8", "replace")).strip().encode("utf-8")
    # "ignore" leaves out the half of a character that the cut may begin with.
    return report[-MAX_REPORT:].decode("utf-8", "ignore").lstrip()
