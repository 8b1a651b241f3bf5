"""What people look at, as values: a card of an ask and the parts that it is made of. Nothing here is a decision.

Everything that an agent, a loop, a program or somebody outside worded is an `AgentText`, and nothing else is: a surface
shows it apart, attributed, without giving it a way to act. All other texts are ours, or the policy's, or of a person.
Parameters and facts are written by `plain`, in which nothing reorders or hides. Times are milliseconds since 1970 UTC.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gitops_bot.authority.queries import AskView
from gitops_bot.authority.remedies import remedy_of
from gitops_bot.core.asks import AskId
from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.rules import Quorum
from gitops_bot.store.agents import Agent


@dataclass(frozen=True, slots=True)
class AgentText:
    """Hostile words and whose they are; `by` is ours."""

    text: str
    by: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a process knows for its cards beside the rows: the repository of approvals, whether this host accepted that
    agents share the broker's user, and what to do about a code of a refusal."""

    approvals: str | None = None
    shared_uid: bool = False
    remedy: Callable[[str], str] = remedy_of


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of the action: how it is shown to people, and its JSON form in printable ASCII."""

    name: str
    shown: str
    raw_json: str


@dataclass(frozen=True, slots=True)
class Change:
    """A parameter that differs from the last approved action of the verb; None where it is absent."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Link:
    """Evidence: a label of ours, the value, and an address to open: `http(s)://` of the forge, or a path of ours."""

    label: str
    text: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Voter:
    """A person whom the rule names: what they said, or None; why they may not approve, or None."""

    name: PrincipalName
    said: str | None
    barred: str | None


@dataclass(frozen=True, slots=True)
class Voted:
    """A vote as cast; `text` is a person's. `counts` is False for what its own voter replaced or took back."""

    name: PrincipalName
    decision: str
    option: str | None
    text: str | None
    channel: str
    at: int
    counts: bool
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ShortBinding:
    """The first and last characters of what an answer binds, to compare by eye; `view.ask.binding` has it whole."""

    action: str
    policy: str
    run_version: int


@dataclass(frozen=True, slots=True)
class Deadline:
    """When the ask was opened, when it must be answered, by when its asker would like it; `over` by the database."""

    opened_at: int
    expires_at: int | None
    due_at: int | None
    now: int
    over: bool


@dataclass(frozen=True, slots=True)
class Denial:
    """The same action was denied before: `words` are that person's."""

    ask: AskId
    who: str | None
    at: int
    words: str | None


@dataclass(frozen=True, slots=True)
class HoldShown:
    """A hold of a gated ask or grant; `words` are the person's."""

    who: PrincipalName
    placed_at: int
    until: int
    standing: bool
    words: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """An answer that was refused or waits: the code, what happened, what to do. `detail` is what was found."""

    who: str
    when: int
    channel: str
    reason: str
    sentence: str
    remedy: str
    detail: AgentText | None = None
    commit: str | None = None
    ask: AskId | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the ask ended. `text` is a person's; `words` are of whoever withdrew it, who may be an agent."""

    state: str
    who: tuple[str, ...]
    channel: str | None
    at: int
    took_ms: int
    option: str | None
    text: str | None
    sentence: str
    words: AgentText | None = None


@dataclass(frozen=True, slots=True)
class EffectShown:
    """What came of it outside. `state` is one of pending, attempting, done, failed, unknown, stopped, not_recorded;
    `detail` is ours and says for unknown what to do; `told` is what the other side said."""

    what: str
    state: str
    detail: str
    at: int | None
    told: AgentText | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """A deny or revoke that came after the end; `words` are the person's."""

    who: str
    decision: str
    channel: str
    at: int
    words: str | None


@dataclass(frozen=True, slots=True)
class GrantShown:
    """A grant, which is an index and never evidence."""

    id: str
    state: str
    minted_at: int
    spend_after: int
    spend_before: int
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class SignedFile:
    """What one person would sign for one decision: the exact file and commit message, and how. Composed where requests
    can be rendered (`bootstrap.showing`). `command` is one line; `by_hand` is git alone, after docs/signing.md, `begin`
    what begins the person's branch, once."""

    person: PrincipalName
    decision: str
    path: str
    file_text: str
    message_text: str
    sha256: str
    short_code: str
    command: str
    by_hand: str
    begin: str


@dataclass(frozen=True, slots=True)
class Gated:
    """What only a gated ask has. `sentence` says what was minted, `where` where authority lives; `request` is the whole
    request as stored (canonical JSON, printable), None before the broker stored it."""

    sentence: str
    where: str
    limits_of_this: str
    repository: str | None
    requests_branch: str
    branches: Mapping[PrincipalName, str]
    grant: GrantShown | None
    command: str
    request: str | None = None
    files: tuple[SignedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class OptionShown:
    """An offered option. `label` is ours for an approval, the agent's words for a question; `refused` says why this
    person may not give it."""

    id: str
    label: str | AgentText
    refused: Refused | None


@dataclass(frozen=True, slots=True)
class Card:
    """One ask with everything that a person needs to decide, or to see why they do not.

    `view` holds the rows, agent's words included, for surfaces that give them as data; pages show the other fields.
    `blocks` says what stands still until it ends; `snoozed_until` is this person's own.
    `can` holds acts of answer, withdraw, delegate, snooze, hold, claim; `cannot` the others, one reason for each.
    """

    view: AskView
    agent: Agent
    title: str
    summary: str | None
    text: AgentText
    why: AgentText
    risk: str
    channels: tuple[str, ...]
    answerable: bool
    quorum: Quorum | Refused
    params: tuple[Param, ...]
    changes: tuple[Change, ...]
    compared_with: AskId | None
    evidence: tuple[Link, ...]
    policy_says: tuple[str, ...]
    warnings: tuple[str, ...]
    may_answer: tuple[Voter, ...]
    voted: tuple[Voted, ...]
    missing: int
    missing_people: tuple[PrincipalName, ...]
    binding: ShortBinding
    deadline: Deadline
    last_denial: Denial | None
    holds: tuple[HoldShown, ...]
    attempts: tuple[Attempt, ...]
    outcome: Outcome | None
    effects: tuple[EffectShown, ...]
    taken_back: tuple[Taken, ...]
    successor: AskId | None
    predecessor: AskId | None
    gated: Gated | None
    options: tuple[OptionShown, ...]
    blocks: str | None = None
    assignee: PrincipalName | None = None
    snoozed_until: int | None = None
    can: frozenset[str] = frozenset()
    cannot: Mapping[str, Refused] = field(default_factory=dict)
