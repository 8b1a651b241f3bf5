"""Whatever bytes git hands over: a value or a typed no, and a cost that grows with their number only."""

import contextlib
import hashlib
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.errors import Malformed, Reason, Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.evidence import Change, Commit, ObjectId
from gitops_bot.signed.grammar import (
    MAX_COMMIT,
    MAX_DIFFERENCE,
    Entry,
    read_address,
    read_change,
    read_changes,
    read_commit,
    read_listing,
    read_root,
)
from tests.linear import assert_linear

ALICE = PrincipalName("alice")
ASK = "01jdxm2r7q8v9w0a1b2c3d4e5f"
PATH = f"approvals/{ASK[-2:]}/{ASK}/alice.approve.0123abcd".encode()
WHO = b"Alice <alice@example.invalid> 1717243200 +0000"
HEAD = b"tree " + b"1" * 40 + b"\nparent " + b"2" * 40 + b"\nauthor " + WHO + b"\ncommitter " + WHO + b"\n"
PGP = (
    b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n wsFcBAABCAAQBQJmWvYACRC1aQ7uu5UhlAAA0dkQ\n 4p0mYw==\n =Tw3b\n"
    b" -----END PGP SIGNATURE-----\n"
)
SSH = b"gpgsig -----BEGIN SSH SIGNATURE-----\n U1NIU0lHAAAAAQAAADMAAAAL\n -----END SSH SIGNATURE-----\n"
SOUND = st.sampled_from([HEAD + PGP + b"\nmessage\n", HEAD + SSH + b"\nmessage\n"])
PIECES = st.sampled_from(
    [
        *(HEAD + PGP).splitlines(keepends=True),
        *SSH.splitlines(keepends=True),
        *(b"\n", b" ", b"\0", b"\r", b"gpgsig ", b"gpgsigX y\n", b"encoding utf-8\n", b"-----BEGIN ", b"Comment: x\n"),
    ]
)


def identified(raw: bytes) -> ObjectId:
    return ObjectId(hashlib.sha1(b"commit %d\0" % len(raw) + raw).hexdigest())


def judged(raw: bytes) -> Commit | Refused:
    found = read_commit(identified(raw), raw)
    assert isinstance(found, Commit | Refused)
    if isinstance(found, Commit):
        # What was taken apart joins to the same bytes: there is one spelling.
        header = b"gpgsig " + found.armor.removesuffix(b"\n").replace(b"\n", b"\n ") + b"\n"
        head, message = found.payload.split(b"\n\n", 1)
        assert head + b"\n" + header + b"\n" + message == raw
        assert message == found.message
    else:
        assert found.detail.isprintable()
        assert len(found.detail) < 300
    return found


@given(st.binary(max_size=600))
def test_bytes_give_a_commit_or_a_refusal(raw: bytes) -> None:
    judged(raw)


@given(st.lists(PIECES, max_size=16).map(b"".join))
def test_pieces_of_commits_give_a_commit_or_a_refusal(raw: bytes) -> None:
    judged(raw)
    judged(HEAD + raw + b"\nmessage\n")


@given(SOUND, st.data())
def test_a_changed_commit_is_another_one_or_refused(raw: bytes, data: st.DataObject) -> None:
    """A sound commit is read; after any edit either the payload or the signature differs, or it is refused: nothing
    can be added that neither covers."""
    sound = judged(raw)
    assert isinstance(sound, Commit)
    begin = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(begin, min(len(raw), begin + 40)))
    edited = raw[:begin] + data.draw(st.binary(max_size=12) | PIECES) + raw[end:]
    found = judged(edited)
    if isinstance(found, Commit) and edited != raw:
        assert (found.payload, found.armor) != (sound.payload, sound.armor)


@given(SOUND, st.integers(0, 2**160 - 1))
def test_a_commit_has_one_id(raw: bytes, number: int) -> None:
    oid = ObjectId(f"{number:040x}")
    found = read_commit(oid, raw)
    assert isinstance(found, Commit) == (oid == identified(raw))


@given(st.binary(max_size=300), st.booleans())
def test_differences_give_entries_or_malformed(raw: bytes, begun: bool) -> None:
    commit = ObjectId("c" * 40)
    with contextlib.suppress(Malformed):
        for found in read_changes(commit, commit.encode() + b"\0" + raw if begun else raw):
            assert isinstance(found, Entry)


