"""Webhooks of a repository, their log of deliveries, and sending one again; for its administrators."""

import json
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from gitops_bot.sandbox import webhooks
from gitops_bot.sandbox.hooks import Delivery, Hook
from gitops_bot.sandbox.payloads import show_hook
from gitops_bot.sandbox.records import Repository, Role, timestamp
from gitops_bot.sandbox.refusals import Rejected, invalid
from gitops_bot.sandbox.shapes import Shape
from gitops_bot.sandbox.skin import (
    PER_PAGE,
    PER_PAGE_LIMIT,
    Answer,
    Call,
    Route,
    choice,
    flag_field,
    optional_text,
    page_of,
    text_field,
)


def _config(call: Call) -> Mapping[str, object]:
    found = call.body.get("config")
    if not isinstance(found, dict):
        raise invalid("Hook", "config", "missing_field")
    return found


def create_hook(call: Call) -> Answer:
    """Create a webhook that gets JSON, and ping it."""
    repository, config = call.repository(Role.ADMIN), _config(call)
    events = call.body.get("events", ["push"])
    if not isinstance(events, list) or not all(isinstance(event, str) for event in events):
        raise invalid("Hook", "events", "invalid")
    if optional_text(config, "content_type", "Hook") != "json":
        raise invalid("Hook", "content_type", "invalid")
    url, secret = text_field(config, "url", "Hook"), optional_text(config, "secret", "Hook")
    hook = call.world.model.hooks.add(repository, url, secret, tuple(events), call.world.now())
    webhooks.ping(call.world, hook, call.account.id)
    shape = show_hook(call.world, hook)
    return Answer(201, shape, {"Location": str(shape["url"])})


def _hook(call: Call) -> tuple[Repository, Hook]:
    repository = call.repository(Role.ADMIN)
    return repository, call.world.model.hooks.hook(repository, call.number("hook_id"))


def list_hooks(call: Call) -> Answer:
    """List the webhooks."""
    repository = call.repository(Role.ADMIN)
    page, headers = page_of(call, repository, "/hooks", call.world.model.hooks.of(repository))
    return Answer(200, [show_hook(call.world, hook) for hook in page], headers)


def show_one(call: Call) -> Answer:
    """Show a webhook; its secret only as stars."""
    return Answer(200, show_hook(call.world, _hook(call)[1]))


def edit_hook(call: Call) -> Answer:
    """Switch a webhook on or off, or give it another secret."""
    _, hook = _hook(call)
    config = _config(call) if "config" in call.body else {}
    active = flag_field(call.body, "active", "Hook") if "active" in call.body else None
    secret = optional_text(config, "secret", "Hook")
    return Answer(200, show_hook(call.world, call.world.model.hooks.change(hook, active=active, secret=secret)))


def delete_hook(call: Call) -> Answer:
    """Remove a webhook."""
    call.world.model.hooks.remove(_hook(call)[1])
    return Answer(204, None)


def ping_hook(call: Call) -> Answer:
    """Tell a webhook that it is one."""
    webhooks.ping(call.world, _hook(call)[1], call.account.id)
    return Answer(204, None)


def list_deliveries(call: Call) -> Answer:
    """List what was sent, newest first."""
    repository, hook = _hook(call)
    here = f"{call.world.url}/repositories/{repository.id}/hooks/{hook.id}/deliveries"
    return log_page(call, here, call.world.model.hooks.log(hook))


def show_delivery(call: Call) -> Answer:
    """Show one delivery with what was sent and answered."""
    _, hook = _hook(call)
    return Answer(200, whole(call.world.model.hooks.delivery(hook, call.number("delivery_id"))))


def redeliver(call: Call) -> Answer:
    """Send a delivery again, with the same guid."""
    _, hook = _hook(call)
    webhooks.redeliver(call.world, call.world.model.hooks.delivery(hook, call.number("delivery_id")))
    return Answer(202, {})


def log_page(call: Call, here: str, log: Sequence[Delivery]) -> Answer:
    """Show a page of a log of deliveries, newest first; `cursor` is the id below which it begins, `status` what is
    listed.

    Raises:
        Rejected: 422, either is none.
    """
    cursor, wanted = call.query.get("cursor", ""), choice(call.query, "status", ("all", "success", "failure"))
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 15):
        raise Rejected(422, "Invalid cursor")
    found = [one for one in log if (not cursor or one.id < int(cursor)) and wanted in {"all", _outcome(one)}]
    asked = call.query.get("per_page", "")
    size = min(int(asked), PER_PAGE_LIMIT) if asked.isascii() and asked.isdigit() and len(asked) < 9 else PER_PAGE
    page, headers = found[: size or PER_PAGE], {}
    if len(found) > len(page):
        query = urlencode({**call.query, "cursor": str(page[-1].id)})
        headers["Link"] = f'<{here}?{query}>; rel="next"'
    return Answer(200, [item(one) for one in page], headers)


def _outcome(found: Delivery) -> str:
    return "success" if 200 <= found.status_code < 400 else "failure"


def whole(found: Delivery) -> Shape:
    """Show a delivery with what was sent and answered (hook-delivery)."""
    told, text = found.answered
    request = {"headers": dict(found.headers), "payload": json.loads(found.payload)}
    response = {"headers": dict(told), "payload": text}
    return {**item(found), "url": found.hook.url, "request": request, "response": response}


def item(found: Delivery) -> Shape:
    """Show a delivery as the log lists it (hook-delivery-item)."""
    return {
        "id": found.id,
        "guid": found.guid,
        "delivered_at": timestamp(found.at),
        "redelivery": found.redelivery,
        "duration": found.duration,
        "status": found.status,
        "status_code": found.status_code,
        "event": found.event,
        "action": found.action,
        "installation_id": found.installation_id,
        "repository_id": found.repository_id,
        "throttled_at": None,
    }


_HERE = "/repos/{owner}/{repo}/hooks"
ROUTES = (
    Route("POST", _HERE, create_hook),
    Route("GET", _HERE, list_hooks),
    Route("GET", f"{_HERE}/{{hook_id}}", show_one),
    Route("PATCH", f"{_HERE}/{{hook_id}}", edit_hook),
    Route("DELETE", f"{_HERE}/{{hook_id}}", delete_hook),
    Route("POST", f"{_HERE}/{{hook_id}}/pings", ping_hook),
    Route("GET", f"{_HERE}/{{hook_id}}/deliveries", list_deliveries),
    Route("GET", f"{_HERE}/{{hook_id}}/deliveries/{{delivery_id}}", show_delivery),
    Route("POST", f"{_HERE}/{{hook_id}}/deliveries/{{delivery_id}}/attempts", redeliver),
)
