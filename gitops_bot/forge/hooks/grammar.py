"""A webhook's body as one value of a closed union: ids and states that say where to look, and nothing that decides.

The event's name is not under the signature (GitHub, validating webhook deliveries), so it picks what to look for and is
never believed: a body that does not look like its event is `Ignored`. Reading is linear in the body, which the caller
caps. Whether a repository or a pull request is one of ours is *not* known here.
"""

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NoReturn

from gitops_bot.core.canonical import MAX_INTEGER
from gitops_bot.core.errors import Malformed
from gitops_bot.core.readings import CommentHint

EVENTS: Final = (
    "issue_comment", "pull_request", "pull_request_review", "check_run", "installation", "installation_repositories",
    "ping",
)  # fmt: skip
"""The events that are read; every other one is acknowledged and dropped."""
PULL_ACTIONS: Final = (
    "closed", "converted_to_draft", "ready_for_review", "synchronize", "edited", "locked",
)  # fmt: skip
REFRESH: Final = ("refresh", "help")
"""What a button of a check run may ask for."""
MAX_BODY: Final = 1024 * 1024
_COMMENT_ACTIONS: Final = ("created", "edited")
_REVIEW_ACTIONS: Final = ("submitted", "edited")
_INSTALLATION_ACTIONS: Final = (
    "created", "deleted", "suspend", "unsuspend", "new_permissions_accepted", "added", "removed",
)  # fmt: skip
_EXTERNAL_ID: Final = re.compile(r"[0-9a-hjkmnp-tv-z]{26}", re.ASCII)
_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class PullHint:
    """Something became of a pull request."""

    repository_id: int
    number: int
    action: str


@dataclass(frozen=True, slots=True)
class ReviewHint:
    """A review was written or changed: where it is, and the text that was told (a filter only)."""

    repository_id: int
    review_id: int
    number: int
    body: str


@dataclass(frozen=True, slots=True)
class CheckPressed:
    """Somebody pressed a button of a check run; `ask` is what its external id claims."""

    repository_id: int
    ask: str
    identifier: str


@dataclass(frozen=True, slots=True)
class InstallationChanged:
    """An installation of an App came, went, or may do something else."""

    app_id: int
    installation_id: int
    action: str


@dataclass(frozen=True, slots=True)
class Ping:
    """A webhook was set up."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing to look at; `why` is a word for the record."""

    why: str


Hint = CommentHint | PullHint | ReviewHint | CheckPressed | InstallationChanged | Ping | Ignored


def hint_of(event: str, body: bytes) -> Hint:
    """Read one delivery of at most `MAX_BODY` bytes.

    Raises:
        Malformed: no JSON object in UTF-8, a key twice, NaN, nested beyond all measure.
    """
    document = _load(body)
    if event not in EVENTS:
        return Ignored("event")
    if event == "ping":
        return Ping() if isinstance(document.get("zen"), str) and _number(document.get("hook_id")) else _UNLIKE
    action = document.get("action")
    if not isinstance(action, str):
        return _UNLIKE
    match event:
        case "issue_comment":
            return _comment(document, action)
        case "pull_request":
            return _pull(document, action)
        case "pull_request_review":
            return _review(document, action)
        case "check_run":
            return _pressed(document, action)
        case _:
            return _installation(document, action)


_UNLIKE: Final = Ignored("shape")
_ACTION: Final = Ignored("action")


def _comment(document: dict[str, Any], action: str) -> Hint:
    if action not in _COMMENT_ACTIONS:
        return _ACTION
    issue, comment = _object(document, "issue"), _object(document, "comment")
    repository, number, found = _repository(document), _number(issue.get("number")), _number(comment.get("id"))
    body, updated = comment.get("body"), _moment(comment.get("updated_at"))
    if not (repository and number and found and updated is not None and isinstance(body, str)):
        return _UNLIKE
    if not isinstance(issue.get("pull_request"), dict):
        return Ignored("issue")
    return CommentHint(repository, found, number, body, updated)


def _pull(document: dict[str, Any], action: str) -> Hint:
    if action not in PULL_ACTIONS:
        return _ACTION
    pull = _object(document, "pull_request")
    repository, number = _repository(document), _number(pull.get("number"))
    if not (repository and number) or document.get("number") != number or "draft" not in pull:
        return _UNLIKE
    return PullHint(repository, number, action)


def _review(document: dict[str, Any], action: str) -> Hint:
    if action not in _REVIEW_ACTIONS:
        return _ACTION
    review, pull = _object(document, "review"), _object(document, "pull_request")
    repository, number, found = _repository(document), _number(pull.get("number")), _number(review.get("id"))
    body = review.get("body")
    if not (repository and number and found and isinstance(body, str)):
        return _UNLIKE  # one without words has no text at all
    return ReviewHint(repository, found, number, body)


def _pressed(document: dict[str, Any], action: str) -> Hint:
    if action != "requested_action":
        return _ACTION
    repository, ask = _repository(document), _object(document, "check_run").get("external_id")
    identifier = _object(document, "requested_action").get("identifier")
    if not repository or not isinstance(ask, str) or not isinstance(identifier, str):
        return _UNLIKE
    if identifier not in REFRESH or not _EXTERNAL_ID.fullmatch(ask):
        return Ignored("button")
    return CheckPressed(repository, ask, identifier)


def _installation(document: dict[str, Any], action: str) -> Hint:
    if action not in _INSTALLATION_ACTIONS:
        return _ACTION
    about = _object(document, "installation")
    app, found = _number(about.get("app_id")), _number(about.get("id"))
    return InstallationChanged(app, found, action) if app and found else _UNLIKE


def _object(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _repository(document: dict[str, Any]) -> int | None:
    return _number(_object(document, "repository").get("id"))


def _number(found: object) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 < found <= MAX_INTEGER else None


def _moment(found: object) -> int | None:
    if not isinstance(found, str) or not _MOMENT.fullmatch(found):
        return None
    try:
        return int(datetime.fromisoformat(found).timestamp()) * 1000
    except (ValueError, OverflowError):
        return None


def _load(body: bytes) -> dict[str, Any]:
    if len(body) > MAX_BODY:
        raise Malformed(f"larger than {MAX_BODY} bytes", where="webhook")
    try:
        found = json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise Malformed("not UTF-8", where="webhook") from None
    except RecursionError:
        raise Malformed("nested too deep", where="webhook") from None
    except ValueError as error:
        raise Malformed(f"not JSON: {str(error)[:120]}", where="webhook") from None
    if not isinstance(found, dict):
        raise Malformed("not a JSON object", where="webhook")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed("a key twice", where="webhook")
    return found


def _no_constant(text: str) -> NoReturn:
    raise Malformed(f"{text} is no JSON", where="webhook")
