"""Membership in a team, by the team's slug or by its number.

The addresses by number stand in GitHub's description in words only (`GET /organizations/{org_id}/team/{team_id}/…`, in
the text of the one by slug) and as a legacy operation (`GET /teams/{team_id}/…`).
"""

from gitops_bot.sandbox.records import AccountType
from gitops_bot.sandbox.refusals import not_found
from gitops_bot.sandbox.skin import Answer, Call, Route
from gitops_bot.sandbox.teams import Team


def _answer(call: Call, team: Team) -> Answer:
    account = call.world.model.directory.account_named(call.path["username"])
    state = call.world.model.teams.membership(team, account, call.account.id)
    assert account is not None
    here = f"{call.world.url}/organizations/{team.organization_id}/team/{team.id}/memberships/{account.login}"
    return Answer(200, {"url": here, "role": "member", "state": state.value})


def show_by_slug(call: Call) -> Answer:
    """Show how far somebody is in a team: 404 when not at all, 403 to who may not look."""
    organization = call.world.model.directory.account_named(call.path["org"])
    if organization is None or organization.type is not AccountType.ORGANIZATION:
        raise not_found()
    return _answer(call, call.world.model.teams.named(organization.id, call.path["team_slug"]))


def show_by_number(call: Call) -> Answer:
    """Show the same for a team by its id, and its organisation's."""
    return _answer(call, call.world.model.teams.numbered(call.number("org_id"), call.number("team_id")))


def show_legacy(call: Call) -> Answer:
    """Show the same for a team by its id alone."""
    return _answer(call, call.world.model.teams.numbered(None, call.number("team_id")))


ROUTES = (
    Route("GET", "/orgs/{org}/teams/{team_slug}/memberships/{username}", show_by_slug),
    Route("GET", "/organizations/{org_id}/team/{team_id}/memberships/{username}", show_by_number),
    Route("GET", "/teams/{team_id}/memberships/{username}", show_legacy),
)
