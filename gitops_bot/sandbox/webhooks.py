"""From what happened to what is sent: each event becomes one delivery for each webhook that watches it, of the
repository or of an app that is installed there.

A delivery is sent once; again only when somebody asks for it, and then with the same guid and the same bytes.
"""

import uuid
from collections.abc import Iterator
from dataclasses import replace

from gitops_bot.sandbox import payloads
from gitops_bot.sandbox.apps import Installation
from gitops_bot.sandbox.checks import Check
from gitops_bot.sandbox.events import Event
from gitops_bot.sandbox.hooks import Delivery, Hook
from gitops_bot.sandbox.refusals import not_found
from gitops_bot.sandbox.world import World


def tell(world: World, events: tuple[Event, ...]) -> None:
    """Deliver events to whom they concern."""
    for event in events:
        for hook, installation in _watching(world, event):
            payload = payloads.event_payload(world, event, installation)
            made = payloads.delivery(hook, str(uuid.uuid4()), event.name, event.action, payload, world.now())
            about = event.repository_id or None
            _post(world, replace(made, repository_id=about, installation_id=installation))


def _watching(world: World, event: Event) -> Iterator[tuple[Hook, int | None]]:
    """List whom an event is told, with the installation by which an app is. Of a button only its own app hears, of an
    installation its app whatever it watches, and of anything else none that is suspended (GitHub, webhooks)."""
    model, about = world.model, event.about
    if isinstance(about, Installation):
        hook = model.hooks.of_app(about.app_id)
        yield from [(hook, about.id)] if hook is not None else []
        return
    if not isinstance(about, Check):
        yield from ((hook, None) for hook in model.hooks.watching(event.repository_id, event.name))
    repository = model.directory.repositories[event.repository_id]
    for registration in model.apps.registered.values():
        hook, held = model.hooks.of_app(registration.app.id), model.apps.holding(registration.app, repository)
        if hook is None or held is None or held.suspended_at is not None or event.name not in hook.events:
            continue
        if not isinstance(about, Check) or about.app.id == registration.app.id:
            yield hook, held.id


def ping(world: World, hook: Hook, sender_id: int) -> None:
    """Tell a webhook that it is one."""
    payload = payloads.ping_payload(world, hook, sender_id)
    _post(world, payloads.delivery(hook, str(uuid.uuid4()), "ping", None, payload, world.now()))


def redeliver(world: World, delivery: Delivery) -> None:
    """Send a delivery again, signed with the webhook's secret of now.

    Raises:
        Rejected: 404, the webhook is gone.
    """
    hook = world.model.hooks.current(delivery.hook)
    if hook is None:
        raise not_found()
    made = payloads.delivery(hook, delivery.guid, delivery.event, delivery.action, delivery.payload, world.now())
    told_of, by = delivery.repository_id, delivery.installation_id
    _post(world, replace(made, redelivery=True, repository_id=told_of, installation_id=by))


def release(world: World, *, backwards: bool = False) -> None:
    """Send what was held back."""
    for delivery in world.model.hooks.release(backwards=backwards):
        world.send(delivery)


def _post(world: World, delivery: Delivery) -> None:
    for sent in world.model.hooks.post(delivery):
        world.send(sent)
