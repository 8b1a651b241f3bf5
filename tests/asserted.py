"""What `authority.assertions` gives for a passkey's assertion that it verified, for tests of what comes after it."""

from gitops_bot.core.asks import Ask, AskKind
from gitops_bot.core.statements import Asserted, Statement, hash_text
from gitops_bot.core.verdicts import Channel


def asserted(
    ask: Ask, who: str | None, option: str | None, text: str | None = None, channel: Channel = Channel.WORKSPACE
) -> Asserted | None:
    """Assert an answer as its person would have to; None where nobody is asked to."""
    if who is None or ask.kind is not AskKind.APPROVAL or channel is not Channel.WORKSPACE:
        return None
    bound = ask.binding
    statement = Statement(
        "http://localhost:8480", "gitops-bot", who, "Y3JlZA", ask.id, ask.verb, option, hash_text(text),
        bound.action_hash, bound.policy, bound.run_version, ask.opened_at, "A" * 22,
    )  # fmt: skip
    return Asserted(statement, b'{"asserted":true}')
