"""What one run of the loop works with, and what it remembers beside its machine's state. Values and one protocol."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gitops_bot.loop.measuring import Tool
from gitops_bot.process import Completed


class Body(Protocol):
    """How commands are run; `harness/command` is the one that is there."""

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: bytes,
        timeout: float | None,
        tick: Callable[[], bool],
    ) -> Completed:
        """Run one command to its end; `tick` answers True to end it.

        Raises:
            Unavailable: it did not end by itself.
        """


@dataclass(frozen=True, slots=True)
class Setting:
    """What one run works with. Times in seconds; None waits for ever. `owner` is the (user, group) that the agent's
    files belong to where it runs as another user."""

    workspace: Path
    state: Path
    agent: tuple[str, ...]
    agent_env: Mapping[str, str]
    judge: Tool
    rig: Tool | None
    max_park: float | None = None
    turn_timeout: float | None = None
    judge_timeout: float | None = 3600.0
    owner: tuple[int, int] | None = None


@dataclass(slots=True)
class Memory:
    """What the driver remembers beside the machine's state; a resume fills it from the log."""

    rows: list[tuple[int, str, float | None]] = field(default_factory=list)
    waited: dict[str, float] = field(default_factory=dict)
    kept: str | None = None
    why: str = ""
