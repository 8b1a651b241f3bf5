"""The database, attacked with effects that execute: from each process's own role, and by a hand that has the file.

Whatever is written there, nothing is called that people did not sign, and nothing twice. The twin stands in each test:
beside the rows that were changed an honest grant is spent and carried out, once.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from gitops_bot.core.canonical import action_hash
from gitops_bot.signed.barrier import SPEND
from gitops_bot.signed.spend import EXECUTE
from gitops_bot.store.roles import Role
from gitops_bot.store.states import EffectState
from tests.signed_till import ENGINES, PROGRAM, Open, Till, tills
from tests.store_fixtures import FreshDatabase

DUE: Final = (
    "INSERT INTO due (duty, key, due_at, leased, nudged, attempts, version) VALUES (:duty, :key, 0, 0, 0, 0, 0) "
    "ON CONFLICT (duty, key) DO NOTHING"
)
Hand = Callable[[Till, str], None]


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The homes of gpg."""
    return tmp_path_factory.mktemp("gpg") / "homes"


@pytest.fixture(params=ENGINES)
def fresh(request: pytest.FixtureRequest) -> FreshDatabase:
    """A fresh database, on each engine."""
    found: FreshDatabase = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def till(memory_folder: Path, homes: Path, fresh: FreshDatabase) -> Iterator[Open]:
    """Open a till, on each engine."""
    with tills(memory_folder, homes, fresh) as opened:
        yield opened


def effect(state: str, told: str | None = None) -> Hand:
    """Put an executing effect there, with its grant spent, as far as the rows can say it."""

    def hand(host: Till, ask: str) -> None:
        grant, key = host.minted(ask), f"invented-{ask[-6:]}"
        host.hand("UPDATE grants SET state = 'SPENT', ended_at = minted_at + 1, nonce = 'n' WHERE ask = :ask", ask=ask)
        host.hand(
            'INSERT INTO executions (id, "grant", ask, action_hash, state, result, created_at, attempted_at) '
            "VALUES (:id, :grant, :ask, :hash, :state, :told, 1, 1)",
            **{"id": key, "grant": grant.id, "ask": ask, "hash": grant.action_hash, "state": state, "told": told},
        )
        host.hand(DUE, duty=EXECUTE, key=key)

    return hand


def without_grant(host: Till, ask: str) -> None:
    """An effect that names no grant at all."""
    host.hand(
        "INSERT INTO executions (id, ask, action_hash, state, created_at) "
        "SELECT :id, id, action_hash, 'pending', 1 FROM asks WHERE id = :ask",
        id=f"bare-{ask[-6:]}",
        ask=ask,
    )
    host.hand("UPDATE grants SET state = 'REVOKED', ended_at = 1 WHERE ask = :ask", ask=ask)
    host.hand(DUE, duty=EXECUTE, key=f"bare-{ask[-6:]}")


def other_action(*also: str) -> Hand:
    """Change the action's bytes, and the hashes that stand beside it."""

    def hand(host: Till, ask: str) -> None:
        action = (host.get(ask).action or b"").replace(b'"amount_minor":', b'"amount_minor":9')
        host.hand("UPDATE asks SET action = :action, action_hash = :hash WHERE id = :ask", action=action, ask=ask,
                  hash=action_hash(action))  # fmt: skip
        for table in also:
            host.hand(f"UPDATE {table} SET action_hash = :hash WHERE ask = :ask", ask=ask, hash=action_hash(action))

    return hand


def earlier_mint(host: Till, ask: str) -> None:
    """Move the mint to before its delay."""
    host.hand("UPDATE grants SET minted_at = minted_at - 3600000 WHERE ask = :ask", ask=ask)


def other_requester(host: Till, ask: str) -> None:
    """Say that somebody else asked."""
    host.hand("UPDATE asks SET requester = 'bot' WHERE id = :ask", ask=ask)


def other_nonce(host: Till, ask: str) -> None:
    """Change the nonce that the marker will hold."""
    host.hand("UPDATE grants SET nonce = 'another' WHERE ask = :ask", ask=ask)


