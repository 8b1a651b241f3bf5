"""How check runs look in REST answers and to an app whose button was pressed. As `shapes`: reads only, and validated
against the same descriptions."""

from gitops_bot.sandbox import shapes
from gitops_bot.sandbox.checks import Check
from gitops_bot.sandbox.records import Node, Repository, node_id, timestamp
from gitops_bot.sandbox.shapes import Shape
from gitops_bot.sandbox.world import World


def check_run(world: World, there: Repository, found: Check) -> Shape:
    """Show a check run (check-run). Its buttons are not told, as at GitHub."""
    repo = shapes.repository_url(world, there)
    page = f"{world.url}/{world.model.directory.full_name(there)}/runs/{found.id}"
    title, summary, text = found.output
    output = {"title": title, "summary": summary, "text": text, "annotations_count": 0}
    return {
        "id": found.id,
        "node_id": node_id(Node.CHECK_RUN, there.id, found.id),
        "head_sha": found.head_sha,
        "external_id": found.external_id,
        "name": found.name,
        "url": f"{repo}/check-runs/{found.id}",
        "html_url": page,
        "details_url": found.details_url or f"{world.url}/apps/{found.app.slug}",
        "status": found.status,
        "conclusion": found.conclusion,
        "started_at": timestamp(found.started_at),
        "completed_at": None if found.completed_at is None else timestamp(found.completed_at),
        "output": {**output, "annotations_url": f"{repo}/check-runs/{found.id}/annotations"},
        "check_suite": {"id": found.app.id},
        "app": shapes.app(world, found.app),
        "pull_requests": [],
    }


def pressed(world: World, there: Repository, found: Check) -> Shape:
    """Show a check run as its app is told of it, with the whole suite that it is part of."""
    shape, repo = check_run(world, there, found), shapes.repository_url(world, there)
    moment, made_by = timestamp(found.started_at), app(world, found)
    suite: Shape = {
        "id": found.app.id,
        "node_id": node_id(Node.CHECK_SUITE, there.id, found.app.id),
        "head_branch": _branch(world, there, found),
        "head_sha": found.head_sha,
        "status": found.status,
        "conclusion": found.conclusion,
        "url": f"{repo}/check-suites/{found.app.id}",
        "before": None,
        "after": found.head_sha,
        "pull_requests": [],
        "app": made_by,
        "created_at": moment,
        "updated_at": moment,
    }
    return {**shape, "check_suite": suite, "app": made_by}


def app(world: World, found: Check) -> Shape:
    """Show the app of a check run as payloads do."""
    shape = shapes.app(world, found.app)
    del shape["client_id"]
    return shape


def _branch(world: World, there: Repository, found: Check) -> str | None:
    pulls = world.model.threads.pulls(there)
    heads = (one.pull.head_ref for one in pulls if one.pull is not None and one.pull.head_sha == found.head_sha)
    return next(heads, None)
