"""Each form that is refused stands beside the accepted one that it differs from; the code is the one that is blamed."""

import hashlib
from collections.abc import Callable

import pytest

from gitops_bot.core.errors import Malformed, Reason, Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.signed.evidence import Change, Commit, ObjectId, SignatureKind
from gitops_bot.signed.grammar import (
    MAX_COMMIT,
    MAX_LISTING,
    Entry,
    hash_object,
    read_address,
    read_change,
    read_changes,
    read_commit,
    read_comparison,
    read_id,
    read_listing,
    read_root,
    root_message,
)

TREE, PARENT = "1" * 40, "2" * 40
BODY = "wsFcBAABCAAQBQJmWvYACRC1aQ7uu5UhlAAA0dkQAJnT\n4p0mYw=="
PGP = f"-----BEGIN PGP SIGNATURE-----\n\n{BODY}\n=Tw3b\n-----END PGP SIGNATURE-----"
SSH = (
    "-----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAg\nxoow0fs=\n-----END SSH SIGNATURE-----"
)
WHO = "Alice Ärmel <alice@example.invalid> 1717243200 +0200"
ALICE = PrincipalName("alice")
ASK = "01jdxm2r7q8v9w0a1b2c3d4e5f"


def fold(armor: str, name: str = "gpgsig") -> str:
    return f"{name} " + armor.replace("\n", "\n ")


def lines(*, signature: str | None = PGP) -> list[str]:
    made = [f"tree {TREE}", f"parent {PARENT}", f"author {WHO}", f"committer {WHO}"]
    return made if signature is None else [*made, fold(signature)]


def built(headers: list[str], message: str = "approve\n") -> bytes:
    return ("\n".join(headers) + "\n\n" + message).encode()


def sha1(raw: bytes) -> ObjectId:
    return ObjectId(hashlib.sha1(b"commit %d\0" % len(raw) + raw).hexdigest())


def read(raw: bytes) -> Commit | Refused:
    return read_commit(sha1(raw), raw)


def reason(raw: bytes) -> Reason:
    found = read(raw)
    assert isinstance(found, Refused)
    return found.reason


@pytest.mark.parametrize(("armor", "kind"), [(PGP, SignatureKind.OPENPGP), (SSH, SignatureKind.SSH)])
def test_the_strict_form_is_read(armor: str, kind: SignatureKind) -> None:
    """Every part arrives as it stood; the payload is the commit without its signature."""
    raw = built(lines(signature=armor), "approve\n\nmore\n")
    found = read(raw)
    assert found == Commit(
        id=sha1(raw),
        raw=raw,
        tree=ObjectId(TREE),
        parent=ObjectId(PARENT),
        committed_at=1_717_243_200_000,
        message=b"approve\n\nmore\n",
        payload=built(lines(signature=None), "approve\n\nmore\n"),
        armor=armor.encode() + b"\n",
        kind=kind,
    )


def test_a_root_has_no_parent() -> None:
    headers = lines()
    del headers[1]
    found = read(built(headers))
    assert isinstance(found, Commit)
    assert found.parent is None


def test_openpgp_armor_may_do_without_its_checksum() -> None:
    """RFC 9580 §6.1 makes it optional, and Sequoia leaves it out."""
    assert isinstance(read(built(lines(signature=PGP.replace("=Tw3b\n", "")))), Commit)


@pytest.mark.parametrize("message", ["", "x", "a\r\nb", "\n\n"])
def test_the_message_is_left_to_the_comparison_with_the_rendered_one(message: str) -> None:
    found = read(built(lines(), message))
    assert isinstance(found, Commit)
    assert found.message == message.encode()


def test_a_sha256_repository_names_its_header_otherwise() -> None:
    """There `gpgsig-sha256` is the signature and `gpgsig` is the junk."""
    tree, parent = "1" * 64, "2" * 64
    for header, accepted in (("gpgsig-sha256", True), ("gpgsig", False)):
        raw = built([f"tree {tree}", f"parent {parent}", f"author {WHO}", f"committer {WHO}", fold(SSH, header)])
        oid = ObjectId(hashlib.sha256(b"commit %d\0" % len(raw) + raw).hexdigest())
        assert isinstance(read_commit(oid, raw), Commit) is accepted


