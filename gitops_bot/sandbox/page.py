"""A small page where a person reads pull requests and acts as an account of their choice. Demo only, without a script.

Whoever reaches the page may act as anybody; that is its purpose, and why the forge listens on the loopback address.
A form counts only from the page itself (same origin). Texts are shown as they are, escaped, never rendered.
"""

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from gitops_bot.sandbox import page_acts
from gitops_bot.sandbox.page_text import INDEX, LAYOUT, MACROS, PULL, STYLE
from gitops_bot.sandbox.records import AccountType, Comment, Pull, Repository, Review, Thread, timestamp
from gitops_bot.sandbox.refusals import Rejected
from gitops_bot.sandbox.world import World

if TYPE_CHECKING:
    from flask import Flask, Response
    from flask.typing import ResponseReturnValue

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def register(app: "Flask", world: World) -> None:
    """Add the page's routes to an application."""
    from flask import request
    from jinja2 import DictLoader, Environment, StrictUndefined

    sources = {"layout": LAYOUT, "index": INDEX, "pull": PULL, "macros": MACROS}
    pages = Environment(loader=DictLoader(sources), autoescape=True, undefined=StrictUndefined)

    def render(template: str, status: int = 200, /, **values: object) -> "Response":
        return app.response_class(pages.get_template(template).render(values), status, HEADERS, mimetype="text/html")

    def missing() -> "Response":
        return render("index", 404, title="Not found", repositories=[], logins=[], acting="")

    def show(
        owner: str, repo: str, number: int, acting: str, draft: str = "", error: str = "", status: int = 200
    ) -> "Response":
        with world.lock:
            values = _pull_values(world, f"{owner}/{repo}", number)
            people = _people(world)
        if values is None:
            return missing()
        chosen = acting if acting in people else next(iter(people), "")
        return render("pull", status, draft=draft, error=error, logins=people, acting=chosen, **values)

    @app.get("/sandbox.css")
    def style() -> "ResponseReturnValue":
        return app.response_class(STYLE, 200, HEADERS, mimetype="text/css")

    @app.get("/")
    def index() -> "ResponseReturnValue":
        with world.lock:
            repositories = _index_values(world)
        return render("index", title="Pull requests", repositories=repositories, logins=[], acting="")

    @app.get("/<owner>/<repo>/pull/<int:number>")
    def pull(owner: str, repo: str, number: int) -> "ResponseReturnValue":
        return show(owner, repo, number, request.args.get("as", ""))

    @app.post("/<owner>/<repo>/pull/<int:number>/<act>")
    def perform(owner: str, repo: str, number: int, act: str) -> "ResponseReturnValue":
        login, body = request.form.get("login", ""), request.form.get("body", "")
        # A browser sends Origin with every form POST; without it, or with another, this is no form of ours.
        if request.headers.get("Origin") != world.url:
            return show(owner, repo, number, login, error="This form was not sent from this page.", status=403)
        # Forms write line ends as CR LF (HTML, form submission); GitHub keeps them so too.
        try:
            with world.lock:
                anchor = page_acts.perform(world, f"{owner}/{repo}", number, act, request.form.to_dict())
        except Rejected as no:
            kept = body if act == "comment" else ""
            return show(owner, repo, number, login, kept, no.message, no.status)
        place = f"#{anchor}" if anchor else ""
        return app.redirect(f"/{owner}/{repo}/pull/{number}?{urlencode({'as': login})}{place}", 303)


def _people(world: World) -> list[str]:
    return [found.login for found in world.model.directory.accounts.values() if found.type is AccountType.USER]


def _index_values(world: World) -> list[tuple[str, list[dict[str, object]]]]:
    directory, threads = world.model.directory, world.model.threads
    return [
        (
            directory.full_name(repository),
            [
                {"number": thread.number, "title": thread.title, "state": _state(thread.open, thread.pull)}
                for thread in threads.pulls(repository)
            ],
        )
        for repository in directory.repositories.values()
    ]


def _state(is_open: bool, pull: Pull | None) -> str:
    if not is_open:
        return "merged" if pull is not None and pull.merged_at is not None else "closed"
    return "draft" if pull is not None and pull.draft else "open"


def _pull_values(world: World, full_name: str, number: int) -> dict[str, object] | None:
    directory = world.model.directory
    repository = directory.repository_named(full_name)
    if repository is None:
        return None
    world.tips(repository)
    try:
        thread = world.model.threads.pull(repository, number)
    except Rejected:
        return None
    assert thread.pull is not None
    return {
        "title": f"{thread.title} #{thread.number}",
        "subject": thread.title,
        "name": directory.full_name(repository),
        "number": number,
        "state": _state(thread.open, thread.pull),
        "is_open": thread.open,
        "locked": (thread.lock_reason or "locked") if thread.locked else "",
        "author": directory.accounts[thread.author_id].login,
        "at": _moment(thread.created_at),
        "head_ref": thread.pull.head_ref,
        "base_ref": thread.pull.base_ref,
        "head_sha": thread.pull.head_sha,
        "body": thread.body or "",
        "checks": _checks(world, repository, thread),
        "reviews": [_review(world, found) for found in world.model.reviews.reviews_of(repository, number)],
        "comments": [_comment(world, found) for found in world.model.comments.comments_of(repository, number)],
    }


def _moment(seconds: int) -> str:
    return timestamp(seconds).replace("T", " ").replace("Z", " UTC")


def _checks(world: World, repository: Repository, thread: Thread) -> list[dict[str, object]]:
    assert thread.pull is not None
    kinds = {"success": "open", "failure": "closed"}
    return [
        {
            "name": check.name,
            "state": (check.conclusion or check.status).replace("_", " "),
            "kind": kinds.get(check.conclusion or "", ""),
            "title": check.output[0] or "",
            "app": check.app.slug,
            "id": check.id,
            "buttons": [(action["label"], action["identifier"]) for action in check.actions],
        }
        for check in world.model.checks.of_commit(repository, thread.pull.head_sha)
    ]


def _review(world: World, found: Review) -> dict[str, object]:
    return {
        "id": found.id,
        "author": world.model.directory.accounts[found.author_id].login,
        "at": _moment(found.submitted_at),
        "state": found.state.replace("_", " ").lower(),
        "body": found.body,
    }


def _comment(world: World, found: Comment) -> dict[str, object]:
    accounts = world.model.directory.accounts
    given: dict[str, list[str]] = {}
    for reaction in world.model.comments.reactions_to(found.id):
        given.setdefault(reaction.content, []).append(accounts[reaction.account_id].login)
    marks = [f"edited by {accounts[found.edits[-1].editor_id].login}"] if found.edits else []
    marks += [f"through the app {found.app.slug}"] if found.app is not None else []
    marks += ["by e-mail"] if found.via_email else []
    return {
        "id": found.id,
        "author": accounts[found.author_id].login,
        "at": _moment(found.created_at),
        "marks": marks,
        "hidden": found.minimised_as,
        "body": found.body,
        "reactions": [{"content": content, "count": len(who), "who": ", ".join(who)} for content, who in given.items()],
        "history": [
            {"until": _moment(edit.at), "editor": accounts[edit.editor_id].login, "text": edit.before}
            for edit in reversed(found.edits)
        ],
    }
