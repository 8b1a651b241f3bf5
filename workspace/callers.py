"""Whom a bearer token stands for, read from the rows at the moment it is used. Tokens are never logged.

A token is looked up by its hash, at one cost for known and unknown ones. Views ask once before they work and every
change asks again inside its own transaction, so that a token that was revoked meanwhile changes nothing.
"""

from dataclasses import dataclass

from flask import request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Unauthorized

from gitops_bot.api.grammar import parse_bearer
from gitops_bot.core.errors import Reason, Refusal, refuse
from gitops_bot.store import agents
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import RunState, TokenScope


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated agent. `run` is the one run that the token is limited to; None: all of the agent's own."""

    agent: agents.Agent
    scope: TokenScope
    run: agents.Run | None

    @property
    def run_id(self) -> str | None:
        """The id of the run that limits the token."""
        return None if self.run is None else self.run.id

    def require(self, *scopes: TokenScope) -> None:
        """Refuse a token of another scope.

        Raises:
            Refusal: the token is for something else.
        """
        if self.scope not in scopes:
            wanted = " or ".join(scope.value for scope in scopes)
            raise Refusal(
                refuse(Reason.NOT_AUTHORISED, f"This takes a token of scope {wanted}.", scope=self.scope.value)
            )


def bearer_token() -> str:
    """Take the token of the request at hand.

    Raises:
        Unauthorized: there is none.
    """
    token = parse_bearer(request.headers.get("Authorization"))
    if token is None:
        raise _unauthorized("Send the token as `Authorization: Bearer …`.", None)
    return token


def authenticate(tx: Tx, token: str) -> Caller:
    """Find whom a token stands for now.

    Raises:
        Unauthorized: nobody, or no longer: revoked, its agent retired, its run ended.
    """
    found = agents.bearer(tx, token)
    if found is None:
        raise _unauthorized("This token stands for nobody, or does no longer.", "invalid_token")
    if found.scope is not TokenScope.RUN:
        return Caller(found.agent, found.scope, None)
    run = None if found.run is None else agents.run(tx, found.run)
    if run is None or run.state is RunState.ENDED:
        raise _unauthorized("The run of this token has ended.", "invalid_token")
    return Caller(found.agent, found.scope, run)


def _unauthorized(description: str, error: str | None) -> Unauthorized:
    values: dict[str, str | None] = {"realm": "gitops-bot", **({} if error is None else {"error": error})}
    return Unauthorized(description, www_authenticate=WWWAuthenticate("bearer", values))
