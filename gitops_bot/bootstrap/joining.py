"""A loop joins its broker over HTTP: who it is, where its bridge is, and whether its agent can read what it can.

What comes back is the run, the token of that run for the agent, and whether an operator at the bridge may answer. The
broker may be starting too, so joining is tried again for a while.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.ports import Clock

TRIES: Final = 20
PAUSE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Registration:
    """What the broker answered to a loop that registered."""

    run: str
    run_version: int
    agent_token: str
    claims: str | None = None
    """Why an operator's claim would be refused (`gated`, `no_operator`); None when one may count."""


Register = Callable[[str, str, Mapping[str, object]], Registration]
"""(address of the broker, loop token, body) → registration; raises `Unavailable`."""


def register_over_http(url: str, token: str, body: Mapping[str, object]) -> Registration:
    """Register a loop: `POST {url}/api/v1/loops`.

    Raises:
        Unavailable: no connection, another status than 200 or 201, or an answer without the three members.
    """
    import requests  # heavy; only a loop with a broker needs it

    try:
        answer = requests.post(
            f"{url.rstrip('/')}/api/v1/loops",
            json=dict(body),
            headers={"Authorization": f"Bearer {token}"},
            timeout=10,
            allow_redirects=False,
        )
        value = answer.json() if answer.status_code in (200, 201) else {}
    except (requests.RequestException, ValueError) as error:
        raise Unavailable(f"the broker does not answer ({type(error).__name__})") from error
    if not isinstance(value, dict):
        value = {}
    run, version, agent = (value.get(name) for name in ("run", "run_version", "agent_token"))
    if not isinstance(run, str | int) or not isinstance(version, int) or not isinstance(agent, str):
        raise Unavailable(f"the broker did not register this loop (status {answer.status_code})")
    claims = value.get("claims")
    return Registration(str(run), version, agent, claims if isinstance(claims, str) else None)


def join(register: Register, url: str, token: str, body: Mapping[str, object], clock: Clock) -> Registration:
    """Register, again and again for ten seconds or so.

    Raises:
        Unavailable: the broker did not answer in all that time.
    """
    tries = 0
    while True:
        try:
            return register(url, token, body)
        except Unavailable:
            tries += 1
            if tries >= TRIES:
                raise
            clock.sleep(PAUSE_SECONDS)


def loop_token(path: Path) -> str:
    """Read the loop's token from its file.

    Raises:
        ConfigError: there is none, it is open to others, or it holds something else.
    """
    try:
        facts = path.stat()
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the loop token cannot be read from {path}", fix="give a file with the token") from error
    if facts.st_mode & 0o077:
        raise ConfigError(f"{path} is open to others", fix=f"chmod 600 {path}")
    if not token or not token.isprintable() or " " in token:
        raise ConfigError(f"{path} holds no token", fix="put the token there, and nothing else")
    return token
