"""Rulesets of repositories: which rules hold on a branch. They are told and not enforced. Pure.

A pattern's `**` crosses slashes and `*` does not (GitHub, rulesets).
"""

import re
from dataclasses import dataclass
from typing import Final

from gitops_bot.sandbox.records import Ids, Repository
from gitops_bot.sandbox.refusals import invalid

ENFORCEMENTS: Final = ("active", "evaluate", "disabled")
KINDS: Final = ("creation", "deletion", "non_fast_forward", "required_linear_history", "required_signatures")
_REF: Final = "refs/heads/"


@dataclass(frozen=True, slots=True)
class Ruleset:
    """Rules without parameters, for the branches that a pattern of `include` matches and none of `exclude`."""

    id: int
    repository_id: int
    name: str
    enforcement: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    rules: tuple[str, ...]


class Rulesets:
    """Every ruleset of every repository."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self.made: dict[int, Ruleset] = {}

    def add(
        self,
        repository: Repository,
        name: str,
        enforcement: str,
        patterns: tuple[tuple[str, ...], tuple[str, ...]],
        rules: tuple[str, ...],
    ) -> Ruleset:
        """Make a ruleset; `patterns` are what is included and excluded.

        Raises:
            Rejected: 422, an enforcement or a rule that is not known here.
        """
        if enforcement not in ENFORCEMENTS:
            raise invalid("RepositoryRuleset", "enforcement", "invalid")
        if any(rule not in KINDS for rule in rules):
            raise invalid("RepositoryRuleset", "rules", "invalid")
        ruleset = Ruleset(self._ids.take(), repository.id, name, enforcement, *patterns, rules)
        self.made[ruleset.id] = ruleset
        return ruleset

    def of(self, repository: Repository) -> tuple[Ruleset, ...]:
        """List the rulesets of a repository."""
        return tuple(found for found in self.made.values() if found.repository_id == repository.id)

    def holding(self, repository: Repository, branch: str) -> tuple[tuple[Ruleset, str], ...]:
        """List the rules that hold on a branch, each with its ruleset."""
        ref = f"{_REF}{branch}"
        return tuple(
            (found, rule)
            for found in self.of(repository)
            if found.enforcement == "active" and _any(found.include, ref) and not _any(found.exclude, ref)
            for rule in found.rules
        )


def _any(patterns: tuple[str, ...], ref: str) -> bool:
    return any(pattern == "~ALL" or re.fullmatch(_written(pattern), ref) is not None for pattern in patterns)


def _written(pattern: str) -> str:
    words = re.escape(pattern).replace(r"\*\*", ".*")
    return words.replace(r"\*", "[^/]*")
