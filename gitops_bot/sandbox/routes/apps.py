"""What an app asks for with its JWT: itself, its installation on a repository, tokens, its webhook with the log of what
was delivered. They take no token."""

import secrets

from gitops_bot.sandbox import shapes, webhooks
from gitops_bot.sandbox.apps import Installation
from gitops_bot.sandbox.hooks import Delivery, Hook
from gitops_bot.sandbox.records import App, Repository, timestamp
from gitops_bot.sandbox.refusals import Rejected, not_found
from gitops_bot.sandbox.routes.hooks import log_page, whole
from gitops_bot.sandbox.setting_up import INSTALLATION_LIFE
from gitops_bot.sandbox.skin import Answer, Call, Route

_UNREACHED = "There is at least one repository that does not exist or is not accessible to the parent installation."


def _asking(call: Call) -> App:
    if call.session.app is None:
        raise not_found()
    return call.session.app


def show_app(call: Call) -> Answer:
    """Show the app whose JWT it is."""
    app = _asking(call)
    hook = call.world.model.hooks.of_app(app.id)
    return Answer(200, {**shapes.app(call.world, app), "events": list(hook.events) if hook is not None else []})


def show_installation(call: Call) -> Answer:
    """Show the asking app's installation that holds a repository."""
    app = _asking(call)
    repository = call.world.model.directory.repository_named(f"{call.path['owner']}/{call.path['repo']}")
    found = None if repository is None else call.world.model.apps.holding(app, repository)
    if repository is None or found is None:
        raise not_found()
    return Answer(200, shapes.installation(call.world, app, found, repository.owner_id))


def create_token(call: Call) -> Answer:
    """Give an app a token of its own installation: far longer than 40 characters, for an hour, with the permissions and
    repositories that are asked for, or all."""
    app, world = _asking(call), call.world
    found = world.model.apps.installations.get(call.number("installation_id"))
    if found is None or found.app_id != app.id:
        raise not_found()
    if found.suspended_at is not None:
        raise Rejected(403, "This installation has been suspended")
    permissions, chosen = _permissions(call, found), _repositories(call, found)
    made, until = f"ghs_{secrets.token_urlsafe(450)}", world.now() + INSTALLATION_LIFE
    world.model.directory.add_token(
        made,
        call.session.account_id,
        app,
        expires_at=until,
        installation=found.id,
        repositories=None if chosen is None else tuple(one.id for one in chosen),
        permissions=tuple(sorted(permissions.items())),
    )
    selected = bool(call.body.get("repositories") or call.body.get("repository_ids")) or found.repositories is not None
    shape: shapes.Shape = {"token": made, "expires_at": timestamp(until), "permissions": permissions}
    shape["repository_selection"] = "selected" if selected else "all"
    if selected and chosen is not None:
        shape["repositories"] = [shapes.repository(world, one) for one in chosen]
    return Answer(201, shape)


def _permissions(call: Call, found: Installation) -> dict[str, str]:
    wanted = call.body.get("permissions")
    if not wanted:
        return dict(found.permissions)
    if not isinstance(wanted, dict) or not all(level in {"read", "write"} for level in wanted.values()):
        raise Rejected(422, "Invalid permissions")
    if not found.grants(wanted):
        raise Rejected(422, "The permissions requested are not granted to this installation.")
    return {**wanted, "metadata": "read"}


def _repositories(call: Call, found: Installation) -> list[Repository] | None:
    """Find what is asked for by name or id; None where all is everything."""
    names, numbers = _list(call, "repositories"), _list(call, "repository_ids")
    every = [one for one in call.world.model.directory.repositories.values() if found.covers(one)]
    if not names and not numbers:
        return None if found.owner_id is None and found.repositories is None else every
    wanted = {name.lower() for name in names}, set(numbers)
    chosen = [one for one in every if one.name.lower() in wanted[0] or str(one.id) in wanted[1]]
    known = {one.name.lower() for one in chosen}, {str(one.id) for one in chosen}
    if not (wanted[0] <= known[0] and wanted[1] <= known[1]):
        raise Rejected(422, _UNREACHED)
    return chosen


def _list(call: Call, name: str) -> list[str]:
    found = call.body.get(name) or []
    if not isinstance(found, list):
        raise Rejected(422, f"Invalid {name}")
    return [str(one) for one in found]


def _hook(call: Call) -> Hook | None:
    return call.world.model.hooks.of_app(_asking(call).id)


def show_hook(call: Call) -> Answer:
    """Show the app's webhook (webhook-config); its secret only as stars. One without an address has none."""
    hook = _hook(call)
    if hook is None:
        return Answer(200, {"content_type": "form", "insecure_ssl": "0"})
    config = {"url": hook.url, "content_type": "json", "insecure_ssl": "0"}
    return Answer(200, config | ({"secret": "********"} if hook.secret is not None else {}))


def list_deliveries(call: Call) -> Answer:
    """List what was sent to the app, newest first."""
    hook = _hook(call)
    log = () if hook is None else call.world.model.hooks.log(hook)
    return log_page(call, f"{call.world.url}/app/hook/deliveries", log)


def _delivery(call: Call) -> Delivery:
    hook = _hook(call)
    if hook is None:
        raise not_found()
    return call.world.model.hooks.delivery(hook, call.number("delivery_id"))


def show_delivery(call: Call) -> Answer:
    """Show one delivery with what was sent and answered."""
    return Answer(200, whole(_delivery(call)))


def redeliver(call: Call) -> Answer:
    """Send a delivery again, with the same guid."""
    webhooks.redeliver(call.world, _delivery(call))
    return Answer(202, {})


ROUTES = (
    Route("GET", "/app/hook/config", show_hook, by_app=True),
    Route("GET", "/app/hook/deliveries", list_deliveries, by_app=True),
    Route("GET", "/app/hook/deliveries/{delivery_id}", show_delivery, by_app=True),
    Route("POST", "/app/hook/deliveries/{delivery_id}/attempts", redeliver, by_app=True),
    Route("GET", "/app", show_app, by_app=True),
    Route("GET", "/repos/{owner}/{repo}/installation", show_installation, by_app=True),
    Route("POST", "/app/installations/{installation_id}/access_tokens", create_token, by_app=True),
)
