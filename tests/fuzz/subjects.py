"""What is fuzzed of the signed channel: each reader of strangers' bytes, with the engine that takes what it reads.

Each says what became of an input: a value, a refusal or `Malformed`, and checks what must hold of whatever is accepted.
"""

import base64
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from gitops_bot.core.errors import Malformed, Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.approving.grammar import read_ask, read_marker, read_receipts
from gitops_bot.signed.evidence import Commit, ObjectId, SignatureKind, Signed
from gitops_bot.signed.explaining import explain_file, explain_message, read_flat
from gitops_bot.signed.grammar import hash_object, read_change, read_changes, read_commit, read_listing
from gitops_bot.signed.openpgp.certificates import read_certificate
from gitops_bot.signed.openpgp.engine import OpenPgpKeys
from gitops_bot.signed.openpgp.grammar import read_packets
from gitops_bot.signed.openpgp.transcript.grammar import read_transcript
from gitops_bot.signed.rendering import read_request, request_bytes
from gitops_bot.signed.sshsig import grammar as sshsig
from gitops_bot.signed.sshsig.verifier import SshKeys
from tests import openpgp_commits, sshsig_stage
from tests import signed_keys as keys
from tests.fuzz.fuzzer import Subject, word_of
from tests.interop.drafts import OPENPGP, SSH, Kit
from tests.interop.judges import WINDOW
from tests.signed_stage import ASK, Recipe, transfer

ALICE: Final = PrincipalName("alice")
TREE, PARENT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "1" * 40
NAMES: Final = ("alice", "bob", "carol", "p384", "p521")


def lines(content: bytes) -> list[bytes]:
    """Take text apart."""
    return content.splitlines(keepends=True)


def octets(content: bytes) -> list[bytes]:
    """Take what has no other structure apart."""
    return [content[at : at + 4] for at in range(0, len(content), 4)]


def packets(content: bytes) -> list[bytes]:
    """Take OpenPGP apart where it can be; else as octets."""
    try:
        return [packet.whole for packet in read_packets(content)]
    except Malformed:
        return octets(content)


def said(call: Callable[[], object]) -> str:
    """Give a word for a value or for `Malformed`."""
    try:
        value = call()
    except Malformed as error:
        return word_of(error)
    return word_of(value) if isinstance(value, Refused) else type(value).__name__


def answer(value: Signed | Refused) -> str:
    """Give a word for an engine's answer."""
    assert isinstance(value, Signed | Refused), value
    return f"{value.reason} {word_of(value.detail)}" if isinstance(value, Refused) else f"signed {value.proof}"


# Commits


@cache
def _openpgp() -> OpenPgpKeys:
    return OpenPgpKeys(openpgp_commits.certificates(*NAMES, "bot"))


@cache
def _ssh() -> SshKeys:
    return SshKeys([sshsig_stage.entry(name, 0, 4_000_000_000_000) for name in sshsig_stage.EVERY])


def _commit_of(kit: Kit) -> bytes:
    return kit.draft.bytes(Recipe(TREE, (PARENT,), b"approve payments.transfer x\n\nTransfer 1 EUR\n"))


@cache
def _commits() -> Mapping[bytes, bytes]:
    """Give sound commits by what is signed of each."""
    found = {}
    for kit in (*OPENPGP, *SSH):
        raw = _commit_of(kit)
        read = read_commit(hash_object("commit", raw, ObjectId(PARENT)), raw)
        assert isinstance(read, Commit), read
        found[read.payload] = raw
    return found


def run_commit(raw: bytes) -> str:
    """Read a commit whose id is right, then verify it; what verifies must be what somebody signed."""
    if len(raw) % 8 == 0:
        read_commit(hash_object("commit", raw, ObjectId("1" * 64)), raw)
    commit = read_commit(hash_object("commit", raw, ObjectId(PARENT)), raw)
    if isinstance(commit, Refused):
        return f"{commit.reason} {word_of(commit.detail)}"
    assert commit.raw == raw
    assert raw.endswith(commit.message)
    found = (_ssh() if commit.kind is SignatureKind.SSH else _openpgp()).verify(commit, WINDOW)
    assert isinstance(found, Refused) or commit.payload in _commits()
    return answer(found)


