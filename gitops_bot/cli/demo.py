"""`gitops-bot demo`: the product on this machine, to look at before anything is set up."""

import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from gitops_bot.demo.capture import Outcome as Captured
    from gitops_bot.demo.fleet_scene import Outcome as Ran
    from gitops_bot.demo.transfer_scene import Outcome as Transferred

    Outcome = Captured | Transferred | Ran

MOST_PATH: Final = 60
"""Bytes of the folder's path; below it lie sockets, whose paths have about a hundred (unix(7))."""


@click.command()
@click.option("--scenario", type=click.Choice(["capture", "transfer", "fleet"]), default="capture", show_default=True)
@click.option("--auto", is_flag=True, help="Play the person as well, then end.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with the time line.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="An empty or new folder to keep everything in (default: a temporary one; after success only plots stay).",
)
def demo(scenario: str, auto: bool, as_json: bool, folder: Path | None) -> int:
    """Run the product on loopback, with everything that it needs beside it.

    The scenario capture is the main job: a sandbox forge, an inference server, the broker, the workspace and a loop.
    The loop's agent asks for a regime that nobody measured yet and parks. You approve with a comment on the pull
    request whose address is printed; the trace is measured and the loop goes on in a new segment. Then it asks for
    more and goes on meanwhile; deny it and see.

    The scenario transfer moves money by signatures: an agent asks, its own key is refused on a person's branch, two
    people sign (one by OpenPGP, one by SSH), a payee is called once with the approved bytes; then a lower limit is
    adopted by signatures, and holds. You are both people, in another terminal. It needs openssh-client as well.

    The scenario fleet runs five agents with real tools on a small project, who leave commits: one asks and goes on with
    your answer, one asks and is paused when nobody decides, one writes to another, one is killed in the middle with its
    broker and is done all the same. You answer in the workspace.

    \b
      gitops-bot demo                 you are the person
      gitops-bot demo --auto          alice answers by herself; ends with segments, scores and a plot
      gitops-bot demo --auto --json   the same as one document
      gitops-bot demo --scenario transfer --auto
      gitops-bot demo --scenario fleet --auto
    """
    from gitops_bot.cli.terminal import escaped
    from gitops_bot.core.errors import ConfigError

    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty", fix="name a new folder")
    root = (folder or Path(tempfile.mkdtemp(prefix="gitops-bot-demo-"))).absolute()
    if len(bytes(root)) > MOST_PATH:
        raise ConfigError(f"{root} is too long a path for the sockets in it", fix="name a folder with a shorter one")
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    began = time.monotonic()

    def tell(line: str) -> None:
        click.echo(escaped(f"{time.monotonic() - began:6.1f} s  {line}"), err=as_json)

    def show(outcome: "Outcome") -> None:
        _summary(outcome)
        tell("everything still runs, to be looked at; Ctrl-C ends it")

    # SIGTERM ends the demo as Ctrl-C does: its processes are ended, newest first.
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell that starts it in the background ignores SIGINT
        signal.signal(number, signal.default_int_handler)
    tell(f"everything of this demo lies in {root}")
    outcome = _play(scenario, root, tell, auto=auto, shown=None if auto or as_json else show)
    if as_json:
        import json

        click.echo(json.dumps(outcome.document(), sort_keys=True))
    elif auto:
        _summary(outcome)
    if outcome.ok and folder is None:
        _keep_plots(root, getattr(outcome, "plots", ()))
        tell(f"{root} is removed but for what is drawn; --dir FOLDER keeps all of it")
    return 0 if outcome.ok else 1


def _play(
    scenario: str,
    root: Path,
    tell: Callable[[str], None],
    *,
    auto: bool,
    shown: "Callable[[Outcome], None] | None",
) -> "Outcome":
    if scenario == "transfer":
        from gitops_bot.demo import transfer

        return transfer.play(root, tell, auto=auto, shown=shown)
    if scenario == "fleet":
        from gitops_bot.demo import fleet

        return fleet.play(root, tell, auto=auto, shown=shown)
    from gitops_bot.demo import capture

    return capture.play(root, tell, auto=auto, shown=shown)


def _summary(outcome: "Outcome") -> None:
    from gitops_bot.cli.terminal import escaped

    for line in outcome.lines():
        click.echo(escaped(line))


def _keep_plots(root: Path, plots: tuple[Path, ...]) -> None:
    """Take away everything of a demo but the pictures that it named."""
    kept = set(plots)
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path in plot.parents for plot in kept):
                shutil.rmtree(path, ignore_errors=True)
        elif path not in kept:
            path.unlink(missing_ok=True)
    if not kept:
        root.rmdir()
