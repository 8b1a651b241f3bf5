"""Reads a folder of approval files, whatever lies in it, and hands each to its transaction; nothing is written there.

The folder may be anybody's: links are not followed, pipes and devices not opened, no file is read beyond its bound.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gitops_bot.authority.imports.grammar import MAX_FILE, parse
from gitops_bot.authority.imports.importing import Came, Imported, digest_of, take
from gitops_bot.authority.rules import Rules
from gitops_bot.core.errors import ConfigError, Malformed, Reason, Refusal, refuse
from gitops_bot.store import agents, imported
from gitops_bot.store.engine import Database
from gitops_bot.store.states import AgentState

MOST_FILES: Final = 10_000


def import_folder(database: Database, rules: Rules, folder: Path, slug: str, *, dry: bool) -> Iterator[Imported]:
    """Take over every `*.md` file of a folder for an agent, in order of name, and give what became of each as it is
    done; with `dry` nothing is written.

    Raises:
        ConfigError: the folder cannot be read, or holds too many files.
        Refusal: there is no such agent, or it is retired.
    """
    names = _names(folder)
    with database.read() as tx:
        agent = agents.by_slug(tx, slug)
    if agent is None or agent.state is AgentState.RETIRED:
        raise Refusal(refuse(Reason.NOT_FOUND, f"There is no agent {slug[:64]!r} that could ask; add it first."))
    for name in names:
        raw = _read(folder, name)
        if isinstance(raw, str):
            yield Imported(os.fsencode(name).decode("utf-8", "replace"), Came.REFUSED, why=raw)
        elif dry:
            yield _tried(database, name, raw)
        else:
            with database.write() as tx:
                done = take(tx, rules, agent, os.fsencode(name).decode("utf-8", "replace"), raw)
            yield done


def _names(folder: Path) -> list[str]:
    found: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".md"):
                    found.append(entry.name)
                if len(found) > MOST_FILES:
                    raise ConfigError(f"{folder} holds more than {MOST_FILES} files", fix="import them in parts")
    except OSError as error:
        raise ConfigError(f"cannot read {folder}: {error.strerror}", fix="name a folder of Markdown files") from error
    return sorted(found)


def _read(folder: Path, name: str) -> bytes | str:
    """Give a file's bytes, or why there are none."""
    try:
        # O_NONBLOCK: opening a pipe would wait for its writer.
        file = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return f"it cannot be opened ({error.strerror}); links are not followed"
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return "it is no plain file"
        with os.fdopen(file, "rb", closefd=False) as opened:
            raw = opened.read(MAX_FILE + 1)
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    finally:
        os.close(file)
    return raw if len(raw) <= MAX_FILE else f"the file is larger than {MAX_FILE // 1024} KiB"


def _tried(database: Database, name: str, raw: bytes) -> Imported:
    shown = os.fsencode(name).decode("utf-8", "replace")
    try:
        found = parse(raw)
    except Malformed as error:
        return Imported(shown, Came.REFUSED, why=error.message)
    with database.read() as tx:
        known = imported.get(tx, digest_of(raw))
    if known is not None:
        return Imported(shown, Came.KNOWN, known.ask)
    return Imported(shown, Came.ASKED if found.state.value == "open" else Came.RECORDED, ignored=found.ignored)
