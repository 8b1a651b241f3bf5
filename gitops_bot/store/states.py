"""The stored enumerations that only rows have; those of decisions are in `core`."""

from enum import StrEnum


class AgentState(StrEnum):
    """Set by people; what an agent is doing is derived (`core.status`)."""

    DRAFT = "draft"
    ACTIVE = "active"
    PAUSED = "paused"
    RETIRED = "retired"


class AgentKind(StrEnum):
    """Who holds a token: a fleet agent, a loop, or an application (or shell)."""

    AGENT = "agent"
    LOOP = "loop"
    APPLICATION = "application"


class TokenScope(StrEnum):
    """What a token may do: ask and read its own; register loops; the same as `agent` for one run only."""

    AGENT = "agent"
    LOOP = "loop"
    RUN = "run"


class RunState(StrEnum):
    """`live` has a body, `parked` waits for asks, `ended` is history."""

    LIVE = "live"
    PARKED = "parked"
    ENDED = "ended"


class EffectState(StrEnum):
    """States of an outgoing effect."""

    PENDING = "pending"
    ATTEMPTING = "attempting"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


class GrantState(StrEnum):
    """States of a grant; only `signed.mint` and `signed.spend` write them."""

    MINTED = "MINTED"
    SPENT = "SPENT"
    REVOKED = "REVOKED"
    LAPSED = "LAPSED"


class SeatState(StrEnum):
    """A loop's seat at a capture: it waits, was told the one terminal signal (I10), or went away."""

    WAITING = "waiting"
    RESCOPED = "rescoped"
    DENIED = "denied"
    GONE = "gone"


class WaiterKind(StrEnum):
    """What resumes when an ask ends."""

    CAPTURE = "capture"
    RUN = "run"
    TASK = "task"
    CALL = "call"
    REQUEST = "request"


class BranchState(StrEnum):
    """A person's branch: read so far, frozen since its history was rewritten, or seen once and unreadable now."""

    READ = "read"
    FROZEN = "frozen"
    UNREADABLE = "unreadable"


class CommitState(StrEnum):
    """What became of a commit: received, held until a tool is back, judged once and for all."""

    NEW = "new"
    HELD = "held"
    JUDGED = "judged"


class HarnessKind(StrEnum):
    """How a body of an agent is run."""

    COMMAND = "command"
    ACPX = "acpx"
    ACP = "acp"


class WakePolicy(StrEnum):
    """When an agent runs that nobody wakes: again and again, by a schedule, on an event alone, or by hand alone."""

    CONTINUOUS = "continuous"
    SCHEDULED = "scheduled"
    EVENT = "event"
    MANUAL = "manual"


class WakeOn(StrEnum):
    """Whether the first answer wakes an agent that asked several things, or the last."""

    ANY = "any"
    ALL = "all"


class CapsuleItem(StrEnum):
    """What a capsule tells: an ask that ended, a message."""

    ASK = "ask"
    MESSAGE = "message"
