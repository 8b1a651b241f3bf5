"""Step 2 of the signed channel: a person's branch only grows, and begins with a root of its own.

`judge` compares what was seen with the tip that the database stores, and says what follows; freezing a person, and
thawing them when the branch descends from the stored tip again, is the channel's. `roots_of` finds the roots that a
branch may stand on; whether one of them is signed by its person is step 5's.
"""

from dataclasses import dataclass
from typing import Final, assert_never

from gitops_bot.core.errors import Reason, Refused, Unavailable, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.evidence import Commit, ObjectId
from gitops_bot.signed.fetching import Absent, Seen, Tip, Unreadable
from gitops_bot.signed.grammar import EMPTY_TREES, read_root
from gitops_bot.signed.objects import Objects
from gitops_bot.signed.repository import Repository, branch, words

MAX_ROOTS: Final = 1_000
"""Commits without a parent that are looked at in one branch; a branch has one."""


@dataclass(frozen=True, slots=True)
class NeverMade:
    """No such branch, and none was ever seen: it holds nothing up."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The branch is where it was."""

    tip: ObjectId


@dataclass(frozen=True, slots=True)
class Advanced:
    """The branch grew; `stored` is None where it is seen for the first time."""

    stored: ObjectId | None
    tip: ObjectId


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The branch does not continue from the stored tip (`history_rewritten`). `repair` is the push that undoes it."""

    stored: ObjectId
    tip: ObjectId
    refused: Refused
    repair: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """The branch is gone (`history_rewritten`). `repair` is the push that brings it back."""

    stored: ObjectId
    refused: Refused
    repair: str


@dataclass(frozen=True, slots=True)
class Unread:
    """The branch cannot be read now, so nothing is known of it (I14)."""

    stored: ObjectId | None
    refused: Refused


History = NeverMade | Unchanged | Advanced | Rewritten | Deleted | Unread


def judge(
    repository: Repository, environment: str, person: PrincipalName, stored: ObjectId | None, seen: Tip
) -> History:
    """Compare what was seen of a person's branch with the tip that is stored (step 2).

    Raises:
        Unavailable: git failed.
    """
    match seen:
        case Unreadable(refused):
            return Unread(stored, refused)
        case Absent():
            return NeverMade() if stored is None else _deleted(repository, environment, person, stored)
        case Seen(tip):
            if tip == stored:
                return Unchanged(tip)
            if stored is None or descends(repository, tip, stored):
                return Advanced(stored, tip)
            return _rewritten(repository, environment, person, stored, tip)
        case _:
            assert_never(seen)


def descends(repository: Repository, tip: ObjectId, stored: ObjectId) -> bool:
    """Tell whether a commit that we have whole continues from another, which we may not have.

    Raises:
        Unavailable: git failed.
    """
    if repository.kind(stored) != "commit":
        return False
    done = repository.run("merge-base", "--is-ancestor", stored, tip)
    if done.returncode not in (0, 1):
        raise Unavailable(f"git merge-base ended with {done.returncode}: {words(done)}")
    return done.returncode == 0


def roots_of(
    objects: Objects, tip: ObjectId, *, repository: str, environment: str, person: PrincipalName
) -> tuple[Commit, ...] | Refused:
    """Find the commits that may be this branch's root: without a parent, of the empty tree, of the strict form, with
    its whole message. Without one every commit of the branch is refused: with `root_commit`, or as malformed where a
    commit hides its parents from git. That one of them is signed by its person is *not* checked. A root that a tip
    reaches is reached by all that descend from it.

    Raises:
        Unavailable: git failed.
    """
    found = objects.roots(tip, MAX_ROOTS + 1)
    if len(found) > MAX_ROOTS:
        return refuse(Reason.ROOT_COMMIT, f"The branch has more than {MAX_ROOTS} roots.")
    commits = [objects.commit(oid) for oid in found]
    roots = tuple(
        commit
        for commit in commits
        if isinstance(commit, Commit)
        and commit.tree in EMPTY_TREES
        and read_root(commit.message, repository=repository, environment=environment, person=person)
    )
    if roots:
        return roots
    for commit in commits:
        if isinstance(commit, Refused) and commit.facts.get("parents"):
            # No root, but a commit whose parents git does not see: what is wrong is said of it.
            return commit
    return refuse(Reason.ROOT_COMMIT, "The branch does not stand on a signed root of its own.")


def _deleted(repository: Repository, environment: str, person: PrincipalName, stored: ObjectId) -> Deleted:
    name = branch(environment, person)
    repair = f"git push {repository.address.url} {stored}:{name}"
    refused = refuse(Reason.HISTORY_REWRITTEN, f"The branch was deleted. To repair: {repair}", stored=stored)
    return Deleted(stored, refused, repair)


def _rewritten(
    repository: Repository, environment: str, person: PrincipalName, stored: ObjectId, tip: ObjectId
) -> Rewritten:
    name = branch(environment, person)
    # Only over what was seen: a push in between would be lost otherwise.
    repair = f"git push --force-with-lease={name}:{tip} {repository.address.url} {stored}:{name}"
    refused = refuse(
        Reason.HISTORY_REWRITTEN, f"The branch was rewritten. To repair: {repair}", stored=stored, seen=tip
    )
    return Rewritten(stored, tip, refused, repair)
