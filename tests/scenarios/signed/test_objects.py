"""Every row of the table `object`: one spelling of a commit passes, and what surrounds the objects changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from tests import signed_keys as keys
from tests.signed_cases import Case, Table, acted, check_blamed, check_counts_once, check_twin
from tests.signed_court import Accused, Court
from tests.signed_stage import FILE, vote_path

TABLE = Table("object")
OTHER_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def with_comment(armor: bytes) -> bytes:
    """Add an armor header, which no signature covers."""
    head, _, body = armor.partition(b"\n")
    return head + b"\nComment: looks good" + (b"\n" if body.startswith(b"\n") else b"\n\n") + body


FORMS: dict[str, dict[str, Any]] = {
    "gpgsigX": {"beside": (b"gpgsigX junk",)},
    "gpgsig_sha256": {"beside": (b"gpgsig-sha256 junk",)},
    "armor_comment": {"armor": with_comment},
    "armor_version": {"armor": lambda armor: with_comment(armor).replace(b"Comment", b"Version")},
    "text_after": {"armor": lambda armor: armor + b"and more\n"},
    "text_before": {"armor": lambda armor: b"see below\n" + armor},
    "blank_after": {"armor": lambda armor: armor + b"\n"},
    "blanks_in_a_line": {"armor": lambda armor: armor.replace(b"\n=", b" \n=", 1)},
}


@TABLE.row(
    "gpgsigX header, gpgsig-sha256 header, armor comment, text outside the armor; fresh, or a copy of a counted commit "
    "brought in by a merge",
    **FORMS,
    one_twin=True,
)
def another_spelling(court: Court, fault: bool, form: dict[str, Any]) -> Accused:
    return court.vote("alice", **(form if fault else {}))


@TABLE.row(
    "gpgsigX header, gpgsig-sha256 header, armor comment, text outside the armor; fresh, or a copy of a counted commit "
    "brought in by a merge",
    **{f"copied_{name}": form for name, form in FORMS.items() if name != "blanks_in_a_line"},
    one_twin=True,
)
def copied_by_a_merge(court: Court, fault: bool, form: dict[str, Any]) -> Accused:
    """Made by anybody, without any key: the signature of the copied commit still stands."""
    if not fault:
        return court.vote("alice")
    recipe = court.recipe("alice")
    counted = court.commit("alice", recipe)
    court.look()
    assert court.counted(counted) == 1
    copy = court.stage.commit(court.changed(recipe, **form))
    merge = court.recipe("alice", signer=None)
    court.commit("alice", merge, parents=(counted.commit, copy), tree=recipe.tree)
    return court.accuse(copy, before=1)


@TABLE.row(
    "two tree headers",
    own_first=lambda raw, tree: raw.replace(b"\nparent ", b"\ntree " + OTHER_TREE.encode() + b"\nparent ", 1),
    own_last=lambda raw, tree: b"tree " + OTHER_TREE.encode() + b"\n" + raw,
    one_twin=True,
)
def two_trees(court: Court, fault: bool, edit: Callable[[bytes, str], bytes]) -> Accused:
    recipe = court.recipe("alice")
    return court.commit("alice", recipe, **({"raw": lambda raw: edit(raw, recipe.tree)} if fault else {}))


@TABLE.row("two tree headers")
def two_signed_trees(court: Court, fault: bool, _: Any) -> Accused:
    """Signed so by the person themselves, or by what they signed with."""
    return court.vote("alice", **({"signed": (b"tree " + OTHER_TREE.encode(),)} if fault else {}))


MERGETAG = b"mergetag object " + b"a" * 40 + b"\n type commit\n tag v1\n tagger alice <alice@example.com> 0 +0000"


@TABLE.row(
    "NUL in the header; encoding header; mergetag",
    nul={"author": b"alice\0 <alice@example.com> 1 +0000"},
    encoding={"signed": (b"encoding ISO-8859-1",)},
    mergetag={"signed": (MERGETAG,)},
    encoding_outside={"beside": (b"encoding ISO-8859-1",)},
    unknown={"signed": (b"note looks good",)},
    one_twin=True,
)
def strange_header(court: Court, fault: bool, form: dict[str, Any]) -> Accused:
    return court.vote("alice", **(form if fault else {}))


@TABLE.row("duplicate tree entry", other_last=True, other_first=False, one_twin=True)
def duplicate_entry(court: Court, fault: bool, last: bool) -> Accused:
    """git reads the first of two entries of one name, other readers the last."""
    stage, path = court.stage, vote_path(court.request.ask, "alice", "approve", "0000aaaa")
    if not fault:
        return court.vote("alice", path=path)
    recipe = court.recipe("alice", path=path)
    oid, other = stage.blob(court.file("alice")), stage.blob(b"another file\n")
    *folders, name = path.split(b"/")
    pair = [(FILE, name, oid), (FILE, name, other)]
    tree = stage.tree(pair if last else pair[::-1])
    for folder in reversed(folders):
        tree = stage.tree([(b"40000", folder, tree)])
    return court.commit("alice", recipe, tree=tree)


@TABLE.row("replace ref on commit, tree or blob pushed by anyone", commit=0, tree=1, blob=2, one_twin=True)
def replaced(court: Court, fault: bool, which: int) -> Accused:
    stage = court.stage
    vote = court.vote("alice")
    if fault:
        other = court.recipe("alice", file=b"something else\n")
        objects = (vote.commit, stage.tree_of(vote.commit), stage.blob(court.file("alice")))
        stand_ins = (stage.commit(other), other.tree, stage.blob(b"something else\n"))
        stage.point(f"refs/replace/{objects[which]}", stand_ins[which])
    return vote


@TABLE.row(
    "grafts, shallow or alternates in the bot's repository",
    grafts="info/grafts",
    shallow="shallow",
    alternates="objects/info/alternates",
    one_twin=True,
)
def foreign_file(court: Court, fault: bool, name: str) -> Accused:
    vote = court.vote("alice")
    if fault:
        path = court.bot_repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        root = court.stage.read(vote.commit).split(b"\nparent ")[1][:40]
        path.write_bytes(f"{court.stage.folder}/objects\n".encode() if "alternates" in name else root + b"\n")
    return vote


@TABLE.row("merge commit that adds the file", signed=keys.openpgp("alice"), ssh=keys.ssh("alice"))
def merge(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    recipe = court.recipe("alice", signer=signer)
    if not fault:
        return court.commit("alice", recipe)
    beside = court.stage.commit(court.stage.root_recipe("alice", at=court.now - 3600))
    return court.commit("alice", recipe, parents=(*recipe.parents, beside))


@TABLE.row("root commit that adds the file", right_message=True, vote_message=False, one_twin=True)
def root_with_file(court: Court, fault: bool, right: bool) -> Accused:
    if not fault:
        return court.vote("alice")
    recipe = court.recipe("alice", parent=court.stage.commit(court.stage.root_recipe("alice")))
    message = {"message": court.stage.root_recipe("alice").message} if right else {}
    return court.commit("alice", recipe, parents=(), **message)


@TABLE.row(
    "root of another environment or person",
    environment={"environment": "staging"},
    person={"named": "bob"},
    repository={"repository": "github.com/acme/other"},
    one_twin=True,
)
def foreign_root(court: Court, fault: bool, change: dict[str, str]) -> Accused:
    """The vote itself is sound; its branch does not begin where a branch of approvals begins."""
    court.begin_branch("alice", **(change if fault else {}))
    return court.vote("alice")


@TABLE.row("branch cut from main", unsigned=None, signed=keys.openpgp("alice"), one_twin=True)
def cut_from_main(court: Court, fault: bool, signer: keys.Signer | None) -> Accused:
    stage = court.stage
    if fault:
        tree = stage.grown(stage.empty, b"README.md", stage.blob(b"# ops\n"))
        root = stage.root_recipe("alice", message=b"Begin\n", tree=tree, signer=signer)
        stage.push("alice", stage.commit(root))
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
