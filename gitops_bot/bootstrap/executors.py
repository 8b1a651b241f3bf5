"""The executors of a policy's gated verbs, made from the bundle; and whether one that says that it dedupes does."""

from collections.abc import Iterator
from pathlib import Path
from typing import assert_never

from gitops_bot.bootstrap.database import Finding
from gitops_bot.core.errors import Refused
from gitops_bot.core.executions import execution_key
from gitops_bot.policy.model import AdoptExecutor, HttpExecutor, Policy, ProcessExecutor, VerbRule
from gitops_bot.ports import Executor
from gitops_bot.store.ids import new_id


class Executors:
    """The executors of a policy's verbs, made once; a host that cannot run one does not start."""

    def __init__(self, policy: Policy, keys: Path, scratch: Path) -> None:
        """Make every executor.

        Raises:
            ConfigError: this host cannot pin a program, or an address is none.
        """
        from gitops_bot.verbs.http import AddressExecutor
        from gitops_bot.verbs.process import ProgramExecutor

        self._made: dict[str, Executor] = {}
        for rule in policy.gated:
            match rule.executor:
                case HttpExecutor():
                    self._made[rule.name] = AddressExecutor(rule.executor, keys)
                case ProcessExecutor():
                    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
                    self._made[rule.name] = ProgramExecutor(rule.executor, scratch)
                case AdoptExecutor() | None:
                    continue
                case _:
                    assert_never(rule.executor)

    def of(self, rule: VerbRule) -> Executor:
        """Give a verb's executor."""
        return self._made[rule.name]

    def check(self, rule: VerbRule) -> Refused | None:
        """Look whether a verb's executor is still what the bundle pins; the built-in one always is.

        Raises:
            Unavailable: it cannot be looked at now.
        """
        made = self._made.get(rule.name)
        return None if made is None else made.check()


def conformance(policy: Policy, keys: Path, scratch: Path, now: int) -> Iterator[Finding]:
    """Check each executor: what it is pinned to, and, where it is declared idempotent, that it answers `dup` to a key
    that it has seen. What is sent names no action (docs/executors.md). `now` in ms makes the keys, never used before.

    Raises:
        ConfigError: this host cannot make one of them.
    """
    from gitops_bot.verbs.conformance import check_executor

    made = Executors(policy, keys, scratch)
    for rule in policy.gated:
        if isinstance(rule.executor, AdoptExecutor) or rule.executor is None:
            continue
        found = check_executor(made.of(rule), execution_key(f"check:{new_id(now)}"))
        yield Finding("executor", found.holds, f"{rule.name}: {found.detail}", found.fix)
