"""The way of people in, looked at: is the workspace's origin one where passkeys work, and has anybody enrolled."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from gitops_bot.bootstrap.database import Finding, open_database
from gitops_bot.bootstrap.repository_doctor import placeholder_finding
from gitops_bot.bootstrap.rules import rules_of
from gitops_bot.config import Settings
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.core.principals import PrincipalKind
from gitops_bot.policy.model import Policy, Risk
from gitops_bot.store import passkeys
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role


def people_findings(settings: Settings) -> Iterator[Finding]:
    """Look at the workspace's origin and at who can answer; without database or pin only at the origin."""
    yield _origin(settings.origin)
    try:
        database = open_database(settings.database_url, Role.HOST, pool_size=1)
    except (ConfigError, Unavailable):
        return
    try:
        policy = rules_of(settings, database).policy
        found = placeholder_finding(policy)
        if found is not None:
            yield found
        yield _passkeys(policy, database)
        yield from _risk(policy)
    except ConfigError:
        return
    finally:
        database.close()


def _origin(origin: str) -> Finding:
    parts = urlsplit(origin)
    here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if here:
        return Finding(
            "workspace", True, f"{origin}: browsers on this machine alone; set [workspace] origin for others"
        )
    fix = "set [workspace] origin to https://…, a proxy with a certificate before it: browsers give no passkeys else"
    return Finding("workspace", parts.scheme == "https", origin, fix)


def _passkeys(policy: Policy, database: Database) -> Finding:
    people = [name for name, one in policy.people.items() if one.principal.kind is PrincipalKind.HUMAN]
    with database.read() as tx:
        enrolled = [name for name in people if any(key.revoked_at is None for key in passkeys.of(tx, name))]
    if enrolled:
        return Finding("passkeys", True, f"{len(enrolled)} of {len(people)} people can sign in: {', '.join(enrolled)}")
    only = [verb for verb, rule in policy.verbs.items() if set(rule.channels) == {"workspace"}]
    detail = f"nobody has one: {', '.join(only) if only else 'what is asked in the workspace'} cannot be answered"
    return Finding("passkeys", not only, detail, "gitops-bot person enrol NAME, for somebody of the policy")


def _risk(policy: Policy) -> Iterator[Finding]:
    high = [name for name, rule in policy.verbs.items() if rule.risk is Risk.HIGH and not rule.gated]
    if high:
        yield Finding("risk", True, f"high, so a second key is asked for and no batch: {', '.join(high)}")
