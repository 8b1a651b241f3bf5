"""Whether this process lives (`/healthz`) and can do its work (`/readyz`), for whoever supervises it; no token."""

from typing import Final, cast

from flask import Blueprint, Response, current_app, jsonify

from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.errors import Unavailable
from gitops_bot.store import ledger
from workspace.api.requests import SERVICES

health: Final = Blueprint("health", __name__)


@health.get("/healthz")
def healthz() -> Response:
    """Say that the process answers."""
    return jsonify({"ok": True})


@health.get("/readyz")
def readyz() -> tuple[Response, int]:
    """Say whether the database answers."""
    services = cast("Services", current_app.extensions[SERVICES])
    try:
        with services.database.read() as tx:
            ledger.head(tx)
    except Unavailable:
        return jsonify({"ok": False, "database": "unavailable"}), 503
    return jsonify({"ok": True, "database": "ok"}), 200
