"""From what happened to what is sent: each event becomes one delivery for each webhook that watches it.

A delivery is sent once; again only when somebody asks for it, and then with the same guid and the same bytes.
"""

import uuid
from dataclasses import replace

from gitops_bot.sandbox import payloads
from gitops_bot.sandbox.events import Event
from gitops_bot.sandbox.hooks import Delivery, Hook
from gitops_bot.sandbox.world import World


def tell(world: World, events: tuple[Event, ...]) -> None:
    """Deliver events to whom they concern."""
    for event in events:
        watching = world.model.hooks.watching(event.repository_id, event.name)
        payload = payloads.event_payload(world, event) if watching else b""
        for hook in watching:
            _post(world, payloads.delivery(hook, str(uuid.uuid4()), event.name, event.action, payload, world.now()))


def ping(world: World, hook: Hook, sender_id: int) -> None:
    """Tell a webhook that it is one."""
    payload = payloads.ping_payload(world, hook, sender_id)
    _post(world, payloads.delivery(hook, str(uuid.uuid4()), "ping", None, payload, world.now()))


def redeliver(world: World, delivery: Delivery) -> None:
    """Send a delivery again, signed with the webhook's secret of now."""
    hook = world.model.hooks.hook(world.model.directory.repositories[delivery.hook.repository_id], delivery.hook.id)
    made = payloads.delivery(hook, delivery.guid, delivery.event, delivery.action, delivery.payload, world.now())
    _post(world, replace(made, redelivery=True))


def release(world: World, *, backwards: bool = False) -> None:
    """Send what was held back."""
    for delivery in world.model.hooks.release(backwards=backwards):
        world.send(delivery)


def _post(world: World, delivery: Delivery) -> None:
    for sent in world.model.hooks.post(delivery):
        world.send(sent)
