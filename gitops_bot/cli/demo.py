"""`gitops-bot demo`: the main job on this machine, to look at before anything is set up."""

import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gitops_bot.demo.capture import Outcome


@click.command()
@click.option("--scenario", type=click.Choice(["capture"]), default="capture", show_default=True)
@click.option("--auto", is_flag=True, help="Play the person as well, then end.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with the time line.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="An empty or new folder to keep everything in (default: a temporary one, removed after success).",
)
def demo(scenario: str, auto: bool, as_json: bool, folder: Path | None) -> int:  # noqa: ARG001 # one scenario so far
    """Run the main job: a sandbox forge, an inference server, the broker, the workspace and a loop, all on loopback.

    The loop's agent asks for a regime that nobody measured yet and parks. You approve with a comment on the pull
    request whose address is printed; the trace is measured and the loop goes on in a new segment.

    \b
      gitops-bot demo                 you are the person
      gitops-bot demo --auto          alice approves by herself; ends with the time line
      gitops-bot demo --auto --json   the same as one document
    """
    from gitops_bot.core.errors import ConfigError
    from gitops_bot.demo.capture import play

    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty", fix="name a new folder")
    root = (folder or Path(tempfile.mkdtemp(prefix="gitops-bot-demo-"))).absolute()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def tell(line: str) -> None:
        from gitops_bot.cli.terminal import escaped

        click.echo(escaped(line), err=as_json)

    def show(outcome: "Outcome") -> None:
        _summary(outcome.document())
        tell("everything still runs, to be looked at; Ctrl-C ends it")

    # SIGTERM ends the demo as Ctrl-C does: its processes are ended, newest first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tell(f"everything of this demo lies in {root}")
    outcome = play(root, tell, auto=auto, shown=None if auto or as_json else show)
    if as_json:
        import json

        click.echo(json.dumps(outcome.document(), sort_keys=True))
    elif auto:
        _summary(outcome.document())
    if outcome.ok and folder is None:
        shutil.rmtree(root, ignore_errors=True)
    return 0 if outcome.ok else 1


def _summary(document: dict[str, object]) -> None:
    from gitops_bot.cli.terminal import escaped

    click.echo("\nsegments (scores are compared inside one segment only; lower is better)")
    segments = document["segments"]
    assert isinstance(segments, list)
    for number, one in enumerate(segments, 1):
        row = f"  {number}. {one['regime']}  baseline {one['baseline']}  best {one['best']}  turns {one['turns']}"
        click.echo(escaped(row))
    click.echo("in order, ledger intact" if document["ok"] else escaped(f"FAILED: {document['problem']}"))
