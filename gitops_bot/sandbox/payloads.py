"""What a webhook's receiver gets: headers, the signature over the raw bytes, and JSON as GitHub's published schemas
describe it (npm `@octokit/webhooks-schemas`). As `shapes`: reads only.

The event's name and the delivery's id are not under the signature (GitHub, webhooks).
"""

import hashlib
import hmac
import json

from gitops_bot.sandbox import check_shapes, pull_shapes, shapes
from gitops_bot.sandbox.apps import Installation
from gitops_bot.sandbox.checks import Check
from gitops_bot.sandbox.events import Event
from gitops_bot.sandbox.hooks import Delivery, Hook
from gitops_bot.sandbox.records import REACTIONS, AccountType, Node, Repository, Review, Thread, node_id, timestamp
from gitops_bot.sandbox.shapes import Shape
from gitops_bot.sandbox.world import World

ZEN = "Keep it logically awesome."


def event_payload(world: World, event: Event, installation_id: int | None = None) -> bytes:
    """Write what happened, as it stands now; to an app with the installation by which it is told."""
    if isinstance(event.about, Installation):
        return _bytes(_of_installation(world, event, event.about))
    there = world.model.directory.repositories[event.repository_id]
    shape = {"action": event.action, **_what(world, event, there), **_around(world, there, event.sender_id)}
    if installation_id is not None:
        shape["installation"] = {"id": installation_id, "node_id": node_id(Node.INSTALLATION, installation_id)}
    return _bytes(shape)


def _what(world: World, event: Event, there: Repository) -> Shape:
    if isinstance(event.about, Check):
        shown = check_shapes.pressed(world, there, event.about)
        return {"check_run": shown, "requested_action": {"identifier": event.identifier}}
    thread = world.model.threads.thread(there, event.number)
    if isinstance(event.about, Review):
        shown = pull_shapes.review(world, event.about)
        shown["state"] = event.about.state.lower()
        pull = _with_repository(world, there, pull_shapes.pull(world, thread))
        return {**_changes(event), "review": shown, "pull_request": pull}
    if event.name == "pull_request":
        changes = dict(event.changes) if event.action == "synchronize" else _changes(event)
        pull = _with_repository(world, there, pull_shapes.full_pull(world, thread))
        return {"number": thread.number, **changes, "pull_request": pull}
    assert event.comment is not None
    return {**_changes(event), "issue": _issue(world, thread), "comment": shapes.comment(world, event.comment)}


def _of_installation(world: World, event: Event, about: Installation) -> Shape:
    directory = world.model.directory
    app = world.model.apps.registered[about.app_id].app
    held = [one for one in directory.repositories.values() if about.covers(one)]
    named = [
        {
            "id": one.id,
            "node_id": node_id(Node.REPOSITORY, one.id),
            "name": one.name,
            "full_name": directory.full_name(one),
            "private": one.private,
        }
        for one in held
    ]
    return {
        "action": event.action,
        "installation": shapes.installation(world, app, about, event.sender_id),
        "repositories": named,
        "sender": shapes.user(world, directory.accounts[event.sender_id]),
    }


def ping_payload(world: World, hook: Hook, sender_id: int) -> bytes:
    """Write what a new webhook is told first."""
    told = {"zen": ZEN, "hook_id": hook.id, "hook": show_hook(world, hook)}
    if hook.app_id is not None:
        return _bytes(told)
    return _bytes({**told, **_around(world, world.model.directory.repositories[hook.repository_id], sender_id)})


def delivery(hook: Hook, guid: str, name: str, action: str | None, payload: bytes, now: int) -> Delivery:
    """Put a payload into its envelope."""
    target = ("repository", hook.repository_id) if hook.app_id is None else ("integration", hook.app_id)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/sandbox",
        "Accept": "*/*",
        "X-GitHub-Delivery": guid,
        "X-GitHub-Event": name,
        "X-GitHub-Hook-ID": str(hook.id),
        "X-GitHub-Hook-Installation-Target-ID": str(target[1]),
        "X-GitHub-Hook-Installation-Target-Type": target[0],
    }
    if hook.secret is not None:
        key = hook.secret.encode("utf-8")
        headers["X-Hub-Signature"] = "sha1=" + hmac.new(key, payload, hashlib.sha1).hexdigest()
        headers["X-Hub-Signature-256"] = "sha256=" + hmac.new(key, payload, hashlib.sha256).hexdigest()
    told_of = hook.repository_id or None
    return Delivery(0, guid, hook, name, action, headers, payload, now, repository_id=told_of)


def show_hook(world: World, hook: Hook) -> Shape:
    """Show a webhook (hook); its secret only as stars."""
    if hook.app_id is None:
        there = world.model.directory.repositories[hook.repository_id]
        here, whose = f"{shapes.repository_url(world, there)}/hooks/{hook.id}", Shape(type="Repository")
    else:
        here, whose = f"{world.url}/app/hook", Shape(type="App", app_id=hook.app_id)
    config = {"url": hook.url, "content_type": "json", "insecure_ssl": "0"}
    moment = timestamp(hook.created_at)
    return {
        **whose,
        "id": hook.id,
        "name": "web",
        "active": hook.active,
        "events": list(hook.events),
        "config": config | ({"secret": "********"} if hook.secret is not None else {}),
        "updated_at": moment,
        "created_at": moment,
        "url": here,
        "test_url": f"{here}/test",
        "ping_url": f"{here}/pings",
        "deliveries_url": f"{here}/deliveries",
        "last_response": {"code": None, "status": "unused", "message": None},
    }


def _issue(world: World, thread: Thread) -> Shape:
    shape = shapes.issue(world, thread)
    del shape["closed_by"]
    counts: Shape = dict.fromkeys(REACTIONS, 0)
    return {**shape, "reactions": {"url": f"{shape['url']}/reactions", "total_count": 0, **counts}}


def _repository(world: World, there: Repository) -> Shape:
    return {**shapes.repository(world, there), "web_commit_signoff_required": False, "custom_properties": {}}


def _with_repository(world: World, repository: Repository, shape: Shape) -> Shape:
    for side in ("head", "base"):
        shown = shape[side]
        assert isinstance(shown, dict)
        shown["repo"] = _repository(world, repository)
    return shape


def _bytes(shape: Shape) -> bytes:
    return json.dumps(shape, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _changes(event: Event) -> Shape:
    return {"changes": dict(event.changes)} if event.action == "edited" else {}


def _around(world: World, there: Repository, sender_id: int) -> Shape:
    directory = world.model.directory
    shape: Shape = {"repository": _repository(world, there)}
    owner = directory.accounts[there.owner_id]
    if owner.type is AccountType.ORGANIZATION:
        here = f"{world.url}/orgs/{owner.login}"
        shape["organization"] = {
            "login": owner.login,
            "id": owner.id,
            "node_id": node_id(Node.USER, owner.id),
            "url": here,
            "repos_url": f"{here}/repos",
            "events_url": f"{here}/events",
            "hooks_url": f"{here}/hooks",
            "issues_url": f"{here}/issues",
            "members_url": f"{here}/members{{/member}}",
            "public_members_url": f"{here}/public_members{{/member}}",
            "avatar_url": f"{world.url}/u/{owner.id}",
            "description": "",
        }
    return {**shape, "sender": shapes.user(world, directory.accounts[sender_id])}
