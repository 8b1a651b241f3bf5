"""The forge looked at as the broker will use it: address, token, account, clock, and each repository. Nothing is
written there."""

from collections.abc import Iterator
from typing import Final

from gitops_bot.bootstrap.app_doctor import app_findings
from gitops_bot.bootstrap.clock import wall_seconds
from gitops_bot.bootstrap.database import Finding
from gitops_bot.bootstrap.forge import is_app
from gitops_bot.config import Settings, secret
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.ports import Forge

SKEW_SECONDS: Final = 60
"""More than this between the two clocks, and the times that people are shown do not fit what they see on the forge."""

_ENOUGH: Final = frozenset({"repo", "public_repo"})
_REACH: Final = "check [forge] api_url and repositories, and that the token may see them"
_PUSH: Final = "give the bot's account write access, or the token: contents, issues and pull requests, read and write"


def forge_findings(settings: Settings) -> Iterator[Finding]:
    """Look at the forge; what cannot be reached says so instead of failing."""
    if not settings.forge.repositories:
        yield Finding("forge", True, "none is configured; approvals come in by other channels")
        return
    try:
        if is_app(settings):
            yield from app_findings(settings)
            return
        token = secret(settings.forge.token_file, "token")
    except ConfigError as error:
        yield Finding("forge", False, error.message, error.fix)
        return
    yield from _by_token(settings, token)


def _by_token(settings: Settings, token: str) -> Iterator[Finding]:
    from gitops_bot.forge import access
    from gitops_bot.forge.client import GitHubForge
    from gitops_bot.forge.transport import Transport

    wire, forge = Transport(settings.forge.api_url, token), GitHubForge(settings.forge.api_url, token)
    try:
        yield _account(forge)
        for place, name in enumerate(settings.forge.repositories):
            try:
                seen = access.read(wire, name)
            except Unavailable as error:
                yield Finding("forge", False, f"{name}: {error}", _REACH)
                continue
            if place == 0:
                yield _clock(seen.at)
                yield _scopes(seen.scopes)
            words = "may write" if seen.may_push else "may only read"
            yield Finding("forge", seen.may_push, f"{name} answers, id {seen.repository_id}; the bot {words}", _PUSH)
    finally:
        wire.close()
        forge.disconnect()


def _account(forge: Forge) -> Finding:
    try:
        return Finding("forge account", True, f"the bot is account {forge.self_id()}")
    except Unavailable as error:
        return Finding(
            "forge account", False, str(error), "write a token that the forge accepts into [forge] token_file"
        )


def _clock(at: int) -> Finding:
    if at == 0:
        return Finding("forge clock", True, "the forge says no time; nothing depends on it")
    apart = abs(at / 1000 - wall_seconds())
    fix = "set this machine's clock (NTP); the ages of comments are counted by it"
    return Finding("forge clock", apart <= SKEW_SECONDS, f"{apart:.0f} s apart from this machine's", fix)


def _scopes(scopes: tuple[str, ...] | None) -> Finding:
    if scopes is None:
        return Finding("forge token", True, "has permissions instead of scopes; what it may do is tried below")
    fix = "make a token with the scope repo (public_repo for public repositories), and read:org where a team votes"
    said = ", ".join(scopes) or "none"
    return Finding("forge token", not _ENOUGH.isdisjoint(scopes), f"scopes: {said}", fix)