# What git prints


def run_git(raw: bytes) -> str:
    """Read listings of refs and differences of trees."""
    commit = ObjectId("c" * 40)
    name = "refs/heads/gated/production/approvals/alice"
    told = said(lambda: read_listing(raw, [name]))
    return told + " " + said(lambda: read_change(read_changes(commit, raw), person=ALICE))


_GIT: Final = (
    b"c" * 40
    + b"\0:000000 100644 "
    + b"0" * 40
    + b" "
    + b"b" * 40
    + b" A\0approvals/5f/"
    + ASK.encode()
    + b"/alice.approve.0123abcd\0",
    b"b" * 40 + b"\trefs/heads/gated/production/approvals/alice\n" + b"a" * 40 + b"\trefs/heads/main\n",
)

# Approvals


def _vectors() -> list[dict[str, Any]]:
    path = Path(__file__).parents[1] / "vectors" / "approval.json"
    found: list[dict[str, Any]] = json.loads(path.read_bytes())["approvals"]
    return found


@cache
def _first() -> tuple[bytes, bytes]:
    one = _vectors()[0]
    return one["file"].encode(), one["message"].encode()


def run_approval(raw: bytes) -> str:
    """Explain a file and a message, and read what else stands on the branches."""
    file, message = _first()
    told = [explain_file(file, raw), explain_message(message, raw)]
    assert all(text.isascii() and text.isprintable() and len(text) < 700 for text in told)
    words = [word_of(text) for text in told]
    words.append(said(lambda: read_flat(raw)))
    words += [said(lambda: read_receipts(raw, ASK, ALICE)), said(lambda: read_marker(raw, ASK))]
    words.append(said(lambda: read_ask(raw.decode("utf-8", "replace"))))
    try:
        request = read_request(raw)
    except Malformed as error:
        words.append(word_of(error))
    else:
        assert request_bytes(request) == raw
    return " ".join(words)


# Signatures


def run_openpgp(packet: bytes) -> str:
    """Verify a payload under a damaged packet; what verifies was dated by whoever signed."""
    found = _openpgp().verify(openpgp_commits.commit(keys.pgp_armor(packet[:20_000])), openpgp_commits.WINDOW)
    assert isinstance(found, Refused) or found.signed_at == openpgp_commits.NOW * 1_000
    return answer(found)


@cache
def _blobs() -> Mapping[str, bytes]:
    return {name: sshsig_stage.blob_of(name).raw for name in sshsig_stage.EVERY}


def run_sshsig(blob: bytes) -> str:
    """Verify a payload under a damaged blob; what verifies is a blob as it was made."""
    found = _dated().verify(sshsig_stage.commit(keys.ssh_armor(blob)), sshsig_stage.WINDOW)
    assert isinstance(found, Refused) or blob in _blobs().values()
    read = sshsig.read_armor(blob)
    assert isinstance(read, Refused) or sshsig.write_armor(read) == blob.removesuffix(b"\n") + b"\n"
    return answer(found) + " " + said(lambda: sshsig.read_key(blob))


@cache
def _dated() -> SshKeys:
    return SshKeys([sshsig_stage.entry(name) for name in sshsig_stage.EVERY])


def _blob_parts(blob: bytes) -> list[bytes]:
    """Take a blob apart: its head, then each string with its length."""
    found, at = [blob[:10]], 10
    while at < len(blob) and len(found) < 50:
        end = at + 4 + int.from_bytes(blob[at : at + 4], "big")
        found.append(blob[at:end])
        at = end
    return found


# Certificates and transcripts


@cache
def _certificates() -> Mapping[str, bytes]:
    names = sorted(path.stem for path in (keys.KEYS / "openpgp").glob("*.asc"))
    return {name: keys.unarmored(keys.certificate(name)) for name in names}


@cache
def _good() -> Commit:
    return openpgp_commits.signed("alice")


