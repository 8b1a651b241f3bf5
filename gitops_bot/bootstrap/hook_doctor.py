"""Webhooks and branch rules looked at on the forge, where the token may see them. Nothing is changed there.

What this token may not see is said with the address where a person sees it: broker and polls need none of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from gitops_bot.bootstrap.database import Finding
from gitops_bot.bootstrap.forge import app_of, is_app
from gitops_bot.bootstrap.initial.files import RULES, RULESET
from gitops_bot.config import Settings, secret
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.forge.surroundings import APP_LOG, Delivered, Hook, app_hook, branch_rules, delivered, hooks, log_of
from gitops_bot.forge.transport import Transport

_SHORTEST: Final = 20
_NEEDED: Final = ("issue_comment", "pull_request")
_MAKE: Final = "(umask 077; openssl rand -hex 32 > {path}), and put the same into the webhook"
_OF_AN_APP: Final = (*_NEEDED, "check_run")
_EVENTS: Final = "let it send at least {events} (docs/github.md)"
_NONE: Final = Delivered(0, 0, newest_failed=False)


def secret_findings(settings: Settings) -> Iterator[Finding]:
    """Look at the secrets of webhooks; none is shown."""
    for path in settings.forge.webhook_secret_files:
        fix = _MAKE.format(path=path)
        try:
            held = secret(path, "webhook secret")
        except ConfigError as error:
            yield Finding("webhook secret", False, error.message, error.fix or fix)
            continue
        long = len(held) >= _SHORTEST
        said = f"{path}, readable by its owner alone" if long else f"{path} holds fewer than {_SHORTEST} characters"
        yield Finding("webhook secret", long, said, fix)


def hook_findings(settings: Settings) -> Iterator[Finding]:
    """Look at the webhook of each repository, where the bot acts by a token, or at the one of its App."""
    if _acts_as_app(settings):
        yield from _app_hook(settings)
        return
    with _wire(settings) as wire:
        if wire is None:
            return
        for name in settings.forge.repositories:
            yield from _hooks(settings, wire, name)


def _hooks(settings: Settings, wire: Transport, name: str) -> Iterator[Finding]:
    ours = _ours(settings)
    try:
        found = [hook for hook in hooks(wire, name) if hook.url.rstrip("/") == ours]
        told = delivered(wire, log_of(name, found[0].id)) if found else _NONE
    except Unavailable as error:
        where = f"{_site(settings)}/{name}/settings/hooks"
        why = "this token may not list webhooks" if error.refused else str(error)
        yield Finding("webhook", True, f"{name}: not looked at, {why}; a person sees them at {where}")
        return
    yield from _looked_at(settings, name, found[0] if found else None, told, _NEEDED)


def _app_hook(settings: Settings) -> Iterator[Finding]:
    try:
        app = app_of(settings)
    except ConfigError:
        return  # the App's own findings tell it
    try:
        hook = app_hook(app.wire)
        told = _NONE if hook is None else delivered(app.wire, APP_LOG)
    except Unavailable as error:
        yield Finding("webhook", True, f"the App's is not looked at: {error}; a person sees it on the App's page")
        return
    finally:
        app.close()
    here = hook if hook is not None and hook.url.rstrip("/") == _ours(settings) else None
    yield from _looked_at(settings, "the App", here, told, _OF_AN_APP)


def _looked_at(
    settings: Settings, name: str, hook: Hook | None, told: Delivered, needed: tuple[str, ...]
) -> Iterator[Finding]:
    ours, secrets = _ours(settings), bool(settings.forge.webhook_secret_files)
    if hook is None:
        fix = f"add one for {ours} (docs/github.md), or remove [forge] webhook_secret_files"
        yield Finding("webhook", not secrets, f"{name} has none for {ours}; comments are found by the poll", fix)
        return
    faults = list(_faults(hook, told, secrets, needed))
    for detail, fix in faults:
        yield Finding("webhook", False, f"{name}: {detail}", fix)
    if not faults:
        past = f"{told.looked - told.failed} of the last {told.looked} deliveries arrived"
        yield Finding("webhook", True, f"{name} sends to {ours}; {past}")


def _faults(hook: Hook, told: Delivered, secrets: bool, needed: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if not secrets:
        yield "it has a webhook, and no secret is named here: none is served", "set [forge] webhook_secret_files"
    if not hook.active:
        yield "its webhook is switched off", "switch it on (Active)"
    if not hook.signed:
        yield "its webhook has no secret, so nothing of it is believed", "give it the secret from the file"
    if not hook.json:
        yield "its webhook sends forms", "set its content type to application/json"
    if not hook.tls_checked:
        yield "its webhook does not verify certificates", "enable SSL verification"
    if "*" not in hook.events and (lacking := [one for one in needed if one not in hook.events]):
        yield f"its webhook does not send {' and '.join(lacking)}", _EVENTS.format(events=", ".join(needed))
    if told.newest_failed:
        fix = "look at its answer on the forge; is the workspace reached? then gitops-bot webhook redeliver"
        yield f"the newest of its deliveries failed, {told.failed} of the last {told.looked}", fix


def ruleset_findings(settings: Settings) -> Iterator[Finding]:
    """Look at the rules of the approvals branches, where the approvals repository is on the forge."""
    remote = settings.signed.remote
    if remote is None:
        return
    repository = approvals_repository(remote, settings.forge.api_url)
    if repository is None:
        yield Finding("ruleset", True, f"not looked at: {remote} is not on the forge of [forge] api_url")
        return
    branch = f"gated/{settings.environment}/requests"
    with _wire(settings) as wire:
        if wire is None:
            yield Finding("ruleset", True, f"not looked at; a person sees them at {_site(settings)}/{repository}/rules")
            return
        try:
            held = branch_rules(wire, repository, branch)
        except Unavailable as error:
            why = "this token may not see its rules" if error.refused else str(error)
            yield Finding("ruleset", True, f"{repository}: not looked at, {why}")
            return
    lacking = [kind for kind in RULES if kind not in held]
    fix = f"import {RULESET} at {_site(settings)}/{repository}/settings/rules (gitops-bot init writes it)"
    said = f"may be {' and '.join(_DONE[kind] for kind in lacking)}" if lacking else "are neither deleted nor rewritten"
    yield Finding("ruleset", not lacking, f"{repository}: approvals branches {said}", fix)


_DONE: Final = {"deletion": "deleted", "non_fast_forward": "rewritten"}


def approvals_repository(remote: str, api_url: str) -> str | None:
    """Give the approvals repository as `owner/name`, where it is on the forge with that API; else None."""
    try:
        parts, api = urlsplit(remote), urlsplit(api_url)
    except ValueError:
        return None
    host = "github.com" if api.hostname == "api.github.com" else api.hostname
    path = parts.path.strip("/").removesuffix(".git")
    same = parts.scheme in ("https", "ssh") and parts.hostname == host
    return path if same and path.count("/") == 1 else None


def _ours(settings: Settings) -> str:
    return f"{settings.origin}/hooks/github"


def _acts_as_app(settings: Settings) -> bool:
    try:
        return bool(settings.forge.repositories) and is_app(settings)
    except ConfigError:
        return False  # the forge's own findings tell it


def _site(settings: Settings) -> str:
    parts = urlsplit(settings.forge.api_url)
    return "https://github.com" if parts.hostname == "api.github.com" else f"{parts.scheme}://{parts.netloc}"


@contextmanager
def _wire(settings: Settings) -> Iterator[Transport | None]:
    """Open a wire under the token; None without repositories or a token that can be read, which others tell."""
    try:
        token = secret(settings.forge.token_file, "token") if settings.forge.repositories else ""
    except ConfigError:
        token = ""
    if not token:
        yield None
        return
    wire = Transport(settings.forge.api_url, token)
    try:
        yield wire
    finally:
        wire.close()
