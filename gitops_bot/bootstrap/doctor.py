"""The whole set-up looked at, one finding each, with the line that repairs it. Nothing is changed.

The database's own findings are `bootstrap.database.check`'s, the forge's `bootstrap.forge_doctor`'s, the signed
channel's `bootstrap.signed_doctor`'s, the pin's `bootstrap.pin_doctor`'s, webhooks and rules `bootstrap.hook_doctor`'s,
the files of `init` `bootstrap.repository_doctor`'s, people's way in `bootstrap.people_doctor`'s; here is the machine.
"""

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gitops_bot.bootstrap import database
from gitops_bot.bootstrap.database import Finding, open_database
from gitops_bot.bootstrap.forge_doctor import forge_findings
from gitops_bot.bootstrap.hook_doctor import hook_findings, ruleset_findings, secret_findings
from gitops_bot.bootstrap.people_doctor import people_findings
from gitops_bot.bootstrap.pin_doctor import pin_findings
from gitops_bot.bootstrap.repository_doctor import repository_findings
from gitops_bot.bootstrap.signed_doctor import signed_findings
from gitops_bot.config import Settings, secret
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.process import run
from gitops_bot.store import agents
from gitops_bot.store.roles import Role

_PROGRAMS: Final = (("git", "apt install git"), ("gpg", "apt install gnupg"))
_SECONDS: Final = 10.0
_MOST_NAMED: Final = 10


def examine(settings: Settings) -> Iterator[Finding]:
    """Look at everything in turn; what depends on a missing part says so instead of failing."""
    yield from _machine()
    yield from _files(settings)
    yield from database.check(settings.database_url, settings.owner_url)
    yield from pin_findings(settings)
    yield from forge_findings(settings)
    yield from secret_findings(settings)
    yield from hook_findings(settings)
    yield from repository_findings(settings)
    yield from people_findings(settings)
    yield from signed_findings(settings)
    yield from ruleset_findings(settings)
    yield _captures(settings)
    yield _isolation(settings)


def _machine() -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")
    for name, fix in _PROGRAMS:
        try:
            told = run((name, "--version"), cwd=Path("/"), timeout=_SECONDS)
        except Unavailable as error:
            yield Finding(name, False, str(error), fix)
            continue
        line = told.stdout.decode("utf-8", "replace").splitlines()[:1]
        yield Finding(name, told.returncode == 0, line[0] if line else f"exit {told.returncode}", fix)


def _files(settings: Settings) -> Iterator[Finding]:
    state = settings.state
    if not state.is_dir():
        yield Finding("state folder", False, f"no folder {state}", f"mkdir -m 700 {state}")
    else:
        about = state.stat()
        private = not about.st_mode & 0o077 and about.st_uid == os.geteuid()
        yield Finding("state folder", private, str(state), f"chmod 700 {state}, as its owner")
    if settings.forge.token_file is not None:
        yield _secret("forge token", settings.forge.token_file)
    if settings.forge.private_key_file is not None:
        yield _secret("forge app key", settings.forge.private_key_file)


def _secret(name: str, path: Path) -> Finding:
    try:
        secret(path, name)
    except ConfigError as error:
        return Finding(name, False, error.message, error.fix or f"write it into {path}, mode 0600")
    return Finding(name, True, f"{path}, readable by its owner alone")


def _captures(settings: Settings) -> Finding:
    if not settings.capture.program:
        return Finding("captures", True, "this host runs none; set [capture] program where it should")
    program = settings.capture.program[0]
    found = Path(program)
    if not found.is_absolute():
        return Finding("captures", False, f"{program} is no absolute path", "name the program by its whole path")
    runs = found.is_file() and os.access(found, os.X_OK)
    return Finding("captures", runs, program, f"put an executable program at {program}")


def _isolation(settings: Settings) -> Finding:
    accepted = " - accepted by [signed] shared_uid" if settings.shared_uid == "accepted" else ""
    try:
        database_ = open_database(settings.database_url, Role.HOST)
    except (ConfigError, Unavailable) as error:
        why = error.message if isinstance(error, ConfigError) else str(error)
        return Finding("isolation", True, f"which loops share their user is not known: {why}{accepted}")
    try:
        with database_.read() as tx:
            sharing = [loop.id for loop in agents.all_loops(tx) if loop.shares_user]
    finally:
        database_.close()
    if not sharing:
        return Finding("isolation", True, f"no registered loop says that its agent shares its user{accepted}")
    named = ", ".join(sharing[:_MOST_NAMED]) + (" and more" if len(sharing) > _MOST_NAMED else "")
    detail = f"the agents of these loops can read what their loop can, and so steer it: {named} (SECURITY.md)"
    return Finding("isolation", True, detail + accepted)
