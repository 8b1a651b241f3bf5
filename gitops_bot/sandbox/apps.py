"""GitHub Apps and what their own tokens may do: an app shows who it is by a JWT under its key, and is given a token of
its installation for an hour (GitHub, authenticating as an app).

Pure but for the library that checks the JWT; time is a parameter.
"""

from dataclasses import dataclass

from gitops_bot.sandbox.records import App
from gitops_bot.sandbox.refusals import Rejected

JWT_LIFE = 600
"""Seconds that a JWT may be valid."""
DRIFT = 60
"""Seconds by which clocks may differ."""


@dataclass(frozen=True, slots=True)
class Registration:
    """An app as it was registered: its bot's account and, where it may ask for tokens, its public key (PEM)."""

    app: App
    bot_id: int
    public_key: str | None


class Apps:
    """Every app, by its id. Each is installed once, and the installation has the app's id."""

    def __init__(self) -> None:
        self.registered: dict[int, Registration] = {}

    def add(self, registration: Registration) -> None:
        """Register an app."""
        self.registered[registration.app.id] = registration

    def installed(self, installation_id: int) -> Registration | None:
        """Find the app of an installation."""
        return self.registered.get(installation_id)

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