ENTRIES = st.builds(
    Entry,
    st.sampled_from("AMDTR"),
    st.sampled_from(["100644", "100755", "120000", "160000", "040000", "000000"]),
    st.just(ObjectId("0" * 40)),
    st.just(ObjectId("b" * 40)),
    st.binary(min_size=1, max_size=80) | st.just(PATH),
)


@given(st.lists(ENTRIES, max_size=3))
def test_entries_give_a_change_or_a_refusal(entries: list[Entry]) -> None:
    found = read_change(entries, person=ALICE)
    assert isinstance(found, Change | Refused)
    if isinstance(found, Change):
        assert [(entry.status, entry.mode, entry.path) for entry in entries] == [("A", "100644", PATH)]


@given(st.binary(max_size=80), st.integers(0, 80), st.integers(0, 80))
def test_no_other_path_names_a_vote_of_that_suffix(noise: bytes, begin: int, end: int) -> None:
    """An edited path is another well-formed one or refused; nothing is trimmed, folded or decoded."""
    path = PATH[:begin] + noise + PATH[end:]
    entry = Entry("A", "100644", ObjectId("0" * 40), ObjectId("b" * 40), path)
    found = read_change([entry], person=ALICE)
    if isinstance(found, Change):
        assert found.path.encode() == path
        assert path == f"approvals/{found.ask[-2:]}/{found.ask}/alice.{found.decision}.{found.suffix}".encode()
    else:
        assert found.reason in {Reason.BAD_PATH, Reason.WRONG_BRANCH}


@given(st.binary(max_size=300))
def test_listings_and_roots_and_addresses_are_read_or_malformed(raw: bytes) -> None:
    with contextlib.suppress(Malformed):
        assert read_listing(raw, ["refs/heads/x"]).keys() <= {"refs/heads/x"}
    with contextlib.suppress(Malformed):
        read_address(raw.decode("latin-1"))
    assert not read_root(raw, repository="github.com/acme/ops", environment="production", person="alice")


def reading(raw: bytes) -> Callable[[], object]:
    oid = identified(raw)
    return lambda: read_commit(oid, raw)


def test_the_cost_is_linear_up_to_the_largest_commit() -> None:
    """Each shape at a quarter of the cap and at the cap: the ratio stays near four, far from sixteen."""
    spare = 1000
    shapes: dict[str, Callable[[int], bytes]] = {
        "lines": lambda n: b"\n" * n,
        "blanks in a name": lambda n: HEAD.replace(b"Alice", b"A" + b" " * (n - spare) + b"\x01"),
        "names": lambda n: HEAD.replace(b"Alice", b"A " * ((n - spare) // 2)),
        "parents": lambda n: HEAD[:46] + (b"parent " + b"2" * 40 + b"\n") * ((n - spare) // 48) + b"\n",
        "armor lines": lambda n: HEAD + PGP.replace(b" 4p0mYw==\n", b" AAAA\n" * ((n - spare) // 6)) + b"\nm",
        "armor without end": lambda n: HEAD + PGP[:44] + b" AAAA\n" * ((n - spare) // 6) + b"\n\nm",
        "one armor line": lambda n: HEAD + PGP[:44] + b" " + b"A" * (n - spare) + b"\n\nm",
        "armors": lambda n: HEAD + PGP + b" -----BEGIN PGP SIGNATURE-----\n" * ((n - spare) // 31) + b"\nm",
        "headers": lambda n: HEAD + b"gpgsigX y\n" * ((n - spare) // 10) + b"\nm",
        "signatures": lambda n: HEAD + SSH * ((n - spare) // len(SSH)) + b"\nm",
        "message": lambda n: HEAD + PGP + b"\n" + b"m" * (n - spare),
    }
    for shape in shapes.values():
        assert_linear(lambda n, shape=shape: reading(shape(n)), MAX_COMMIT)  # type: ignore[misc] # bound now


def test_the_cost_of_a_difference_is_linear() -> None:
    commit = ObjectId("c" * 40)
    line = b":000000 100644 " + b"0" * 40 + b" " + b"b" * 40 + b" A\0%07d\0"

    def build(size: int) -> Callable[[], object]:
        raw = commit.encode() + b"\0" + b"".join(line % number for number in range(size // 110))
        return lambda: read_change(read_changes(commit, raw), person=ALICE)

    assert_linear(build, MAX_DIFFERENCE)
