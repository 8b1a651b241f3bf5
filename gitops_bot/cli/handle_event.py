"""`gitops-bot handle-event`: a comment on a pull request is handed in by a workflow run; the broker decides."""

import click


@click.command("handle-event")
@click.option("--broker", metavar="URL", help="The workspace's address, as its origin is set  [$GITOPS_BOT_URL].")
def handle_event(broker: str | None) -> None:
    """Hand a pull-request comment in, inside GitHub Actions.

    Reads the event that started the run. Where the comment's first line may be a command, its ids are handed to the
    broker with the run's OIDC token (permission `id-token: write`), and nothing else: the broker reads the comment
    anew. Without a broker that can be reached the decision is "pending", and the broker's own poll does the rest.

    Writes the outputs decision, reason and ask, and a step summary. Exits 4 where the broker does not take the run's
    token, with the reason on standard error.

    \b
    Example, as a step of a workflow:
      gitops-bot handle-event --broker https://ops.example.org
    """
    from gitops_bot.bootstrap.handling import handle, report
    from gitops_bot.config import actions_environment, agent_environment
    from gitops_bot.core.errors import Refusal

    environment = actions_environment()
    handled = handle(environment, broker or agent_environment()["GITOPS_BOT_URL"])
    report(environment, handled)
    told = handled.told
    click.echo(f"decision={told.decision} reason={told.reason} ask={told.ask or ''}")
    if handled.refused is not None:
        raise Refusal(handled.refused)