def put_back(state: str, told: str | None) -> Hand:
    """Put an execution back to before its end."""

    def hand(host: Till, ask: str) -> None:
        done = host.execution(ask)
        assert done is not None
        host.hand("UPDATE executions SET state = :state, result = :told, ended_at = NULL, attempted_at = NULL "
                  "WHERE ask = :ask", ask=ask, state=state, told=told)  # fmt: skip
        host.hand(DUE, duty=EXECUTE, key=done.id)

    return hand


def unspent(host: Till, ask: str) -> None:
    """Put a grant back to before its spend."""
    host.hand("UPDATE grants SET state = 'MINTED', ended_at = NULL, nonce = NULL WHERE ask = :ask", ask=ask)
    host.hand(DUE, duty=SPEND, key=host.minted(ask).id)


def unspent_and_forgotten(host: Till, ask: str) -> None:
    """The same, and its execution removed."""
    host.hand("DELETE FROM executions WHERE ask = :ask", ask=ask)
    unspent(host, ask)


SETTLED: Final = '{"attempts":1,"settled":true,"unclear":false}'
MINTED: Final[dict[str, Hand]] = {
    "effect pending": effect("pending"),
    "effect attempting": effect("attempting"),
    "effect attempting, settled": effect("attempting", SETTLED),
    "effect of no grant": without_grant,
    "another action": other_action(),
    "another action and grant": other_action("grants"),
    "an earlier mint": earlier_mint,
    "another requester": other_requester,
}
SPENT: Final[dict[str, Hand]] = {
    "nonce": other_nonce,
    "action": other_action(),
    "action and hashes": other_action("grants", "executions"),
    "attempting": lambda host, ask: host.hand("UPDATE executions SET state = 'attempting' WHERE ask = :a", a=ask),
    "settled": lambda host, ask: host.hand(
        "UPDATE executions SET state = 'attempting', result = :told WHERE ask = :ask", ask=ask, told=SETTLED
    ),
}
CALLED: Final[dict[str, Hand]] = {
    "pending again": put_back("pending", None),
    "attempting again": put_back("attempting", SETTLED),
    "minted again": unspent,
    "minted again, effect gone": unspent_and_forgotten,
}


def granted(host: Till, names: dict[str, Hand], first: int) -> dict[str, str]:
    """Have an ask approved for each hand, and one more."""
    found = {name: host.ready(PROGRAM, amount_minor=first + at) for at, name in enumerate([*names, "honest"])}
    for ask in found.values():
        host.vote("alice", ask)
        host.vote("bob", ask)
    host.look()
    return found


def called(host: Till) -> list[str]:
    """Name the grants that were called on, in order."""
    return [call["key"] for call in host.calls()]


@pytest.mark.parametrize(
    ("stage", "hands"), [("minted", MINTED), ("spent", SPENT), ("called", CALLED)], ids=["minted", "spent", "called"]
)
def test_a_hand_with_the_file(till: Open, stage: str, hands: dict[str, Hand]) -> None:
    """Every row that could say that something was granted, spent or not yet done, changed or put there."""
    host = till()
    found = granted(host, hands, 1_000)
    grants = {name: host.minted(ask).id for name, ask in found.items()}
    if stage != "minted":
        host.drain(SPEND)
    if stage == "called":
        host.drain(EXECUTE)
        assert sorted(called(host)) == sorted(grants.values())
    for name, hand in hands.items():
        hand(host, found[name])
    before = called(host)
    host.run()
    host.restart()
    host.run()
    after = called(host)[len(before) :]
    assert after == ([] if stage == "called" else [grants["honest"]])
    for name in hands:
        execution = host.execution(found[name])
        if stage != "called":
            assert execution is None or execution.state in (EffectState.FAILED, EffectState.UNKNOWN), name
        if "again" in name and execution is not None:
            assert execution.state is (EffectState.DONE if "minted" in name else EffectState.UNKNOWN), name


