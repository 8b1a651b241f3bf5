"""Who is in a team, by numbers: of the organisation, of the team, of the account.

The forge is asked by login, so it is also asked whose login that is; a login that passed to another account in between
gives no. Nothing is kept between two calls.
"""

from urllib.parse import quote

from gitops_bot.forge.answers import member
from gitops_bot.forge.transport import Transport

_ABSENT = (404, 410)


def is_member(wire: Transport, organization_id: int, team_id: int, login: str, account_id: int) -> bool:
    """Tell whether an account is an active member of a team (GitHub REST, team members); absent and pending are no.

    Raises:
        Unavailable: the token may not look, or no usable answer (I14).
    """
    name = quote(login, safe="")
    path = f"/organizations/{organization_id:d}/team/{team_id:d}/memberships/{name}"
    answer = wire.send("GET", path, also=_ABSENT)
    if answer.status in _ABSENT or member(answer.data, "state", "string") != "active":
        return False
    who = wire.send("GET", f"/users/{name}", also=_ABSENT)
    return who.status not in _ABSENT and bool(member(who.data, "id", "integer") == account_id)