Edit = Callable[[list[str]], list[str]]


def insert(place: int, line: str) -> Edit:
    return lambda headers: [*headers[:place], line, *headers[place:]]


def swap(place: int, line: str) -> Edit:
    return lambda headers: [*headers[:place], line, *headers[place + 1 :]]


FORM: dict[str, Edit] = {
    "gpgsigX header": insert(4, "gpgsigX junk"),
    "gpgsigX header, last": insert(5, "gpgsigX junk"),
    "gpgsig-sha256 header": insert(5, fold(PGP, "gpgsig-sha256")),
    "gpgsig without a value": swap(4, "gpgsig"),
    "two tree headers": insert(1, f"tree {TREE}"),
    "no tree": lambda headers: headers[1:],
    "tree in upper case": swap(0, "tree " + "A" * 40),
    "abbreviated tree": swap(0, "tree " + "1" * 39),
    "tree of another algorithm": swap(0, "tree " + "1" * 64),
    "abbreviated parent": swap(1, "parent " + "2" * 20),
    "two authors": insert(3, f"author {WHO}"),
    "two committers": insert(4, f"committer {WHO}"),
    "committer before author": lambda headers: [*headers[:2], headers[3], headers[2], *headers[4:]],
    "parent after author": lambda headers: [headers[0], headers[2], headers[1], *headers[3:]],
    "no committer": lambda headers: [*headers[:3], *headers[4:]],
    "encoding header": insert(4, "encoding ISO-8859-1"),
    "mergetag": insert(4, f"mergetag object {PARENT}\n type commit"),
    "HG header": insert(5, "HG:extra x"),
    "NUL in the header": swap(2, "author Ali\0ce <a@example.invalid> 1717243200 +0000"),
    "carriage return in a header": swap(2, f"author {WHO}\r"),
    "carriage returns in the armor": swap(4, fold(PGP.replace("\n", "\r\n"))),
    "continued committer": insert(4, " more"),
    "escape in a name": swap(2, "author \x1b[2J <a@example.invalid> 1717243200 +0000"),
    "no name": swap(3, "committer  <a@example.invalid> 1717243200 +0000"),
    "no address": swap(3, "committer Alice 1717243200 +0000"),
    "two addresses": swap(3, "committer Alice <a> <b> 1717243200 +0000"),
    "time before 1970": swap(3, "committer Alice <a@example.invalid> -1 +0000"),
    "time with a leading zero": swap(3, "committer Alice <a@example.invalid> 01 +0000"),
    "time beyond all calendars": swap(3, "committer Alice <a@example.invalid> 999999999999 +0000"),
    "no zone": swap(3, "committer Alice <a@example.invalid> 1717243200"),
    "something after the zone": swap(3, f"committer {WHO} x"),
    "armor comment": swap(4, fold(PGP.replace("-\n\n", "-\nComment: x\n\n", 1))),
    "armor version": swap(4, fold(PGP.replace("-\n\n", "-\nVersion: GnuPG v2\n\n", 1))),
    "SSH armor comment": swap(4, fold(SSH.replace("-\n", "-\nComment: x\n", 1))),
    "comment within the armor": swap(4, fold(PGP.replace("\n=Tw3b", "\nComment: x\n=Tw3b"))),
    "no blank line in OpenPGP armor": swap(4, fold(PGP.replace("\n\n", "\n", 1))),
    "blank line in SSH armor": swap(4, fold(SSH.replace("-\n", "-\n\n", 1))),
    "blanks at the end of an armor line": swap(4, fold(PGP.replace("\n=Tw3b", "  \n=Tw3b"))),
    "tab before an armor line": swap(4, fold(PGP.replace("\n=Tw3b", "\n\t=Tw3b"))),
    "text before the armor": swap(4, fold("hello\n" + PGP)),
    "text after the armor": swap(4, fold(PGP + "\nhello")),
    "blank line after the armor, as a forge signs": swap(4, fold(PGP + "\n")),
}


