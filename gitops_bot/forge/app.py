"""A GitHub App: it shows who it is by a JWT under its key, and gets tokens of its installations for an hour at most.

Every token is asked for with the least permissions and for the configured repositories only (GitHub REST, apps). It is
renewed before it ends by the forge's own time, once, whoever waits for it. One that the forge no longer takes is
dropped, and the duty whose request it was tries again. An installation that is suspended or gone says what to click,
and is looked for again after a while. No key, JWT or token stands in an error or a representation.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NoReturn

from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.forge.answers import member
from gitops_bot.forge.transport import Answer, Transport, Turned

PERMISSIONS: Final = {
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
}
"""What the bot needs in a repository."""
MEMBERS: Final = {"members": "read", "metadata": "read"}
"""What a question about a team needs; such a token is asked for with the first question."""
JWT_SECONDS: Final = 540
"""From its beginning to its end; GitHub takes at most 600."""
BEFORE: Final = 300.0
"""Seconds before its end from which a token is renewed; half of its life, where that is shorter."""
AGAIN: Final = 60.0
"""Seconds after which an installation that was refused is looked for again."""

_DRIFT: Final = 60
_PAUSE: Final = 1.0  # seconds for which a failure answers everybody who waited for the same token
_LONGEST_LIFE: Final = 86_400.0

Now = Callable[[], int]
"""Whole seconds since 1970 UTC."""
Elapsed = Callable[[], float]
"""Seconds that only grow."""


class Signer:
    """An App's own credential: a JWT for each request (GitHub, authenticating as an app)."""

    scheme: Final = "Bearer"

    def __init__(self, app_id: int, private_key: str, now: Now) -> None:
        self._app_id, self._key, self._now = app_id, _key(private_key), now
        self._ahead = 0

    def current(self) -> str:
        """Sign a JWT that begins a minute ago."""
        import jwt

        begun = self._now() + self._ahead - _DRIFT
        claims = {"iat": begun, "exp": begun + JWT_SECONDS, "iss": str(self._app_id)}
        return jwt.encode(claims, self._key, algorithm="RS256")

    def turned_down(self, shown: str, no: Turned) -> None:  # noqa: ARG002 # the credential's signature
        """Go by the forge's clock from here on where the two are apart, which by itself makes a JWT worthless.

        Raises:
            Unavailable: the clocks are apart, or it is not the App's key.
        """
        if no.status != 401:
            return
        apart = no.at // 1000 - self._now() if no.at else self._ahead
        if abs(apart - self._ahead) > _DRIFT // 2:
            self._ahead = apart
            raise Unavailable(f"the App's JWT was refused: this machine's clock is {abs(apart)} s off the forge's")
        words = "the App's JWT was refused: check [forge] app_id and private_key_file"
        raise Unavailable(words, refused=True, retry_after=AGAIN)


