"""The rules that a process decides by: the pinned bundle, the domain and the limits, from the settings."""

from gitops_bot.authority.rules import AskLimits, Rules
from gitops_bot.bootstrap.force import in_force
from gitops_bot.bootstrap.trust import pinned_policy
from gitops_bot.broker.captures import Place
from gitops_bot.config import Settings
from gitops_bot.core.errors import ConfigError
from gitops_bot.store.engine import Database


def rules_of(settings: Settings, database: Database | None = None) -> Rules:
    """Load the pinned bundle: from disk, or where other files are there, as the database stores it.

    Raises:
        ConfigError: it does not load, is not the pinned one, or gates a verb on a host where agents share the broker's
            user without somebody having accepted that.
    """
    if database is None:
        policy = pinned_policy(settings.policies, settings.trust_file)
    else:
        policy = in_force(settings, database).policy
    if policy.gated and settings.shared_uid != "accepted":
        raise ConfigError(
            "the policy gates verbs, and agents on this host may run as the broker's user",
            fix='isolate the agents, or accept what SECURITY.md says of it with [signed] shared_uid = "accepted"',
        )
    limits = AskLimits(settings.max_open_gated, settings.max_open_bound, repeat_after=settings.repeat_after)
    return Rules(policy, settings.repository, settings.environment, limits)


def place_of(settings: Settings) -> Place:
    """Say where captures are asked for: the first repository of the forge, or none.

    Raises:
        ConfigError: fewer than one place to measure, or a negative number of them kept.
    """
    if settings.capture.slots < 1 or settings.gpu_reserve < 0:
        raise ConfigError("[capture] slots must be at least 1, [broker] gpu_reserve at least 0", fix="slots = 1")
    repository = settings.forge.repositories[0] if settings.forge.repositories else None
    return Place(settings.environment, repository, settings.degraded, settings.capture.slots, settings.gpu_reserve)
