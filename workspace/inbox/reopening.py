"""A person asks a decision of the backlog anew: one service in one transaction, in which they are looked at again."""

from gitops_bot.authority.closing import reopen as reopen_ask
from gitops_bot.authority.queries import AskView, view
from gitops_bot.authority.sessions import Person
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.errors import Refused
from gitops_bot.store.engine import Tx
from workspace.auth.people import again


def reopen(services: Services, person: Person, ask_id: str) -> AskView:
    """Reopen a decision that ended without a verdict; gives the new ask.

    Raises:
        Refusal: it is open, was decided or reopened before, or the policy would not ask it any more.
    """

    def work(tx: Tx) -> AskView | Refused:
        opened = reopen_ask(tx, services.rules, ask_id, again(tx, person).principal.name)
        if isinstance(opened, Refused):
            return opened
        found = view(tx, services.rules, opened.ask.id)
        assert found is not None
        return found

    return services.decide(work)
