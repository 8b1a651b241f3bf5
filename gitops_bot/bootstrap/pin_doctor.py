"""The pin looked at as the broker does: which policy is in force here, what is on disk, whether the channel is open."""

from collections.abc import Iterator

from gitops_bot.bootstrap.database import Finding, open_database
from gitops_bot.bootstrap.gate import FIX, closed
from gitops_bot.bootstrap.keeping import changed_on_disk
from gitops_bot.bootstrap.rules import rules_of
from gitops_bot.config import Settings
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.store import bundles, suspensions
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role

_PIN = "gitops-bot policy check, then gitops-bot trust pin"


def pin_findings(settings: Settings) -> Iterator[Finding]:
    """Look at the pin; without a database, at the files alone."""
    try:
        database = open_database(settings.database_url, Role.HOST, pool_size=1)
    except (ConfigError, Unavailable):
        yield _policy(settings, None)
        return
    try:
        yield _policy(settings, database)
        yield from _on_disk(settings, database)
        if settings.signed.remote is not None and settings.trust_file.exists():
            yield _channel(settings, database)
        yield from _suspended(database)
    finally:
        database.close()


def _policy(settings: Settings, database: Database | None) -> Finding:
    try:
        policy = rules_of(settings, database).policy
    except ConfigError as error:
        return Finding("policy", False, error.message, error.fix if settings.trust_file.exists() else _PIN)
    return Finding("policy", True, f"version {policy.version} is pinned, {policy.digest}")


def _on_disk(settings: Settings, database: Database) -> Iterator[Finding]:
    found = changed_on_disk(settings.policies, settings.trust_file)
    if found is None:
        return
    with database.read() as tx:
        known = bundles.get(tx, found) is not None
    was = "was stored before: proposed, or in force once" if known else "was never proposed"
    detail = f"{settings.policies} holds another bundle, {found}, which is not in force and {was}"
    yield Finding("bundle on disk", True, f"{detail}; gitops-bot policy propose opens the ask to adopt it")


def _channel(settings: Settings, database: Database) -> Finding:
    with database.read() as tx:
        why = closed(database, tx, settings.trust_file)
    if why is None:
        return Finding("signed channel", True, "open: the database is not behind this host's trust file")
    return Finding("signed channel", False, f"closed: {why.reason.value}: {why.detail}", FIX)


def _suspended(database: Database) -> Iterator[Finding]:
    with database.read() as tx:
        names = sorted(suspensions.suspended(tx))
    if names:
        detail = f"{', '.join(names)}: nothing of theirs counts; gitops-bot person suspend NAME --lift reinstates"
        yield Finding("suspended on this host", True, detail)
