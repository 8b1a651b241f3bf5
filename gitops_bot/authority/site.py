"""The workspace as browsers and passkeys know it: what a passkey is scoped to, and how long what it opens lasts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Site:
    """One workspace. `origin` as browsers send it, `rp_id` its host without port (WebAuthn Level 3, section 5.1.3),
    `name` as statements name it; times in ms."""

    origin: str
    rp_id: str
    name: str
    rest: int
    idle: int
    lasts: int
