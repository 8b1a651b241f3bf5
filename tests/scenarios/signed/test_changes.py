"""Every row of the table `change`: a vote adds exactly one file of one form at one path."""

from typing import Any

import pytest

from tests.signed_cases import Case, Table, acted, check_blamed, check_counts_once, check_twin
from tests.signed_court import Accused, Court
from tests.signed_stage import EXECUTABLE, FILE, GITLINK, SYMLINK, vote_path

TABLE = Table("change")


@TABLE.row("signed child of an unsigned commit that added the file", adds_nothing=False, touches_it=True, one_twin=True)
def signed_child(court: Court, fault: bool, touched: bool) -> Accused:
    """The person's signature stands on the child; what it would approve came with its parent."""
    if not fault:
        return court.vote("alice")
    path = vote_path(court.request.ask, "alice", "approve", "0000aaaa")
    parent = court.vote("alice", path=path, file=court.file("alice") + b"\n" * touched, signer=None)
    if touched:
        return court.vote("alice", path=path)
    return court.vote("alice", tree=court.stage.tree_of(parent.commit))


@TABLE.row(
    "a second file in the commit",
    unrelated=b"README.md",
    another_vote=vote_path("01jdxm2r7q8v9w0a1b2c3d4e5f", "alice", "approve", "00000002"),
    beside=b"approvals/README",
    one_twin=True,
)
def second_file(court: Court, fault: bool, path: bytes) -> Accused:
    return with_more(court, fault, path, b"# hello\n")


@TABLE.row(
    "policy edited in the same commit", toml=b"policies/policy.toml", key=b"policies/keys/outsider.asc", one_twin=True
)
def policy_edited(court: Court, fault: bool, path: bytes) -> Accused:
    return with_more(court, fault, path, b"version = 2\n")


def with_more(court: Court, fault: bool, path: bytes, content: bytes) -> Accused:
    """Vote, and perhaps add another file in the same commit."""
    recipe = court.recipe("alice")
    more = {"tree": court.stage.grown(recipe.tree, path, court.stage.blob(content))} if fault else {}
    return court.commit("alice", recipe, **more)


@TABLE.row("rename; modification; deletion", rename="rename", modification="modification", deletion="deletion")
def no_addition(court: Court, fault: bool, what: str) -> Accused:
    """The branch holds an older file of the person's, on another ask."""
    stage, ask = court.stage, court.request.ask
    old = vote_path("01jdxm2r7q8v9w0a1b2c3d4e5f", "alice", "approve", "0000aaaa")
    new = vote_path(ask, "alice", "approve", "0000bbbb")
    if what == "modification":
        old = new
    court.vote("alice", path=old if fault or what != "modification" else b"else", file=court.file("alice"), signer=None)
    above = stage.tree_of(stage.tip("alice") or "")
    if not fault:
        return court.vote("alice", path=new)
    oid = stage.blob(court.file("alice"))
    trees = {
        "rename": stage.grown(stage.empty, new, oid),
        "modification": stage.grown(above, new, stage.blob(court.file("alice") + b"\n")),
        "deletion": stage.empty,
    }
    return court.vote("alice", tree=trees[what])


@TABLE.row("symlink; gitlink; executable bit", symlink=SYMLINK, gitlink=GITLINK, executable=EXECUTABLE, one_twin=True)
def other_mode(court: Court, fault: bool, mode: bytes) -> Accused:
    return court.vote("alice", mode=mode if fault else FILE)


@TABLE.row(
    "newline, upper case, decomposed or look-alike letters in the path",
    newline=lambda path: path + b"\n",
    newline_inside=lambda path: path.replace(b"alice.", b"alice\n."),
    upper_suffix=lambda path: path[:-1] + b"A",
    upper_person=lambda path: path.replace(b"alice", b"Alice"),
    upper_folder=lambda path: path.replace(b"approvals", b"Approvals"),
    decomposed=lambda path: path.replace(b"alice", "a\u0301lice".encode()),
    composed=lambda path: path.replace(b"alice", "\u00e1lice".encode()),
    cyrillic=lambda path: path.replace(b"alice", "\u0430lice".encode()),
    cyrillic_decision=lambda path: path.replace(b"approve.", "\u0430pprove.".encode()),
    full_width_point=lambda path: path.replace(b"alice.", "alice\uff0e".encode()),
    not_utf8=lambda path: path[:-1] + b"\xff",
    zero_width=lambda path: path.replace(b"alice", "al\u200bice".encode()),
    deeper=lambda path: path + b"/more",
    other_shard=lambda path: b"approvals/zz" + path[len(b"approvals/zz") :],
    other_top=lambda path: path.replace(b"approvals/", b"approval/"),
    one_twin=True,
)
def strange_path(court: Court, fault: bool, change: Any) -> Accused:
    path = vote_path(court.request.ask, "alice", "approve", "0000aaaa")
    return court.vote("alice", path=change(path) if fault else path)


@TABLE.row(
    "suffix missing or too short",
    missing="",
    point=".",
    short=".0000aaa",
    long="." + "0" * 33,
    sign=".0000-aaa",
    one_twin=True,
)
def wrong_suffix(court: Court, fault: bool, suffix: str) -> Accused:
    path = vote_path(court.request.ask, "alice", "approve", "0000aaaa")
    return court.vote("alice", path=path.removesuffix(b".0000aaaa") + suffix.encode() if fault else path)


@TABLE.row("blob over 8 KiB; blob of 1 GiB", just_over=8 * 1024 + 1, mebibytes=3 * 1024**2, one_twin=True)
def large_blob(court: Court, fault: bool, size: int) -> Accused:
    return court.vote("alice", **({"file": b"#" * size} if fault else {}))


@TABLE.row(
    "file squatted by an unsigned commit before the person's own", same_file=True, other_file=False, one_twin=True
)
def squatted(court: Court, fault: bool, same: bool) -> Accused:
    if fault:
        court.vote("alice", signer=None, file=court.file("alice") if same else b"# squatted\n")
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


def test_every_row_is_played() -> None:
    assert list(TABLE.missing) == []
