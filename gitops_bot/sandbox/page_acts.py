"""What a person may do on the page, as one account: each act is one form, and keeps the forge's own rules.

An act gives the place on the page to go back to, or raises `Rejected` with the words to show.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gitops_bot.sandbox.records import Account, Comment, Repository, Role, Thread
from gitops_bot.sandbox.refusals import Rejected
from gitops_bot.sandbox.world import World


@dataclass(frozen=True, slots=True)
class Act:
    """A form as it was sent: who, on which pull request, with which fields."""

    world: World
    repository: Repository
    thread: Thread
    account: Account
    form: Mapping[str, str]

    def comment(self) -> Comment:
        """Find the comment that the form names.

        Raises:
            Rejected: there is none on this pull request.
        """
        text = self.form.get("comment", "")
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else -1
        found = self.world.model.comments.comment(self.repository, number)
        if found.number != self.thread.number:
            raise Rejected(404, "There is no such comment here.")
        return found


def perform(world: World, full_name: str, number: int, name: str, form: Mapping[str, str]) -> str:
    """Do what a form asks for; the anchor to go back to, which may be empty.

    Raises:
        Rejected: no such act, account, repository or pull request, or the forge's own no.
    """
    account = world.model.directory.account_named(form.get("login", ""))
    repository = world.model.directory.repository_named(full_name)
    act = ACTS.get(name)
    if account is None or repository is None or act is None:
        raise Rejected(404, "There is no such account, repository or act.")
    world.tips(repository)
    return act(Act(world, repository, world.model.threads.pull(repository, number), account, form))


def _comment(act: Act) -> str:
    body = act.form.get("body", "")
    made = act.world.model.comments.add_comment(act.thread, act.account.id, body, act.world.now())
    return f"issuecomment-{made.id}"


def _edit(act: Act) -> str:
    found, body = act.comment(), act.form.get("body", "")
    act.world.model.comments.edit_comment(found, act.account.id, body, act.world.now())
    return f"issuecomment-{found.id}"


def _minimise(act: Act) -> str:
    found = act.comment()
    act.world.model.comments.minimise_comment(found, act.account.id)
    return f"issuecomment-{found.id}"


def _delete(act: Act) -> str:
    act.world.model.comments.delete_comment(act.comment(), act.account.id)
    return ""


def _react(act: Act) -> str:
    found, content = act.comment(), act.form.get("content", "")
    act.world.model.comments.react(found, act.account.id, content, act.world.now())
    return f"issuecomment-{found.id}"


def _review(act: Act) -> str:
    event, body = act.form.get("event", ""), act.form.get("body", "")
    made = act.world.model.reviews.submit(act.thread, act.account.id, event, body, act.world.now())
    return f"pullrequestreview-{made.id}"


def _press(act: Act) -> str:
    text = act.form.get("check", "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else -1
    act.world.model.directory.require(act.repository, act.account.id, Role.READ)
    found = act.world.model.checks.check(act.repository, number)
    act.world.model.checks.press(found, act.form.get("identifier", ""), act.account.id)
    return ""


def _state(state: str) -> Callable[[Act], str]:
    def change(act: Act) -> str:
        act.world.model.threads.edit_thread(act.thread, act.account.id, act.world.now(), state=state)
        return ""

    return change


def _draft(draft: bool) -> Callable[[Act], str]:
    def change(act: Act) -> str:
        act.world.model.threads.set_draft(act.thread, act.account.id, draft, act.world.now())
        return ""

    return change


def _lock(locked: bool) -> Callable[[Act], str]:
    def change(act: Act) -> str:
        act.world.model.threads.set_locked(act.thread, act.account.id, locked)
        return ""

    return change


def _push(act: Act) -> str:
    assert act.thread.pull is not None
    head = act.thread.pull.head_sha
    act.world.push(act.repository, act.thread.pull.head_ref, {"moved.txt": f"after {head}\n".encode()}, act.account)
    return ""


def _merge(act: Act) -> str:
    act.world.merge(act.repository, act.thread, act.account)
    return ""


ACTS: Final[Mapping[str, Callable[[Act], str]]] = MappingProxyType(
    {
        "comment": _comment,
        "review": _review,
        "press": _press,
        "edit": _edit,
        "minimise": _minimise,
        "delete": _delete,
        "react": _react,
        "close": _state("closed"),
        "reopen": _state("open"),
        "draft": _draft(True),
        "ready": _draft(False),
        "lock": _lock(True),
        "unlock": _lock(False),
        "push": _push,
        "merge": _merge,
    }
)
