"""A draft pull request as a value: branch, file, title and text, from the facts of an ask.

After `draft` everything that the forge will show is fixed and can be hashed, compared or thrown away; `authority` puts
it into the outbox and `client` carries it out. What an agent wrote stands in one field that cannot act (`quoting`), and
no command stands where it would run. The request file holds no binding: the binding refers to the commit that holds
this file (forge-commands, The pull request).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import canonical
from gitops_bot.core.captures import Regime, TraceId, slug
from gitops_bot.forge.grammar import Command, exact_line
from gitops_bot.forge.quoting import capped, field, phrase, visible
from gitops_bot.forge.replies import instant, names, pasted

VERSION: Final = 1
"""Version of both files; a reader refuses another one, new members need a new version."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a person is asked to decide. `why` is the agent's text; `cost` is the broker's own sentence; `may_vote` are
    names of the policy, `needed` how many of them; `expires_at` in milliseconds since 1970 UTC."""

    ask: AskId
    regime: Regime
    why: str
    requester: str
    cost: str
    may_vote: tuple[str, ...]
    needed: int
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft pull request before it exists: one commit that adds `files` on a new branch, then title and body."""

    branch: str
    files: Mapping[str, bytes]
    message: str
    title: str
    body: str


def draft(proposal: Proposal, turn: int = 1) -> Draft:
    """Write the draft for a proposal; `turn` counts the pull requests of its trace id from 1."""
    trace_id = proposal.regime.trace_id
    return Draft(
        branch=branch_name(trace_id, turn),
        files={request_path(trace_id): request_json(proposal)},
        message=title(proposal.regime),
        title=title(proposal.regime),
        body=body(proposal),
    )


def branch_name(trace_id: TraceId, turn: int = 1) -> str:
    """Name the branch: `capture/<slug>`, and `-N` from the second pull request of a trace id on."""
    return f"capture/{slug(trace_id)}" + (f"-{turn}" if turn > 1 else "")


def request_path(trace_id: TraceId) -> str:
    """Name the file that asks."""
    return f"captures/{slug(trace_id)}/request.json"


def calibration_path(trace_id: TraceId) -> str:
    """Name the file that records what was measured."""
    return f"captures/{slug(trace_id)}/calibration.json"


def request_json(proposal: Proposal) -> bytes:
    """Write the request file: what is asked for, by whom and why, without the binding."""
    document = {
        "v": VERSION,
        "ask": proposal.ask,
        "trace_id": proposal.regime.trace_id,
        "regime": proposal.regime.params(),
        "requester": proposal.requester,
        "why": visible(capped(proposal.why)),
    }
    return canonical(document) + b"\n"


def calibration_json(knobs: Mapping[str, str], digest: str, place: str) -> bytes:
    """Write the calibration file: the fitted knobs (decimal strings), the trace's digest and where the trace is kept.

    Raises:
        Malformed: a knob that is no string, or text that has no UTF-8 form.
    """
    return canonical({"v": VERSION, "knobs": dict(knobs), "digest": digest, "place": place}) + b"\n"


def title(regime: Regime) -> str:
    """Write the title, also used as the commit's message; only characters of a trace id go into it."""
    return f"Capture request: {regime.model} at concurrency {regime.concurrency}"


def body(proposal: Proposal) -> str:
    """Write the text: what will be measured, what it costs, who may approve, until when, and the lines to paste."""
    trace_id = proposal.regime.trace_id
    until = "no date is set" if proposal.expires_at is None else instant(proposal.expires_at)
    lines = [
        f"<!-- gitops-bot:request={proposal.ask} -->",
        "",
        "An agent asks to change what its judge measures. Nothing is measured until a person approves.",
        "",
        "**What will be measured**",
        "",
        _measured(proposal.regime),
        "",
        f"- What it costs: {phrase(proposal.cost, 300)}",
        f"- Who may approve: {names(proposal.may_vote)}; needed: {proposal.needed}",
        f"- Expires: {until}; expiry approves nothing",
        f"- Asked by: {phrase(proposal.requester)}, ask {phrase(proposal.ask)}",
        "",
        "**Why**, in the agent's own words:",
        "",
        field(proposal.why),
        "",
        "**To decide**, write one of these as the first line of a comment, exactly as it stands:",
        "",
        pasted(exact_line(Command.APPROVE, trace_id), exact_line(Command.DENY, trace_id)),
        "",
        "Text after a deny line, and lines below either, are kept as the reason. For where it stands, or for help:",
        "",
        pasted(Command.STATUS.value, Command.HELP.value),
        "",
        "Merging this pull request or marking it ready is never an approval.",
    ]
    return "\n".join(lines) + "\n"


def _measured(regime: Regime) -> str:
    rows = (
        ("model", regime.model),
        ("concurrency", f"{regime.concurrency} requests at once"),
        ("prefixes", f"{regime.prefixes} shared prefixes"),
        ("tokens", f"at most {regime.max_tokens} a request"),
        ("long requests", f"{regime.long_frac} of all, {regime.long_tokens} tokens each"),
    )
    return pasted(*(f"{name:<14} {value}" for name, value in rows))