def test_a_planted_trigger(till: Open, fresh: FreshDatabase) -> None:
    """While anything stands in the schema that the migrations did not make, nothing is counted, spent or called."""
    host = till()
    found = granted(host, {"minted": effect("pending")}, 1_000)
    late = host.ready(PROGRAM, amount_minor=9)
    view = "CREATE VIEW planted AS SELECT id FROM grants"
    trigger = (
        "CREATE TRIGGER planted AFTER UPDATE ON due BEGIN UPDATE asks SET end_reason = 'me' WHERE id = 'me'; END"
        if fresh.kind != "postgresql"
        else "CREATE TRIGGER planted BEFORE UPDATE ON due FOR EACH ROW EXECUTE FUNCTION "
        "suppress_redundant_updates_trigger()"
    )
    for plant, kind in ((trigger, "TRIGGER"), (view, "VIEW")):
        host.hand(plant)
        host.vote("alice", late) if kind == "TRIGGER" else None
        host.vote("bob", late) if kind == "TRIGGER" else None
        with pytest.raises(Exception, match="closed"):
            host.look()
        host.run()
        assert host.calls() == [] and host.grant(late) is None
        on = " ON due" if kind == "TRIGGER" and fresh.kind == "postgresql" else ""
        host.hand(f"DROP {kind} planted{on}")
    host.look()
    host.run()
    assert sorted(called(host)) == sorted(host.minted(ask).id for ask in (*found.values(), late))


INSERTS: Final = {
    "grant": "INSERT INTO grants (id, ask, action_hash, state, epoch, minted_at, spend_after, spend_before) "
    "SELECT 'g', id, action_hash, 'MINTED', 1, 1, 1, 9999999999999 FROM asks",
    "spent grant": "UPDATE grants SET state = 'SPENT', nonce = 'n'",
    "vote": "INSERT INTO signed_votes (ask, principal, seq, decision, commit_id, raw_commit, raw_blob, key_kind, key, "
    "key_set, received_at) SELECT id, 'bob', 1, 'approve', 'c', 'c', 'c', 'ssh', 'k', 'k', 1 FROM asks",
    "commit": "INSERT INTO signed_commits (person, commit_id, position, state, attempts, received_at) "
    "VALUES ('bob', 'c', 1, 'judged', 0, 1)",
    "request": "INSERT INTO signed_requests (ask, content, stored_at) SELECT id, 'c', 1 FROM asks",
    "policy": "INSERT INTO policy_in_force (id, digest, adopted_at) VALUES (2, 'sha256:0', 1)",
    "policy moved": "UPDATE policy_in_force SET digest = 'sha256:0'",
    "bundle": "INSERT INTO policy_bundles (digest, version, files, stored_at) VALUES ('sha256:0', 9, 'f', 1)",
    "effect": "INSERT INTO executions (id, ask, action_hash, state, created_at) "
    "SELECT 'e', id, action_hash, 'pending', 1 FROM asks",
    "action": "UPDATE asks SET action = 'a'",
    "trigger": "CREATE TRIGGER planted AFTER UPDATE ON due BEGIN SELECT 1; END",
    "view": "CREATE VIEW planted AS SELECT 1",
    "table": "CREATE TABLE planted (id INTEGER)",
    "pragma": "PRAGMA writable_schema = 1",
    "attach": "ATTACH DATABASE ':memory:' AS other",
}


@pytest.mark.parametrize("role", [Role.WORKSPACE, Role.HOST, Role.APPLICATION], ids=lambda role: role.value)
def test_a_process_in_its_own_role(till: Open, role: Role) -> None:
    """With one vote of two there, none of the processes that people answer through makes the second."""
    host = till()
    ask = host.ready(PROGRAM)
    host.approve(ask, "alice")
    database = host.fresh.open(role)
    for name, statement in INSERTS.items():
        with pytest.raises(DBAPIError), database.write() as tx:
            tx._connection.execute(text(statement))
        host.run()
        assert host.calls() == [], name
    host.approve(ask, "bob")
    host.run()
    assert called(host) == [host.minted(ask).id]
