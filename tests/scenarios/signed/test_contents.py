"""Every row of the table `content`: the file and the whole message are exactly those of the request, in its time."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import Digest
from tests.signed_cases import Case, Table, acted, check_blamed, check_twin
from tests.signed_court import Accused, Court
from tests.signed_stage import vote_path

TABLE = Table("content")
UNKNOWN = AskId("01jdxm2r7q8v9w0a1b2c3d4e5f")


@TABLE.row(
    "CRLF; BOM; no final newline; one blank more",
    crlf=lambda file: file.replace(b"\n", b"\r\n"),
    bom=lambda file: b"\xef\xbb\xbf" + file,
    no_newline=lambda file: file.removesuffix(b"\n"),
    newline_more=lambda file: file + b"\n",
    blank_more=lambda file: file.replace(b" = ", b"  = ", 1),
    blank_at_end=lambda file: file.replace(b"once.\n", b"once. \n"),
    upper_hex=lambda file: file.replace(b"sha256:", b"SHA256:", 1),
    other_quotes=lambda file: file.replace(b'"alice"', b"'alice'"),
    empty=lambda file: b"",
    one_twin=True,
)
def other_bytes(court: Court, fault: bool, change: Callable[[bytes], bytes]) -> Accused:
    return court.vote("alice", **({"file": change(court.file("alice"))} if fault else {}))


@TABLE.row("amount changed by one", up=1, down=-1, one_twin=True)
def other_amount(court: Court, fault: bool, by: int) -> Accused:
    file, amount = court.file("alice"), court.request.params["amount_minor"]
    assert isinstance(amount, int)
    changed = file.replace(f"= {amount}\n".encode(), f"= {amount + by}\n".encode())
    assert changed != file
    return court.vote("alice", **({"file": changed} if fault else {}))


@TABLE.row(
    "approval of another ask, repository, repository id, environment, epoch, older run version, older policy",
    ask={"ask": UNKNOWN},
    repository={"repository": "github.com/acme/other"},
    repository_id={"repository_id": 7002},
    environment={"environment": "staging"},
    epoch={"epoch": 2},
    run_version={"run_version": 0},
    policy={"policy": Digest("sha256:" + "cd" * 32)},
    action_hash={"action_hash": Digest("sha256:" + "cd" * 32)},
    expires_at={"expires_at": 4_000_000_000_000},
    one_twin=True,
)
def of_another(court: Court, fault: bool, change: dict[str, Any]) -> Accused:
    """File and message belong together, and to something else than the ask that the path names."""
    if not fault:
        return court.vote("alice")
    path = vote_path(court.request.ask, "alice", "approve", "0000aaaa")
    return court.vote("alice", path=path, request=replace(court.request, **change))


@TABLE.row(
    "approval of another ask, repository, repository id, environment, epoch, older run version, older policy",
    person="person",
    decision="decision",
    one_twin=True,
)
def of_another_person(court: Court, fault: bool, what: str) -> Accused:
    if not fault:
        return court.vote("alice")
    file = court.file("bob") if what == "person" else court.file("alice", "deny")
    return court.vote("alice", file=file)


@TABLE.row(
    "message with another subject, trailer missing or of another file",
    subject=lambda message: message.replace(b"approve ", b"Approve ", 1),
    other_decision=lambda message: message.replace(b"approve ", b"deny ", 1),
    no_trailer=lambda message: message.partition(b"Approval-SHA256")[0],
    other_file=lambda message: message[:-65] + b"0" * 64 + b"\n",
    trailer_more=lambda message: message + b"Signed-off-by: alice <alice@example.com>\n",
    no_newline=lambda message: message.removesuffix(b"\n"),
    crlf=lambda message: message.replace(b"\n", b"\r\n"),
    empty=lambda message: b"",
    one_twin=True,
)
def other_message(court: Court, fault: bool, change: Callable[[bytes], bytes]) -> Accused:
    recipe = court.recipe("alice")
    return court.commit("alice", recipe, **({"message": change(recipe.message)} if fault else {}))


@TABLE.row(
    "approval by rebase or cherry-pick of an agent's commit with another message",
    rebase=True,
    cherry_pick=False,
    one_twin=True,
)
def rebased(court: Court, fault: bool, rebase: bool) -> Accused:
    """`commit.gpgsign` signs what is rebased: the agent's author line and message stay, the signature is alice's."""
    recipe = court.recipe("alice")
    if not fault:
        return court.commit("alice", recipe)
    agent = court.stage.root_recipe("worker")
    author = {"author": agent.headers[1].removeprefix(b"author ")} if rebase else {}
    return court.commit("alice", recipe, message=b"Tidy up the folder\n", **author)


@TABLE.row("ask id that does not exist", never=UNKNOWN, later=AskId("7zzzzzzzzzzzzzzzzzzzzzzzzz"), one_twin=True)
def unknown_ask(court: Court, fault: bool, ask: AskId) -> Accused:
    return court.vote("alice", **({"request": replace(court.request, ask=ask)} if fault else {}))


@TABLE.row("approve after the verdict", approved="APPROVED", denied="DENIED", one_twin=True)
def after_the_verdict(court: Court, fault: bool, state: str) -> Accused:
    vote = court.recipe("alice")
    if fault:
        court.end(state)
    return court.commit("alice", vote)


@TABLE.row("ask superseded meanwhile")
def superseded(court: Court, fault: bool, _: Any) -> Accused:
    vote = court.recipe("alice")
    if fault:
        court.end("SUPERSEDED", reason="stale_policy")
    return court.commit("alice", vote)


@TABLE.row("ask superseded meanwhile")
def policy_moved(court: Court, fault: bool, _: Any) -> Accused:
    """The pointer moved, and the duty that supersedes open asks has not come by yet."""
    vote = court.recipe("alice")
    if fault:
        court.adopt(version=2)
    return court.commit("alice", vote)


@TABLE.row("ask expired meanwhile", by_the_duty=True, by_the_clock=False, one_twin=True)
def expired(court: Court, fault: bool, ended: bool) -> Accused:
    court.begin(expires_in=1_500 if fault else None)
    vote = court.recipe("alice")
    if fault:
        court.wait_until_over()
        if ended:
            court.end("EXPIRED")
    return court.commit("alice", vote)


@pytest.mark.parametrize("case", acted(TABLE.refused))
def test_the_fault_is_blamed(case: Case, court: Court) -> None:
    check_blamed(case, court)


@pytest.mark.parametrize("case", acted(TABLE.twins))
def test_without_the_fault_it_counts(case: Case, court: Court) -> None:
    check_twin(case, court)


def test_every_row_is_played() -> None:
    assert list(TABLE.missing) == []
