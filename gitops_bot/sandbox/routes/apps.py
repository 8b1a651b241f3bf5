"""Tokens of an installation, for the app that shows its JWT. The only route that takes no token of an account."""

import secrets

from gitops_bot.sandbox.records import timestamp
from gitops_bot.sandbox.refusals import not_found
from gitops_bot.sandbox.setting_up import INSTALLATION_LIFE
from gitops_bot.sandbox.skin import Answer, Call, Route

PERMISSIONS = {"checks": "write", "contents": "write", "issues": "write", "members": "read", "pull_requests": "write"}


def create_token(call: Call) -> Answer:
    """Give an app a token of its own installation: far longer than 40 characters, for an hour."""
    asking = call.session.app
    found = call.world.model.apps.installed(call.number("installation_id"))
    if found is None or asking is None or found.app.id != asking.id:
        raise not_found()
    made, until = f"ghs_{secrets.token_urlsafe(300)}", call.world.now() + INSTALLATION_LIFE
    directory = call.world.model.directory
    directory.add_token(made, found.bot_id, found.app, expires_at=until, installation=found.app.id)
    shape = {"token": made, "expires_at": timestamp(until), "permissions": PERMISSIONS, "repository_selection": "all"}
    return Answer(201, shape)


ROUTES = (Route("POST", "/app/installations/{installation_id}/access_tokens", create_token, by_app=True),)
