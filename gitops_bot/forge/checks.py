"""Check runs that mirror the status comment where the bot is a GitHub App (GitHub REST, check runs).

They show and never decide. `path` is the repository's; each function sends one request once.
"""

from typing import Any, Final

from gitops_bot.core.errors import Unavailable
from gitops_bot.core.readings import Check
from gitops_bot.forge.answers import member, rows
from gitops_bot.forge.transport import Transport

MAX_SUMMARY: Final = 65_535
"""Characters of a summary; one more is 422."""

_PER_PAGE: Final = 100


def find(wire: Transport, path: str, head_sha: str, check: Check, app_id: int | None = None) -> int | None:
    """Find a check run of a commit by name and external id, and where it is known the app that made it; its id.

    Another app may show one that looks the same; changing that is refused by the forge.

    Raises:
        Unavailable: as `Transport.send`, or there are more than one answer lists.
    """
    query: dict[str, str | int] = {"check_name": check.name, "filter": "all", "per_page": _PER_PAGE}
    if app_id is not None:
        query["app_id"] = app_id
    answer = wire.send("GET", f"{path}/commits/{head_sha}/check-runs", query=query)
    for row in rows(member(answer.data, "check_runs", "list")):
        if isinstance(row, dict) and row.get("external_id") == check.external_id:
            return int(member(row, "id", "integer"))
    if member(answer.data, "total_count", "integer") > _PER_PAGE:
        raise Unavailable("more check runs than one answer lists")  # not found is not the same as not looked at
    return None


def create(wire: Transport, path: str, head_sha: str, check: Check) -> int:
    """Show a check run on a commit; its id."""
    body = {"name": check.name, "head_sha": head_sha, **_body(check)}
    return int(member(wire.send("POST", f"{path}/check-runs", body=body).data, "id", "integer"))


def update(wire: Transport, path: str, check_id: int, check: Check) -> None:
    """Let a check run show something else."""
    wire.send("PATCH", f"{path}/check-runs/{check_id:d}", body={"name": check.name, **_body(check)})


def _body(check: Check) -> dict[str, Any]:
    body: dict[str, Any] = {
        "external_id": check.external_id,
        "status": "in_progress" if check.conclusion is None else "completed",
        "output": {"title": check.title, "summary": check.summary[:MAX_SUMMARY]},
        "actions": [
            {"label": button.label, "description": button.description, "identifier": button.identifier}
            for button in check.buttons
        ],
    }
    return body if check.conclusion is None else {**body, "conclusion": check.conclusion.value}
