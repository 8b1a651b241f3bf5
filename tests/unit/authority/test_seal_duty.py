"""What is written is sealed at the next look, a ledger at rest costs no write, and stragglers are found by the row."""

from gitops_bot.authority.duties import Pace
from gitops_bot.authority.seal_duty import SOON_SECONDS, SealDuty
from gitops_bot.authority.sealing import Sealer
from gitops_bot.core.ledger import Entry
from gitops_bot.store import ledger
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from tests.store_fixtures import FreshDatabase


def made(database: Database) -> tuple[SealDuty, Sealer]:
    sealer = Sealer(database)
    sealer.arm()
    return SealDuty(database, sealer, Pace()), sealer


def write(database: Database, count: int) -> None:
    with database.write() as tx:
        ledger.append(tx, *(Entry("a.written", tx.now) for _ in range(count)))


def sealed(database: Database) -> int:
    with database.read() as tx:
        return ledger.head(tx).seq


def test_what_is_written_is_sealed_at_the_next_look(database: FreshDatabase) -> None:
    """Between the looks of the row, which come once a second."""
    broker = database.open(Role.BROKER)
    duty, _ = made(broker)
    duty.step()
    for count in (1, 2, 3):
        write(broker, 1)
        assert duty.step() <= SOON_SECONDS
        assert sealed(broker) == count


def test_more_than_a_batch_is_sealed_without_a_wait(sqlite_database: FreshDatabase) -> None:
    broker = sqlite_database.open(Role.BROKER)
    duty, _ = made(broker)
    duty.step()
    write(broker, 1_100)
    assert [duty.step(), duty.step()] == [0.0, 0.0]
    duty.step()
    assert sealed(broker) == 1_100


def test_a_ledger_at_rest_is_not_written_to(sqlite_database: FreshDatabase) -> None:
    broker = sqlite_database.open(Role.BROKER)
    duty, sealer = made(broker)
    write(broker, 1)
    duty.step()
    assert not sealer.is_behind()
    write(broker, 1)
    assert sealer.is_behind()


def test_two_sealers_give_one_order(sqlite_database: FreshDatabase) -> None:
    """The second finds nothing left, and neither fails."""
    broker = sqlite_database.open(Role.BROKER)
    first, second = made(broker)[0], made(sqlite_database.open(Role.BROKER))[0]
    write(broker, 5)
    first.step()
    second.step()
    assert sealed(broker) == 5
    write(broker, 1)
    second.step()
    first.step()
    assert sealed(broker) == 6
