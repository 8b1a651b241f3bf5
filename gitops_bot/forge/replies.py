"""Every comment that the bot writes, as text. Each begins with a marker, so none is ever a command of ours.

The marker is an HTML comment on the first line: by it the bot finds its own comment again after an unclear answer
(forge-commands, Writes to the forge), and it makes the text silent for the grammar. Lines to paste are indented, agent
text is a field of `quoting`. Whether and to whom a reply is due is decided by `authority/comments.py`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from gitops_bot.core.asks import AskId, AskState
from gitops_bot.core.captures import CaptureState, TraceId
from gitops_bot.core.errors import SENTENCES, Reason, Refused
from gitops_bot.core.readings import Check, CheckButton, Conclusion
from gitops_bot.forge.grammar import Command, Judgement, Why, exact_line
from gitops_bot.forge.quoting import field, phrase

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_WRONG: Final = {
    Why.ARGUMENT: "The text after the command is not exactly what the command takes.",
    Why.SPELLING: "The first word is almost a command; commands are lower case and spelt exactly.",
    Why.PLACE: "The command must begin the first line, with nothing before it.",
    Why.SECOND_COMMAND: "There is a second command further down; one comment says one thing.",
    Why.OTHER_TRACE_ID: "This trace id is not the one that is open on this pull request.",
}

_CAPTURE_LINES: Final = {
    CaptureState.REQUESTED: "A person has to decide; nothing is measured before that.",
    CaptureState.APPROVED: "Approved; the measurement is about to start.",
    CaptureState.SUBMITTED: "Approved; the measurement waits for its machine.",
    CaptureState.RUNNING: "Approved; the measurement is running.",
    CaptureState.READY: "The trace is measured; the loop is being told.",
    CaptureState.RESCOPED: "The trace is measured and the loop goes on under it.",
    CaptureState.DENIED: "Denied; the loop goes on without it.",
    CaptureState.FAILED: "The measurement failed; the loop was told no.",
    CaptureState.CANCELLED: "Cancelled; nothing more is measured.",
}

_ENDED_LINES: Final = {
    AskState.WITHDRAWN: "Withdrawn: nobody waits for this decision any more.",
    AskState.EXPIRED: "Expired without a decision, which approves nothing; a person may reopen it from the backlog.",
    AskState.SUPERSEDED: "Replaced, because something moved after it was shown; its successor carries the decision.",
}


CHECK_NAME: Final = "capture request"

_CONCLUSIONS: Final = {
    CaptureState.READY: Conclusion.SUCCESS,
    CaptureState.RESCOPED: Conclusion.SUCCESS,
    CaptureState.DENIED: Conclusion.FAILURE,
    CaptureState.FAILED: Conclusion.FAILURE,
    CaptureState.CANCELLED: Conclusion.CANCELLED,
}

_BUTTONS: Final = (
    CheckButton("Refresh", "Read everything again", "refresh"),
    CheckButton("Help", "Show how to decide; decides nothing", "help"),
)


@dataclass(frozen=True, slots=True)
class Card:
    """What the status comment shows. `by` are those who decided, `note` is free text of anyone (a reason, a failure),
    `expires_at` in milliseconds since 1970 UTC, `successor` a pull request's number."""

    ask: AskId
    trace_id: TraceId
    state: AskState
    capture: CaptureState
    needed: int
    approved_by: tuple[str, ...] = ()
    may_vote: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    note: str = ""
    expires_at: int | None = None
    successor: int | None = None


def ask_marker(ask: AskId) -> str:
    """Give the hidden line by which an ask's status comment is found again."""
    return f"<!-- gitops-bot:ask={ask} -->"


def reply_marker(comment_id: int) -> str:
    """Give the hidden line by which the reply to a comment is found again."""
    return f"<!-- gitops-bot:reply={comment_id} -->"


def review_marker(review_id: int) -> str:
    """Give the hidden line by which the reply to a review is found again; its number is of another row than a
    comment's."""
    return f"<!-- gitops-bot:reply=review-{review_id} -->"


def pasted(*lines: str) -> str:
    """Write lines for a person to paste: indented, so that they are shown as code and never run from here."""
    return "\n".join(f"    {line}" for line in lines)


def instant(milliseconds: int) -> str:
    """Write a time, milliseconds since 1970 UTC, for a reader: to the minute, in UTC."""
    return (_EPOCH + timedelta(milliseconds=milliseconds)).strftime("%Y-%m-%d %H:%M UTC")