def run_certificate(content: bytes) -> str:
    """Read a certificate, and verify alice's sound signature under it."""
    try:
        facts = read_certificate(content, where="keys/test.asc")
    except Malformed as error:
        return word_of(error)
    assert [key.fingerprint for key in facts.keys] == [key.fingerprint for key in facts.facts.components]
    found = OpenPgpKeys([facts]).verify(_good(), openpgp_commits.WINDOW)
    assert isinstance(found, Refused) or found.component == keys.secrets("alice")[-1].fingerprint
    return f"{len(facts.keys)} keys, {sum(key.bound for key in facts.keys)} bound; {answer(found)}"


FINGERPRINT: Final = "7D050F5DF5AFD1D0AC67CBBDFF9524FECBB515A5"
_STATUS: Final = tuple(
    f"[GNUPG:] {text}\n".encode()
    for text in (
        "NEWSIG alice@example.com",
        f"KEY_CONSIDERED {FINGERPRINT} 0",
        "SIG_ID x 2026-01-10 1768003200",
        f"GOODSIG {FINGERPRINT[-16:]} alice <alice@example.com>",
        f"VALIDSIG {FINGERPRINT} 2026-01-10 1768003200 0 4 0 22 8 00 {FINGERPRINT}",
        "TRUST_FULLY 0 always",
        f"EXPKEYSIG {FINGERPRINT[-16:]} alice",
        f"REVKEYSIG {FINGERPRINT[-16:]} alice",
        f"EXPSIG {FINGERPRINT[-16:]} alice",
        f"BADSIG {FINGERPRINT[-16:]} alice",
        f"ERRSIG {FINGERPRINT[-16:]} 22 8 00 1768003200 9 {FINGERPRINT}",
        f"NO_PUBKEY {FINGERPRINT[-16:]}",
        "KEYEXPIRED 1768003200",
        "FAILURE gpg-exit 33554433",
    )
)


def run_transcript(raw: bytes) -> str:
    """Read what gpg says; a verdict stands for one signature alone."""
    try:
        found = read_transcript(raw)
    except Malformed as error:
        return word_of(error)
    assert sum(line.startswith(b"[GNUPG:] NEWSIG") for line in raw.split(b"\n")) == 1
    return f"{found.verdict} {found.valid is not None} {found.error}"


_WORDS: Final = (
    b"\n",
    b"\n\n",
    b"\0",
    b"\r\n",
    b" ",
    b"-----BEGIN PGP SIGNATURE-----\n",
    b"gpgsig ",
    b"\xff\xfe",
    b"=",
)


def subjects() -> list[Subject]:
    """Give all that is fuzzed, each with a corpus of real inputs."""
    good, ends = _STATUS[:6], _STATUS[6:]
    transcripts = [b"".join(good), *(b"".join((*good[:3], end, good[4])) for end in ends), b"".join(_STATUS)]
    approvals = [content for one in _vectors() for content in (one["file"].encode(), one["message"].encode())]
    named = [
        keys.signature_packet(keys.secrets(name)[-1], openpgp_commits.PAYLOAD, openpgp_commits.NOW) for name in NAMES
    ]
    blobs = [*_blobs().values(), *(base64.b64decode(keys.ssh_line(name).split()[1]) for name in sshsig_stage.EVERY)]
    armored = [keys.certificate("alice"), keys.certificate("bob")]
    toml = (b"a = ", b'"', b"[params]\n", b"\\u0000", b"{", b"}", b",", b"1979-05-27T07:32:00Z", *_WORDS)
    return [
        Subject("commits", list(_commits().values()), run_commit, lines, (*_WORDS, b"parent " + b"1" * 40 + b"\n")),
        Subject("git", list(_GIT), run_git, lines, (*_WORDS, b"\t", b":000000 ")),
        Subject("approvals", [*approvals, request_bytes(transfer())], run_approval, lines, toml),
        Subject("openpgp signatures", named, run_openpgp, octets, (keys.notation("a@b", "c"), b"\x02\x64x")),
        Subject("sshsig", blobs, run_sshsig, _blob_parts, (b"git", b"sha512", b"sha256", keys.field(b""))),
        Subject("transcripts", transcripts, run_transcript, lines, (*_STATUS, b"[GNUPG:] ")),
        Subject("certificates", [*_certificates().values(), *armored], run_certificate, packets, (b"\xd2\x01x",)),
    ]
