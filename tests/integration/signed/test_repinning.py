"""A database or trust file that was lost or restored closes the signed channel, and `trust repin` opens it anew."""

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from gitops_bot.bootstrap.gate import behind, closed
from gitops_bot.core.errors import ConfigError
from gitops_bot.signed.spend import EXECUTE, SPEND
from gitops_bot.store import grants_read, ledger, schema, threads
from gitops_bot.store import settings as facts
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from tests.signed_pin import PinHost


def granted(host: PinHost, amount: int = 1) -> str:
    """Open an ask and let it be approved; the grant is not spent yet."""
    ask = host.ask(amount_minor=amount)
    host.announce()
    for person in ("alice", "bob"):
        host.vote(person, ask)
    host.look()
    assert host.state_of(ask)[0] == "APPROVED"
    return ask


def why_closed(host: PinHost) -> str | None:
    with host.database.read() as tx:
        found = closed(host.database, tx, host.settings.trust_file)
    return None if found is None else found.detail


def copies(host: PinHost) -> Callable[[bool], None]:
    """Copy database and trust file; gives what puts the database back, and with True the trust file too."""
    host.restart()
    database, trust = host.fresh.path.read_bytes(), (host.state / "trust.json").read_bytes()

    def restore(both: bool) -> None:
        host.restart()
        for suffix in ("-wal", "-shm", "-journal"):
            host.fresh.path.with_name(host.fresh.path.name + suffix).unlink(missing_ok=True)
        host.fresh.path.write_bytes(database)
        if both:
            (host.state / "trust.json").write_bytes(trust)

    return restore


def test_a_database_that_is_behind_closes_the_channel_and_nothing_is_counted(pin_host: PinHost) -> None:
    """The table spend, "database behind the trust file": ordinary asks go on, and it is told once."""
    assert pin_host.in_force is not None
    restore = copies(pin_host)
    granted(pin_host)
    assert "grant.minted" in pin_host.kinds(), "and sealed"
    pin_host.keep()
    restore(False)
    detail = why_closed(pin_host)
    assert detail is not None and ("older copy" in detail or "forgot the branch" in detail)
    for _ in range(2):
        pin_host.keep()
    assert pin_host.kinds("channel.closed") == ["channel.closed"]
    ask = pin_host.ask()
    pin_host.announce()
    for person in ("alice", "bob"):
        pin_host.vote(person, ask)
    with pytest.raises(Exception, match="the signed channel is closed"):
        pin_host.look()
    assert pin_host.state_of(ask)[0] == "OPEN"
    status, _, err = pin_host.bot("policy", "propose")
    assert status == 1 and "is the one in force" in err
    pin_host.put(version=2)
    status, _, err = pin_host.bot("policy", "propose")
    assert status == 4 and "closed" in err


def test_both_restored_is_seen_by_the_marker_on_the_requests_branch(pin_host: PinHost) -> None:
    """Database and trust file agree with each other, so the channel is open; what was spent is not spent again."""
    granted(pin_host)
    restore = copies(pin_host)
    for name in (SPEND, EXECUTE):
        pin_host.drain(name)
    assert pin_host.kinds("grant.spent") == ["grant.spent"]
    restore(True)
    assert why_closed(pin_host) is None
    pin_host.look()
    for name in (SPEND, EXECUTE):
        pin_host.drain(name)
    pin_host.kinds()
    with pin_host.database.read() as tx:
        told = [one.document for one in ledger.sealed(tx, 0, 10_000)]
    assert [(one["kind"], one["reason"]) for one in told if one["kind"].startswith("effect.")] == [
        ("effect.failed", "spent")
    ]


def repin(host: PinHost, source: str) -> dict[str, Any]:
    status, out, err = host.bot("trust", "repin", "--from", source, "--yes", "--json")
    assert status == 0, err
    document: dict[str, Any] = json.loads(out)
    return document


def test_repinning_begins_an_epoch_in_which_nothing_of_before_counts(pin_host: PinHost) -> None:
    """Open asks are withdrawn to the backlog, grants lapse, everybody is to be told, and votes begin anew."""
    kept = granted(pin_host)
    opened = pin_host.ask(amount_minor=2)
    pin_host.announce()
    pin_host.vote("alice", opened)
    pin_host.look()
    document = repin(pin_host, "database")
    assert (document["epoch"], document["withdrawn"], document["lapsed"]) == (2, 1, 1)
    assert pin_host.trust.epoch == 2
    pin_host.keep()
    assert pin_host.broker.adopted.is_set(), "a broker that runs begins anew"
    pin_host.restart()
    assert why_closed(pin_host) is None
    assert pin_host.channel.place.epoch == 2
    state, reason = pin_host.state_of(opened)
    assert state == "WITHDRAWN" and reason is not None and reason.startswith("epoch: ")
    with pin_host.database.read() as tx:
        grant = grants_read.of_ask(tx, kept)
        assert threads.is_in_backlog(tx, opened)
    assert grant is not None and grant.state.value == "LAPSED"
    assert pin_host.kinds("trust.repinned", "person.told") == ["trust.repinned", *["person.told"] * 3]
    again = granted(pin_host, 3)
    assert pin_host.request(again).epoch == 2
    pin_host.drain(SPEND)
    assert "grant.spent" in pin_host.kinds("grant.spent")


