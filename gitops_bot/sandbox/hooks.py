"""Webhooks of repositories and of apps, what was sent to whom, and what happens on the way. Pure.

Deliveries are never sent again by themselves, and their order promises nothing (GitHub, webhooks). Addresses are on
this machine only. Signing and the JSON are `payloads`, sending is `deliverer`.
"""

import ipaddress
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from gitops_bot.sandbox.records import Ids, Repository
from gitops_bot.sandbox.refusals import Rejected, invalid, not_found

EVENTS: Final = ("issue_comment", "pull_request", "pull_request_review")
APP_EVENTS: Final = ("check_run", *EVENTS)
"""What an app may be told of besides its installations, of which it always is."""
KEPT: Final = 1000
"""Deliveries of one repository that the log keeps."""


class Mishap(StrEnum):
    """What happens to the next delivery."""

    DROP = "drop"
    DUPLICATE = "duplicate"
    UNSIGNED = "unsigned"


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook of a repository, or with `app_id` the one of an app (its `repository_id` is 0). Without a secret its
    deliveries carry no signature."""

    id: int
    repository_id: int
    url: str
    secret: str | None
    events: tuple[str, ...]
    active: bool
    created_at: int
    app_id: int | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt: the id stands in the log, the guid is what the receiver sees, and stays when it is sent again.

    `status_code` is 0 until an answer came; `answered` tells headers and text of it. `repository_id` and
    `installation_id` are what it tells about.
    """

    id: int
    guid: str
    hook: Hook
    event: str
    action: str | None
    headers: Mapping[str, str]
    payload: bytes
    at: int
    redelivery: bool = False
    status_code: int = 0
    status: str = "pending"
    duration: float = 0.0
    answered: tuple[Mapping[str, str], str] = ({}, "")
    repository_id: int | None = None
    installation_id: int | None = None


def checked_url(text: str) -> str:
    """Give an address that stays on this machine.

    Raises:
        Rejected: 422, it does not.
    """
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
        near = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        near = False
        parts = urlsplit("")
    if parts.scheme != "http" or not near or parts.username is not None or len(text) > 1000:
        raise invalid("Hook", "url", "invalid", "url is not supported because it is not on this machine")
    return text


class Hooks:
    """Every webhook and every delivery; `outgoing` are those that are still to be sent or answered."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self.registered: dict[int, Hook] = {}
        self.sent: dict[int, dict[int, Delivery]] = {}
        self.outgoing: dict[int, Delivery] = {}
        self._mishaps: deque[Mishap] = deque()
        self._held: list[Delivery] | None = None

    def add(self, repository: Repository, url: str, secret: str | None, events: tuple[str, ...], now: int) -> Hook:
        """Create a webhook.

        Raises:
            Rejected: 422, an event that never happens here, an address elsewhere, or the same hook exists.
        """
        if not events or any(event not in EVENTS for event in events):
            raise invalid("Hook", "events", "invalid")
        if any(found.url == url for found in self.of(repository)):
            raise Rejected(422, "Validation Failed", ({"resource": "Hook", "code": "custom", "message": "exists"},))
        made = Hook(self._ids.take(), repository.id, checked_url(url), secret or None, events, True, now)
        self.registered[made.id] = made
        return made

    def set_app_hook(self, app_id: int, url: str, secret: str | None, events: tuple[str, ...], now: int) -> Hook:
        """Give an app its one webhook, in place of an earlier one; its log stays.

        Raises:
            Rejected: 422, an event that never happens here, or an address elsewhere.
        """
        if any(event not in APP_EVENTS for event in events):
            raise invalid("Hook", "events", "invalid")
        standing = self.of_app(app_id)
        number = self._ids.take() if standing is None else standing.id
        made = Hook(number, 0, checked_url(url), secret or None, events, True, now, app_id)
        self.registered[number] = made
        return made

    def of_app(self, app_id: int) -> Hook | None:
        """Give an app's webhook."""
        return next((found for found in self.registered.values() if found.app_id == app_id), None)

    def current(self, hook: Hook) -> Hook | None:
        """Give a webhook as it is now; None where it is gone."""
        return self.registered.get(hook.id)

    def change(self, hook: Hook, *, active: bool | None = None, secret: str | None = None) -> Hook:
        """Switch a webhook on or off, or give it another secret; None leaves it."""
        changed = replace(hook, active=hook.active if active is None else active, secret=secret or hook.secret)
        self.registered[hook.id] = changed
        return changed

    def remove(self, hook: Hook) -> None:
        """Remove a webhook; its log goes with it."""
        del self.registered[hook.id]
        self.sent.pop(hook.id, None)

    def hook(self, repository: Repository, hook_id: int) -> Hook:
        """Find a webhook.

        Raises:
            Rejected: 404.
        """
        found = self.registered.get(hook_id)
        if found is None or found.repository_id != repository.id:
            raise not_found()
        return found

    def of(self, repository: Repository) -> tuple[Hook, ...]:
        """List the webhooks of a repository."""
        return tuple(found for found in self.registered.values() if found.repository_id == repository.id)

    def watching(self, repository_id: int, event: str) -> tuple[Hook, ...]:
        """List the active webhooks that are told of an event."""
        every = self.registered.values()
        return tuple(h for h in every if h.active and h.repository_id == repository_id and event in h.events)

    # Deliveries

    def log(self, hook: Hook) -> tuple[Delivery, ...]:
        """List a webhook's deliveries, newest first."""
        return tuple(reversed(self.sent.get(hook.id, {}).values()))

    def delivery(self, hook: Hook, delivery_id: int) -> Delivery:
        """Find a delivery.

        Raises:
            Rejected: 404.
        """
        found = self.sent.get(hook.id, {}).get(delivery_id)
        if found is None:
            raise not_found()
        return found

    def post(self, delivery: Delivery) -> tuple[Delivery, ...]:
        """Take a new delivery (its id is replaced), and give what is to be sent now: none, it, or it twice."""
        logged = replace(delivery, id=self._ids.take())
        log = self.sent.setdefault(delivery.hook.id, {})
        log[logged.id] = logged
        if len(log) > KEPT:
            del log[next(iter(log))]
        mishap = self._mishaps.popleft() if self._mishaps else None
        if mishap is Mishap.DROP:
            return ()
        if mishap is Mishap.UNSIGNED:
            logged = replace(logged, headers={k: v for k, v in logged.headers.items() if "Signature" not in k})
        self.outgoing[logged.id] = logged
        sent = (logged, logged) if mishap is Mishap.DUPLICATE else (logged,)
        if self._held is not None:
            self._held += sent
            return ()
        return sent

    def answered(self, delivery: Delivery) -> None:
        """Write into the log how a delivery went."""
        self.outgoing.pop(delivery.id, None)
        log = self.sent.get(delivery.hook.id, {})
        if delivery.id in log:
            log[delivery.id] = replace(delivery, headers=log[delivery.id].headers)

    def plan(self, mishap: Mishap, times: int = 1) -> None:
        """Let something happen to the next deliveries."""
        self._mishaps.extend([mishap] * times)

    def hold(self) -> None:
        """Keep deliveries back from now on."""
        self._held = self._held if self._held is not None else []

    def release(self, *, backwards: bool = False) -> tuple[Delivery, ...]:
        """Give what was kept back, in its order or backwards, and keep no more."""
        held, self._held = self._held or [], None
        return tuple(reversed(held)) if backwards else tuple(held)
