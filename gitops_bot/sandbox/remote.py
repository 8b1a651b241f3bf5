"""The hands of `control` for another process: one address that does what a method of `Control` does, behind a secret.

There is no such address unless the forge was started with a secret. Only the methods listed here can be named, with
arguments that are JSON (a file's content is text). `RemoteControl` is the other end.
"""

import dataclasses
import hmac
import inspect
import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gitops_bot.core.errors import Unavailable
from gitops_bot.sandbox.control import Control
from gitops_bot.sandbox.records import App
from gitops_bot.sandbox.refusals import Rejected

if TYPE_CHECKING:
    from flask import Flask
    from flask.typing import ResponseReturnValue

PATH: Final = "/_control"
SETTING_UP: Final = (
    *("add_account", "add_token", "expire_token", "add_app", "installation_token", "rename", "add_repository", "grant"),
    *("add_team", "set_membership", "hide_teams", "add_hook", "change_hook", "set_app_hook", "stop_clock"),
    *("install", "suspend_installation", "remove_installation"),
)
DISTURBING: Final = (
    *("fail_next", "slow_next", "secondary_limit", "move_head_after", "clear_faults", "obey_limits", "mishap"),
    *("hold_deliveries", "release_deliveries", "redeliver", "deliveries", "reset_counters", "count_requests"),
    "app_deliveries",
)
PLAYING: Final = (
    *("issue", "comment", "edit_comment", "minimise", "delete_comment", "push", "merge", "react", "set_state"),
    *("set_draft", "lock_thread", "comments", "reactions", "threads", "thread", "branches", "checks"),
    *("review", "edit_review", "delete_review", "press"),
)
METHODS: Final = frozenset(SETTING_UP + DISTURBING + PLAYING)


def register(app: "Flask", control: Control, secret: str) -> None:
    """Add the address to an application."""
    from flask import request

    expected = f"Bearer {secret}".encode()

    @app.post(PATH)
    def act() -> "ResponseReturnValue":
        if not hmac.compare_digest(request.headers.get("Authorization", "").encode("utf-8", "replace"), expected):
            return {"error": "the secret of the control file is needed"}, 401
        given = request.get_json(silent=True)
        if not isinstance(given, dict):
            return {"error": "not a JSON object"}, 400
        status, said = perform(control, given.get("do"), given.get("with", {}))
        return said, status


def perform(control: Control, name: object, arguments: object) -> tuple[int, dict[str, object]]:
    """Do what a request names; an HTTP status, and `result` or `error`."""
    if name not in METHODS or not isinstance(arguments, dict):
        return 404, {"error": f"no such method: {name!r}"}
    method = getattr(control, str(name))
    try:
        bound = inspect.signature(method).bind(**_given(arguments))
    except (TypeError, KeyError, ValueError) as error:
        return 400, {"error": f"{type(error).__name__}: {error}"}
    try:
        return 200, {"result": _shown(method(*bound.args, **bound.kwargs))}
    except Rejected as no:
        return 409, {"error": f"{no.status} {no.message}"}
    except (KeyError, ValueError) as error:
        return 400, {"error": f"{type(error).__name__}: {error}"}


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(arguments)
    if isinstance(made.get("files"), dict):
        files = made["files"]
        made["files"] = {path: None if text is None else str(text).encode() for path, text in files.items()}
    if isinstance(made.get("app"), dict):
        made["app"] = App(int(made["app"]["id"]), str(made["app"]["slug"]))
    for name in ("events", "repositories"):
        if isinstance(made.get(name), list):
            made[name] = tuple(made[name])
    return made


def _shown(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _shown(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Counter):
        return {" ".join(map(str, key)): count for key, count in value.items()}
    if isinstance(value, Mapping):
        return {str(key): _shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class RemoteControl:
    """A forge in another process."""

    def __init__(self, url: str, secret: str) -> None:
        self._address = f"{url.rstrip('/')}{PATH}"
        self._secret = secret

    def call(self, do: str, **arguments: object) -> Any:
        """Do what the method of `Control` with this name does; its result as JSON.

        Raises:
            Unavailable: no answer, a wrong secret, or the forge's own no.
        """
        import requests

        headers = {"Authorization": f"Bearer {self._secret}"}
        try:
            answer = requests.post(self._address, json={"do": do, "with": arguments}, headers=headers, timeout=30)
            said = json.loads(answer.content)
        except (requests.RequestException, ValueError) as error:
            raise Unavailable(f"{do}: {type(error).__name__}") from None
        if answer.status_code != 200:
            raise Unavailable(f"{do}: {said.get('error')}")
        return said["result"]
