"""An executor in memory that dedupes or does not, and can lose its answer; tested like the real ones."""

from dataclasses import dataclass, field
from enum import Enum, auto

from gitops_bot.core.errors import Refused, Unavailable
from gitops_bot.core.executions import Done, ExecutionKey, ExecutionResult, Failed, NothingDone, Unknown


class Turn(Enum):
    """What happens at a call."""

    WORKS = auto()
    REFUSES = auto()
    LOSES_ANSWER = auto()
    """It is done, and nobody hears so."""
    IS_AWAY = auto()


@dataclass
class FakeExecutor:
    """`ports.Executor`. `turns` are played in order, then it works; `calls` are all, `effects` what was really done."""

    idempotent: bool = True
    turns: list[Turn] = field(default_factory=list)
    fault: Refused | None = None
    calls: list[tuple[ExecutionKey, bytes]] = field(default_factory=list)
    effects: list[tuple[ExecutionKey, bytes]] = field(default_factory=list)

    def check(self) -> Refused | None:
        """Give the fault that was set."""
        return self.fault

    def execute(self, key: ExecutionKey, body: bytes) -> ExecutionResult:
        """Play one turn."""
        turn = self.turns.pop(0) if self.turns else Turn.WORKS
        if turn is Turn.IS_AWAY:
            raise NothingDone("nobody is there")
        self.calls.append((key, body))
        if self.fault is not None:
            return Failed(self.fault.detail, self.fault.reason)
        if turn is Turn.REFUSES:
            return Failed("no")
        dup = self.idempotent and any(key == known for known, _ in self.effects)
        if not dup:
            self.effects.append((key, body))
        if turn is Turn.LOSES_ANSWER:
            if self.idempotent:
                raise Unavailable("no answer")
            return Unknown("no answer")
        return Done("dup" if dup else "done", dup=dup)
