"""GitHub Apps and what their own tokens may do: an app shows who it is by a JWT under its key, and is given a token of
its installation for an hour (GitHub, authenticating as an app).

Pure but for the library that checks the JWT; time is a parameter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gitops_bot.sandbox.records import App, Repository
from gitops_bot.sandbox.refusals import Rejected

JWT_LIFE = 600
"""Seconds that a JWT may be valid."""
DRIFT = 60
"""Seconds by which clocks may differ."""
PERMISSIONS = (
    *(("checks", "write"), ("contents", "write"), ("issues", "write"), ("members", "read"), ("metadata", "read")),
    ("pull_requests", "write"),
)
"""What an installation may do where nobody says less."""


@dataclass(frozen=True, slots=True)
class Registration:
    """An app as it was registered: its bot's account and, where it may ask for tokens, its public key (PEM)."""

    app: App
    bot_id: int
    public_key: str | None


@dataclass(frozen=True, slots=True)
class Installation:
    """Where an app is installed and what it may do there: at one owner or (None) everywhere, in these repositories by
    id or (None) in all; `suspended_at` in seconds."""

    id: int
    app_id: int
    owner_id: int | None
    repositories: tuple[int, ...] | None
    permissions: tuple[tuple[str, str], ...]
    suspended_at: int | None = None

    def covers(self, repository: Repository) -> bool:
        """Tell whether a repository is part of it."""
        chosen = self.repositories is None or repository.id in self.repositories
        return chosen and self.owner_id in {None, repository.owner_id}

    def grants(self, wanted: Mapping[str, str]) -> bool:
        """Tell whether it has every permission, or a stronger one."""
        held = dict(self.permissions)
        return all(reaches(held.get(name, ""), level) for name, level in wanted.items())


def reaches(held: str, wanted: str) -> bool:
    """Tell whether one level of a permission includes another."""
    return held == wanted or (held, wanted) == ("write", "read")


class Apps:
    """Every app and every installation, by id. An app is installed everywhere, as an installation with its own id,
    until it is installed somewhere by name."""

    def __init__(self) -> None:
        self.registered: dict[int, Registration] = {}
        self.installations: dict[int, Installation] = {}

    def add(self, registration: Registration) -> None:
        """Register an app."""
        app = registration.app
        self.registered[app.id] = registration
        self.installations[app.id] = Installation(app.id, app.id, None, None, PERMISSIONS)

    def install(self, installation: Installation) -> None:
        """Install an app at an owner, and no longer everywhere.

        Raises:
            ValueError: the id is taken by another app's.
        """
        standing = self.installations.get(installation.id)
        if standing is not None and standing.app_id != installation.app_id:
            raise ValueError(f"taken: {installation.id}")
        everywhere = self.installations.get(installation.app_id)
        if everywhere is not None and everywhere.owner_id is None and everywhere.app_id == installation.app_id:
            del self.installations[everywhere.id]
        self.installations[installation.id] = installation

    def suspend(self, installation_id: int, at: int | None) -> None:
        """Suspend an installation, or with None take that back."""
        self.installations[installation_id] = replace(self.installations[installation_id], suspended_at=at)

    def holding(self, app: App, repository: Repository) -> Installation | None:
        """Find the installation of an app that holds a repository."""
        every = self.installations.values()
        return next((one for one in every if one.app_id == app.id and one.covers(repository)), None)

    def suspended(self, installation_id: int | None) -> bool:
        """Tell whether an installation is suspended."""
        found = None if installation_id is None else self.installations.get(installation_id)
        return found is not None and found.suspended_at is not None

    def authenticate(self, token: str, now: int) -> Registration:
        """Tell which app a JWT was signed by.

        Raises:
            Rejected: 401, in GitHub's words.
        """
        import jwt

        try:
            issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
            known = self.registered.get(int(str(issuer))) if str(issuer).isdigit() and len(str(issuer)) < 16 else None
            if known is None or known.public_key is None:
                raise Rejected(404, "Integration not found")
            # The time is the forge's own, so it is compared here.
            claims = jwt.decode(
                token,
                known.public_key,
                algorithms=["RS256"],
                options={"verify_exp": False, "verify_iat": False, "verify_nbf": False},
            )
        except jwt.PyJWTError:
            raise Rejected(401, "A JSON web token could not be decoded") from None
        begun, ends = claims.get("iat"), claims.get("exp")
        if not isinstance(begun, int) or not isinstance(ends, int):
            raise Rejected(401, "'Issued at' claim ('iat') and 'Expiration time' claim ('exp') must be numbers")
        if begun > now + DRIFT:
            raise Rejected(401, "'Issued at' claim ('iat') must be an Integer representing a time in the past")
        if ends <= now or ends > now + JWT_LIFE + DRIFT:
            raise Rejected(401, "'Expiration time' claim ('exp') is too far in the future")
        return known
