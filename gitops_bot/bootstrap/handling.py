"""One event of the forge, handled inside a workflow run: the hint is handed to the broker, or it is said why not.

Nothing is checked out, no program is run and nothing is written to the forge. Whoever is not reached finds the comment
by the poll. What goes into outputs are words and an id; what others wrote is quoted in the summary and nowhere else.
"""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from gitops_bot.core.errors import ConfigError, Malformed, Reason, Refused, Unavailable, refuse
from gitops_bot.core.strictjson import load_object
from gitops_bot.forge.actions.calls import MOST, Answered, call, is_safe
from gitops_bot.forge.actions.grammar import (
    MAX_EVENT,
    PENDING,
    REFUSED,
    Passed,
    Seen,
    Told,
    outputs,
    read_event,
    read_told,
    summary,
)

PATH: Final = "/hooks/actions"
SECONDS: Final = 10.0
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_REFUSING: Final = (401, 403)
# The runner obeys `##[…]` and `::…::` in what a step prints; a sentence with neither is shown.
_PLAIN: Final = re.compile(r"[A-Za-z0-9 .,;'()/_-]{1,300}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Handled:
    """How it ended; `refused` where the broker does not take what this run hands in."""

    told: Told
    seen: Seen | None = None
    refused: Refused | None = None


def handle(environment: Mapping[str, str], broker: str) -> Handled:
    """Handle the event that the runner names; `broker` is the workspace's address, '' for none.

    Raises:
        ConfigError: no file with the event, or an address of a broker that is none.
        Malformed: the event is none.
    """
    origin = _origin(broker) if broker else ""
    seen = read_event(environment["GITHUB_EVENT_NAME"], _event(environment["GITHUB_EVENT_PATH"]))
    if isinstance(seen, Passed):
        return Handled(Told("ignored", seen.why))
    if not origin:
        return Handled(Told(PENDING, "no_broker"), seen)
    try:
        token = _identity(environment, origin)
    except Unavailable:
        token = None
    if token is None:
        return Handled(Told(PENDING, "no_identity"), seen)
    try:
        return _hand_in(origin, token, seen)
    except Unavailable:
        return Handled(Told(PENDING, "unreachable"), seen)


def report(environment: Mapping[str, str], handled: Handled) -> None:
    """Write the step's outputs and summary, where the runner takes them.

    Raises:
        ConfigError: a file that the runner named cannot be written.
    """
    written = outputs(handled.told, f"gitops-bot-{secrets.token_hex(16)}")
    for name, text in (("GITHUB_OUTPUT", written), ("GITHUB_STEP_SUMMARY", summary(handled.told, handled.seen))):
        if not environment[name]:
            continue
        try:
            with Path(environment[name]).open("a", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except OSError as error:
            raise ConfigError(f"cannot write ${name}: {error.strerror}") from error


def _origin(address: str) -> str:
    """Give the origin of an address as the workspace names itself: its scheme, host and port, the default one left
    out."""
    parts = urlsplit(address) if is_safe(address) else None
    if parts is None or parts.path.strip("/") or parts.query:
        raise ConfigError("the broker's address is none", fix="write https://HOST, as [workspace] origin does")
    host = parts.hostname or ""
    named = f"[{host}]" if ":" in host else host
    is_default = parts.port in (None, _DEFAULT_PORTS[parts.scheme])
    return f"{parts.scheme}://{named}" if is_default else f"{parts.scheme}://{named}:{parts.port}"


def _event(path: str) -> bytes:
    if not path:
        raise ConfigError("GITHUB_EVENT_PATH names no file", fix="run this inside a workflow of GitHub Actions")
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_EVENT + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the event ({type(error).__name__})") from error


def _identity(environment: Mapping[str, str], audience: str) -> str | None:
    """Ask the runner for a token for one audience; None where this run may have none.

    Raises:
        Unavailable: the runner does not answer.
    """
    url, bearer = environment["ACTIONS_ID_TOKEN_REQUEST_URL"], environment["ACTIONS_ID_TOKEN_REQUEST_TOKEN"]
    if not url or not _is_header(bearer):
        return None
    joined = f"{url}{'&' if '?' in url else '?'}audience={quote(audience, safe='')}"
    answer = call("GET", joined, bearer=bearer, seconds=SECONDS)
    token = _document(answer).get("value") if answer.status == 200 else None
    return token if isinstance(token, str) and _is_header(token) else None


def _hand_in(origin: str, token: str, seen: Seen) -> Handled:
    body = json.dumps(asdict(seen.hint)).encode("ascii")
    answer = call("POST", origin + PATH, bearer=token, body=body, seconds=SECONDS)
    if answer.status == 200:
        try:
            return Handled(read_told(answer.body), seen)
        except Malformed as error:
            raise Unavailable("the broker's answer is none") from error
    if answer.status in _REFUSING:
        said = _document(answer).get("detail")
        words = said if isinstance(said, str) and _PLAIN.fullmatch(said) else ""
        refused = refuse(Reason.NOT_AUTHORISED, words or f"The broker answered {answer.status}.")
        return Handled(Told(REFUSED, refused.reason.value), seen, refused)
    raise Unavailable(f"the broker answered {answer.status}")


def _document(answer: Answered) -> dict[str, Any]:
    try:
        return load_object(answer.body, limit=MOST, floats=True, where="answer")
    except Malformed:
        return {}


def _is_header(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
