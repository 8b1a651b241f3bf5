"""A bundle on disk becomes a proposal: its bytes are stored, and the gated ask to adopt it is open under the old one.

The bot's service asks, so that no voter is spent on asking. Nothing on disk is trusted by this, and nothing changes
before the people of the bundle in force have signed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitops_bot.bootstrap.bundle import load_files, read_bundle
from gitops_bot.bootstrap.gate import FIX, closed
from gitops_bot.bootstrap.rules import rules_of
from gitops_bot.config import Settings
from gitops_bot.core.errors import ConfigError, Malformed, Refusal, Refused, refuse
from gitops_bot.policy.diff import difference
from gitops_bot.policy.model import ADOPT, Policy
from gitops_bot.policy.rules import tally
from gitops_bot.store.engine import Database


@dataclass(frozen=True, slots=True)
class Proposal:
    """An open ask to adopt a bundle. `changes` are sentences; `may` names who could approve, `needed` how many must."""

    ask: str
    repeated: bool
    expires_at: int | None
    policy: Policy
    previous: str
    changes: tuple[str, ...]
    may: tuple[str, ...]
    needed: int


def propose(settings: Settings, database: Database, folder: Path) -> Proposal:
    """Propose the bundle in a folder. `database` is open in the broker's role: bundles are the broker's to store.

    Raises:
        ConfigError: there is no bundle, or nothing is pinned.
        Malformed: it does not load, or may not follow the one in force.
        Refusal: the ask is refused, or the signed channel is closed on this host.
    """
    from gitops_bot.signed import adopting

    files: Mapping[str, bytes] = read_bundle(folder)
    rules = rules_of(settings, database)
    new = load_files(files)
    if new.digest == rules.policy.digest:
        raise ConfigError(f"the bundle in {folder} is the one in force", fix="change it, and let its version rise")
    try:
        with database.write() as tx:
            why = closed(database, tx, settings.trust_file)
            if why is not None:
                raise Refusal(
                    refuse(why.reason, f"The signed channel is closed. {why.detail} {FIX[:1].upper()}{FIX[1:]}.")
                )
            opened = adopting.propose(tx, rules, files, load_files)
    except Malformed as error:
        raise Malformed(f"it may not follow the bundle in force: {error}") from error
    if isinstance(opened, Refused):
        raise Refusal(opened)
    ask, rule = opened.ask, rules.policy.verbs[ADOPT]
    quorum = tally(rules.policy, rule, (), requester=ask.requester, agent_owner=ask.owner)
    return Proposal(
        ask.id,
        opened.repeated,
        ask.expires_at,
        new,
        rules.policy.digest,
        difference(rules.policy, new),
        quorum.may_still,
        rule.approve,
    )
