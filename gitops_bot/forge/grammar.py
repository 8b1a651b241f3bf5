"""What a pull-request comment says: its text becomes one value of a closed union, and nothing is done about it here.

After `parse` it is known whether the first line is a command exactly as written on the page, almost one, or none of the
bot's business; after `judge` also whether it names the trace id that is open. Who wrote it, whether it was edited, and
whether that person may vote is the work of `authority/comments.py`. Intake and `comment explain` call the same two
functions (forge-commands, Grammar).

Every step is linear in the text, and the text is capped. A line ends at LF and at nothing else, although Python and
Markdown know more line ends: what follows one of those on a first line makes it no exact command.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from gitops_bot.core.captures import MAX_TRACE_ID, TRACE_ID, TraceId
from gitops_bot.core.errors import Malformed, Reason

MAX_BODY: Final = 65_536
"""Characters (code points) of a comment; a longer one is silent."""

NEAR: Final = 2
"""The edit distance within which a first word is taken for a mistyped command."""

_LONGEST_WORD: Final = 40  # bounds the distance; case folding makes a word at most three times longer


class Command(StrEnum):
    """The four commands, as they are written."""

    APPROVE = "/approve-capture"
    DENY = "/deny-capture"
    STATUS = "/capture-status"
    HELP = "/capture-help"


class Outcome(StrEnum):
    """What a comment does (interfaces, `comment explain`)."""

    APPROVE = "approve"
    DENY = "deny"
    STATUS = "status"
    HELP = "help"
    NEAR_MISS = "near_miss"
    SILENT = "silent"


class Why(StrEnum):
    """What in the text led to a near miss or to silence."""

    ARGUMENT = "argument"
    SPELLING = "spelling"
    PLACE = "place"
    SECOND_COMMAND = "second_command"
    OTHER_TRACE_ID = "other_trace_id"
    NO_COMMAND = "no_command"
    CODE_OR_QUOTE = "code_or_quote"
    OVER_CAP = "over_cap"


@dataclass(frozen=True, slots=True)
class Approve:
    """The exact approve line; `reason` is the text of the lines after it."""

    trace_id: TraceId
    reason: str


@dataclass(frozen=True, slots=True)
class Deny:
    """The exact deny line; `reason` is the rest of that line and the lines after it."""

    trace_id: TraceId
    reason: str


@dataclass(frozen=True, slots=True)
class Status:
    """The exact status line."""


@dataclass(frozen=True, slots=True)
class Help:
    """The exact help line."""


@dataclass(frozen=True, slots=True)
class NearMiss:
    """Almost a command: `command` is the one that was probably meant. It never acts."""

    command: Command
    why: Why


@dataclass(frozen=True, slots=True)
class Silent:
    """No command; nobody is answered."""

    why: Why


Parsed = Approve | Deny | Status | Help | NearMiss | Silent


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a comment does while a trace id is open. `reason` is a refusal's code for a near miss and a `Why` for
    silence, else empty; `reply_line` is the exact line to tell the author after a near miss, `why` what was wrong."""

    outcome: Outcome
    reason: str
    reply_line: str | None
    why: Why | None = None


# A first word that begins with one of these opens code, a quote, HTML or a link (I16).
_OPENERS: Final = "`~><["
_BULLETS: Final = ("-", "*", "+")
_LATER_COMMAND: Final = re.compile(
    r"^(?:" + "|".join(re.escape(command.value) for command in Command) + r")(?:\s|\Z)", re.MULTILINE
)
# PostgreSQL stores neither; both are replaced before a reason leaves this module.
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def parse(body: str | bytes) -> Parsed:
    """Read a comment's body, given as text or as UTF-8.

    Raises:
        Malformed: bytes that are not UTF-8. No text raises.
    """
    if len(body) > (MAX_BODY if isinstance(body, str) else 4 * MAX_BODY):
        return Silent(Why.OVER_CAP)
    if isinstance(body, bytes):
        try:
            body = body.decode("utf-8")
        except UnicodeDecodeError:
            raise Malformed("not UTF-8", where="comment") from None
    if len(body) > MAX_BODY:
        return Silent(Why.OVER_CAP)
    first, _, rest = body.partition("\n")
    if _is_shown_as_code_or_quote(first):
        return Silent(Why.CODE_OR_QUOTE)
    line = first.removesuffix("\r").rstrip(" ")
    parsed = _exact(line, rest) or _near(line)
    if isinstance(parsed, Approve | Deny | Status | Help) and _LATER_COMMAND.search(rest) is not None:
        return NearMiss(_command_of(parsed), Why.SECOND_COMMAND)
    return parsed


