"""What a broker keeps an eye on beside its work: the pin, the pointer, the ledger's head, the files on disk.

A pin that somebody moved ends this process's rules; a pointer that somebody moved is followed or refused. A closed
channel is told once, with the reason, and once when it is open again. A changed bundle on disk is noticed, no more.
"""

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gitops_bot.authority.standing import NOT_FOLLOWED
from gitops_bot.bootstrap.bundle import read_bundle
from gitops_bot.bootstrap.following import Follower
from gitops_bot.bootstrap.gate import Gate, closed
from gitops_bot.bootstrap.trust import Trust, read_trust
from gitops_bot.core.canonical import Digest, bundle_digest, canonical, digest
from gitops_bot.core.errors import ConfigError, Fact, Refused, Unavailable
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.store import bundles, ledger
from gitops_bot.store import settings as stored
from gitops_bot.store.engine import Database, Tx

DUTY: Final = "signed.keep"
SECONDS: Final = 1.0
SLOW_SECONDS: Final = 10.0
"""Between two writings of the head that was seen, and two looks at the files on disk."""
AGAIN_SECONDS: Final = 60.0
"""Before a pointer that did not verify is verified again."""
CLOSED: Final = "signed.closed:"
ON_DISK: Final = "policy.on_disk:"


class Keeping:
    """The duty that keeps the pin; implements `ports.Duty`. It has no rows: each host keeps its own."""

    name = DUTY

    def __init__(
        self,
        database: Database,
        trust_file: Path,
        policies: Path,
        gate: Gate,
        follower: Follower,
        end: Callable[[], None],
    ) -> None:
        """Take what is kept. `end` is called once this process must begin anew under another pin."""
        self._database = database
        self._file = trust_file
        self._policies = policies
        self._gate = gate
        self._follower = follower
        self._end = end
        self._slow_at = 0.0
        self._refused: tuple[str, float, Refused] | None = None
        named = canonical([platform.node(), str(trust_file.absolute())])
        self._cursor = CLOSED + digest("gitops-bot/host/v1", named)[-16:]

    def step(self) -> float:
        """Look at everything once. Gives the seconds until the next look."""
        try:
            self._look()
        except Unavailable:
            return SECONDS
        return SECONDS

    def _look(self) -> None:
        pinned = self._pinned()
        if pinned is not None and not self._gate.is_own(pinned):
            self._end()
            return
        # Without a pin there is nothing to follow from; that is told as closed.
        why = None if pinned is None else self._follow()
        with self._database.read() as tx:
            why = why or closed(self._database, tx, self._file)
        self._tell(why)
        now = time.monotonic()
        if now < self._slow_at:
            return
        self._slow_at = now + SLOW_SECONDS
        self._notice()
        if why is None:
            self._gate.see()

    def _pinned(self) -> Trust | None:
        try:
            return read_trust(self._file)
        except ConfigError:
            return None

    def _follow(self) -> Refused | None:
        """Follow the pointer where it moved; give why it is not followed."""
        with self._database.read() as tx:
            force = bundles.in_force(tx)
        if force is None:
            return None
        known = self._refused
        if known is not None and known[0] == force[0] and time.monotonic() < known[1]:
            return known[2]
        found = self._follower.follow()
        self._refused = None
        if isinstance(found, Refused):
            self._refused = force[0], time.monotonic() + AGAIN_SECONDS, found
            with self._database.write() as tx:
                stored.set_cursor(tx, NOT_FOLLOWED, force[0])
            return found
        if found is not None:
            self._end()
        return None

    def _tell(self, why: Refused | None) -> None:
        """Say once that the channel is closed, and once that it is open again."""
        said = "" if why is None else f"{why.reason.value}: {why.detail}"[:500]
        with self._database.read() as tx:
            before = stored.cursor(tx, self._cursor) or ""
        if said == before:
            return
        with self._database.write() as tx:
            stored.set_cursor(tx, self._cursor, said)
            ledger.append(tx, _closing(tx, why))

    def _notice(self) -> None:
        """Say once for each digest that the bundle on disk is not the pinned one."""
        found = changed_on_disk(self._policies, self._file)
        if found is None:
            return
        with self._database.read() as tx:
            known = stored.cursor(tx, ON_DISK + found) is not None
        if known:
            return
        with self._database.write() as tx:
            stored.set_cursor(tx, ON_DISK + found, str(tx.now))
            facts: dict[str, Fact] = {"digest": found}
            ledger.append(tx, Entry(EventKind.POLICY_CHANGED_ON_DISK, tx.now, facts=facts))


def changed_on_disk(policies: Path, trust_file: Path) -> Digest | None:
    """Give the digest of the bundle on disk where it is not the pinned one; whether it loads is *not* looked at."""
    try:
        found = bundle_digest(read_bundle(policies))
        return None if found == read_trust(trust_file).policy_digest else found
    except ConfigError:
        return None


def _closing(tx: Tx, why: Refused | None) -> Entry:
    if why is None:
        return Entry(EventKind.CHANNEL_OPENED, tx.now, channel="signed")
    facts: dict[str, Fact] = {"detail": why.detail[:500], **why.facts}
    return Entry(EventKind.CHANNEL_CLOSED, tx.now, channel="signed", reason=why.reason, facts=facts)
