"""The forge listening on the loopback address: Flask on waitress in threads of this process. `Sandbox` is the door.

When `start` returns, requests are answered; when `close` returns, the port is free and no thread is left.
"""

import contextlib
import functools
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from gitops_bot.sandbox.control import Control
from gitops_bot.sandbox.deliverer import Deliverer
from gitops_bot.sandbox.dispatch import Request, dispatch
from gitops_bot.sandbox.skin import Route
from gitops_bot.sandbox.state import StateFolder
from gitops_bot.sandbox.world import World

if TYPE_CHECKING:
    from flask import Flask
    from flask.typing import ResponseReturnValue
    from werkzeug.routing import Rule

REQUEST_LIMIT: Final = 8 * 1024 * 1024
"""Bytes of one request; a file of the largest size in base64 fits."""


class Sandbox(Control):
    """A local GitHub. `url` is the API's base address; clients of the API and people's browsers both use it."""

    def __init__(self, root: Path, clock: Callable[[], float]) -> None:
        super().__init__(root, clock)
        self._server: Any = None
        self._sockets: dict[int, Any] = {}
        self._thread: threading.Thread | None = None
        self._deliverer: Deliverer | None = None
        self._state: StateFolder | None = None

    @classmethod
    def start(
        cls,
        root: Path,
        port: int = 0,
        *,
        clock: Callable[[], float] | None = None,
        secret: str | None = None,
        state: Path | None = None,
    ) -> "Sandbox":
        """Start a forge that keeps its git repositories under `root`; port 0 takes a free one.

        With a secret, who knows it may set up and disturb the forge over HTTP too (`remote`). With a state folder
        everything else is kept too: started again, it is the same forge at the same port, and sends what was not sent.
        `clock` gives seconds since the epoch; the forge is the outside, so by default it has a clock of its own.
        """
        # Flask and waitress take a while to import; whoever only imports this module does not pay.
        from waitress.server import create_server  # type: ignore[import-untyped] # waitress ships no types

        own = time.time  # noqa: TID251 # the outside's clock, not ours: no decision of the product reads it
        sandbox = cls(root, clock or own)
        root.mkdir(parents=True, exist_ok=True)
        if state is not None:
            sandbox._state = StateFolder(state, sandbox.world.model.tables())
            sandbox.world.find_repositories()
        facts = sandbox.world.model.facts
        sandbox._server = create_server(
            application(sandbox, secret),
            map=sandbox._sockets,
            host="127.0.0.1",
            port=port or facts.get("port", 0),
            threads=8,
            max_request_body_size=REQUEST_LIMIT,
            # Beyond these waitress turns to files, and leaves some of them unclosed.
            inbuf_overflow=2 * REQUEST_LIMIT,
            outbuf_overflow=8 * REQUEST_LIMIT,
            ident="GitHub.com",
        )
        sandbox.world.url = f"http://127.0.0.1:{sandbox._server.effective_port}"
        sandbox._deliverer = Deliverer(sandbox.world)
        sandbox.world.send = sandbox._deliverer.post
        if sandbox._state is not None:
            with sandbox.world.lock:
                sandbox.world.keep = sandbox._state.keep
                facts["port"] = sandbox._server.effective_port
            for delivery in sandbox.world.model.hooks.outgoing.values():
                sandbox.world.send(delivery)
        sandbox._thread = threading.Thread(target=sandbox._server.run, name="sandbox", daemon=True)
        sandbox._thread.start()
        return sandbox

    @property
    def url(self) -> str:
        """The API's base address, such as `http://127.0.0.1:40001`; GraphQL is at `/graphql`."""
        return self.world.url

    def set_up_once(self, act: Callable[[], None]) -> None:
        """Do what sets the forge up, in one turn, unless its state says that it was done."""
        with self.world.lock:
            if self.world.model.facts.get("set up"):
                return
            whole = False
            try:
                act()
                whole = True
            finally:
                if not whole:
                    self.world.keep = None  # half a forge is none
            self.world.model.facts["set up"] = 1

    def wait_for_deliveries(self, seconds: float = 60.0) -> bool:
        """Wait until every webhook delivery was sent and answered; whether that came about in time."""
        return self._deliverer is not None and self._deliverer.wait(seconds)

    def close(self) -> None:
        """Stop listening, drop every connection, end the threads. Closing twice is closing once."""
        if self._thread is None:
            return
        if self._deliverer is not None:
            self._deliverer.close()
            self._deliverer = None
        # In the server's own thread, because its loop must not see a socket vanish; without sockets it ends. It may do
        # so before the trigger is written to, for an answer that was just finished wakes it too.
        with contextlib.suppress(OSError):
            self._server.trigger.pull_trigger(lambda: [channel.close() for channel in list(self._sockets.values())])
        self._thread.join(10)
        self._server.task_dispatcher.shutdown()
        self._thread = None
        if self._state is not None:
            self.world.keep = None
            self._state.close()

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def routes() -> tuple[Route, ...]:
    """List everything that the API answers."""
    from gitops_bot.sandbox.routes import (
        accounts,
        apps,
        checks,
        comments,
        compare,
        contents,
        gitdata,
        graphql,
        hooks,
        pulls,
        reviews,
        rulesets,
        teams,
    )

    nouns = (accounts, apps, checks, comments, compare, contents, gitdata, graphql, hooks, pulls, reviews, rulesets)
    return tuple(route for noun in (*nouns, teams) for route in noun.ROUTES)


