"""A folder of approval files is taken over once, whatever lies in it, and forges nobody's word."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitops_bot.authority.imports.importing import Came, Imported
from gitops_bot.bootstrap.importing import import_folder
from gitops_bot.core.asks import AskKind, AskState
from gitops_bot.core.errors import ConfigError, Refusal
from gitops_bot.store import asks, ledger, threads
from gitops_bot.store.agents import Agent
from gitops_bot.store.roles import Role
from tests.decisions import Stage
from tests.store_fixtures import FreshDatabase

OPEN = "---\nquestion: Ship it?\noptions: [yes, no]\nstate: open\n---\nAll tests pass.\n"
ENDED = "---\nquestion: Pay bob?\nstate: approved\nanswer: yes\nanswered_by: alice\n---\n"


@pytest.fixture
def stage(database: FreshDatabase) -> Iterator[Stage]:
    return Stage(database.open(Role.HOST))


@pytest.fixture
def agent(stage: Stage) -> Agent:
    return stage.agent()


def taken(stage: Stage, folder: Path, slug: str, *, dry: bool = False) -> list[Imported]:
    return list(import_folder(stage.database, stage.rules, folder, slug, dry=dry))


def test_an_open_file_becomes_one_ask_and_an_ended_one_a_record(stage: Stage, agent: Agent, tmp_path: Path) -> None:
    """The ended one says that alice approved: nobody is recorded to have said so, and nothing was decided."""
    (tmp_path / "a.md").write_text(OPEN, "utf-8")
    (tmp_path / "b.md").write_text(ENDED, "utf-8")
    first, second = taken(stage, tmp_path, agent.slug)
    assert (first.came, second.came, second.ask) == (Came.ASKED, Came.RECORDED, None)
    assert first.ask is not None
    ask = stage.read(lambda tx: asks.get(tx, first.ask))
    assert ask is not None
    assert (ask.kind, ask.state, ask.text) == (AskKind.QUESTION, AskState.OPEN, "Ship it?")
    assert ask.why.startswith("(imported from the file a.md)")
    lines = stage.read(lambda tx: threads.thread(tx, agent.id, 0, 10))
    assert {line.author_kind for line in lines} == {"system"}
    assert "It is no verdict here" in lines[1].text
    assert "says that this was answered by: alice" in lines[1].text
    assert stage.verdict(ask) is None


def test_a_second_run_changes_nothing(stage: Stage, agent: Agent, tmp_path: Path) -> None:
    """Under another name too: a file is known by its bytes. Another file is another ask."""
    (tmp_path / "a.md").write_text(OPEN, "utf-8")
    (first,) = taken(stage, tmp_path, agent.slug)
    before = stage.read(ledger.count)
    (tmp_path / "a.md").rename(tmp_path / "z.md")
    (again,) = taken(stage, tmp_path, agent.slug)
    assert (again.came, again.ask) == (Came.KNOWN, first.ask)
    assert stage.read(ledger.count) == before
    (tmp_path / "c.md").write_text(OPEN + "more", "utf-8")
    assert [one.came for one in taken(stage, tmp_path, agent.slug)] == [Came.ASKED, Came.KNOWN]


def test_a_dry_run_says_the_same_and_writes_nothing(stage: Stage, agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(OPEN, "utf-8")
    (tmp_path / "b.md").write_text(ENDED, "utf-8")
    before = stage.read(ledger.count)
    assert [one.came for one in taken(stage, tmp_path, agent.slug, dry=True)] == [Came.ASKED, Came.RECORDED]
    assert stage.read(ledger.count) == before
    assert [one.came for one in taken(stage, tmp_path, agent.slug)] == [Came.ASKED, Came.RECORDED]


def test_a_hostile_folder_costs_one_refusal_a_file(stage: Stage, agent: Agent, tmp_path: Path) -> None:
    """A link to a secret, a pipe that nobody writes, a folder, a huge file, bytes that are no text, a strange name."""
    secret = tmp_path / "secret"
    secret.write_text(OPEN, "utf-8")
    (tmp_path / "1.md").symlink_to(secret)
    os.mkfifo(tmp_path / "2.md")
    (tmp_path / "3.md").mkdir()
    with (tmp_path / "4.md").open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    (tmp_path / "5.md").write_bytes(b"\xff" * 100)
    Path(os.fsdecode(bytes(tmp_path) + b"/6\xff.md")).write_text(OPEN, "utf-8")
    came = taken(stage, tmp_path, agent.slug)
    assert [one.came for one in came] == [Came.REFUSED] * 5 + [Came.ASKED]
    assert [one.why is not None for one in came] == [True] * 5 + [False]
    assert came[-1].name == "6�.md"


def test_nobody_asks_for_an_agent_that_is_not_there(stage: Stage, agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(OPEN, "utf-8")
    with pytest.raises(Refusal):
        taken(stage, tmp_path, "nobody")
    assert len(taken(stage, tmp_path, agent.slug)) == 1


def test_a_folder_that_is_none_is_named(stage: Stage, agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        taken(stage, tmp_path / "none", agent.slug)
    assert taken(stage, tmp_path, agent.slug) == []
