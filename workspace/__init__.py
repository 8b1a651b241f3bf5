"""The workspace: the pages of people, and where agents, shells and loops come in over HTTP.

`create_app` gives the Flask application over the services that `gitops_bot.bootstrap.workspace` built; nothing happens
at import, and nothing of the product imports this.
"""

from flask import Flask

from gitops_bot.api.grammar import MAX_BODY
from gitops_bot.bootstrap.workspace import Services
from workspace import problems
from workspace.api.agents import agents
from workspace.api.asks import asks
from workspace.api.captures import captures
from workspace.api.enrolment import enrolment
from workspace.api.history import history
from workspace.api.inbox import inbox
from workspace.api.oidc import provided
from workspace.api.openapi import documents
from workspace.api.requests import SERVICES, WAITING
from workspace.api.routes import api
from workspace.api.sessions import own
from workspace.api.shells import waiting_shells
from workspace.api.signing_in import signing
from workspace.auth import csrf, headers, limits
from workspace.health import health
from workspace.hooks.actions import actions
from workspace.pages import installed
from workspace.waiting import Waiting


def create_app(services: Services, waiting: Waiting | None = None, tries: limits.Limits | None = None) -> Flask:
    """Make the application: routes, error documents, a cap on bodies, who may change anything, headers."""
    app = Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.extensions[SERVICES] = services
    app.extensions[WAITING] = waiting or Waiting()
    problems.install(app)
    csrf.install(app)
    limits.install(app, tries)
    headers.install(app)
    installed.install(app)
    for part in (api, asks, inbox, agents, captures, history):
        app.register_blueprint(part)
    app.register_blueprint(documents)
    app.register_blueprint(health)
    app.register_blueprint(actions)
    for door in (signing, enrolment, own, waiting_shells, provided):
        app.register_blueprint(door)
    return app
