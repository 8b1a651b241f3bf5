"""Webhooks of a repository, their log of deliveries, and sending one again; for its administrators."""

import json
from collections.abc import Mapping

from gitops_bot.sandbox import webhooks
from gitops_bot.sandbox.hooks import Delivery, Hook
from gitops_bot.sandbox.payloads import show_hook
from gitops_bot.sandbox.records import Repository, Role, timestamp
from gitops_bot.sandbox.refusals import invalid
from gitops_bot.sandbox.shapes import Shape
from gitops_bot.sandbox.skin import Answer, Call, Route, flag_field, optional_text, page_of, text_field


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
    """List what was sent, newest first; `cursor` is not kept, all fit on few pages."""
    repository, hook = _hook(call)
    page, headers = page_of(call, repository, f"/hooks/{hook.id}/deliveries", call.world.model.hooks.log(hook))
    return Answer(200, [item(found) for found in page], headers)


def show_delivery(call: Call) -> Answer:
    """Show one delivery with what was sent and answered."""
    _, hook = _hook(call)
    return Answer(200, whole(call.world.model.hooks.delivery(hook, call.number("delivery_id"))))


def redeliver(call: Call) -> Answer:
    """Send a delivery again, with the same guid."""
    _, hook = _hook(call)
    webhooks.redeliver(call.world, call.world.model.hooks.delivery(hook, call.number("delivery_id")))
    return Answer(202, {})


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
