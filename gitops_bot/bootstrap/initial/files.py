"""The files of a new set-up as texts, each with what it is for. Nothing is read but our own templates.

What is merged is added to what others wrote; everything else is a file of its own.
"""

import json
from dataclasses import dataclass
from importlib import resources
from typing import Final

from gitops_bot.bootstrap.initial.choices import PLACEHOLDER_ID, Choices

STATE: Final = ".gitops-bot"
SETTINGS: Final = "gitops-bot.toml"
POLICY: Final = "policies/policy.toml"
WORKFLOW: Final = ".github/workflows/gitops-bot.yml"
MANIFEST: Final = "gitops-bot-app-manifest.json"
RULESET: Final = "gitops-bot-ruleset.json"
IGNORE: Final = ".gitignore"
CODEOWNERS: Final = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
"""Where a forge looks for code owners: the first of these that exists (GitHub, code owners)."""

NOBODY: Final = "replace-with-your-team"
"""The team that stands for the owners of the policy while nobody said who they are."""

UNPINNED: Final = "0" * 40
"""A commit that stands for the one that somebody has to choose."""

GUARDED: Final = ("/policies/", f"/{SETTINGS}", f"/{WORKFLOW}", "/.github/CODEOWNERS")
PERMISSIONS: Final = {
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
}
HEARD: Final = ("issue_comment", "pull_request", "pull_request_review")
EVENTS: Final = ("check_run", *HEARD)
"""What an App is told besides; buttons of check runs go to their App alone."""

RULES: Final = ("deletion", "non_fast_forward")
_LONGEST_APP_NAME: Final = 34
_BOT_ACCOUNT: Final = """\
# The token of the bot's own account, never a person's (docs/github.md says why).
token_file = ".gitops-bot/forge.token"
"""
_AS_APP: Final = """\
# The App's number stands on its page; 0 means that it is still to be made from gitops-bot-app-manifest.json.
app_id = 0
private_key_file = ".gitops-bot/app.pem"
"""


@dataclass(frozen=True, slots=True)
class Planned:
    """One file: where, what it is for, its text; `merged` where lines are added to what is there."""

    path: str
    what: str
    text: str
    merged: bool = False


def planned(choices: Choices) -> tuple[Planned, ...]:
    """Write every file of a set-up but those that are merged."""
    return (
        Planned(SETTINGS, "settings of broker and workspace, each with its reason", _settings(choices)),
        Planned(POLICY, "who may decide what; counts once it is pinned", _policy(choices)),
        Planned(WORKFLOW, "hands comments in where no webhook can; optional", _filled("workflow.yml", {})),
        Planned(MANIFEST, "the GitHub App with the least permissions, for `--app`", _json(manifest(choices))),
        Planned(RULESET, "keeps signed approvals from being deleted or rewritten", _json(ruleset())),
    )  # fmt: skip


def code_owners(choices: Choices, path: str, before: str | None) -> Planned:
    """Add owners of what decides to a file of code owners; lines that are there stay as they are."""
    owner = f"@{choices.me.login}" if choices.me is not None else f"@{choices.owner}/{NOBODY}"
    known = {line.split()[0] for line in (before or "").splitlines() if line.split()}
    missing = [path for path in GUARDED if not known & {path, path.rstrip("/"), path.lstrip("/"), path.strip("/")}]
    width = max(map(len, GUARDED)) + 2
    lines = [f"{path.ljust(width)}{owner}" for path in missing]
    comment = "# Who must have seen a change of what decides. A review here is care, never authority.\n"
    text = _added(before, comment, lines)
    return Planned(path, "who reviews changes of the policy and of what hands comments in", text, merged=True)


def ignored(before: str | None) -> Planned:
    """Add the state folder to what git ignores."""
    has = {line.strip().strip("/") for line in (before or "").splitlines()}
    lines = [] if STATE in has else [f"/{STATE}/"]
    text = _added(before, "# Database, pin, keys and tokens of gitops-bot: never part of the repository.\n", lines)
    return Planned(IGNORE, "keeps the state folder, where secrets are, out of git", text, merged=True)


def manifest(choices: Choices) -> dict[str, object]:
    """Write a GitHub App's manifest: the least permissions, and the events that hints are made of."""
    return {
        "name": f"gitops-bot {choices.repository.replace('/', ' ')}"[:_LONGEST_APP_NAME].rstrip(" ._-"),
        "url": f"{choices.site}/{choices.repository}",
        "description": "Asks people for decisions on pull requests, and reads their answers.",
        "public": False,
        "hook_attributes": {"url": choices.hook_url, "active": bool(choices.origin)},
        "redirect_url": choices.origin or f"{choices.site}/{choices.repository}",
        "default_permissions": dict(PERMISSIONS),
        "default_events": list(EVENTS),
    }


def ruleset() -> dict[str, object]:
    """Write the ruleset of the approvals branches: nobody deletes or rewrites one, whoever they are."""
    return {
        "name": "gitops-bot: signed approvals",
        "target": "branch",
        "enforcement": "active",
        "bypass_actors": [],
        "conditions": {"ref_name": {"include": ["refs/heads/gated/**"], "exclude": []}},
        "rules": [{"type": kind} for kind in RULES],
    }


def _settings(choices: Choices) -> str:
    origin = f'origin = "{choices.origin}"' if choices.origin else '# origin = "https://approvals.example.org"'
    values = {"DOMAIN": f"{choices.host}/{choices.repository}", "REPOSITORY": choices.repository}
    values |= {"API_URL": choices.api_url, "CREDENTIAL": _AS_APP if choices.app else _BOT_ACCOUNT, "ORIGIN": origin}
    return _filled("gitops-bot.toml", values)


def _policy(choices: Choices) -> str:
    name = choices.person
    if choices.me is None:
        note = "# Put your account's number here: gitops-bot doctor names it until then, and it can approve nothing.\n"
        person = f'{note}[people.{name}]\nkind = "human"\ngithub = {PLACEHOLDER_ID}'
    else:
        person = f'[people.{name}]\nkind = "human"\ngithub = {choices.me.id}  # {choices.me.login}'
    return _filled("policy.toml", {"PERSON": person, "NAME": name})


def _filled(name: str, values: dict[str, str]) -> str:
    text = resources.files("gitops_bot.bootstrap").joinpath("templates", name).read_text("utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text


def _json(document: dict[str, object]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def _added(before: str | None, comment: str, lines: list[str]) -> str:
    if not lines:
        return before or ""
    start = "" if not before else before if before.endswith("\n") else before + "\n"
    return f"{start}{'' if not start else chr(10)}{comment}{chr(10).join(lines)}\n"
