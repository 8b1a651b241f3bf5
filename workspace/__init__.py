"""The workspace: where agents, shells and loops come in over HTTP. It has no pages yet.

`create_app` gives the Flask application over the services that `gitops_bot.bootstrap.workspace` built; nothing happens
at import, and nothing of the product imports this.
"""

from flask import Flask

from gitops_bot.api.grammar import MAX_BODY
from gitops_bot.bootstrap.workspace import Services
from workspace import problems
from workspace.api.openapi import documents
from workspace.api.requests import SERVICES, WAITING
from workspace.api.routes import api
from workspace.auth import csrf, headers
from workspace.health import health
from workspace.waiting import Waiting


def create_app(services: Services, waiting: Waiting | None = None) -> Flask:
    """Make the application: routes, error documents, a cap on bodies, who may change anything, headers."""
    app = Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.extensions[SERVICES] = services
    app.extensions[WAITING] = waiting or Waiting()
    problems.install(app)
    csrf.install(app)
    headers.install(app)
    app.register_blueprint(api)
    app.register_blueprint(documents)
    app.register_blueprint(health)
    return app
