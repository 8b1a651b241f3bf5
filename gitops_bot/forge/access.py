"""What a token may do in a repository, for `gitops-bot doctor`: nothing of the broker decides by it."""

from dataclasses import dataclass
from urllib.parse import quote

from gitops_bot.forge import answers
from gitops_bot.forge.transport import Transport


@dataclass(frozen=True, slots=True)
class Access:
    """A repository as a token sees it: id, whether it may push, the forge's time (ms), and the scopes of a classic
    token, None for one that has permissions instead (GitHub REST, scopes)."""

    repository_id: int
    may_push: bool
    at: int
    scopes: tuple[str, ...] | None


def read(wire: Transport, repository: str) -> Access:
    """Read what the token may do.

    Raises:
        Unavailable: the forge does not answer, or does not show the repository to this token.
    """
    answer = wire.send("GET", f"/repos/{quote(repository)}")
    header = answer.headers.get("x-oauth-scopes")
    scopes = None if header is None else tuple(word for word in header.replace(",", " ").split() if word)
    held = answer.data.get("permissions") if isinstance(answer.data, dict) else None
    may_push = isinstance(held, dict) and held.get("push") is True
    return Access(answers.repository(answer.data).id, may_push, answer.at, scopes)
