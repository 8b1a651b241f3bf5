"""The command line `gitops-bot`: one file a command, and nothing is imported before its command is called.

`main` maps every way of ending to the exit codes of design/interfaces.md: 0 done, 1 failed, 4 refused, 64 usage, 130
interrupted; a command with codes of its own raises `SystemExit`.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from gitops_bot import __version__
from gitops_bot.cli.terminal import escaped
from gitops_bot.core.errors import ConfigError, Malformed, Refusal, Unavailable

FAILED: Final = 1
REFUSED: Final = 4
USAGE: Final = 64
INTERRUPTED: Final = 130

COMMANDS: Final[Mapping[str, str]] = {
    "demo": "Run the main job on this machine, with a sandbox forge.",
    "init": "Write a working set-up into a repository, and say what to click.",
    "doctor": "Check the whole set-up, one line each, with the fix.",
    "serve": "Run the broker and the workspace together.",
    "broker": "Run the broker: duties, effects, captures.",
    "workspace": "Run the workspace: the HTTP API and pages.",
    "loop": "Let an agent improve something, measured by a judge it cannot touch.",
    "capture": "Request, list, show and cancel captures.",
    "login": "Let this shell act as you, confirmed in the workspace.",
    "ask": "Open, list, show, answer and cancel asks.",
    "backlog": "List decisions that nobody took, and ask them anew.",
    "approval": "Follow gated asks, explain signed commits, thaw a branch.",
    "agent": "Add and manage agents and their tokens.",
    "handle-event": "Hand a pull-request comment in, inside GitHub Actions.",
    "webhook": "Ask the forge again for what it could not deliver.",
    "comment": "Tell what a pull-request comment would do, without doing it.",
    "verb": "Work with the verbs that the policy knows.",
    "policy": "Check, explain and propose the policy bundle.",
    "person": "Stop a person's keys at once.",
    "trust": "Show the pin that this host trusts; pin anew.",
    "ledger": "Verify, show and export the ledger.",
    "db": "Upgrade, check and back up the database.",
}
"""Commands in the order of the help, each in the file of its name with an attribute of that name. One that has no file
yet is not offered."""


class _Commands(click.Group):
    """Loads a command's file when the command is called; the help is written from `COMMANDS` alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 # click's signature
        here = Path(__file__).parent
        return [name for name in COMMANDS if (here / f"{_module(name)}.py").is_file()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"gitops_bot.cli.{_module(cmd_name)}")
        command = getattr(module, _module(cmd_name))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


def _module(command: str) -> str:
    return command.replace("-", "_")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gitops-bot")
def gitops_bot() -> None:
    """The place where autonomous agents meet a person's decision.

    An agent that reaches a point which only a person may settle asks, ends its turn and holds nothing. The answer wakes
    whatever waits. Try `gitops-bot demo`; every command teaches itself with --help.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(list(arguments) if arguments is not None else sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit status."""
    try:
        result = gitops_bot.main(args=list(arguments), prog_name="gitops-bot", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return USAGE
    except click.ClickException as error:
        error.show()
        return FAILED
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except Refusal as error:
        from gitops_bot.authority.remedies import remedy_of

        return _failed(f"{error}\n  do: {remedy_of(error.refused.reason.value)}", REFUSED)
    except (ConfigError, Unavailable, Malformed) as error:
        return _failed(str(error), FAILED)
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


def _failed(message: str, status: int) -> int:
    click.echo("\n".join(escaped(line) for line in f"gitops-bot: {message}".splitlines()), err=True)
    return status
