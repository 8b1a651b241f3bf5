"""What a token of an installation may do of what its app may: these permissions, in these repositories. Pure.

An app's own account has its roles besides; both must allow a request. GraphQL is held to the repositories alone.
"""

import re
from collections.abc import Mapping
from typing import Final

from gitops_bot.sandbox.apps import reaches
from gitops_bot.sandbox.model import Model
from gitops_bot.sandbox.records import Repository, Session
from gitops_bot.sandbox.refusals import Rejected, not_found
from gitops_bot.sandbox.skin import Route

_THERE: Final = r"/repos/\{owner\}/\{repo\}"
# The first that fits; any one of the names is enough (GitHub REST, permissions required for GitHub Apps).
_NEEDS: Final = (
    (re.compile(rf"{_THERE}/(.*/)?check-runs"), ("checks",)),
    (re.compile(rf"{_THERE}/pulls"), ("pull_requests",)),
    (re.compile(rf"{_THERE}/issues"), ("issues", "pull_requests")),
    (re.compile(rf"{_THERE}/hooks"), ("repository_hooks",)),
    (re.compile(rf"{_THERE}/(git|contents|compare|commits)"), ("contents",)),
    (re.compile(r"/(orgs|organizations)/"), ("members",)),
)
_NO: Final = "Resource not accessible by integration"


def require(model: Model, route: Route, path: Mapping[str, str], session: Session) -> None:
    """Let pass what a token is enough for.

    Raises:
        Rejected: 404 in a private repository that is not its own, 403 for anything else that it may not.
    """
    if session.repositories is not None:
        found = _repository(model, path)
        if found is not None and found.id not in session.repositories:
            if found.private:
                raise not_found()
            if route.method != "GET":
                raise Rejected(403, _NO)
    if session.permissions is None:
        return
    needed = next((names for pattern, names in _NEEDS if pattern.match(route.path)), ())
    level, held = "read" if route.method == "GET" else "write", dict(session.permissions)
    if needed and not any(reaches(held.get(name, ""), level) for name in needed):
        raise Rejected(403, _NO)


def _repository(model: Model, path: Mapping[str, str]) -> Repository | None:
    if "repository_id" in path:
        text = path["repository_id"]
        return model.directory.repositories.get(int(text)) if text.isascii() and text.isdigit() else None
    if "owner" in path and "repo" in path:
        return model.directory.repository_named(f"{path['owner']}/{path['repo']}")
    return None
