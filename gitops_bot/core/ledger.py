"""What a ledger entry is, and the chain that makes its order and content provable afterwards.

Entries are written inside the transactions that they describe; a sealer gives them a gapless order later, so no hot
row sits in an answer. Each seal hashes the entry, its place and the seal before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gitops_bot.core.canonical import Digest, canonical, digest
from gitops_bot.core.errors import Fact

GENESIS: Final = Digest("sha256:" + "0" * 64)


class EventKind(StrEnum):
    """Everything that the ledger tells. Readers degrade unknown kinds."""

    ASK_OPENED = "ask.opened"
    ASK_REPEATED = "ask.repeated"
    ASK_REFUSED = "ask.refused"
    ASK_ANSWERED = "ask.answered"
    ASK_WITHDRAWN = "ask.withdrawn"
    ASK_EXPIRED = "ask.expired"
    ASK_SUPERSEDED = "ask.superseded"
    ASK_REOPENED = "ask.reopened"
    VOTE_COUNTED = "vote.counted"
    VOTE_REFUSED = "vote.refused"
    REVOCATION = "verdict.revoked"
    CLAIM_IGNORED = "claim.ignored"
    CLAIM_HELD = "claim.held"
    CLAIM_EDITED = "claim.edited"
    COMMENT_SEEN = "forge.comment_seen"
    PULL_REQUEST_OPENED = "forge.pull_request_opened"
    PULL_REQUEST_SEEN = "forge.pull_request_seen"
    PULL_REQUEST_READY = "forge.pull_request_ready"
    CAPTURE_REQUESTED = "capture.requested"
    CAPTURE_APPROVED = "capture.approved"
    CAPTURE_SUBMITTED = "capture.submitted"
    CAPTURE_RUNNING = "capture.running"
    CAPTURE_READY = "capture.ready"
    CAPTURE_RESCOPED = "capture.rescoped"
    CAPTURE_DENIED = "capture.denied"
    CAPTURE_FAILED = "capture.failed"
    CAPTURE_CANCELLED = "capture.cancelled"
    CAPTURE_RETURNED = "capture.returned"
    LOOP_REGISTERED = "loop.registered"
    LOOP_PARKED = "loop.parked"
    LOOP_SEGMENT = "loop.segment"
    LOOP_SCORED = "loop.scored"
    LOOP_GAVE_UP = "loop.gave_up"
    RESCOPE_ACKNOWLEDGED = "bridge.rescope_acknowledged"
    DENY_ACKNOWLEDGED = "bridge.deny_acknowledged"
    EFFECT_ATTEMPTED = "effect.attempted"
    EFFECT_DONE = "effect.done"
    EFFECT_FAILED = "effect.failed"
    EFFECT_UNKNOWN = "effect.unknown"
    AGENT_ADDED = "agent.added"
    AGENT_PAUSED = "agent.paused"
    TOKEN_ISSUED = "token.issued"  # noqa: S105 # an event's name
    POLICY_PINNED = "policy.pinned"
    CHANNEL_FROZEN = "channel.frozen"
    CHANNEL_THAWED = "channel.thawed"
    CHANNEL_UNREADABLE = "channel.unreadable"
    CHANNEL_READABLE = "channel.readable"
    REQUESTS_FOREIGN = "requests.foreign"
    KEY_REVOKED = "key.revoked"
    GRANT_MINTED = "grant.minted"
    GRANT_SPENT = "grant.spent"
    GRANT_REVOKED = "grant.revoked"
    GRANT_LAPSED = "grant.lapsed"
    GRANT_WAITS = "grant.waits"
    POLICY_ADOPTED = "policy.adopted"
    POLICY_PROPOSED = "policy.proposed"
    POLICY_CHANGED_ON_DISK = "policy.changed_on_disk"
    POLICY_FOLLOWED = "policy.followed"
    TRUST_REPINNED = "trust.repinned"
    CHANNEL_CLOSED = "channel.closed"
    CHANNEL_OPENED = "channel.opened"
    PERSON_SUSPENDED = "person.suspended"
    PERSON_REINSTATED = "person.reinstated"
    PERSON_TOLD = "person.told"
    CODE_ISSUED = "code.issued"
    PASSKEY_ENROLLED = "passkey.enrolled"
    PASSKEY_REVOKED = "passkey.revoked"
    SESSION_OPENED = "session.opened"
    SESSION_ENDED = "session.ended"
    SHELL_CONFIRMED = "shell.confirmed"
    CEREMONY_FAILED = "ceremony.failed"
    ASK_CLAIMED = "ask.claimed"
    ASK_DELEGATED = "ask.delegated"
    ASK_SNOOZED = "ask.snoozed"
    ASK_HELD = "ask.held"
    ACT_REFUSED = "act.refused"
    AGENT_RESUMED = "agent.resumed"
    AGENT_RETIRED = "agent.retired"
    TOKEN_REVOKED = "token.revoked"  # noqa: S105 # an event's name
    INSTALLATION_CHANGED = "forge.installation_changed"
    MESSAGE_POSTED = "message.posted"
    MESSAGE_UNDELIVERABLE = "message.undeliverable"
    AGENT_REPORTED = "agent.report"
    AGENT_NOTIFY = "agent.notify"
    MARKERS_CAPPED = "markers.capped"
    RUN_DISPATCHED = "run.dispatched"
    RUN_SETTLED = "run.settled"
    RUN_LOST = "run.lost"
    LANE_CLOSED = "lane.closed"
    PERMISSION_REFUSED = "permission.refused"
    FLEET_REPAIRED = "fleet.repaired"
    ASK_IMPORTED = "ask.imported"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened. `at` in milliseconds by the database's clock; ids are None where there is none."""

    kind: str
    at: int
    ask: str | None = None
    run: str | None = None
    capture: str | None = None
    agent: str | None = None
    principal: str | None = None
    channel: str | None = None
    reason: str | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """Give the entry as the object that is hashed, shown and exported; version 1 holds exactly these members."""
        return {
            "v": 1,
            "kind": self.kind,
            "at": self.at,
            "ask": self.ask,
            "run": self.run,
            "capture": self.capture,
            "agent": self.agent,
            "principal": self.principal,
            "channel": self.channel,
            "reason": self.reason,
            "facts": {name: list(fact) if isinstance(fact, tuple) else fact for name, fact in self.facts.items()},
        }


def seal(previous: Digest, seq: int, entry: Mapping[str, object]) -> Digest:
    """Chain one entry's document to the seal before it; `seq` counts from 1 without a gap."""
    return digest("gitops-bot/ledger/v1", canonical({"entry": entry, "prev": previous, "seq": seq}))
