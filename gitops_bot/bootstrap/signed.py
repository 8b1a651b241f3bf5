"""The composition root of the signed channel: keys, engines, the bot's repository, its duties.

What is remembered about keys is written here at each start: a revocation that was seen once stays (I18).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.authority.rules import Rules
from gitops_bot.bootstrap.bundle import certificates_of
from gitops_bot.bootstrap.following import Follower
from gitops_bot.bootstrap.force import in_force
from gitops_bot.bootstrap.gate import Gate
from gitops_bot.bootstrap.granting import Granting
from gitops_bot.bootstrap.keeping import Keeping
from gitops_bot.bootstrap.keyrings import FOLDER, engines_in, keys_of, place_of, repository_of, requests_identities
from gitops_bot.config import Settings
from gitops_bot.core.asks import AskId
from gitops_bot.core.errors import ConfigError, Fact
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.policy.bundles import pack
from gitops_bot.policy.model import Policy
from gitops_bot.ports import Duty, Forge
from gitops_bot.store import bundles, ledger, signatures
from gitops_bot.store import settings as stored
from gitops_bot.store.engine import Database, Tx

if TYPE_CHECKING:
    from gitops_bot.signed.announcing import Announcer
    from gitops_bot.signed.bot_key import BotKey
    from gitops_bot.signed.channel import Place
    from gitops_bot.signed.keys import Keys
    from gitops_bot.signed.looking import Looker
    from gitops_bot.signed.openpgp.facts import CertificateFacts
    from gitops_bot.signed.repository import Repository

LEASE_MS: Final = 30_000
"""So long the next look waits after a broker that was killed in one. One that outlasts it may be done by two at once:
each fetches alone, and what was judged is never judged again."""


@dataclass(frozen=True, slots=True)
class SignedChannel:
    """The signed channel of a broker, put together; `announcer` is None where no key of the bot's is set."""

    looker: "Looker"
    announcer: "Announcer | None"
    bot: "BotKey | None"
    place: "Place"
    granting: tuple[Duty, ...] = ()

    def duties(self, database: Database) -> list[Duty]:
        """Give the duties, armed."""
        from gitops_bot.signed import looking

        self.looker.arm()
        found: list[Duty] = [
            RowDuty(looking.DUTY, database, self.looker.one, Pace(batch=1, lease_ms=LEASE_MS, most_ms=60_000))
        ]
        if self.announcer is not None:
            self.announcer.arm()
            found.append(self.announcer)
        return [*found, *self.granting]

    def close(self) -> None:
        """End what was started: processes of git, gpg's agent with the copy of the bot's key."""
        self.looker.close()
        if self.bot is not None:
            self.bot.close()


def remember(tx: Tx, policy: Policy, files: Mapping[str, bytes]) -> "dict[str, CertificateFacts]":
    """Keep the bundle's bytes and every revocation in its certificates; give the certificates."""
    found = certificates_of(files)
    bundles.keep(tx, bundles.Bundle(policy.digest, policy.version, pack(files)))
    if bundles.in_force(tx) is None:
        bundles.put_in_force(tx, policy.digest, None)
        pinned: dict[str, Fact] = {"digest": policy.digest, "version": policy.version}
        ledger.append(tx, Entry(EventKind.POLICY_PINNED, tx.now, channel="signed", facts=pinned))
    for certificate in found.values():
        for one in certificate.revocations:
            if signatures.remember_revocation(tx, one.fingerprint, hard=one.hard, at=one.at):
                facts: dict[str, Fact] = {"key": one.fingerprint, "hard": one.hard, "at": one.at}
                ledger.append(tx, Entry(EventKind.KEY_REVOKED, tx.now, channel="signed", facts=facts))
    return found


