"""`gitops-bot loop run`: the loop driver, with exit statuses of its own: 0 improved or solved, 1 not, 2 escalated."""

from pathlib import Path
from typing import Any

import click

from gitops_bot.core.durations import parse_duration
from gitops_bot.core.errors import ConfigError, Malformed

_USAGE = 64


class _Duration(click.ParamType[float | None]):
    """`90s`, `30m` or `2h`; an empty text is no limit."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        text = str(value)
        if not text:
            return None
        try:
            if text.endswith("d"):
                raise Malformed("write a duration as 90s, 30m or 2h")
            return parse_duration(text) / 1000
        except Malformed as error:
            self.fail(error.message, param, ctx)


_DURATION = _Duration()


@click.group()
def loop() -> None:
    """Let an agent improve something, measured by a judge that it cannot touch."""


@loop.command(context_settings={"ignore_unknown_options": False})
@click.option("--workspace", required=True, type=click.Path(path_type=Path), help="The folder the agent works in.")
@click.option("--goal", required=True, help="What is to become better, in words; the agent reads it each turn.")
@click.option("--judge", required=True, metavar="CMD", help='Prints one JSON object with "score".')
@click.option("--rig", metavar="CMD", help="Sets up what the judge measures on; runs before each baseline.")
@click.option("--direction", type=click.Choice(["min", "max"]), default="min", show_default=True)
@click.option("--control-port", type=click.IntRange(0, 65535), help="Serve the control bridge here; 0 picks a port.")
@click.option("--control-host", default="127.0.0.1", show_default=True, help="Where the bridge listens.")
@click.option(
    "--insecure-bridge", "insecure", is_flag=True, help="Serve the bridge to everybody on loopback, without tokens."
)
@click.option("--max-iterations", type=click.IntRange(0, 1_000_000), default=10, show_default=True)
@click.option(
    "--max-time", "max_seconds", type=_DURATION, default="", help="Active time, as 90s, 30m or 2h; empty = no limit."
)
@click.option("--max-cost", "max_usd", type=click.FloatRange(0, 1e9), default=0.0, metavar="USD", help="0 = no limit.")
@click.option("--max-park", type=_DURATION, default="", help="How long an ask is waited for; empty = for ever.")
@click.option("--turn-timeout", type=_DURATION, default="30m", show_default=True, help="How long one turn may take.")
@click.option("--broker", is_flag=True, help="A broker answers: approve and deny on the bridge are claims for it.")
@click.option("--broker-url", envvar="BROKER_URL", metavar="URL", help="Register with this broker  [$BROKER_URL].")
@click.option(
    "--loop-token-file",
    envvar="BROKER_LOOP_TOKEN_FILE",
    type=click.Path(path_type=Path),
    help="The loop token, in a 0600 file  [$BROKER_LOOP_TOKEN_FILE].",
)
@click.option("--id", "loop_id", help="The loop's name at the broker; the workspace's name when absent.")
@click.option("--degraded", is_flag=True, envvar="BROKER_DEGRADED", help="There is no approval surface.")
@click.option("--run-as", metavar="USER", help="Run the agent as another user (root only; see docs/loop.md).")
@click.option(
    "--bubblewrap", is_flag=True, help="Run the agent in bubblewrap: the system, the workspace, nothing else."
)
@click.option(
    "--agent-reads", multiple=True, type=click.Path(path_type=Path, exists=True), help="Show it this as well."
)
@click.option("--agent-writes", multiple=True, type=click.Path(path_type=Path, exists=True), help="As well, to write.")
@click.option("--resume", is_flag=True, help="Go on where the last run in this workspace ended or died.")
@click.argument("agent", nargs=-1, required=True, type=click.UNPROCESSED)
def run(agent: tuple[str, ...], direction: str, **given: Any) -> None:
    """Run AGENT over and over in a workspace; keep what the judge calls better.

    AGENT is a command: its prompt comes on standard input, its working folder is the workspace. The judge runs after
    each turn with LOOP_REGIME (a trace id, or "default") and LOOP_WORKSPACE in its environment; judge and rig live
    outside the workspace, and a change of their files ends the run. The log is WORKSPACE/state/session.jsonl, the
    bridge's tokens are WORKSPACE/state/*.token, its address WORKSPACE/state/control-address. Without --run-as or
    --bubblewrap the agent runs as you do and can read those tokens, and so approve what it asked for.

    When the agent needs a regime that a person must grant, it leaves PROVISIONING_PENDING.json and the loop parks until
    the answer comes; waiting uses neither time nor cost budget.

    Exits with 0 improved or solved, 1 no improvement, 2 escalated (see ESCALATION.json), 64 usage.

    \b
    Example:
      gitops-bot loop run --workspace work --goal "lower p99" --judge "python3 judge.py" \\
        --control-port 0 --max-iterations 20 --max-time 2h --max-park 24h -- my-agent --quiet
    """
    from gitops_bot.bootstrap.loop import LoopOptions, run_loop
    from gitops_bot.loop.vocabulary import Direction

    if agent[0].startswith(("acp:", "acpx:")):
        raise click.UsageError("only a command can be the agent as yet: -- program [argument …]")
    options = LoopOptions(agent=agent, direction=Direction(direction), **given)
    try:
        raise SystemExit(run_loop(options, say=lambda said: click.echo(f"loop: {said}", err=True)))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
