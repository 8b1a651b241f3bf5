"""The bot as a GitHub App, looked at: does the App answer, is it installed on each repository, what may it do there, is
it suspended. A token is asked for as the broker asks, and nothing is written."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitops_bot.bootstrap.database import Finding
from gitops_bot.bootstrap.forge import app_of, client_of
from gitops_bot.config import Settings
from gitops_bot.core.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from gitops_bot.forge.app import App, Seen
    from gitops_bot.forge.client import GitHubForge

_KEY = "compare [forge] app_id and private_key_file with the App's page; a new key is generated there"
_CONFIGURE = "do what it says on the App's page or under GitHub Apps, Configure; the broker goes on by itself"
_TEAMS = "grant the organisation permission members: read where a policy names a team"


def app_findings(settings: Settings) -> Iterator[Finding]:
    """Look at the App and its installations; what cannot be reached says so instead of failing."""
    try:
        app, forge = app_of(settings), client_of(settings)
    except ConfigError as error:
        yield Finding("forge app", False, error.message, error.fix)
        return
    assert forge is not None
    try:
        try:
            slug = app.slug()
        except Unavailable as error:
            yield Finding("forge app", False, str(error), _KEY)
            return
        yield Finding("forge app", True, f"the App {slug} answers, id {app.id}")
        yield _account(forge)
        for name in settings.forge.repositories:
            yield from _repository(app, forge, name)
    finally:
        forge.disconnect()
        app.close()


def _account(forge: "GitHubForge") -> Finding:
    try:
        return Finding("forge account", True, f"the bot is account {forge.self_id()}")
    except Unavailable as error:
        return Finding("forge account", False, str(error), _CONFIGURE)


def _repository(app: "App", forge: "GitHubForge", name: str) -> Iterator[Finding]:
    try:
        seen = app.installed(name)
    except Unavailable as error:
        yield Finding("forge", False, f"{name}: {error}", _CONFIGURE)
        return
    yield _permissions(name, seen)
    if seen.suspended:
        yield Finding("forge", False, f"{name}: installation {seen.id} at {seen.account} is suspended", _CONFIGURE)
        return
    try:
        found = forge.repository(name)
    except Unavailable as error:
        yield Finding("forge", False, f"{name}: {error}", _CONFIGURE)
        return
    yield Finding("forge", True, f"{name} answers, id {found.id}; installation {seen.id} at {seen.account}")


def _permissions(name: str, seen: "Seen") -> Finding:
    from gitops_bot.forge.app import PERMISSIONS

    held = seen.permissions
    fitting = {key: level for key, level in PERMISSIONS.items() if held.get(key) in (level, "write")}
    lacking = ", ".join(f"{key}: {level}" for key, level in PERMISSIONS.items() if key not in fitting)
    has = ", ".join(f"{key}: {held[key]}" for key in fitting) or "nothing that is needed"
    teams = "" if held.get("members") in ("read", "write") else "; may not look into teams"
    words = f"{name}: has {has}{teams}" + (f"; lacks {lacking}" if lacking else "")
    fix = f"add {lacking} on the App's page (Permissions), then accept them at {seen.account}'s installation"
    return Finding("forge permissions", not lacking, words, fix if lacking else _TEAMS)
