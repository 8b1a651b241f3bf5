"""What commits are judged by, opened offline: on the host from its database, elsewhere from a bundle and a request.

Nothing is fetched from a forge or written; gpg's homes and copies of clones are in a folder that is removed.
Without a database nothing is remembered: no revocation of before, no counter, no earlier vote.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitops_bot.bootstrap.bundle import certificates_of, load_files, read_bundle
from gitops_bot.bootstrap.clones import copied
from gitops_bot.bootstrap.force import in_force
from gitops_bot.bootstrap.keyrings import keys_of, place_of, repository_of
from gitops_bot.config import DEFAULTS, Settings
from gitops_bot.core.asks import AskId
from gitops_bot.core.durations import parse_duration
from gitops_bot.core.errors import ConfigError, Malformed, Reason, Refusal, Refused, refuse
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.policy.model import Policy
from gitops_bot.signed import requesting
from gitops_bot.signed.approving.asked import ask_of
from gitops_bot.signed.channel import Channel, Known, Place
from gitops_bot.signed.keys import Keys
from gitops_bot.signed.objects import Objects
from gitops_bot.signed.rendering import MAX_REQUEST, read_request
from gitops_bot.signed.repository import Repository
from gitops_bot.store import settings as stored
from gitops_bot.store import signatures
from gitops_bot.store.engine import Database

SKEW: Final = parse_duration(str(DEFAULTS["signed"]["skew"]))
"""Without the host's settings their default stands, in ms."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What commits are judged in: whose repository, which place, policy and keys, and where asks come from. `fetched`
    is what git's fsck says where the broker would not fetch these objects; `database` None without one."""

    repository: Repository
    objects: Objects
    place: Place
    policy: Policy
    keys: Keys
    known: Callable[[AskId], Known | None]
    database: Database | None = None
    fetched: Refused | None = None
    clone: Path | None = None

    def channel(self, *, known: Callable[[AskId], Known | None] | None = None, again: bool = False) -> Channel:
        """Give the steps; `again` for a commit whose counter was held against the highest at its receipt."""
        counters = (lambda _key: None) if again or self.database is None else self._counter
        return Channel(self.place, self.policy, self.keys, self.objects, known or self.known, counters)

    def _counter(self, key: str) -> int | None:
        assert self.database is not None
        with self.database.read() as tx:
            return signatures.counter(tx, key)


@contextmanager
def on_host(
    settings: Settings, database: Database, *, clone: Path | None = None, commit: str = ""
) -> Iterator[Setting]:
    """Open what the broker judges by, over its own repository or a copy of a clone.

    Raises:
        ConfigError: no signed channel is set up, the broker has not run with it yet, or the pinned policy is not here.
        Unavailable: git failed.
    """
    force = in_force(settings, database)
    with database.read() as tx:
        number, epoch = stored.fact(tx, "repository_id"), stored.fact(tx, "epoch")
        remembered = signatures.revocations(tx)
    fix = "start the broker once with [signed] remote"
    if number is None or epoch is None:
        raise ConfigError("the broker has not run with a signed channel yet", fix=fix)

    def known(ask: AskId) -> Known | None:
        with database.read() as tx:
            return requesting.known(tx, ask)

    with tempfile.TemporaryDirectory(prefix="gitops-bot-verify-") as name:
        folder = Path(name)
        fetched = None
        if clone is None:
            repository = repository_of(settings)
            if not (repository.folder / "HEAD").exists():
                raise ConfigError(f"there is no repository {repository.folder}", fix=fix)
        else:
            copy = copied(clone, folder, settings.environment, commit)
            repository, fetched = copy.repository, copy.refused
        keys = keys_of(force.policy, certificates_of(force.files), remembered, folder / "gpg")
        with Objects(repository) as objects:
            place = place_of(settings, int(number), int(epoch))
            yield Setting(repository, objects, place, force.policy, keys, known, database, fetched, clone)


@contextmanager
def from_files(policies: Path, request_file: Path, clone: Path, commit: str) -> Iterator[Setting]:
    """Open a bundle, a request and a clone, without a database: what was revoked before and since is not known.

    Raises:
        ConfigError: the bundle does not load, or there is no such clone.
        Malformed: the request is none.
        Unavailable: git failed.
    """
    files = read_bundle(policies)
    try:
        policy = load_files(files)
    except Malformed as error:
        raise ConfigError(f"the policy in {policies} does not load: {error}", fix="gitops-bot policy check") from error
    request = read_request(_read(request_file))
    place = Place(request.repository, request.repository_id, request.environment, request.epoch, SKEW)
    asked = Known(ask_of(policy, request), request)
    with tempfile.TemporaryDirectory(prefix="gitops-bot-verify-") as name:
        folder = Path(name)
        copy = copied(clone, folder, request.environment, commit)
        keys = keys_of(policy, certificates_of(files), (), folder / "gpg")
        with Objects(copy.repository) as objects:
            yield Setting(
                copy.repository,
                objects,
                place,
                policy,
                keys,
                lambda ask: asked if ask == request.ask else None,
                fetched=copy.refused,
                clone=clone,
            )


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_REQUEST + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}", fix="name a request.json") from error


def person_of(policy: Policy, name: str) -> PrincipalName:
    """Take the name of a person of the policy.

    Raises:
        Refusal: the policy knows no such person.
    """
    found = policy.people.get(PrincipalName(name))
    if found is None or found.principal.kind is not PrincipalKind.HUMAN:
        people = ", ".join(one for one, who in policy.people.items() if who.principal.kind is PrincipalKind.HUMAN)
        detail = f"The policy knows no person {ascii(name)[1:-1][:40]}; it knows {people or 'none'}."
        raise Refusal(refuse(Reason.UNKNOWN_PRINCIPAL, detail))
    return found.principal.name
