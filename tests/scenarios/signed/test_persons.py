"""Every row of the table `person`: one human of the policy, on their own branch, who may vote on this verb, once."""

from typing import Any

import pytest

from tests import signed_keys as keys
from tests.signed_cases import Case, Table, acted, check_blamed, check_twin
from tests.signed_court import Accused, Court
from tests.signed_stage import vote_path

TABLE = Table("person")


@TABLE.row("one person on another's branch", openpgp=keys.openpgp("alice"), ssh=keys.ssh("alice"))
def own_file_elsewhere(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    """Alice's own vote, pushed to the branch of bob."""
    if not fault:
        return court.vote("alice", signer=signer)
    path = vote_path(court.request.ask, "alice", "approve", "0000aaaa")
    recipe = court.recipe("bob", path=path, file=court.file("alice"), signer=signer)
    return court.commit("bob", recipe, message=court.message("alice"))


@TABLE.row("one person on another's branch", openpgp_for_bob=keys.openpgp("alice"), ssh_for_bob=keys.ssh("alice"))
def for_another(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    """Bob's vote, signed by alice."""
    return court.vote("bob", **({"signer": signer} if fault else {}))


@TABLE.row(
    "agent's own key, a service of the policy",
    openpgp=keys.openpgp("worker"),
    ssh=keys.ssh("worker"),
    bot=keys.openpgp("bot"),
    bot_ssh=keys.ssh("bot"),
    one_twin=True,
)
def service(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    return court.vote("alice", **({"signer": signer} if fault else {}))


@TABLE.row("requester approves", openpgp=keys.openpgp("alice"), other_key=keys.ssh("alice"))
def requester(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    court.begin(requester="alice" if fault else "worker")
    return court.vote("alice", signer=signer)


@TABLE.row("owner of the asking agent approves", openpgp=keys.openpgp("alice"), other_key=keys.ssh("alice-sk"))
def owner(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    court.begin(owner="alice" if fault else "carol")
    return court.vote("alice", signer=signer)


def suspend(tables: dict[str, Any]) -> None:
    """Suspend bob; one approve is enough then, for fewer are left."""
    tables["people"]["bob"]["suspended"] = True
    for verb in tables["verbs"].values():
        verb["approve"] = 1


@TABLE.row("suspended person", openpgp=keys.openpgp("bob"), ssh=keys.ssh("bob"))
def suspended(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    court.begin()
    court.begin_branch("bob")
    court.look()
    court.begin(change=suspend if fault else None, amount_minor=8)
    return court.vote("bob", signer=signer)


@TABLE.row("person of the policy who is no voter of this verb")
def no_voter(court: Court, fault: bool, _: Any) -> Accused:
    """Of `note.publish` alice and carol alone are voters."""
    court.begin(verb="note.publish", params={"title": "Minutes"})
    return court.vote("bob" if fault else "alice")


@TABLE.row(
    "two keys of one person", ssh=keys.ssh("alice"), security_key=keys.ssh("alice-sk"), same=keys.openpgp("alice")
)
def two_keys(court: Court, fault: bool, second: keys.Signer) -> Accused:
    first = court.vote("alice", signer=keys.openpgp("alice"))
    court.look()
    assert court.counted(first) == 1
    return court.vote("alice", signer=second, before=1) if fault else court.vote("bob")


@TABLE.row("approve after one's own deny or revoke", deny="deny", revoke="revoke")
def changed_mind(court: Court, fault: bool, said: str) -> Accused:
    """On another ask it would count."""
    other = court.ask(amount_minor=7)
    if said == "revoke":
        court.vote("alice", request=other)
    court.vote("alice", said, request=other)
    court.look()
    before = 2 if said == "revoke" else 1
    return court.vote("alice", request=other, before=before) if fault else court.vote("alice")


@pytest.mark.parametrize("case", acted(TABLE.refused))
def test_the_fault_is_blamed(case: Case, court: Court) -> None:
    check_blamed(case, court)


@pytest.mark.parametrize("case", acted(TABLE.twins))
def test_without_the_fault_it_counts(case: Case, court: Court) -> None:
    check_twin(case, court)


def test_every_row_is_played() -> None:
    assert list(TABLE.missing) == []
