"""What the transfer demo says: sentences for what happens on the signed channel, a table of how it ended. Pure."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from gitops_bot.core.errors import SENTENCES, Reason

_SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ask.opened": "an ask is open: {verb}, {ask}; it binds action, policy and run",
        "ask.refused": "refused before anybody is asked: {reason}",
        "ask.answered": "{state} by {people}; verdict and grant are one transaction",
        "vote.refused": "a commit on {principal}'s branch is refused, and only itself: {reason}",
        "vote.counted": "{principal}'s commit {commit} counts",
        "grant.minted": "one grant for exactly this action",
        "grant.spent": "spent: every commit behind it was verified again, from its raw bytes",
        "effect.attempted": "marker on the requests branch, then the one call",
        "effect.done": "done; the answer, as it came: {text}",
        "effect.failed": "it failed",
        "effect.unknown": "nobody knows whether it was done; a person looks",
        "policy.changed_on_disk": "the files in policies/ changed; that alone changes nothing",
        "policy.proposed": "the bot asks to adopt version {version}, by the policy that it replaces",
        "policy.adopted": "version {version} is in force; the pin of this host moves",
        "channel.frozen": "the branch of {principal} is frozen",
        "channel.closed": "the signed channel is closed: {reason}",
    }
)

ANY: Final = (
    'keys = "any" in this policy: whatever runs as alice or bob can sign for them. OpenPGP and plain SSH keys',
    'prove no touch, so this demo could play both. Under "verified" only a security key with touch and PIN counts.',
    'shared_uid = "accepted" in these settings: agent, broker and people are one user here. Elsewhere let the agent',
    "be another user than the broker, or it could read the broker's keys and database (SECURITY.md).",
)
"""What the demo's policy and settings mean, to be shown."""


def sentence(document: Mapping[str, Any]) -> str | None:
    """Say what a ledger entry means for who watches; None for one that is of no interest."""
    text = _SENTENCES.get(document["kind"])
    if text is None:
        return None
    facts = dict(document["facts"])
    shown = _Facts(facts, ask=document.get("ask") or "", people=", ".join(facts.get("by") or ()) or "nobody")
    shown |= {"principal": document.get("principal") or "nobody", "reason": reason(document.get("reason"))}
    shown["commit"] = str(facts.get("commit", ""))[:12]
    return f"{document['kind']:<28} {text.format_map(shown)}"


class _Facts(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return f"({key})"


def reason(code: object) -> str:
    """Give a refusal's code with its sentence."""
    known = Reason(code) if isinstance(code, str) and code in set(Reason) else None
    return str(code) if known is None else f"{known.value}: {SENTENCES[known]}"


def table(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """Lay out what was tried, by whom, and how it ended."""
    shown = [("what", "who", "how it ended"), *rows]
    widths = [max(len(row[column]) for row in shown) for column in range(3)]
    return ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in shown]
