"""What a workflow run is told, what it hands in and what it hears back, each as values: ids and words, no more.

After `read_event` it is known whether a comment on a pull request may be a command; after `read_claims` whose run a
verified token is of. That the signature stands is *not* known here (`forge.actions.tokens`), and whether the pull
request is one of ours, the rows say (`authority.handed`). Pure.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.core.canonical import MAX_INTEGER
from gitops_bot.core.errors import Malformed
from gitops_bot.core.strictjson import load_object
from gitops_bot.forge.grammar import Silent, parse
from gitops_bot.forge.quoting import phrase

EVENT: Final = "issue_comment"
MAX_EVENT: Final = 4 * 1024 * 1024
"""Bytes of the file with the event: two texts of 65,536 characters, each escaped, and the rest."""
MAX_HANDED: Final = 65_536
LEEWAY: Final = 60
"""Seconds by which the clocks of the issuer and of the database may differ."""
MOST_LIFE: Final = 86_400
"""Seconds that a token may live; how long its id is remembered depends on it."""
PENDING: Final = "pending"
IGNORED: Final = "ignored"
REFUSED: Final = "refused"
DECISIONS: Final = (PENDING, "approve", "deny", REFUSED, IGNORED, "expired", "withdrawn", "superseded")
_WORD: Final = re.compile(r"[a-z][a-z_]{0,39}", re.ASCII)
_ASK: Final = re.compile(r"[0-9a-hjkmnp-tv-z]{26}", re.ASCII)
_DIGITS: Final = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_BRANCH: Final = re.compile(r"refs/heads/[\x21-\x7e]{1,244}", re.ASCII)
_MOST_ID: Final = 200


@dataclass(frozen=True, slots=True)
class Handed:
    """The hint: where to look, and nothing that is believed."""

    repository_id: int
    comment_id: int
    pull_request: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A comment that may be a command. Author and first line are for showing, quoted, to whoever reads of the run."""

    hint: Handed
    author: str
    line: str


@dataclass(frozen=True, slots=True)
class Passed:
    """An event that is none of ours; `why` is one word."""

    why: str


@dataclass(frozen=True, slots=True)
class Told:
    """How it stands: a decision of `DECISIONS`, the reason as one word, the ask where there is one."""

    decision: str
    reason: str
    ask: str | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token must say: the issuer and the audience exactly, one of the repositories as `owner/name`, and the
    workflow's path in it."""

    issuer: str
    audience: str
    repositories: tuple[str, ...]
    workflow: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the workflow: its repository by number and as it is configured, the token's id, until when (seconds)."""

    repository_id: int
    repository: str
    token: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class NotValid:
    """A token that stands for no run, or no longer; `why` in words of ours."""

    why: str


@dataclass(frozen=True, slots=True)
class NotOurs:
    """A valid token of another repository, workflow or event; `why` in words of ours."""

    why: str


def read_event(name: str, raw: bytes) -> Seen | Passed:
    """Read what started a run: `GITHUB_EVENT_NAME` and the bytes of `GITHUB_EVENT_PATH`.

    Raises:
        Malformed: no JSON object of at most `MAX_EVENT` bytes, or not of the shape of its event.
    """
    if name != EVENT:
        return Passed("event")
    document = load_object(raw, limit=MAX_EVENT, floats=True, where="event")
    if document.get("action") != "created":
        return Passed("action")
    issue, comment, repository = (_member(document, key) for key in ("issue", "comment", "repository"))
    if not isinstance(issue.get("pull_request"), dict):
        return Passed("issue")
    body, user = comment.get("body"), comment.get("user")
    hint = Handed(_id(repository, "id"), _id(comment, "id"), _id(issue, "number"))
    if not isinstance(body, str | None):
        raise Malformed("the comment has no text", where="event")
    if isinstance(parse(body or ""), Silent):
        return Passed("no_command")
    login = user.get("login") if isinstance(user, dict) else None
    return Seen(hint, login if isinstance(login, str) else "", (body or "").partition("\n")[0])


def read_handed(raw: bytes) -> Handed:
    """Read what a run hands in.

    Raises:
        Malformed: not exactly the three ids.
    """
    document = load_object(raw, limit=MAX_HANDED, where="hint")
    if set(document) != set(Handed.__dataclass_fields__):
        raise Malformed("not exactly repository_id, comment_id and pull_request", where="hint")
    return Handed(**{name: _id(document, name, "hint") for name in document})


def read_told(raw: bytes) -> Told:
    """Read what the broker says; words and an id, so that nothing in it can act where it is written.

    Raises:
        Malformed: it is none of that.
    """
    document = load_object(raw, limit=MAX_HANDED, where="answer")
    decision, reason, ask = (document.get(name) for name in ("decision", "reason", "ask"))
    if decision not in DECISIONS or not isinstance(reason, str) or not _WORD.fullmatch(reason):
        raise Malformed("no decision with a reason", where="answer")
    if ask is not None and not (isinstance(ask, str) and _ASK.fullmatch(ask)):
        raise Malformed("an ask's id is none", where="answer")
    return Told(decision, reason, ask)


