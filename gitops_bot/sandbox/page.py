"""A small page where a person reads pull requests and comments, and comments as an account of their choice. Demo only.

Whoever reaches the page may write as anybody; that is its purpose, and why the forge listens on the loopback address.
A form counts only from the page itself (same origin). Texts are shown as they are, escaped, never rendered.
"""

from typing import TYPE_CHECKING, Final

from gitops_bot.sandbox.records import AccountType, timestamp
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

STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; color: #1f2328; }
article { border: 1px solid #d1d9e0; border-radius: 6px; margin: 1rem 0; }
article header { background: #f6f8fa; padding: .4rem .8rem; border-bottom: 1px solid #d1d9e0; color: #59636e; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0 .8rem; font: 14px/1.5 ui-monospace, monospace; }
textarea { width: 100%; box-sizing: border-box; font: 14px ui-monospace, monospace; }
.state { border-radius: 2rem; padding: .1rem .7rem; background: #59636e; color: #fff; }
.error { background: #ffebe9; padding: .5rem .8rem; }
"""

LAYOUT: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{ title }}</title><link rel="stylesheet" href="/sandbox.css"></head>
<body><p><a href="/">Sandbox forge</a> · a local stand-in, anybody here may comment as anybody</p>
<main><h1>{{ title }}</h1>
{% block body %}{% endblock %}
</main></body></html>"""

INDEX: Final = """{% extends "layout" %}{% block body %}
{% for name, pulls in repositories %}<h2>{{ name }}</h2>
<ul>{% for pull in pulls %}<li><a href="/{{ name }}/pull/{{ pull.number }}">#{{ pull.number }} {{ pull.title }}</a>
<span class="state">{{ pull.state }}</span></li>{% else %}<li>No pull request yet.</li>{% endfor %}</ul>
{% else %}<p>No repository yet.</p>{% endfor %}{% endblock %}"""

PULL: Final = """{% extends "layout" %}{% block body %}
<p><span class="state">{{ state }}</span> {{ author }} wants to merge <code>{{ head_ref }}</code>
into <code>{{ base_ref }}</code>, head <code>{{ head_sha }}</code></p>
{% if error %}<p class="error" role="alert">{{ error }}</p>{% endif %}
<article><header>{{ author }}</header><pre>{{ body }}</pre></article>
{% for comment in comments %}<article id="issuecomment-{{ comment.id }}"><header>{{ comment.author }}
· {{ comment.at }}{% if comment.edited %} · edited by {{ comment.edited }}{% endif %}{% if comment.hidden %} · minimised
{% endif %}{% if comment.reactions %} · {{ comment.reactions }}{% endif %}</header>
<pre>{{ comment.body }}</pre></article>{% endfor %}
<h2>Write a comment</h2>
<form method="post" action="/{{ name }}/pull/{{ number }}/comment">
<p><label>As <select name="login">{% for login in logins %}<option>{{ login }}</option>{% endfor %}</select></label></p>
<p><label>Comment<br><textarea name="body" rows="6" required>{{ draft }}</textarea></label></p>
<p><button>Comment</button></p></form>{% endblock %}"""


def register(app: "Flask", world: World) -> None:
    """Add the page's routes to an application."""
    from flask import request
    from jinja2 import DictLoader, Environment, StrictUndefined

    sources = {"layout": LAYOUT, "index": INDEX, "pull": PULL}
    pages = Environment(loader=DictLoader(sources), autoescape=True, undefined=StrictUndefined)

    def render(template: str, status: int = 200, /, **values: object) -> "Response":
        return app.response_class(pages.get_template(template).render(values), status, HEADERS, mimetype="text/html")

    def show(owner: str, repo: str, number: int, draft: str = "", error: str = "", status: int = 200) -> "Response":
        with world.lock:
            values = _pull_values(world, f"{owner}/{repo}", number)
        if values is None:
            return render("index", 404, title="Not found", repositories=[])
        return render("pull", status, draft=draft, error=error, **values)

    @app.get("/sandbox.css")
    def style() -> "ResponseReturnValue":
        return app.response_class(STYLE, 200, HEADERS, mimetype="text/css")

    @app.get("/")
    def index() -> "ResponseReturnValue":
        with world.lock:
            repositories = _index_values(world)
        return render("index", title="Pull requests", repositories=repositories)

    @app.get("/<owner>/<repo>/pull/<int:number>")
    def pull(owner: str, repo: str, number: int) -> "ResponseReturnValue":
        return show(owner, repo, number)

    @app.post("/<owner>/<repo>/pull/<int:number>/comment")
    def comment(owner: str, repo: str, number: int) -> "ResponseReturnValue":
        # A browser sends Origin with every form POST; without it, or with another, this is no form of ours.
        if request.headers.get("Origin") != world.url:
            return show(owner, repo, number, error="This form was not sent from this page.", status=403)
        # Forms write line ends as CR LF (HTML, form submission); GitHub keeps them so too.
        login, body = request.form.get("login", ""), request.form.get("body", "")
        try:
            with world.lock:
                made = _write(world, f"{owner}/{repo}", number, login, body)
        except Rejected as no:
            return show(owner, repo, number, body, no.message, no.status)
        return app.redirect(f"/{owner}/{repo}/pull/{number}#issuecomment-{made}", 303)


def _write(world: World, full_name: str, number: int, login: str, body: str) -> int:
    account = world.model.directory.account_named(login)
    repository = world.model.directory.repository_named(full_name)
    if account is None or repository is None:
        raise Rejected(404, "There is no such account or repository.")
    thread = world.model.threads.pull(repository, number)
    return world.model.comments.add_comment(thread, account.id, body, world.now()).id


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


def _state(is_open: bool, pull: object) -> str:
    if not is_open:
        return "merged" if getattr(pull, "merged_at", None) is not None else "closed"
    return "draft" if getattr(pull, "draft", False) else "open"


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
    accounts = directory.accounts
    people = [found.login for found in accounts.values() if found.type is AccountType.USER]
    shown = []
    for found in world.model.comments.comments_of(repository, number):
        editor = accounts[found.edits[-1].editor_id].login if found.edits else None
        reactions = " ".join(reaction.content for reaction in world.model.comments.reactions_to(found.id))
        author, at = accounts[found.author_id].login, timestamp(found.created_at)
        row = {"id": found.id, "author": author, "at": at, "edited": editor, "hidden": found.minimised}
        shown.append({**row, "reactions": reactions, "body": found.body})
    return {
        "title": f"{thread.title} #{thread.number}",
        "name": directory.full_name(repository),
        "number": number,
        "state": _state(thread.open, thread.pull),
        "author": accounts[thread.author_id].login,
        "head_ref": thread.pull.head_ref,
        "base_ref": thread.pull.base_ref,
        "head_sha": thread.pull.head_sha,
        "body": thread.body or "",
        "comments": shown,
        "logins": people,
    }
