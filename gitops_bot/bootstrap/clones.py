"""Commits of anybody's clone are read from a copy of our own: taken over by git's own transfer, hashed anew, bounded.

The clone is never trusted: its configuration, hooks and alternates mean nothing to the copy, and nothing is asked of a
forge. Branches of approvals in it are found again under the names that the broker's repository has.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import ConfigError, Malformed, Reason, Refused, Unavailable, refuse
from gitops_bot.process import Limits
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.fetching import FETCHING
from gitops_bot.signed.grammar import read_id
from gitops_bot.signed.repository import Remote, Repository, words

SECONDS: Final = 120.0
MAX_BRANCHES: Final = 1_000
_LIMITS: Final = Limits(cpu_seconds=120, memory_bytes=2 * 1024**3, file_bytes=1024**3)
_LISTED: Final = re.compile(r"([0-9a-f]{40,64})\t(refs/[!-~]{1,300})", re.ASCII)
# A strict server says so of each object; without its own checks git still hashes all that it takes over.
_UNCHECKED: Final = tuple(
    one.replace("fetch.fsckObjects=true", "fetch.fsckObjects=false") for one in FETCHING if ".fsck." not in one
)


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy with one commit and all branches of approvals; `refused` is what git's fsck says of its objects, where
    the broker would not even fetch them."""

    repository: Repository
    refused: Refused | None


def copied(clone: Path, folder: Path, environment: str, commit: str) -> Copy:
    """Copy a commit, with its history and the branches of approvals, into a new repository in a folder of ours.

    Raises:
        ConfigError: there is no such folder.
        Unavailable: it is no repository, has no such commit, or its objects cannot be read.
    """
    if not clone.is_dir():
        raise ConfigError(f"no folder {clone}", fix="name a clone, or a bare repository, with --git")
    # The address has plain characters only, whatever the clone's folder is called.
    link = folder / "clone"
    link.symlink_to(clone.resolve())
    try:
        oid = read_id(commit)
    except Malformed as error:
        raise ConfigError(str(error), fix="give the full id of the commit: git rev-parse") from error
    algorithm = "sha1" if len(oid) == 40 else "sha256"
    made = Repository(folder / "copy.git", Remote(f"file://{link.absolute()}"), algorithm=algorithm)
    made.create()
    wanted = [f"{oid}:refs/verify/commit", *_branches(made, environment)]
    said = _fetch(made, wanted, FETCHING)
    if said is None:
        return Copy(made, None)
    unchecked = _fetch(made, wanted, _UNCHECKED)
    if unchecked is not None:
        raise Unavailable(f"{clone} does not give the commit: {unchecked}")
    return Copy(made, refuse(Reason.FETCH_REFUSED, f"Git says: {said}."))


def _branches(made: Repository, environment: str) -> list[str]:
    """Name what to fetch so that each branch of approvals gets the name that the broker's repository gives it."""
    done = made.run(
        *("ls-remote", "--refs", "--quiet", "--end-of-options", made.address.url),
        network=True,
        limits=_LIMITS,
        timeout=SECONDS,
    )
    if done.returncode != 0:
        raise Unavailable(f"no repository: {words(done)}")
    branch = re.compile(rf"refs/(?:heads|remotes/[^/]+)/gated/{re.escape(environment)}/approvals/([a-z][a-z0-9-]*)")
    found: list[str] = []
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        listed = _LISTED.fullmatch(line)
        person = None if listed is None else branch.fullmatch(listed[2])
        if listed is not None and person is not None:
            found.append(f"+{listed[2]}:refs/gated/{environment}/{person[1]}/{len(found)}")
    return found[:MAX_BRANCHES]


def _fetch(made: Repository, wanted: list[str], settings: tuple[str, ...]) -> str | None:
    """Fetch; None when it is all here, else what git complained of."""
    done = made.run(
        *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules"),
        *("--end-of-options", made.address.url, *wanted),
        network=True,
        settings=settings,
        limits=_LIMITS,
        timeout=SECONDS,
    )
    return None if done.returncode == 0 else words(done) or f"status {done.returncode}"


def people_with(repository: Repository, environment: str, commit: ObjectId) -> tuple[str, ...]:
    """Name the people whose branches, as this repository knows them, contain a commit.

    Raises:
        Unavailable: git failed.
    """
    if repository.kind(commit) != "commit":
        return ()
    prefix = f"refs/gated/{environment}/"
    told = repository.output("for-each-ref", "--format=%(refname)", f"--contains={commit}", prefix)
    names = [line.removeprefix(prefix).partition("/")[0] for line in told.decode("ascii", "replace").splitlines()]
    return tuple(dict.fromkeys(names))