def repository_id_of(settings: Settings, database: Database, forge: Forge | None) -> int:
    """Find the forge's number of the repository that actions are about; it never changes under one database.

    Raises:
        ConfigError: nobody says it, or it is another one than before.
        Unavailable: the forge cannot be asked.
    """
    said = settings.signed.repository_id
    if not said and forge is not None and settings.forge.repositories:
        said = forge.repository(settings.forge.repositories[0]).id
    if not said:
        fix = "[signed] repository_id = <the forge's number of the repository>"
        raise ConfigError(
            "the signed channel needs the number of the repository, and there is no forge to ask", fix=fix
        )
    with database.write() as tx:
        kept = stored.set_fact_once(tx, "repository_id", str(said))
    if kept != str(said):
        raise ConfigError(
            f"{settings.repository} has the number {said} now, and had {kept} when this database was made",
            fix="a repository of the same name is another one; use a database of its own",
        )
    return said


def build(
    settings: Settings,
    database: Database,
    rules: Rules,
    forge: Forge | None,
    adopted: Callable[[], None] = lambda: None,
    replaced: "Callable[[Tx, Rules, AskId], None] | None" = None,
) -> SignedChannel:
    """Put the signed channel together; nothing runs yet. `adopted` is called once another policy is in force,
    `replaced` for each open ask of an older one.

    Raises:
        ConfigError: something that must not start.
        Unavailable: the forge cannot be asked, or gpg is missing.
    """
    from gitops_bot.signed import adopting
    from gitops_bot.signed.announcing import Announcer, recogniser
    from gitops_bot.signed.fetching import Fetcher
    from gitops_bot.signed.looking import Looker
    from gitops_bot.signed.mint import Mint
    from gitops_bot.signed.publishing import Publisher

    force = in_force(settings, database)
    place = place_of(settings, repository_id_of(settings, database, forge), force.trust.epoch)
    repository = repository_of(settings)
    repository.create()
    with database.write() as tx:
        certificates = remember(tx, rules.policy, force.files)
        remembered = signatures.revocations(tx)

    def engines() -> "Keys":
        # One set of engines a thread.
        return keys_of(rules.policy, certificates, remembered, settings.state / FOLDER / "gpg")

    gate = Gate(database, settings.trust_file, rules.policy, place.epoch)
    gate.begin()
    looker = Looker(
        database,
        rules.policy,
        place,
        engines(),
        Fetcher(repository, settings.environment),
        poll_ms=settings.signed.poll,
        counted=Mint(rules, place, gate.sound),
    )
    keeping = _keeping(settings, database, rules, place, repository, gate, adopted)
    bot = _bot(settings, rules.policy)
    if bot is None:
        return SignedChannel(looker, None, None, place, (keeping,))
    recognise = recogniser(rules.policy, engines(), place)
    announcer = Announcer(database, rules, place, repository, bot, recognise)
    publisher = Publisher(repository, bot, place.environment, recognise=recogniser(rules.policy, engines(), place))

    def moved(digest: str) -> None:
        gate.repin(digest)
        adopted()

    replace = replaced or adopting.replace
    granting = Granting(database, settings, rules, place, repository, publisher, gate, moved, replace)
    return SignedChannel(looker, announcer, bot, place, (keeping, *granting.duties(engines)))


def _keeping(
    settings: Settings,
    database: Database,
    rules: Rules,
    place: "Place",
    repository: "Repository",
    gate: Gate,
    end: Callable[[], None],
) -> Keeping:
    follower = Follower(settings, database, rules, place, repository, engines_in(settings))
    return Keeping(database, settings.trust_file, settings.policies, gate, follower, end)


def _bot(settings: Settings, policy: Policy) -> "BotKey | None":
    """Open the bot's key, which must be one of the service with `role = "requests"`."""
    from gitops_bot.signed.bot_key import open_key

    file = settings.signed.bot_key_file
    if file is None:
        if policy.gated:
            message = "the policy gates verbs, and the bot has no key to publish their requests and markers with"
            raise ConfigError(message, fix="[signed] bot_key_file = <the secret key of the service for requests>")
        return None
    bot = open_key(file, settings.state / FOLDER / "bot")
    if bot.identity in requests_identities(policy):
        return bot
    bot.close()
    raise ConfigError(
        "the bot's key is none of the policy's service for requests",
        fix='name it in the bundle: [people.bot] kind = "service", role = "requests", openpgp or ssh',
    )
