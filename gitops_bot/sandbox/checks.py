"""Check runs of a commit: made and changed by the app that made them and by nobody else. Pure.

What is checked is their form (GitHub REST, check runs); whether the commit exists is the caller's question.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gitops_bot.sandbox.records import App, Ids, Repository
from gitops_bot.sandbox.refusals import Rejected, invalid, not_found

STATUSES: Final = ("queued", "in_progress", "completed")
CONCLUSIONS: Final = ("success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required")
TEXT_LIMIT: Final = 65_535
ACTIONS_LIMIT: Final = 3
_ACTION_LIMITS: Final = {"label": 20, "description": 40, "identifier": 20}


@dataclass(frozen=True, slots=True)
class Check:
    """A check run; `output` are title, summary and text."""

    id: int
    repository_id: int
    app: App
    name: str
    head_sha: str
    external_id: str
    status: str
    conclusion: str | None
    details_url: str | None
    output: tuple[str | None, str | None, str | None]
    actions: tuple[Mapping[str, str], ...]
    started_at: int
    completed_at: int | None


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request asks of a check run; None leaves a value as it is."""

    name: str | None = None
    external_id: str | None = None
    status: str | None = None
    conclusion: str | None = None
    details_url: str | None = None
    output: tuple[str | None, str | None, str | None] | None = None
    actions: tuple[Mapping[str, str], ...] | None = None


class Checks:
    """Every check run of every repository. A button that was pressed is handed to `pressed`."""

    def __init__(self, ids: Ids, pressed: Callable[[Check, str, int], None] = lambda *_: None) -> None:
        self._ids = ids
        self._pressed = pressed
        self.runs: dict[int, Check] = {}

    def create(self, repository: Repository, app: App, head_sha: str, wish: Wish, now: int) -> Check:
        """Make a check run.

        Raises:
            Rejected: 422, it has no name or does not fit.
        """
        if not wish.name:
            raise invalid("CheckRun", "name", "missing_field")
        blank = (None, None, None)
        made = Check(
            self._ids.take(), repository.id, app, wish.name, head_sha, "", "queued", None, None, blank, (), now, None
        )
        return self._put(_changed(made, wish, now))

    def update(self, check: Check, app: App, wish: Wish, now: int) -> Check:
        """Change a check run.

        Raises:
            Rejected: 403 to another app, 422 where it does not fit.
        """
        if check.app.id != app.id:
            raise Rejected(403, "Invalid app_id `" + str(app.id) + "` - check run can only be modified by its app.")
        return self._put(_changed(check, wish, now))

    def check(self, repository: Repository, check_id: int) -> Check:
        """Find one.

        Raises:
            Rejected: 404.
        """
        found = self.runs.get(check_id)
        if found is None or found.repository_id != repository.id:
            raise not_found()
        return found

    def of_commit(self, repository: Repository, head_sha: str) -> tuple[Check, ...]:
        """List those of a commit, newest first."""
        every = reversed(self.runs.values())
        return tuple(found for found in every if (found.repository_id, found.head_sha) == (repository.id, head_sha))

    def press(self, check: Check, identifier: str, presser_id: int) -> None:
        """Press a button; that the presser may is *not* checked.

        Raises:
            Rejected: 404, it shows no such button.
        """
        if identifier not in {action["identifier"] for action in check.actions}:
            raise not_found()
        self._pressed(check, identifier, presser_id)

    def _put(self, check: Check) -> Check:
        self.runs[check.id] = check
        return check


def _changed(check: Check, wish: Wish, now: int) -> Check:
    status = wish.status or ("completed" if wish.conclusion else check.status)
    conclusion = wish.conclusion or (check.conclusion if status == "completed" else None)
    if status not in STATUSES:
        raise invalid("CheckRun", "status", "invalid")
    if status == "completed" and conclusion not in CONCLUSIONS:
        raise invalid("CheckRun", "conclusion", "missing_field" if conclusion is None else "invalid")
    output = check.output if wish.output is None else wish.output
    if any(len(text) > TEXT_LIMIT for text in output if text is not None):
        raise invalid("CheckRun", "output", "invalid", f"is too long (maximum is {TEXT_LIMIT} characters)")
    done = check.completed_at or now
    return replace(
        check,
        name=wish.name or check.name,
        external_id=check.external_id if wish.external_id is None else wish.external_id,
        status=status,
        conclusion=conclusion,
        details_url=wish.details_url or check.details_url,
        output=output,
        actions=check.actions if wish.actions is None else _fitting(wish.actions),
        completed_at=done if status == "completed" else None,
    )


def _fitting(actions: tuple[Mapping[str, str], ...]) -> tuple[Mapping[str, str], ...]:
    if len(actions) > ACTIONS_LIMIT:
        raise invalid("CheckRun", "actions", "invalid", f"at most {ACTIONS_LIMIT}")
    for action in actions:
        for name, limit in _ACTION_LIMITS.items():
            if not 0 < len(action.get(name, "")) <= limit:
                raise invalid("CheckRun", f"actions.{name}", "invalid")
    return actions