def application(control: Control, secret: str | None = None) -> "Flask":
    """Build the web application over a forge."""
    from flask import Flask

    from gitops_bot.sandbox import page, remote

    world = control.world
    app = Flask("gitops_bot.sandbox", static_folder=None)
    app.url_rule_class = _matched_rules()
    app.config["MAX_CONTENT_LENGTH"] = REQUEST_LIMIT
    app.url_map.merge_slashes = False
    for route in routes():
        _register(app, world, route)
    page.register(app, world)
    _serve_git(app, world)
    if secret is not None:
        remote.register(app, control, secret)
    for status in (404, 405, 413):
        app.register_error_handler(status, _unrouted)
    return app


@functools.cache
def _matched_rules() -> "type[Rule]":
    from werkzeug.routing import Rule

    class Matched(Rule):
        """Compiles how its address is built when one is built, which takes most of a start; here they are matched."""

        def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
            compiled = super()._compile_builder

            def build(rule: Rule, **values: Any) -> tuple[str, str]:
                return compiled(append_unknown)(rule, **values)

            return build

    return Matched


def _register(app: "Flask", world: World, route: Route) -> None:
    def view(**path: str) -> "ResponseReturnValue":
        from flask import request

        made = dispatch(
            world,
            route,
            Request(
                "GET" if request.method == "HEAD" else request.method,
                request.path,
                path,
                request.args.to_dict(),
                {name.lower(): value for name, value in request.headers.items()},
                request.get_data(),
            ),
        )
        return made.body, made.status, dict(made.headers)

    rule = re.sub(r"\{(\w+)\}", r"<\1>", re.sub(r"\{(\w+)\.\.\.\}", r"<path:\1>", route.path))
    name = f"{route.method} {route.path}".replace(".", "")
    app.add_url_rule(rule, name, view, methods=[route.method], provide_automatic_options=False)
    if rule.startswith("/repos/<owner>/<repo>"):
        # GitHub's own links name a repository by id.
        by_id = rule.replace("/repos/<owner>/<repo>", "/repositories/<repository_id>", 1)
        app.add_url_rule(by_id, f"{name} by id", view, methods=[route.method], provide_automatic_options=False)


def _serve_git(app: "Flask", world: World) -> None:
    from flask import abort, request

    from gitops_bot.sandbox.smart_http import SERVICES, GitRequest, serve

    def answer(owner: str, repo: str, service: str, advertise: bool) -> "ResponseReturnValue":
        if service not in SERVICES:
            abort(404)
        headers = {name.lower(): value for name, value in request.headers.items()}
        made = serve(world, GitRequest(f"{owner}/{repo}", service, advertise, headers, request.get_data()))
        return made.body, made.status, dict(made.headers)

    @app.get("/<owner>/<repo>.git/info/refs")
    def advertised(owner: str, repo: str) -> "ResponseReturnValue":
        return answer(owner, repo, request.args.get("service", ""), True)

    @app.post("/<owner>/<repo>.git/<service>")
    def exchanged(owner: str, repo: str, service: str) -> "ResponseReturnValue":
        return answer(owner, repo, service, False)


def _unrouted(error: Exception) -> "ResponseReturnValue":
    large = getattr(error, "code", 404) == 413
    words = "Sorry, your input was too large to process." if large else "Not Found"
    return {"message": words, "documentation_url": "https://docs.github.com/rest"}, 413 if large else 404