def read_claims(claims: Mapping[str, Any], expected: Expected, now: int) -> Run | NotValid | NotOurs:
    """Judge the claims of a token whose signature stands; `now` in seconds."""
    invalid = _not_valid(claims, expected, now)
    if invalid is not None:
        return invalid
    if claims.get("event_name") != EVENT:
        return NotOurs("another event")
    number, ref, named = (claims.get(name) for name in ("repository_id", "ref", "repository"))
    if not isinstance(number, str) or not _DIGITS.fullmatch(number) or int(number) > MAX_INTEGER:
        return NotOurs("no repository_id")
    repository = _configured(named, expected.repositories)
    if repository is None:
        return NotOurs("another repository")
    # The runs of comments are of the default branch (GitHub, events that trigger workflows: issue_comment).
    if not isinstance(ref, str) or not _BRANCH.fullmatch(ref) or claims.get("ref_type", "branch") != "branch":
        return NotOurs("not of a branch")
    wanted = f"{named}/{expected.workflow}@{ref}"
    # The second names the file that a job is written in, where the workflow calls another one.
    if claims.get("workflow_ref") != wanted or claims.get("job_workflow_ref", wanted) != wanted:
        return NotOurs("another workflow")
    return Run(int(number), repository, claims["jti"], claims["exp"])


def outputs(told: Told, delimiter: str) -> str:
    """Write the outputs of a step, each between lines that nobody could know (GitHub, workflow commands: multiline
    strings)."""
    values = {"decision": told.decision, "reason": told.reason, "ask": told.ask or ""}
    return "".join(f"{name}<<{delimiter}\n{value}\n{delimiter}\n" for name, value in values.items())


def summary(told: Told, seen: Seen | None) -> str:
    """Write the summary of a step in Markdown. What others wrote is one line of code in it, and nothing active."""
    lines = ["### gitops-bot", "", f"`decision={told.decision}` `reason={told.reason}`"]
    if told.ask is not None:
        lines[-1] += f" `ask={told.ask}`"
    if seen is not None:
        where = f"Comment {seen.hint.comment_id} on pull request {seen.hint.pull_request}"
        lines += ["", f"{where} by {phrase(seen.author, 40)}: {phrase(seen.line, 200)}"]
    said = _SENTENCES.get(told.reason if told.decision == PENDING else told.decision)
    return "\n".join([*lines, *(("", said) if said else ()), ""])


_SENTENCES: Final[Mapping[str, str]] = {
    "no_broker": "No broker is named, so nothing was handed in; the broker finds the comment by its own poll.",
    "no_identity": "The run got no OIDC token (permission `id-token: write`), so nothing was handed in; the broker "
    "finds the comment by its own poll.",
    "unreachable": "The broker could not be reached, so nothing was handed in; it finds the comment by its own poll.",
    "new": "The broker knows of the comment and reads it anew from the forge; the answer is on the pull request.",
    "held": "The broker knows of the comment and waits for the forge to tell who wrote it.",
    "counted": "The vote counts; more are needed.",
    REFUSED: "Nothing was done for it; the reason is above.",
    IGNORED: "It is nothing that the broker acts on.",
}


def _not_valid(claims: Mapping[str, Any], expected: Expected, now: int) -> NotValid | None:
    if claims.get("iss") != expected.issuer:
        return NotValid("another issuer")
    if claims.get("aud") not in (expected.audience, [expected.audience]):
        return NotValid("another audience")
    ends, began, since = (_time(claims.get(name, default)) for name, default in (("exp", -1), ("iat", -1), ("nbf", 0)))
    if min(ends, began, since) < 0:
        return NotValid("no times")
    if now >= ends + LEEWAY:
        return NotValid("expired")
    if max(began, since) > now + LEEWAY:
        return NotValid("not valid yet")
    if ends - began > MOST_LIFE:
        return NotValid("it lives too long")
    token = claims.get("jti")
    if not isinstance(token, str) or not 0 < len(token) <= _MOST_ID or not token.isascii() or not token.isprintable():
        return NotValid("no id")
    return None


def _time(found: object) -> int:
    """Give a time in whole seconds; -1 for what is none."""
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MAX_INTEGER else -1


def _configured(named: object, repositories: tuple[str, ...]) -> str | None:
    """Find a repository as it is configured; the forge's names are the same in any case of letters."""
    if not isinstance(named, str) or not named.isascii():
        return None
    return next((one for one in repositories if one.lower() == named.lower()), None)


def _member(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    if not isinstance(found, dict):
        raise Malformed(f"no {name}", where="event")
    return found


def _id(document: Mapping[str, Any], name: str, where: str = "event") -> int:
    found = document.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 < found <= MAX_INTEGER:
        raise Malformed(f"{name} is no id", where=where)
    return found