def _key(pem: str) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    fix = "generate a private key on the App's page and name the file that was downloaded"
    try:
        key = load_pem_private_key(pem.encode("utf-8"), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError("[forge] private_key_file holds no private key in PEM without a password", fix=fix) from None
    if not isinstance(key, RSAPrivateKey) or key.key_size < 2048:
        raise ConfigError("[forge] private_key_file holds no RSA key of 2048 bits or more", fix=fix)
    return key


@dataclass(frozen=True, slots=True)
class Seen:
    """An installation as the forge shows it to its App."""

    id: int
    account: str
    suspended: bool
    permissions: dict[str, str]


class App:
    """A GitHub App with its own wire; safe to share between threads."""

    def __init__(
        self, api_url: str, app_id: int, private_key: str, now: Now, elapsed: Elapsed, installation: int = 0
    ) -> None:
        self.api_url, self.id, self.installation = api_url, app_id, installation
        self.now, self.elapsed = now, elapsed
        self._wire = Transport(api_url, Signer(app_id, private_key, now))

    @property
    def wire(self) -> Transport:
        """The way to what is the App's own, by its JWT."""
        return self._wire

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._wire.close()

    def slug(self) -> str:
        """Read what the App is called in addresses.

        Raises:
            Unavailable: the forge does not answer, or does not know the App.
        """
        try:
            return str(member(self._wire.send("GET", "/app").data, "slug", "string"))
        except Turned as no:
            if no.status != 404:
                raise
            raise Unavailable(f"the forge knows no App {self.id}: check [forge] app_id", refused=True) from None

    def installed(self, repository: str) -> Seen:
        """Find the installation that holds a repository, suspended ones too.

        Raises:
            Unavailable: no usable answer; with `refused` where there is none.
        """
        try:
            found = self._wire.send("GET", f"/repos/{repository}/installation").data
        except Turned as no:
            if no.status != 404:
                raise
            raise _absent(repository) from None
        granted = found.get("permissions") if isinstance(found, dict) else None
        held = {str(name): str(level) for name, level in granted.items()} if isinstance(granted, dict) else {}
        suspended = isinstance(found, dict) and found.get("suspended_at") is not None
        return Seen(int(member(found, "id", "integer")), str(member(found, "account.login", "string")), suspended, held)

    def token(self, installation: int, body: dict[str, Any]) -> Answer:
        """Ask for a token of an installation, sent once."""
        return self._wire.send("POST", f"/app/installations/{installation:d}/access_tokens", body=body)


def _absent(repository: str) -> Unavailable:
    words = f"the App is not installed on {repository}: open the App's page, Install App, and choose the repository"
    return Unavailable(words, refused=True, retry_after=AGAIN)


def _suspended(repository: str) -> Unavailable:
    owner = repository.partition("/")[0]
    words = f"the App's installation on {owner} is suspended: its settings, GitHub Apps, Configure, Unsuspend"
    return Unavailable(words, refused=True, retry_after=AGAIN)


def _lacking(names: tuple[str, ...], permissions: dict[str, str], said: str) -> Unavailable:
    wanted = ", ".join(f"{name}: {level}" for name, level in sorted(permissions.items()))
    words = f"the App's installation lacks one of its repositories or permissions ({said[:200]}): "
    words += f"open it under GitHub Apps, Configure; it needs {', '.join(names)} with {wanted}"
    return Unavailable(words, refused=True, retry_after=AGAIN)


@dataclass(frozen=True, slots=True, repr=False)
class _Held:
    """A token and when it is to be renewed, in seconds that only grow."""

    token: str
    renew_at: float


class Installed:
    """The credential of an App in the repositories of one owner: a token of its installation, renewed in time."""

    scheme: Final = "Bearer"

    def __init__(self, app: App, repositories: tuple[str, ...], permissions: dict[str, str]) -> None:
        self._app, self._repositories, self._permissions = app, repositories, permissions
        self._lock = threading.Lock()
        self._id = app.installation
        self._held: _Held | None = None
        self._no: tuple[Unavailable, float] | None = None

    def current(self) -> str:
        """Give the token, or ask for one: one request, whoever waits for it.

        Raises:
            Unavailable: there is none now; `refused` where a person has to do something first.
        """
        with self._lock:
            now = self._app.elapsed()
            if self._held is not None and now < self._held.renew_at:
                return self._held.token
            if self._no is not None and now < self._no[1]:
                raise _again(self._no[0], self._no[1] - now)
            try:
                self._held = self._ask(now)
            except Unavailable as error:
                self._stand(error)
                raise
            self._no = None
            return self._held.token

    def _stand(self, error: Unavailable) -> None:
        """Let a failure answer whoever asks next, for a moment; a refusal for longer."""
        self._held = None
        if error.refused and not self._app.installation:
            self._id = 0
        seconds = error.retry_after or (AGAIN if error.refused else _PAUSE)
        self._no = (error, self._app.elapsed() + seconds)

    def turned_down(self, shown: str, no: Turned) -> None:
        """Drop a token that the forge no longer takes; the next request asks for another.

        Raises:
            Unavailable: the installation was suspended.
        """
        suspended = no.status == 403 and "suspended" in no.said
        if no.status != 401 and not suspended:
            return
        with self._lock:
            if self._held is not None and self._held.token == shown:
                self._held = None
            if suspended:
                error = _suspended(self._repositories[0])
                self._stand(error)
                raise error

    def _ask(self, now: float) -> _Held:
        if not self._id:
            self._id = self._app.installed(self._repositories[0]).id
        names = [name.partition("/")[2] for name in self._repositories]
        try:
            answer = self._app.token(self._id, {"repositories": names, "permissions": self._permissions})
        except Turned as no:
            self._explain(no)
        token = str(member(answer.data, "token", "string"))
        if not token.isascii() or not token.isprintable() or not token or " " in token:
            raise Unavailable("the forge gave a token that no header can hold")
        return _Held(token, now + self._useful(answer))

    def _useful(self, answer: Answer) -> float:
        """Tell for how many seconds a token is used, by the forge's own two times."""
        try:
            ends = datetime.fromisoformat(str(member(answer.data, "expires_at", "string"))).timestamp()
        except (ValueError, OverflowError):
            raise Unavailable("the forge does not say when its token ends") from None
        life = min(ends - (answer.at / 1000 or self._app.now()), _LONGEST_LIFE)
        if life <= 0:
            raise Unavailable("the forge gave a token that has ended")
        return life - min(BEFORE, life / 2)

    def _explain(self, no: Turned) -> NoReturn:
        if no.retry_after is not None:
            raise no
        if no.status == 403 and "suspended" in no.said:
            raise _suspended(self._repositories[0]) from None
        if no.status == 404 and self._app.installation:
            words = f"the App has no installation {self._id}: set [forge] installation to the number at the end of its "
            words += "address under GitHub Apps, Configure, or take the line out"
            raise Unavailable(words, refused=True, retry_after=AGAIN) from None
        if no.status == 404:
            raise _absent(self._repositories[0]) from None
        if no.status == 422:
            raise _lacking(self._repositories, self._permissions, no.said) from None
        raise no


def _again(error: Unavailable, seconds: float) -> Unavailable:
    """Say the same once more: an exception that was raised belongs to its thread."""
    wait = None if error.retry_after is None else seconds
    return Unavailable(str(error), retry_after=wait, refused=error.refused)
