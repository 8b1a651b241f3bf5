"""Teams of an organisation, and who is in them: active, or invited and pending. Pure.

A team is its numeric id; its slug follows its name. What a team may do in a repository is not kept here: grants are.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from gitops_bot.sandbox.records import Account
from gitops_bot.sandbox.refusals import Rejected, not_found


class Membership(StrEnum):
    """How far somebody is in a team."""

    ACTIVE = "active"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Team:
    """A team of an organisation."""

    id: int
    organization_id: int
    name: str

    @property
    def slug(self) -> str:
        """The name as it stands in addresses."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


class Teams:
    """Every team of every organisation. `hidden_from` holds (organisation, account) of those that may not look."""

    def __init__(self) -> None:
        self.teams: dict[int, Team] = {}
        self.hidden_from: dict[tuple[int, int], bool] = {}
        self.members: dict[tuple[int, int], Membership] = {}

    def add_team(self, team: Team) -> Team:
        """Create a team.

        Raises:
            ValueError: the id is taken, or the name gives no slug of its own there.
        """
        slugs = {found.slug for found in self.teams.values() if found.organization_id == team.organization_id}
        if team.id in self.teams or not team.slug or team.slug in slugs:
            raise ValueError(f"taken or without a slug: {team.name!r} or {team.id}")
        self.teams[team.id] = team
        return team

    def set_membership(self, team: Team, account: Account, state: Membership | None) -> None:
        """Put somebody into a team, or (None) out of it."""
        if state is None:
            self.members.pop((team.id, account.id), None)
        else:
            self.members[(team.id, account.id)] = state

    def named(self, organization_id: int, slug: str) -> Team:
        """Find a team by its slug.

        Raises:
            Rejected: 404.
        """
        for found in self.teams.values():
            if (found.organization_id, found.slug) == (organization_id, slug.lower()):
                return found
        raise not_found()

    def numbered(self, organization_id: int | None, team_id: int) -> Team:
        """Find a team by its id, in an organisation where one is given.

        Raises:
            Rejected: 404.
        """
        found = self.teams.get(team_id)
        if found is None or organization_id not in {None, found.organization_id}:
            raise not_found()
        return found

    def membership(self, team: Team, account: Account | None, asking_id: int) -> Membership:
        """Tell how far somebody is in a team.

        Raises:
            Rejected: 404, not at all; 403, the asking account may not look.
        """
        if (team.organization_id, asking_id) in self.hidden_from:
            raise Rejected(403, "Resource not accessible by personal access token")
        state = self.members.get((team.id, account.id)) if account is not None else None
        if state is None:
            raise not_found()
        return state