def names(people: tuple[str, ...]) -> str:
    """Write a list of names; logins and names mention nobody."""
    return ", ".join(phrase(person) for person in people) or "nobody"


def status(card: Card) -> str:
    """Write the one status comment of an ask, for its present state."""
    lines = [ask_marker(card.ask), "", f"**{_headline(card)}**", ""]
    lines += [f"- ask: {phrase(card.ask)} ({card.state.value})", f"- capture: {card.capture.value}"]
    if card.state is AskState.OPEN:
        lines.append(f"- approvals: {len(card.approved_by)} of {card.needed} ({names(card.approved_by)})")
        lines.append(f"- may decide: {names(card.may_vote)}")
        if card.expires_at is not None:
            lines.append(f"- expires: {instant(card.expires_at)}; expiry approves nothing")
    elif card.by:
        lines.append(f"- decided by: {names(card.by)}")
    if card.successor is not None:
        lines.append(f"- successor: #{card.successor}")
    if card.note:
        lines += ["", field(card.note)]
    if card.state is AskState.OPEN:
        lines += ["", "To decide, write one of these as the first line of a comment:", "", *_choices(card.trace_id)]
    return "\n".join(lines) + "\n"


def check(card: Card) -> Check:
    """Write the check run that mirrors a status comment. Only a finished measurement is a success; its buttons bring it
    up to date and decide nothing."""
    ended = card.state in _ENDED_LINES
    conclusion = Conclusion.CANCELLED if ended else _CONCLUSIONS.get(card.capture)
    if card.state is AskState.DENIED:
        conclusion = Conclusion.FAILURE
    return Check(CHECK_NAME, card.ask, conclusion, _headline(card), status(card), _BUTTONS)


def _headline(card: Card) -> str:
    if card.state in _ENDED_LINES:
        return _ENDED_LINES[card.state]
    if card.state is AskState.DENIED:
        return _CAPTURE_LINES[CaptureState.DENIED]
    return _CAPTURE_LINES[card.capture]


def _choices(trace_id: TraceId) -> list[str]:
    return [pasted(exact_line(Command.APPROVE, trace_id), exact_line(Command.DENY, trace_id))]


def near_miss(judgement: Judgement, comment_id: int = 0) -> str:
    """Write the one short reply to a near miss: the code, what was wrong, the exact line."""
    wrong = _WRONG.get(judgement.why, SENTENCES[Reason.NEAR_MISS]) if judgement.why else ""
    said = f"Nothing was done (`{judgement.reason}`). {wrong}".rstrip()
    return "\n".join(
        [
            reply_marker(comment_id),
            "",
            f"{said} The exact line is:",
            "",
            pasted(judgement.reply_line or Command.HELP.value),
            "",
        ]
    )


def in_review(command: Command, trace_id: TraceId, review_id: int = 0) -> str:
    """Write the one short reply to a command in a review: the code, where commands count, the exact line."""
    said = f"Nothing was done (`{Reason.NEAR_MISS.value}`). A command counts only as a comment in the conversation of"
    return "\n".join(
        [
            review_marker(review_id),
            "",
            f"{said} this pull request, never in a review, whatever the review says. The exact line is:",
            "",
            pasted(exact_line(command, trace_id)),
            "",
        ]
    )


def late(refused: Refused, comment_id: int = 0) -> str:
    """Write the reply to an approve that came after the end: the terminal state, by whom and when, as far as known."""
    facts = [f"Nothing was done (`{refused.reason.value}`). {refused.sentence}"]
    by, at = refused.facts.get("by"), refused.facts.get("at")
    if isinstance(by, str):
        facts.append(f"By {phrase(by)}.")
    if isinstance(at, int) and not isinstance(at, bool):
        facts.append(f"At {instant(at)}.")
    return "\n".join([reply_marker(comment_id), "", " ".join(facts), ""])


def help_text(trace_id: TraceId, comment_id: int = 0) -> str:
    """Write the answer to the help command."""
    return "\n".join(
        [
            reply_marker(comment_id),
            "",
            "A command is the whole first line of a comment, begins at its first character and is spelt exactly:",
            "",
            pasted(
                exact_line(Command.APPROVE, trace_id),
                exact_line(Command.DENY, trace_id) + " [reason…]",
                exact_line(Command.STATUS, trace_id),
                exact_line(Command.HELP, trace_id),
            ),
            "",
            "Later lines are kept as the reason. An edited comment never counts; write a new one. Merging this pull "
            "request, closing a thread or pressing a button is never an approval.",
            "",
        ]
    )
