"""The command line maps every ending to its exit code, loads lazily, and prints nothing that a terminal would obey."""

import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from gitops_bot import cli
from gitops_bot.cli.terminal import escaped
from gitops_bot.core.errors import ConfigError, Malformed, Reason, Refusal, Unavailable, refuse


def raises(error: BaseException) -> Callable[[], None]:
    def callback() -> None:
        raise error

    return callback


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (Refusal(refuse(Reason.GATED)), 4, "gated"),
        (Unavailable("the disk"), 1, "the disk"),
        (Malformed("bad", where="file"), 1, "file: bad"),
        (ConfigError("wrong", fix="do this"), 1, "do this"),
        (click.UsageError("use"), 64, "use"),
        (click.ClickException("fail"), 1, "fail"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (Unavailable("\x1b[31mred"), 1, "\\x1b[31mred"),
    ],
)
def test_every_ending_has_its_exit_code(
    error: BaseException, status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "gitops_bot", click.Command("gitops-bot", callback=raises(error)))
    assert cli.run([]) == status
    assert said in capsys.readouterr().err


def test_success_is_0_and_a_command_s_own_status_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "gitops_bot", click.Command("gitops-bot", callback=lambda: None))
    assert cli.run([]) == 0
    monkeypatch.setattr(cli, "gitops_bot", click.Command("gitops-bot", callback=lambda: 3))
    assert cli.run([]) == 3


def test_an_error_of_ours_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "gitops_bot", click.Command("gitops-bot", callback=raises(ZeroDivisionError())))
    with pytest.raises(ZeroDivisionError):
        cli.run([])


def test_an_unknown_command_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["nope"]) == 64
    assert "nope" in capsys.readouterr().err


def test_every_command_that_is_offered_loads() -> None:
    context = click.Context(cli.gitops_bot)
    for name in cli.gitops_bot.list_commands(context):
        assert isinstance(cli.gitops_bot.get_command(context, name), click.Command)


@pytest.mark.parametrize("arguments", [["--help"], ["loop", "run", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    heavy = "{'sqlalchemy', 'flask', 'requests', 'github', 'alembic'} & set(sys.modules)"
    program = (
        f"import sys; from gitops_bot import cli; cli.run({arguments!r}); sys.exit(str({heavy}) if {heavy} else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢", "plain é 漢"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2028b", "a\\u2028b"),
        ("a\nb", "a\\nb"),
        ("\ud800", "\\ud800"),
        ("a\u00a0b", "a b"),
    ],
)
def test_what_a_terminal_would_obey_or_reorder_is_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown
