"""Every row of the table `spend` of `tests/vectors/signed.toml`: what keeps a grant from being spent, or from being
carried out, is blamed by its code, and nothing is called; without it the same set-up is one call.

A play gets what opens a till and whether to commit the fault; it gives the till and the ask.
"""

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.barrier import SPEND
from gitops_bot.signed.spend import EXECUTE, LOOKED_AT
from gitops_bot.store import holds, settings, signatures
from gitops_bot.store.roles import Role
from tests import signed_keys as keys
from tests.signed_till import PROGRAM, TRANSFER, Open, Till, tills
from tests.store_fixtures import FreshDatabase

ROWS: Final[dict[str, str]] = tomllib.loads((Path(__file__).parents[1] / "vectors" / "signed.toml").read_text())[
    "spend"
]
HOUR: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Played:
    """What a play leaves: the ask, how many calls the fault may have let through before it, and the code that was
    observed where the ledger is not what tells it."""

    till: Till
    ask: str
    before: int = 0
    code: str | None = None


Play = Callable[[Open, bool, Any], Played]


@dataclass(frozen=True, slots=True)
class Case:
    """One way to do what a row says."""

    row: str
    name: str
    play: Play
    value: Any
    twin: bool

    def __str__(self) -> str:
        return f"{self.row[:48]}-{self.name}" if self.name else self.row[:60]


CASES: Final[list[Case]] = []


def row(named: str, *, one_twin: bool = False, **variants: Any) -> Callable[[Play], Play]:
    """Register a play, once for each variant; with `one_twin` only the first is played without the fault."""
    assert named in ROWS, named

    def register(play: Play) -> Play:
        for place, (name, value) in enumerate((variants or {"": None}).items()):
            CASES.append(Case(named, name, play, value, not (one_twin and place)))
        return play

    return register


def approved(till: Open, verb: str = TRANSFER, **options: Any) -> tuple[Till, str]:
    """Open a till and have an ask approved by alice and bob."""
    host = till(**options)
    ask = host.ready(verb)
    host.approve(ask)
    assert host.grant(ask) is not None
    return host, ask


@row("revoke before the spend", alice="alice", bob="bob")
def revoked_before(till: Open, fault: bool, who: str) -> Played:
    host, ask = approved(till)
    if fault:
        host.vote(who, ask, "revoke")
        host.look()
    host.run()
    return Played(host, ask)


@row("revoke after the spend", revoke="revoke", deny="deny")
def revoked_after(till: Open, fault: bool, decision: str) -> Played:
    host, ask = approved(till)
    host.run()
    if fault:
        host.vote("alice", ask, decision)
        host.look()
        host.run()
    return Played(host, ask, before=1)


@row("deny by a third person during the delay")
def denied_in_delay(till: Open, fault: bool, _: Any) -> Played:
    """Carol owns the agent: she may not approve, and may deny."""
    host, ask = approved(till, rule={"delay": "1h"})
    if fault:
        host.vote("carol", ask, "deny")
        host.look()
    host.age(ask, HOUR)
    host.run()
    return Played(host, ask)


@row("hold", workspace=Role.WORKSPACE, host=Role.HOST)
def held(till: Open, fault: bool, role: Role) -> Played:
    """Any process that people answer through places one."""
    host, ask = approved(till)
    with host.fresh.open(role).write() as tx:
        holds.place(tx, ask, PrincipalName("carol"), lasts=HOUR if fault else 0, reason="let me look")
    host.run()
    return Played(host, ask)


@row("branch of a person who may deny, once seen, unreadable now", damaged="damage", rewritten="rewrite", gone="delete")
def unreadable(till: Open, fault: bool, how: str) -> Played:
    host = till()
    ask = host.ready()
    host.stage.root("carol")
    host.approve(ask)
    if fault:
        match how:
            case "damage":
                (host.stage.folder / host.stage.ref("carol")).write_text("ab" * 20 + "\n")
            case "delete":
                host.stage.delete("carol")
            case _:
                host.stage.root("carol", at=host.stage.now - 60)
    host.look()
    host.run()
    return Played(host, ask)


@row("before the delay is over")
def delayed(till: Open, fault: bool, _: Any) -> Played:
    host, ask = approved(till, rule={"delay": "1h"})
    host.age(ask, HOUR - 60_000 if fault else HOUR)
    host.run()
    return Played(host, ask)


@row("after spend_within")
def lapsed(till: Open, fault: bool, _: Any) -> Played:
    host, ask = approved(till, rule={"delay": "1h"})
    host.age(ask, 2 * HOUR + 1 if fault else 2 * HOUR - 60_000)
    host.run()
    return Played(host, ask)


@row("sum over the window exceeded", whole={}, by={"by": ["to"]})
def summed(till: Open, fault: bool, by: dict[str, Any]) -> Played:
    """Each alone is within the limit; both were asked before either was spent."""
    limit = {"sum": {"amount_minor": {"per": "24h", "le": 200_000} | by}}
    host = till(rule={"limits": limit})
    first = host.ready(amount_minor=125_000)
    second = host.ready(amount_minor=75_001 if fault else 75_000)
    host.approve(first)
    host.run()
    host.approve(second)
    host.run()
    return Played(host, second, before=1)


@row("key revoked between mint and spend", openpgp="alice", ssh="bob", soft="soft")
def key_revoked(till: Open, fault: bool, who: str) -> Played:
    """The twin's revoked key is nobody's who voted."""
    host, ask = approved(till)
    lines = {"alice": keys.fingerprint("alice"), "bob": keys.ssh_line("bob"), "soft": keys.fingerprint("alice")}
    key = lines[who] if fault else keys.fingerprint("carol")
    soft = who == "soft"
    with host.database.write() as tx:
        signatures.remember_revocation(tx, key, hard=not soft, at=tx.now - 1 if soft else None)
    host.run()
    return Played(host, ask)


@row("action bytes changed in the database after the mint", alone=1, with_hash=2, with_grant=3, one_twin=True)
def action_changed(till: Open, fault: bool, hashes: int) -> Played:
    """However many of the hashes are changed with them: what people signed is none of these rows."""
    host, ask = approved(till)
    if fault:
        from gitops_bot.core.canonical import action_hash

        action = (host.get(ask).action or b"").replace(b"125000", b"925000")
        host.hand("UPDATE asks SET action = :action WHERE id = :ask", action=action, ask=ask)
        named = {"hash": action_hash(action), "ask": ask}
        if hashes > 1:
            host.hand("UPDATE asks SET action_hash = :hash WHERE id = :ask", **named)
        if hashes > 2:
            host.hand("UPDATE grants SET action_hash = :hash WHERE ask = :ask", **named)
    host.run()
    return Played(host, ask)


GRANT: Final = (
    "INSERT INTO grants (id, ask, action_hash, state, epoch, minted_at, spend_after, spend_before) "
    "SELECT 'invented', id, action_hash, 'MINTED', 1, :now, :now, :now + 3600000 FROM asks WHERE id = :ask"
)
DUE: Final = (
    "INSERT INTO due (duty, key, due_at, leased, nudged, attempts, version) VALUES (:duty, :key, 0, 0, 0, 0, 0)"
)
VOTE: Final = (
    "INSERT INTO signed_votes SELECT ask, 'bob', 1, decision, commit_id, raw_commit, raw_blob, key_kind, key, counter, "
    "key_set, received_at FROM signed_votes WHERE ask = :ask AND principal = 'alice'"
)
EFFECT: Final = (
    'INSERT INTO executions (id, "grant", ask, action_hash, state, created_at) '
    "SELECT 'invented', g.id, g.ask, g.action_hash, 'pending', :now FROM grants g WHERE g.ask = :ask"
)


def by_hand(host: Till, ask: str, what: str) -> None:
    """Put a row there."""
    now = host.read(lambda tx: tx.now)
    if what in ("grant", "vote"):
        if what == "vote":
            host.hand(VOTE, ask=ask)
        host.hand("UPDATE asks SET state = 'APPROVED', ended_at = :now WHERE id = :ask", ask=ask, now=now)
        host.hand(GRANT, ask=ask, now=now)
        host.hand(DUE, duty=SPEND, key="invented")
    else:
        host.hand("UPDATE grants SET state = 'SPENT', ended_at = :now, nonce = 'n' WHERE ask = :ask", ask=ask, now=now)
        host.hand(EFFECT, ask=ask, now=now)
        host.hand(DUE, duty=EXECUTE, key="invented")


@row("grant row, vote row or executing effect inserted by hand", grant="grant", vote="vote", effect="effect")
def invented(till: Open, fault: bool, what: str) -> Played:
    """Alice voted, and bob where only the effect is invented; the twin waits for bob's own vote."""
    host = till()
    ask = host.ready()
    host.approve(ask, "alice", *(("bob",) if what == "effect" or not fault else ()))
    if fault:
        by_hand(host, ask, what)
    host.run()
    return Played(host, ask)


@row("two brokers spend at once", one_database=True, copied=False, one_twin=True)
def two_brokers(till: Open, fault: bool, one_database: bool) -> Played:
    """Over one database the row decides, over two copies of it the marker on the requests branch."""
    host, ask = approved(till, PROGRAM)
    if not fault:
        host.run()
        return Played(host, ask)
    if one_database:
        spender = host.behind(SPEND)
        grant = host.minted(ask)
        found = host.read(lambda tx: spender._read(tx, grant.id))
        evidence = spender._verified(found.ask, found.grant, found.cast, found.suspended, found.now)
        host.run()
        late = spender._spend(evidence)
        host.run()
        return Played(host, ask, before=1, code=late.refused.reason.value)
    restore = host.snapshot()
    kept = host.fresh.path.with_suffix(".kept")
    host.run()
    host.restart()
    kept.write_bytes(host.fresh.path.read_bytes())
    restore()
    host.run()
    return Played(host, ask, before=1)


@row("database and trust file both restored from before the spend", http=TRANSFER, program=PROGRAM)
def both_restored(till: Open, fault: bool, verb: str) -> Played:
    host, ask = approved(till, verb)
    restore = host.snapshot()
    host.run()
    if fault:
        restore()
        host.run()
    return Played(host, ask, before=1)


def closed(host: Till, ask: str, before: int = 0) -> Played:
    """Give the code for which the channel is closed."""
    (why,) = host.troubles(SPEND)
    return Played(host, ask, before, why.split("closed: ")[1].split(".")[0])


@row("database of an older epoch")
def older_epoch(till: Open, fault: bool, _: Any) -> Played:
    host, ask = approved(till)
    if fault:
        trust = host.trust.read_text()
        host.trust.write_text(trust.replace('"epoch":1', '"epoch":2'))
    host.run()
    return closed(host, ask) if fault else Played(host, ask)


@row("database behind the trust file")
def database_behind(till: Open, fault: bool, _: Any) -> Played:
    host, ask = approved(till)
    restore = host.snapshot(trust=False)
    host.run()
    if not fault:
        return Played(host, ask)
    restore()
    host.run()
    return closed(host, ask, before=1)


@row("fetch older than allowed", old=-130_000, in_the_future=60_000, never=None)
def old_fetch(till: Open, fault: bool, shift: int | None) -> Played:
    """`max_fetch_age` is two minutes here."""
    host, ask = approved(till)
    if fault:
        with host.database.write() as tx:
            settings.set_cursor(tx, LOOKED_AT, "0" if shift is None else str(tx.now + shift))
    host.run()
    return Played(host, ask)


@row("executor's program replaced", before_the_spend=True, after_it=False)
def program_replaced(till: Open, fault: bool, before: bool) -> Played:
    host, ask = approved(till, PROGRAM)
    if not before:
        host.step(SPEND)
    if fault:
        host.program.write_text(host.program.read_text() + "# and something else\n")
    host.run()
    return Played(host, ask)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The homes of gpg."""
    return tmp_path_factory.mktemp("gpg") / "homes"


@pytest.fixture
def till(memory_folder: Path, homes: Path, sqlite_database: FreshDatabase) -> Iterator[Open]:
    """Open a till."""
    with tills(memory_folder, homes, sqlite_database) as opened:
        yield opened


def check_one_of_each(host: Till, ask: str) -> None:
    """What the ledger tells of a grant agrees with its row."""
    grant = host.grant(ask)
    kinds = [kind for kind, _ in host.told(ask, "grant.") if kind != "grant.waits"]
    if grant is not None and grant.id != "invented":
        ended = {"SPENT": ["grant.spent"], "REVOKED": ["grant.revoked"], "LAPSED": ["grant.lapsed"], "MINTED": []}
        assert kinds == ["grant.minted", *ended[grant.state.value]]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_fault_is_blamed_and_nothing_is_called(case: Case, till: Open) -> None:
    played = case.play(till, True, case.value)
    host, ask = played.till, played.ask
    assert (played.code or host.blamed(ask)) == ROWS[case.row]
    assert len(host.calls()) == played.before
    host.run()
    assert len(host.calls()) == played.before
    check_one_of_each(host, ask) if case.play is not invented else None


@pytest.mark.parametrize("case", [case for case in CASES if case.twin], ids=str)
def test_without_the_fault_it_is_one_call(case: Case, till: Open) -> None:
    played = case.play(till, False, case.value)
    host, ask = played.till, played.ask
    host.run()
    mine = [call for call in host.calls() if call["key"] == host.minted(ask).id]
    assert len(mine) == 1
    assert mine[0]["action_hash"] == host.minted(ask).action_hash
    check_one_of_each(host, ask)


def test_every_row_is_played() -> None:
    assert ROWS.keys() - {case.row for case in CASES} == set()
