"""The check of the documents sees what it is for: broken links, commands that do not exist, records left out."""

from pathlib import Path

import click
import pytest

import docs


@click.group()
def command_line() -> None:
    """Stand in for the product's commands."""


@command_line.group()
def comment() -> None:
    """A group of commands."""


@comment.command()
@click.option("--trace-id")
def explain(trace_id: str) -> None:
    """A command with an option."""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("`gitops-bot comment explain --trace-id X | jq`", None),
        ("Run `gitops-bot comment` first.", None),
        ("    .venv/bin/gitops-bot comment explain --trace-id='a b' -- ignored --what", None),
        ("`gitops-bot comment explain --tracer X`", "--tracer"),
        ("`gitops-bot coment`", "coment"),
        ("```\ngitops-bot comment explian\n```", "explian"),
        ("The command is `gitops-bot`; `make` prints the rest.", None),
        ("## Planned\n\n`gitops-bot later`\n", None),
        ("## Planned\n\n`gitops-bot later`\n\n## Now\n\n`gitops-bot later`\n", "later"),
        ("gitops-bot is a program, and `gitops-bot` its name", None),
    ],
)
def test_a_command_that_does_not_exist_is_named(text: str, fault: str | None) -> None:
    shown = [words for words in docs.shown_commands(text) if docs.unknown_part(command_line, words) is not None]
    assert [docs.unknown_part(command_line, words) for words in shown] == ([fault] if fault else [])


@pytest.mark.parametrize(
    ("link", "works"),
    [
        ("[a](README.md)", True),
        ("[a](README.md#two-words)", True),
        ("[a](#two-words)", True),
        ("[a](https://example.org/nowhere)", True),
        ("```\n[a](missing.md)\n```", True),
        ("[a](missing.md)", False),
        ("![a](missing.svg)", False),
        ("[a](README.md#no-words)", False),
    ],
)
def test_a_link_to_nowhere_is_named(link: str, works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    page = tmp_path / "README.md"
    page.write_text(f"# Two `words`\n\n{link}\n", encoding="utf-8")
    assert (list(docs.broken_links(page)) == []) is works


def test_a_record_that_is_not_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    folder = tmp_path / "docs" / "adr"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("[x](0001-first.md)", encoding="utf-8")
    (folder / "0001-first.md").write_text("**Security.** None.", encoding="utf-8")
    assert list(docs.unlisted_decisions()) == []
    (folder / "0003-third.md").write_text("no such paragraph", encoding="utf-8")
    assert len(list(docs.unlisted_decisions())) == 3