@pytest.mark.parametrize("fault", FORM)
def test_what_makes_a_new_id_under_an_old_signature_is_malformed(fault: str) -> None:
    """The twin is the commit without the fault."""
    assert isinstance(read(built(lines())), Commit)
    assert isinstance(read(built(lines(signature=SSH))), Commit)
    assert reason(built(FORM[fault](lines()))) is Reason.MALFORMED_COMMIT


def test_names_are_utf8() -> None:
    raw = built(lines())
    assert isinstance(read(raw), Commit)
    assert reason(raw.replace("Ärmel".encode(), "Ärmel".encode("latin-1"))) is Reason.MALFORMED_COMMIT


def test_a_nul_in_the_message_is_malformed() -> None:
    """Git shows a message up to it."""
    assert reason(built(lines(), "approve\0\n")) is Reason.MALFORMED_COMMIT


def test_headers_without_an_end_are_malformed() -> None:
    assert reason("\n".join(lines()).encode()) is Reason.MALFORMED_COMMIT
    assert reason(("\n".join(lines()) + "\n").encode()) is Reason.MALFORMED_COMMIT


def test_bytes_of_another_id_are_malformed() -> None:
    raw = built(lines())
    found = read_commit(ObjectId("0" * 40), raw)
    assert isinstance(found, Refused)
    assert found.reason is Reason.MALFORMED_COMMIT


def test_an_unsigned_commit_is_unsigned() -> None:
    assert reason(built(lines(signature=None))) is Reason.UNSIGNED


def test_a_merge_never_counts_signed_or_not() -> None:
    for signature in (PGP, None):
        assert reason(built(insert(2, "parent " + "3" * 40)(lines(signature=signature)))) is Reason.MERGE_COMMIT


@pytest.mark.parametrize(
    "headers",
    [
        [*lines(), fold(SSH)],
        [*lines(), fold(PGP)],
        lines(signature=f"{PGP}\n{PGP}"),
        lines(signature=f"{PGP}\n{SSH}"),
        lines(signature=f"{SSH}\n{PGP}"),
    ],
)
def test_two_signatures_are_more_than_one_in_any_order(headers: list[str]) -> None:
    assert reason(built(headers)) is Reason.MULTIPLE_SIGNATURES


@pytest.mark.parametrize(
    "value",
    [
        "",
        "nonsense",
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\ntree\n" + PGP,
        "-----BEGIN PGP MESSAGE-----\n\nowGbwMvMwMH4\n-----END PGP MESSAGE-----",
        "-----BEGIN SIGNED MESSAGE-----\nMIIB\n-----END SIGNED MESSAGE-----",
        "-----BEGIN PGP SIGNATURE-----\n\n-----END PGP SIGNATURE-----",
        "-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----",
        "-----BEGIN PGP SIGNATURE-----\n\nthis is no base64!\n-----END PGP SIGNATURE-----",
        PGP.removesuffix("-----END PGP SIGNATURE-----"),
        PGP.replace("END PGP", "END SSH"),
    ],
)
def test_a_header_without_a_detached_signature_is_bad(value: str) -> None:
    assert reason(built(lines(signature=value))) is Reason.BAD_SIGNATURE


def test_a_commit_has_its_largest_size() -> None:
    room = MAX_COMMIT - len(built(lines(), ""))
    assert isinstance(read(built(lines(), "x" * room)), Commit)
    assert reason(built(lines(), "x" * (room + 1))) is Reason.TOO_LARGE


def test_details_show_untrusted_bytes_harmlessly() -> None:
    found = read(built(insert(4, "\x1b[31mred\u202e" + "y" * 500)(lines())))
    assert isinstance(found, Refused)
    assert found.detail.isascii()
    assert found.detail.isprintable()
    assert len(found.detail) < 200


