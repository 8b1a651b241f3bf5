"""Check runs, for the tokens of GitHub Apps only, whose permission it takes and no role; anybody who may read sees
them."""

from collections.abc import Mapping

from gitops_bot.sandbox.check_shapes import check_run
from gitops_bot.sandbox.checks import Check, Wish
from gitops_bot.sandbox.git import FULL_ID
from gitops_bot.sandbox.records import App, Repository
from gitops_bot.sandbox.refusals import Rejected, invalid, not_found
from gitops_bot.sandbox.skin import Answer, Call, Json, Route, choice, object_list, optional_text, page_of, text_field

_KIND = "CheckRun"


def _app(call: Call) -> App:
    if call.session.app is None or call.session.installation is None:
        raise Rejected(403, "You must authenticate via a GitHub App.")
    return call.session.app


def _output(body: Json) -> tuple[str | None, str | None, str | None] | None:
    given = body.get("output")
    if given is None:
        return None
    if not isinstance(given, dict):
        raise invalid(_KIND, "output", "invalid")
    title, summary, text = (optional_text(given, name, _KIND) for name in ("title", "summary", "text"))
    if summary is None:
        raise invalid(_KIND, "output.summary", "missing_field")
    return title, summary, text


def _actions(body: Json) -> tuple[Mapping[str, str], ...] | None:
    if "actions" not in body:
        return None
    names = ("label", "description", "identifier")
    return tuple(
        {name: text_field(item, name, _KIND) for name in names} for item in object_list(body, "actions", _KIND)
    )


def _wish(body: Json) -> Wish:
    return Wish(
        name=optional_text(body, "name", _KIND),
        external_id=optional_text(body, "external_id", _KIND),
        status=optional_text(body, "status", _KIND),
        conclusion=optional_text(body, "conclusion", _KIND),
        details_url=optional_text(body, "details_url", _KIND),
        output=_output(body),
        actions=_actions(body),
    )


def create_check(call: Call) -> Answer:
    """Make a check run of a commit of the repository."""
    app, repository = _app(call), call.repository()
    head = text_field(call.body, "head_sha", _KIND)
    if not FULL_ID.fullmatch(head) or call.world.git(repository).read_commit(head) is None:
        raise Rejected(422, f"No commit found for SHA: {head[:100]}")
    made = call.world.model.checks.create(repository, app, head, _wish(call.body), call.world.now())
    shape = check_run(call.world, repository, made)
    return Answer(201, shape, {"Location": str(shape["url"])})


def _check(call: Call) -> tuple[Repository, Check]:
    repository = call.repository()
    return repository, call.world.model.checks.check(repository, call.number("check_run_id"))


def show_check(call: Call) -> Answer:
    """Show a check run."""
    return Answer(200, check_run(call.world, *_check(call)))


def update_check(call: Call) -> Answer:
    """Change a check run of one's own app."""
    app = _app(call)
    repository, found = _check(call)
    changed = call.world.model.checks.update(found, app, _wish(call.body), call.world.now())
    return Answer(200, check_run(call.world, repository, changed))


def list_checks(call: Call) -> Answer:
    """List the check runs of a commit (a full id or a branch): the newest of each app and name, or all."""
    repository = call.repository()
    name = call.path["ref"]
    oid = name if FULL_ID.fullmatch(name) else call.world.tips(repository).get(name.removeprefix("heads/"))
    if oid is None:
        raise not_found()
    found = list(call.world.model.checks.of_commit(repository, oid))
    wanted, app_id = call.query.get("check_name"), call.query.get("app_id")
    found = [check for check in found if wanted in {None, check.name} and app_id in {None, str(check.app.id)}]
    if "status" in call.query:
        found = [check for check in found if check.status == call.query["status"]]
    if choice(call.query, "filter", ("latest", "all")) == "latest":
        newest: dict[tuple[int, str], Check] = {}
        for check in found:
            newest.setdefault((check.app.id, check.name), check)
        found = list(newest.values())
    page, headers = page_of(call, repository, f"/commits/{name}/check-runs", found)
    shown = [check_run(call.world, repository, check) for check in page]
    return Answer(200, {"total_count": len(found), "check_runs": shown}, headers)


ROUTES = (
    Route("POST", "/repos/{owner}/{repo}/check-runs", create_check, creates=True),
    Route("GET", "/repos/{owner}/{repo}/check-runs/{check_run_id}", show_check),
    Route("PATCH", "/repos/{owner}/{repo}/check-runs/{check_run_id}", update_check),
    Route("GET", "/repos/{owner}/{repo}/commits/{ref...}/check-runs", list_checks),
)
