"""The files that `gitops-bot init` writes, looked at in the folder of the settings: is anything left to fill in, is a
secret in reach of git, does the workflow get more than it needs. What is not there is not missed: each is optional.

The workflow is read by its lines; what a line cannot say (a template, an anchor) counts as not being right.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gitops_bot.bootstrap.database import Finding
from gitops_bot.bootstrap.initial import files, tree
from gitops_bot.bootstrap.initial.choices import PLACEHOLDER_ID
from gitops_bot.config import Settings
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.core.principals import IdentityKind
from gitops_bot.policy.model import Policy
from gitops_bot.process import run

_SECONDS: Final = 10.0
_USES: Final = re.compile(r"^\s*(?:-\s+)?uses:\s*(\S+)", re.MULTILINE)
_PINNED: Final = re.compile(r"[A-Za-z0-9._/-]+@[0-9a-f]{40}", re.ASCII)
_GRANT: Final = re.compile(r"^\s+([a-z-]+):\s*(write|read)\b", re.MULTILINE)
_ALL: Final = re.compile(r"^\s*permissions:\s*(?:write-all|read-all)", re.MULTILINE)
_STATED: Final = re.compile(r"^permissions:", re.MULTILINE)
_COMMENT: Final = re.compile(r"(?:^|\s)#.*$", re.MULTILINE)


def repository_findings(settings: Settings) -> Iterator[Finding]:
    """Look at the files; outside a git repository there is nothing to look at."""
    top = settings.root
    if not (top / ".git").exists():
        return
    yield _state(settings)
    yield from _owners(top, settings.policies)
    yield from _workflow(top, settings.forge.actions_workflow)


def placeholder_finding(policy: Policy) -> Finding | None:
    """Name the people of a policy who still have the placeholder for an account; None where nobody has."""
    names = [
        name
        for name, person in policy.people.items()
        if any(
            one.kind is IdentityKind.GITHUB and one.value == str(PLACEHOLDER_ID) for one in person.principal.identities
        )
    ]
    if not names:
        return None
    fix = f"put the number (`id` of GET /users/LOGIN) into {files.POLICY}, then gitops-bot trust repin --from disk"
    return Finding("people", False, f"{', '.join(names)}: still the placeholder, so they can answer nothing", fix)


def _state(settings: Settings) -> Finding:
    try:
        inside = str(settings.state.relative_to(settings.root))
    except ValueError:
        return Finding("secrets and git", True, f"{settings.state} is outside the repository")
    try:
        tracked = run(("git", "ls-files", "-z", "--", inside), cwd=settings.root, timeout=_SECONDS)
        ignored = run(("git", "check-ignore", "-q", "--", f"{inside}/x"), cwd=settings.root, timeout=_SECONDS)
    except Unavailable as error:
        return Finding("secrets and git", False, str(error), "apt install git")
    if tracked.stdout:
        fix = f"git rm -r --cached {inside}, and make new keys and tokens: the old ones are in the history"
        return Finding("secrets and git", False, f"files below {inside} are part of the repository", fix)
    detail = f"git ignores {inside}" if ignored.returncode == 0 else f"git does not ignore {inside}"
    return Finding("secrets and git", ignored.returncode == 0, detail, f"echo '/{inside}/' >> .gitignore")


def _owners(top: Path, policies: Path) -> Iterator[Finding]:
    try:
        texts = [(path, tree.read(top, path)) for path in files.CODEOWNERS]
        folder = policies.relative_to(top).as_posix()
    except ConfigError as error:
        yield Finding("code owners", False, error.message, error.fix)
        return
    except ValueError:
        return
    path, text = next(((path, text) for path, text in texts if text is not None), ("", ""))
    if not path:
        yield Finding("code owners", True, "none: no review is asked for when policies change (gitops-bot init)")
        return
    lines = [words for words in (line.partition("#")[0].split() for line in (text or "").splitlines()) if words]
    owners = next((words[1:] for words in reversed(lines) if words[0].strip("/") in (folder, f"{folder}/**", "*")), [])
    fix = f"a line `/{folder}/ @your-login` at the end of {path}"
    if any(owner.endswith(f"/{files.NOBODY}") for owner in owners):
        yield Finding("code owners", False, f"{path} still names the team {files.NOBODY}", f"put yours: {fix}")
    else:
        said = f"{path} gives {folder} to {' '.join(owners)}" if owners else f"{path} gives {folder} to nobody"
        yield Finding("code owners", bool(owners), said, fix)


def _workflow(top: Path, path: str) -> Iterator[Finding]:
    try:
        text = tree.read(top, path)
    except ConfigError as error:
        yield Finding("workflow", False, error.message, error.fix)
        return
    if text is None:
        yield Finding("workflow", True, f"no {path}: comments come in by webhook and poll")
        return
    faults = list(workflow_faults(text))
    for detail, fix in faults:
        yield Finding("workflow", False, f"{path}: {detail}", fix)
    if not faults:
        yield Finding("workflow", True, f"{path} is pinned, and may do nothing but say who it is")


def workflow_faults(text: str) -> Iterator[tuple[str, str]]:
    """Say what is wrong with the workflow that hands comments in, each with what to write instead."""
    text = _COMMENT.sub("", text)
    used = [name.strip("\"'") for name in _USES.findall(text)]
    pinning = "pin it to the full hash of a commit that you looked at, or remove the file where no run is needed"
    for name in used:
        if name.endswith(f"@{files.UNPINNED}"):
            yield f"{name} is still to be pinned", pinning
        elif _PINNED.fullmatch(name) is None:
            yield f"{name} is not pinned to a commit", pinning
        elif name.startswith("actions/checkout@"):
            yield (
                "it checks code out, which may be a stranger's",
                "remove the step: nothing of the repository is needed",
            )
    if "pull_request_target" in text or "workflow_run" in text:
        yield "it runs on events that give a stranger's code rights", "on: issue_comment, types: [created]"
    if "issue_comment" not in text:
        yield "it does not run on comments", "on: issue_comment, types: [created]"
    if _STATED.search(text) is None:
        yield "it states no permissions, so it has the repository's defaults", "permissions: {} at the top"
    more = sorted({name for name, _ in _GRANT.findall(text) if name != "id-token"})
    if more or _ALL.search(text):
        yield f"it has more rights than it needs: {', '.join(more) or 'all'}", "id-token: write and nothing else"
    if ("id-token", "write") not in _GRANT.findall(text):
        yield "it cannot say who it is", "permissions of the job: id-token: write"
