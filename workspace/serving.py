"""What belongs to the application at hand: its services, and the seats of its long polls."""

from typing import Final, cast

from flask import current_app

from gitops_bot.bootstrap.workspace import Services
from workspace.waiting import Waiting

SERVICES: Final = "gitops_bot.services"
WAITING: Final = "gitops_bot.waiting"


def services() -> Services:
    """Give the services of this application."""
    return cast("Services", current_app.extensions[SERVICES])


def waiting() -> Waiting:
    """Give the seats of this application's long polls."""
    return cast("Waiting", current_app.extensions[WAITING])