# Step 4

NONE, BLOB = ObjectId("0" * 40), ObjectId("b" * 40)
PATH = f"approvals/{ASK[-2:]}/{ASK}/alice.approve.0123abcd"


def entry(path: str | bytes = PATH, *, status: str = "A", mode: str = "100644") -> Entry:
    return Entry(status, mode, NONE, BLOB, path if isinstance(path, bytes) else path.encode())


def test_a_difference_is_read() -> None:
    commit = ObjectId("c" * 40)
    raw = f"{commit}\0:000000 100644 {NONE} {BLOB} A\0a\nb\0:100644 000000 {BLOB} {NONE} D\0x y\0".encode()
    assert read_changes(commit, raw) == (
        Entry("A", "100644", NONE, BLOB, b"a\nb"),
        Entry("D", "000000", BLOB, NONE, b"x y"),
    )
    assert read_changes(commit, b"") == ()


def test_a_comparison_is_read() -> None:
    assert read_comparison(NONE, BLOB, f"{NONE} {BLOB}\n".encode()) == ()


@pytest.mark.parametrize("raw", [b"x", b"c" * 40, b"c" * 40 + b"\0:", b"c" * 40 + b"\0:000000 100644 0 0 A\0a\0"])
def test_a_strange_difference_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        read_changes(ObjectId("c" * 40), raw)


@pytest.mark.parametrize("decision", ["approve", "deny", "revoke"])
def test_one_added_file_is_a_change(decision: str) -> None:
    change = read_change([entry(PATH.replace("approve", decision))], person=ALICE)
    assert isinstance(change, Change)
    assert (change.person, change.ask, change.decision) == ("alice", ASK, Decision(decision))
    assert (change.suffix, change.blob) == ("0123abcd", BLOB)


@pytest.mark.parametrize(
    ("entries", "blamed"),
    [
        ([], Reason.UNEXPECTED_CHANGE),
        ([entry(), entry("policy.toml")], Reason.UNEXPECTED_CHANGE),
        ([entry(), entry()], Reason.FETCH_REFUSED),
        ([entry(status="M")], Reason.UNEXPECTED_CHANGE),
        ([entry(status="D", mode="000000")], Reason.UNEXPECTED_CHANGE),
        ([entry(status="T")], Reason.UNEXPECTED_CHANGE),
        ([entry(mode="100755")], Reason.UNEXPECTED_CHANGE),
        ([entry(mode="120000")], Reason.UNEXPECTED_CHANGE),
        ([entry(mode="160000")], Reason.UNEXPECTED_CHANGE),
        ([entry("README.md")], Reason.BAD_PATH),
        ([entry(PATH + "\n")], Reason.BAD_PATH),
        ([entry(PATH.upper())], Reason.BAD_PATH),
        ([entry(PATH.replace("alice", "Alice"))], Reason.BAD_PATH),
        ([entry(PATH.replace("alice", "al\u0456ce"))], Reason.BAD_PATH),
        ([entry(PATH.replace("alice", "ali\u0301ce"))], Reason.BAD_PATH),
        ([entry(PATH.encode().replace(b"alice", b"ali\xffce"))], Reason.BAD_PATH),
        ([entry(PATH.removesuffix(".0123abcd"))], Reason.BAD_PATH),
        ([entry(PATH.removesuffix("d"))], Reason.BAD_PATH),
        ([entry(PATH + "0" * 25)], Reason.BAD_PATH),
        ([entry(PATH.replace("/5f/", "/f5/"))], Reason.BAD_PATH),
        ([entry(PATH.replace("approve.", "answer."))], Reason.BAD_PATH),
        ([entry(PATH.replace("01jd", "81jd"))], Reason.BAD_PATH),
        ([entry(PATH.replace("01jd", "01id"))], Reason.BAD_PATH),
        ([entry("x/" + PATH)], Reason.BAD_PATH),
        ([entry(PATH.replace("alice", "bob"))], Reason.WRONG_BRANCH),
    ],
)
def test_any_other_change_is_refused(entries: list[Entry], blamed: Reason) -> None:
    """The twin is the test above."""
    found = read_change(entries, person=ALICE)
    assert isinstance(found, Refused)
    assert found.reason is blamed
    assert found.detail.isascii()


