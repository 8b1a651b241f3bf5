"""A repository gets the files of a set-up: new ones are written, lines are added, and what differs is kept unless it is
to be replaced. Everything is looked at, and can be shown, before anything is written.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gitops_bot.bootstrap.initial import files, tree
from gitops_bot.bootstrap.initial.choices import Choices
from gitops_bot.bootstrap.initial.files import Planned


class Outcome(StrEnum):
    """What became of a file, or would."""

    WRITTEN = "written"
    ADDED = "added to"
    UNCHANGED = "unchanged"
    KEPT = "kept"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Made:
    """One file: where, what it is for, what became of it, and the difference from what was there to ours ('': none)."""

    path: str
    what: str
    outcome: Outcome
    difference: str = ""


@dataclass(frozen=True, slots=True)
class Prospect:
    """What would become of each file, and what it would hold."""

    top: Path
    made: tuple[Made, ...]
    plans: tuple[Planned, ...]


def look(choices: Choices, top: Path, *, force: bool) -> Prospect:
    """Look at every file of a set-up in the working tree at `top`; with `force` what differs is to be replaced.

    Raises:
        ConfigError: a link or something else that is no file is in the way, or a file cannot be used.
    """
    tree.make_private(top, files.STATE, dry=True)
    looked = [(plan, tree.read(top, plan.path)) for plan in _plans(choices, top)]
    made = tuple(_judged(plan, before, top, force) for plan, before in looked)
    return Prospect(top, made, tuple(plan for plan, _ in looked))


def write(prospect: Prospect) -> None:
    """Write the files as they were looked at, and make the state folder.

    Raises:
        ConfigError: a link is in the way now, or a file cannot be written.
    """
    # The ignoring first: nothing secret can be committed in between.
    pairs = zip(prospect.plans, prospect.made, strict=True)
    for plan, outcome in sorted(pairs, key=lambda pair: pair[0].path != files.IGNORE):
        if outcome.outcome not in (Outcome.UNCHANGED, Outcome.KEPT):
            tree.replace(prospect.top, plan.path, plan.text)
    tree.make_private(prospect.top, files.STATE, dry=False)


def _plans(choices: Choices, top: Path) -> Iterator[Planned]:
    yield from files.planned(choices)
    owners = [(path, tree.read(top, path)) for path in files.CODEOWNERS]
    path, before = next(((path, text) for path, text in owners if text is not None), owners[0])
    yield files.code_owners(choices, path, before)
    yield files.ignored(tree.read(top, files.IGNORE))


def _judged(plan: Planned, before: str | None, top: Path, force: bool) -> Made:
    if plan.path == files.POLICY and before is None and _has_bundle(top):
        return Made(plan.path, "not written: policies/ holds a bundle of other files already", Outcome.KEPT)
    if before is None:
        return Made(plan.path, plan.what, Outcome.WRITTEN)
    if before == plan.text:
        return Made(plan.path, plan.what, Outcome.UNCHANGED)
    shown = _difference(plan.path, before, plan.text)
    if plan.merged:
        return Made(plan.path, plan.what, Outcome.ADDED, shown)
    return Made(plan.path, plan.what, Outcome.REPLACED if force else Outcome.KEPT, shown)


def _has_bundle(top: Path) -> bool:
    folder = top / "policies"
    return folder.is_dir() and any(entry.suffix == ".toml" for entry in folder.iterdir())


def _difference(path: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"{path} (yours)", f"{path} (new)", lineterm=""
    )
    return "\n".join(lines)