def test_it_says_what_it_will_do_and_asks_first(pin_host: PinHost, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = pin_host.ask()
    pin_host.put(lambda tables: tables["verbs"].pop("note.publish"))
    monkeypatch.setattr("click.confirm", lambda _text: False)
    status, out, err = pin_host.bot("trust", "repin", "--from", "disk")
    assert status == 1 and "nothing was changed" in err
    assert "note.publish can no longer be decided by anybody." in out
    assert "withdrawn to the backlog: 1" in out and "epoch 2" in out
    assert pin_host.state_of(opened)[0] == "OPEN" and pin_host.trust.epoch == 1
    document = repin(pin_host, "disk")
    assert document["policy"]["version"] == 2
    pin_host.restart()
    assert pin_host.rules.policy.version == 2
    assert pin_host.bot("trust", "repin", "--from", "disk", "--json")[0] == 64


def test_a_lost_trust_file_is_not_replaced_by_a_first_pin(pin_host: PinHost) -> None:
    """`trust pin` makes a file that knows no head; the database's grants tell that there was another."""
    granted(pin_host)
    pin_host.restart()
    (pin_host.state / "trust.json").unlink()
    with pytest.raises(ConfigError, match="no trust file"):
        assert pin_host.broker
    assert pin_host.bot("trust", "pin")[0] == 0
    detail = why_closed(pin_host)
    assert detail is not None and "a new file" in detail
    assert repin(pin_host, "database")["epoch"] == 2
    pin_host.restart()
    assert why_closed(pin_host) is None


def test_an_older_epoch_is_closed(pin_host: PinHost) -> None:
    """The table spend, "database of an older epoch"."""
    assert pin_host.in_force is not None
    restore = copies(pin_host)
    repin(pin_host, "database")
    restore(False)
    detail = why_closed(pin_host)
    assert detail is not None and "epoch 1" in detail and "pin of 2" in detail
    assert repin(pin_host, "database")["epoch"] == 3
    pin_host.restart()
    assert why_closed(pin_host) is None


def test_a_lost_database_is_closed_until_the_host_pins_anew(pin_host: PinHost) -> None:
    """A fresh database is of the first epoch and knows no branch and no ledger."""
    granted(pin_host)
    pin_host.keep()
    pin_host.restart()
    shutil.rmtree(pin_host.fresh.path.parent)
    pin_host.fresh.path.parent.mkdir(mode=0o700)
    owner = Database.open(pin_host.fresh.owner_url, Role.OWNER, **pin_host.fresh.options)
    schema.upgrade(owner.engine)
    owner.close()
    assert why_closed(pin_host) is not None
    with pin_host.database.read() as tx:
        assert behind(tx, pin_host.trust) is not None
        assert facts.fact(tx, "epoch") == "1"
    assert repin(pin_host, "disk")["epoch"] == 2
    pin_host.restart()
    assert why_closed(pin_host) is None
    granted(pin_host, 5)


def unreadable(host: PinHost) -> Callable[[], None]:
    """Others could write the trust file."""
    file = host.state / "trust.json"
    file.chmod(0o666)
    return lambda: file.chmod(0o600)


def missing(host: PinHost) -> Callable[[], None]:
    """It was moved away while the broker ran."""
    file = host.state / "trust.json"
    file.rename(host.state / "away")

    def back() -> None:
        (host.state / "away").rename(file)

    return back


def planted(host: PinHost) -> Callable[[], None]:
    """Another hand changed the schema."""
    host.hand("CREATE TABLE mine (a integer)")
    return lambda: host.hand("DROP TABLE mine")


@pytest.mark.parametrize("fault", [unreadable, missing, planted])
def test_what_closes_a_running_channel_is_told_once_and_ordinary_work_goes_on(
    pin_host: PinHost, fault: Callable[[PinHost], Callable[[], None]]
) -> None:
    """Its twin is the same channel once the fault is gone."""
    granted(pin_host)
    mend = fault(pin_host)
    for _ in range(2):
        pin_host.keep()
    pin_host.drain(SPEND)
    assert pin_host.kinds("channel.closed", "grant.spent") == ["channel.closed"]
    assert not pin_host.broker.adopted.is_set()
    assert pin_host.ask(amount_minor=9)
    mend()
    pin_host.keep()
    assert pin_host.kinds("channel.closed", "channel.opened") == ["channel.closed", "channel.opened"]
