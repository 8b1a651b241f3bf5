"""Every row of the table `history`: a branch only grows; what one person's branch is like stops nobody else's."""

import pytest

from tests.signed_cases import Case, Table, acted, check_blamed, check_counts_once, check_twin
from tests.signed_court import Accused, Court

TABLE = Table("history")


def seen(court: Court) -> Accused:
    """Have a first vote of alice's counted, on another ask."""
    first = court.vote("alice", request=court.ask(amount_minor=7))
    court.look()
    assert court.counted(first) == 1
    return first


@TABLE.row("force-push of a person's branch", other_root=True, from_the_root=False, one_twin=True)
def force_pushed(court: Court, fault: bool, other_root: bool) -> Accused:
    """A sound vote on a branch that no longer holds what it held."""
    first = seen(court)
    if fault:
        root = court.stage.read(first.commit).split(b"\nparent ")[1][:40].decode()
        if other_root:
            court.begin_branch("alice", at=court.now - 60)
        else:
            court.stage.push("alice", root)
    return court.vote("alice")


@TABLE.row("branch deleted and recreated", one_twin=True, other_root=True, with_the_same_root=False)
def recreated(court: Court, fault: bool, other: bool) -> Accused:
    first = seen(court)
    if fault:
        root = court.stage.read(first.commit).split(b"\nparent ")[1][:40].decode()
        court.stage.delete("alice")
        if other:
            court.begin_branch("alice", at=court.now - 60)
        else:
            court.stage.push("alice", root)
    return court.vote("alice")


@TABLE.row("new vote while frozen", forward=True, rewritten_again=False, one_twin=True)
def while_frozen(court: Court, fault: bool, forward: bool) -> Accused:
    first = seen(court)
    if fault:
        court.begin_branch("alice", at=court.now - 60)
        rewritten = court.vote("alice")
        court.look()
        assert court.outcome(rewritten) == "history_rewritten"
        if not forward:
            court.begin_branch("alice", at=court.now - 50)
    else:
        assert court.outcome(first) == "counted"
    return court.vote("alice")


@TABLE.row(
    "another person's branch damaged, or never made",
    damaged="damaged",
    missing_object="missing",
    none="none",
    one_twin=True,
)
def of_another_person(court: Court, fault: bool, what: str) -> Accused:
    stage = court.stage
    if fault and what == "damaged":
        oid = stage.blob(b"x")
        stage.push("bob", stage.commit(stage.root_recipe("bob", tree=stage.tree([(b"100644", b"a", oid)] * 2))))
    elif fault and what == "missing":
        tip = court.vote("bob").commit
        (stage.folder / "objects" / tip[:2] / tip[2:]).unlink()
    elif not fault:
        court.vote("bob")
    return court.vote("alice")


@pytest.mark.parametrize("case", acted(TABLE.refused))
def test_the_fault_is_blamed(case: Case, court: Court) -> None:
    check_blamed(case, court)


@pytest.mark.parametrize("case", acted(TABLE.twins))
def test_without_the_fault_it_counts(case: Case, court: Court) -> None:
    check_twin(case, court)


@pytest.mark.parametrize("case", acted(TABLE.of("counts once")))
def test_what_changes_nothing_counts_once(case: Case, court: Court) -> None:
    check_counts_once(case, court)


def test_a_deleted_branch_freezes_and_its_push_thaws(court: Court) -> None:
    """The deletion is history rewritten, whatever comes next is frozen; the stored tip, pushed again, thaws."""
    first = seen(court)
    court.stage.delete("alice")
    court.look()
    assert court.branch("alice") == "history_rewritten"
    court.begin_branch("alice", at=court.now - 60)
    late = court.vote("alice")
    court.look()
    assert court.outcome(late) == "frozen"
    court.stage.push("alice", first.commit)
    again = court.vote("alice")
    court.look()
    assert court.branch("alice") is None
    assert court.outcome(again) == "counted"
    assert court.outcome(late) == "frozen"


def test_a_frozen_person_stops_nobody_else(court: Court) -> None:
    """The accepting twin of a frozen branch is the next person's."""
    seen(court)
    court.begin_branch("alice", at=court.now - 60)
    theirs, others = court.vote("alice"), court.vote("bob")
    court.look()
    assert court.outcome(theirs) == "history_rewritten"
    assert court.outcome(others) == "counted"


def test_every_row_is_played() -> None:
    assert list(TABLE.missing) == []