def judge(parsed: Parsed, open_trace_id: TraceId) -> Judgement:
    """Compare what was read with the trace id that is open, byte for byte. Whose comment it is, is not looked at."""
    match parsed:
        case Approve(trace_id, _) | Deny(trace_id, _):
            if trace_id != open_trace_id:
                line = exact_line(_command_of(parsed), open_trace_id)
                return Judgement(Outcome.NEAR_MISS, Reason.NOT_FOUND.value, line, Why.OTHER_TRACE_ID)
            return Judgement(Outcome.APPROVE if isinstance(parsed, Approve) else Outcome.DENY, "", None)
        case Status():
            return Judgement(Outcome.STATUS, "", None)
        case Help():
            return Judgement(Outcome.HELP, "", None)
        case NearMiss(command, why):
            line = exact_line(command, open_trace_id)
            return Judgement(Outcome.NEAR_MISS, Reason.NEAR_MISS.value, line, why)
        case Silent(why):
            return Judgement(Outcome.SILENT, why.value, None, why)
        case _ as never:
            assert_never(never)


def exact_line(command: Command, trace_id: TraceId) -> str:
    """Write a command as it must be pasted. It runs where it stands at column 0, so the bot indents it."""
    return f"{command.value} {trace_id}" if command in (Command.APPROVE, Command.DENY) else command.value


def meant(parsed: Parsed) -> Command | None:
    """Tell which command a text is, or almost is; None for any other text."""
    if isinstance(parsed, Silent):
        return None
    return parsed.command if isinstance(parsed, NearMiss) else _command_of(parsed)


def _is_shown_as_code_or_quote(line: str) -> bool:
    """Tell whether a reader of the rendered page sees the line's start as code, a quote, HTML or a link."""
    word = line.lstrip()
    indent = line[: len(line) - len(word)]
    # A tab after spaces reaches column four as well (CommonMark 0.31, section 2.2).
    if "\t" in indent or indent.startswith("    "):
        return True
    return word.startswith(tuple(_OPENERS))


def _exact(line: str, rest: str) -> Parsed | None:
    """Read a line that begins with a command and a word boundary; None for any other line."""
    word, gap, argument = line.partition(" ")
    match word:
        case Command.APPROVE:
            trace_id = _trace_id(argument)
            return Approve(trace_id, _reason("", rest)) if trace_id else NearMiss(Command.APPROVE, Why.ARGUMENT)
        case Command.DENY:
            spelled, _, words = argument.partition(" ")
            trace_id = _trace_id(spelled)
            return Deny(trace_id, _reason(words, rest)) if trace_id else NearMiss(Command.DENY, Why.ARGUMENT)
        case Command.STATUS:
            return NearMiss(Command.STATUS, Why.ARGUMENT) if gap else Status()
        case Command.HELP:
            return NearMiss(Command.HELP, Why.ARGUMENT) if gap else Help()
        case _:
            return None


def _trace_id(text: str) -> TraceId | None:
    return TraceId(text) if len(text) <= MAX_TRACE_ID and TRACE_ID.fullmatch(text) else None


def _reason(words: str, rest: str) -> str:
    return _UNSTORABLE.sub("\ufffd", f"{words}\n{rest}".replace("\r\n", "\n").strip(" \t\r\n"))


def _near(line: str) -> NearMiss | Silent:
    """Look for a mistyped or misplaced command in a line that is not exactly one."""
    words = line.split(None, 1)
    if not words:
        return Silent(Why.NO_COMMAND)
    word, why = words[0], Why.SPELLING if line.startswith(words[0]) else Why.PLACE
    if word in _BULLETS and len(words) == 2:
        after = line[line.index(word) + 1 :]
        gap = after[: len(after) - len(words[1])]
        # Five columns after a bullet begin a code block inside the list item (CommonMark 0.31, section 5.2).
        if len(gap) > 4 or ("\t" in gap and len(gap) > 1):
            return Silent(Why.CODE_OR_QUOTE)
        word, why = words[1].split(None, 1)[0], Why.PLACE
    before_slash = word[:_LONGEST_WORD].partition("/")[0]
    if any(opener in before_slash for opener in _OPENERS):
        return Silent(Why.CODE_OR_QUOTE)
    command = _nearest(word)
    if command is None:
        return Silent(Why.NO_COMMAND)
    return NearMiss(command, Why.ARGUMENT if why is Why.SPELLING and word == command.value else why)


def _nearest(word: str) -> Command | None:
    """Find the command within `NEAR` edits of a word after case folding; the closest one, None when there is none."""
    if len(word) > _LONGEST_WORD:
        return None
    folded = word.casefold()
    found = min((_distance(folded, command.value), command) for command in Command)
    return found[1] if found[0] <= NEAR else None


def _distance(word: str, command: str) -> int:
    """Count the edits between two words (insertions, deletions, replacements); `NEAR + 1` for more than `NEAR`."""
    if abs(len(word) - len(command)) > NEAR:
        return NEAR + 1
    row = list(range(len(command) + 1))
    for index, letter in enumerate(word, 1):
        above, row[0] = row[0], index
        for column, other in enumerate(command, 1):
            above, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, above + (letter != other))
    return min(row[-1], NEAR + 1)


def _command_of(parsed: Approve | Deny | Status | Help) -> Command:
    match parsed:
        case Approve():
            return Command.APPROVE
        case Deny():
            return Command.DENY
        case Status():
            return Command.STATUS
        case Help():
            return Command.HELP
        case _ as never:
            assert_never(never)