# The root, listings, addresses


def test_the_root_names_repository_environment_and_person() -> None:
    message = root_message("github.com/acme/ops", "production", "alice")
    assert message == "gitops-bot/approvals/v1 github.com/acme/ops production alice"
    for text, accepted in (
        (message, True),
        (message + "\n", True),
        (message + "\n\n", False),
        (message + "\r\n", False),
        (" " + message, False),
        (message.replace("alice", "bob"), False),
        (message.replace("production", "staging"), False),
        (message.replace("acme/ops", "acme/other"), False),
        (message + "\n\nmore", False),
    ):
        named = read_root(text.encode(), repository="github.com/acme/ops", environment="production", person="alice")
        assert named is accepted, text


def test_a_listing_gives_what_was_asked_for() -> None:
    """A name's tail does not make it another's; two ids for one name are none."""
    a, b = "a" * 40, "b" * 40
    raw = f"{a}\trefs/heads/x\n{b}\trefs/heads/y\n{a}\trefs/heads/y\n{b}\trefs/heads/z/refs/heads/x\n".encode()
    assert read_listing(raw, ["refs/heads/x", "refs/heads/y", "refs/heads/w"]) == {
        "refs/heads/x": a,
        "refs/heads/y": None,
    }
    assert read_listing(b"", ["refs/heads/x"]) == {}


@pytest.mark.parametrize(
    "raw",
    [b"x\n", b"a" * 40 + b"\trefs/heads/x", b"A" * 40 + b"\trefs/heads/x\n", b"a" * 39 + b"\tx\n", b"\n" * MAX_LISTING],
)
def test_a_strange_listing_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        read_listing(raw, ["refs/heads/x"])


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("https://github.com/acme/ops.git", "https"),
        ("https://git.example.invalid:8443/a/b", "https"),
        ("ssh://git@github.com/acme/ops.git", "ssh"),
        ("ssh://host/~alice/ops.git", "ssh"),
        ("file:///srv/git/ops.git", "file"),
        ("http://127.0.0.1:8080/acme/ops.git", "http"),
    ],
)
def test_an_address_allows_one_protocol(url: str, scheme: str) -> None:
    address = read_address(url)
    assert (address.url, address.scheme) == (url, scheme)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/srv/git/ops.git",
        "git@github.com:acme/ops.git",
        "git://github.com/acme/ops.git",
        "http://github.com/acme/ops.git",
        "https://alice:secret@github.com/acme/ops.git",
        "https://token@github.com/acme/ops.git",
        "ssh://-oProxyCommand=x/ops.git",
        "ssh://-l@host/ops.git",
        "ext::sh -c id",
        "--upload-pack=id",
        "https://github.com/acme/ops.git\nhost=evil",
        "https://github.com/acme%0ahost=evil",
        "https://github.com/acme/ops git",
    ],
)
def test_other_addresses_are_none(url: str) -> None:
    with pytest.raises(Malformed):
        read_address(url)


def test_an_id_is_full() -> None:
    assert read_id("a" * 40) == "a" * 40
    assert read_id("a" * 64) == "a" * 64
    for text in ("a" * 39, "a" * 41, "A" * 40, "g" * 40, "a" * 40 + "\n", ""):
        with pytest.raises(Malformed):
            read_id(text)


def test_objects_hash_as_git_does() -> None:
    """The empty tree has a well-known id under each algorithm."""
    assert hash_object("tree", b"", ObjectId("0" * 40)) == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    sha256 = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
    assert hash_object("tree", b"", ObjectId("0" * 64)) == sha256
