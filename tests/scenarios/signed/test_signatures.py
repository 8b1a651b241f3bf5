"""Every row of the table `signature`: whose signature, of what, made when and how, decides whether a commit counts."""

import datetime
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import signed_keys as keys
from tests.signed_bundle import ssh_keys
from tests.signed_cases import Case, Table, acted, check_blamed, check_held, check_twin
from tests.signed_court import COUNTED, Accused, Court

TABLE = Table("signature")
DAY = 86_400
LONG_AGO = datetime.date(2021, 1, 1)
FAR_AHEAD = datetime.date(2095, 1, 1)
WHEN_IT_LIVED = 1_593_561_600  # 2020-07-01
FORGE_KEY = "5DE3E0509C47EA3CF04A42D34AEE18F83AFDEB23"


def constant(text: bytes) -> Callable[[bytes], bytes]:
    """Replace whatever armor there is."""
    return lambda _armor: text


def signed(court: Court, fault: bool, bad: keys.Signer, good: keys.Signer | None = None, **more: Any) -> Accused:
    """Vote as alice with a bad signature, or with a good one."""
    return court.vote("alice", signer=bad if fault else (good or keys.openpgp("alice")), **more)


@TABLE.row("unsigned commit")
def unsigned(court: Court, fault: bool, _: Any) -> Accused:
    return court.vote("alice", **({"signer": None} if fault else {}))


@TABLE.row(
    "gpgsig header that holds no signature",
    empty=b"",
    words=b"signed by alice\n",
    certificate=keys.certificate("alice"),
    no_packets=keys.pgp_armor(b"hello"),
    no_sshsig=keys.ssh_armor(b"hello"),
    only_the_frame=b"-----BEGIN PGP SIGNATURE-----\n\n-----END PGP SIGNATURE-----\n",
    one_twin=True,
)
def no_signature(court: Court, fault: bool, text: bytes) -> Accused:
    return court.vote("alice", **({"armor": constant(text)} if fault else {}))


@TABLE.row(
    "signature of another payload",
    openpgp=("alice", keys.openpgp("alice")),
    rsa=("bob", keys.openpgp("bob")),
    ecdsa=("carol", keys.openpgp("carol")),
    ssh=("alice", keys.ssh("alice")),
    ssh_rsa=("bob", keys.ssh("bob")),
    ssh_ecdsa=("carol", keys.ssh("carol")),
    ssh_ecdsa_384=("carol", keys.ssh("carol-384")),
    ssh_ecdsa_521=("carol", keys.ssh("carol-521")),
    security_key=("alice", keys.ssh("alice-sk")),
    security_key_ecdsa=("bob", keys.ssh("bob-sk")),
)
def another_payload(court: Court, fault: bool, who: tuple[str, keys.Signer]) -> Accused:
    """One of every kind of key: the twins show that each of them can count."""
    person, signer = who
    court.begin(owner="bob" if person == "carol" else "carol")

    def other(payload: bytes, at: int) -> bytes:
        return signer(payload + b"once more\n", at)

    return court.vote(person, signer=other if fault else signer)


def in_one_packet_stream(first: keys.Signer, second: keys.Signer) -> keys.Signer:
    """Put two signatures into one armor."""

    def sign(payload: bytes, at: int) -> bytes:
        return keys.pgp_armor(b"".join(keys.unarmored(one(payload, at)) for one in (first, second)))

    return sign


def one_after_the_other(first: keys.Signer, second: keys.Signer) -> keys.Signer:
    """Put two armors into one header."""
    return lambda payload, at: first(payload, at) + second(payload, at)


GOOD, UNKNOWN = keys.openpgp("alice"), keys.openpgp("outsider")
GOOD_SSH, UNKNOWN_SSH = keys.ssh("alice"), keys.ssh("outsider")


@TABLE.row(
    "two signatures, good then unknown; and the other order",
    good_first=one_after_the_other(GOOD, UNKNOWN),
    good_last=one_after_the_other(UNKNOWN, GOOD),
    packets_good_first=in_one_packet_stream(GOOD, UNKNOWN),
    packets_good_last=in_one_packet_stream(UNKNOWN, GOOD),
    ssh_good_first=one_after_the_other(GOOD_SSH, UNKNOWN_SSH),
    ssh_good_last=one_after_the_other(UNKNOWN_SSH, GOOD_SSH),
    both_kinds=one_after_the_other(GOOD, UNKNOWN_SSH),
    twice_the_same=one_after_the_other(GOOD, GOOD),
    one_twin=True,
)
def two_signatures(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    return signed(court, fault, signer)


@TABLE.row(
    "two signatures, good then unknown; and the other order",
    headers_good_first=False,
    headers_good_last=True,
    one_twin=True,
)
def two_headers(court: Court, fault: bool, swapped: bool) -> Accused:
    if not fault:
        return court.vote("alice")
    recipe = court.recipe("alice", signer=None)
    made = [keys_folded(signer(recipe.payload, recipe.at)) for signer in (GOOD, UNKNOWN)]
    return court.commit("alice", recipe, beside=tuple(reversed(made) if swapped else made))


def keys_folded(armor: bytes) -> bytes:
    """Write an armor as a header."""
    return b"gpgsig " + armor.removesuffix(b"\n").replace(b"\n", b"\n ")


@TABLE.row(
    "clear-signed or inline-signed data in the header",
    clear=keys.gpg("alice", mode=("--clear-sign",)),
    inline=keys.gpg("alice", mode=("--sign",)),
    one_twin=True,
)
def clear_signed(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    return signed(court, fault, signer)


@TABLE.row(
    "text-mode class",
    made_here=keys.openpgp("alice", kind=keys.TEXT),
    gpg=keys.gpg("alice", "--textmode"),
    one_twin=True,
)
def text_mode(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    return signed(court, fault, signer)


@TABLE.row(
    "SHA-1 digest",
    openpgp=keys.openpgp("alice", digest="sha1"),
    gpg=keys.gpg("alice", "--digest-algo", "SHA1"),
    ssh=keys.ssh("alice", digest="sha1"),
    one_twin=True,
)
def sha1(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    return signed(court, fault, signer)


@TABLE.row("SHA-1 digest")
def sha1_of_rsa(court: Court, fault: bool, _: Any) -> Accused:
    return court.vote("bob", signer=keys.ssh("bob", algorithm="ssh-rsa" if fault else "rsa-sha2-256"))


@TABLE.row("unknown critical notation")
def notation(court: Court, fault: bool, _: Any) -> Accused:
    hashed = keys.notation("terms@example.com", "none", critical=fault)
    return court.vote("alice", signer=keys.openpgp("alice", hashed=hashed))


@TABLE.row("expired key", key="alice.expired", subkey="alice.subkey-expired", one_twin=True)
def expired(court: Court, fault: bool, certificate: str) -> Accused:
    court.settle()
    court.begin(certificates={"alice": certificate if fault else "alice.expires"}, amount_minor=8)
    return court.vote("alice")


@TABLE.row(
    "expired key, signature backdated to when it lived",
    key="alice.expired",
    subkey="alice.subkey-expired",
    one_twin=True,
)
def backdated(court: Court, fault: bool, certificate: str) -> Accused:
    court.settle()
    court.begin(certificates={"alice": certificate if fault else "alice"}, amount_minor=8)
    return court.vote("alice", **({"at": WHEN_IT_LIVED} if fault else {}))


@TABLE.row("signature dated before the ask opened (beyond skew)", openpgp=keys.openpgp("alice"), ssh=keys.ssh("alice"))
def too_early(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    return court.vote("alice", signer=signer, at=court.now - (2 * DAY if fault else 1))


@TABLE.row("signature dated in the future (beyond skew)", openpgp=keys.openpgp("alice"), ssh=keys.ssh("alice"))
def too_late(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    return court.vote("alice", signer=signer, at=court.now + (2 * DAY if fault else 0))


@TABLE.row(
    "key revoked, hard",
    compromised="alice.revoked-hard",
    no_reason="alice.revoked-unexplained",
    subkey="alice.subkey-revoked-hard",
    one_twin=True,
)
def revoked(court: Court, fault: bool, certificate: str) -> Accused:
    court.settle()
    court.begin(certificates={"alice": certificate if fault else "alice"}, amount_minor=8)
    return court.vote("alice")


@TABLE.row(
    "key revoked, soft, before the signature",
    retired="alice.revoked-retired",
    superseded="alice.revoked-superseded",
    subkey="alice.subkey-revoked-retired",
    one_twin=True,
)
def revoked_softly(court: Court, fault: bool, certificate: str) -> Accused:
    court.settle()
    court.begin(certificates={"alice": certificate if fault else "alice"}, amount_minor=8)
    return court.vote("alice")


@TABLE.row(
    "certificate in keys/ replaced by one without its revocation",
    hard="alice.revoked-hard",
    soft="alice.revoked-retired",
    subkey="alice.subkey-revoked-hard",
    one_twin=True,
)
def revocation_taken_out(court: Court, fault: bool, certificate: str) -> Accused:
    court.settle()
    court.begin(certificates={"alice": certificate if fault else "alice"}, amount_minor=8)
    court.look()
    court.adopt(certificates={})
    court.renew(amount_minor=9)
    return court.vote("alice")


@TABLE.row("unknown subkey of a known key", absent="alice", unbound="alice.unbound-subkey", one_twin=True)
def unknown_subkey(court: Court, fault: bool, certificate: str) -> Accused:
    court.begin(certificates={"alice": certificate if fault else "alice.second-subkey"})
    return court.vote("alice", signer=keys.openpgp("alice.second-subkey"))


@TABLE.row(
    "unknown key",
    openpgp=keys.openpgp("outsider"),
    posing=keys.openpgp(
        "outsider", issuer=keys.secrets("outsider")[0].fingerprint[:24] + keys.fingerprint("alice")[-16:]
    ),
    ssh=keys.ssh("outsider"),
    security_key=keys.ssh("outsider-sk"),
    one_twin=True,
)
def unknown_key(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    return signed(court, fault, signer)


@TABLE.row("forge's web key", stand_in=None, by_name=FORGE_KEY, one_twin=True)
def forge_key(court: Court, fault: bool, issuer: str | None) -> Accused:
    return signed(court, fault, keys.openpgp("forge-web", issuer=issuer))


@TABLE.row("SSH key past not_after")
def past_not_after(court: Court, fault: bool, _: Any) -> Accused:
    dated = ssh_keys("alice", **({"end": LONG_AGO} if fault else {}))
    court.begin(ssh={"alice": [*dated, *ssh_keys("alice-sk")]})
    return court.vote("alice", signer=keys.ssh("alice"))


@TABLE.row("SSH key before not_before")
def before_not_before(court: Court, fault: bool, _: Any) -> Accused:
    dated = ssh_keys("alice", **({"start": FAR_AHEAD} if fault else {}))
    court.begin(ssh={"alice": [*dated, *ssh_keys("alice-sk")]})
    return court.vote("alice", signer=keys.ssh("alice"))


@TABLE.row("SSH signature in namespace file", file=b"file", empty=b"", longer=b"git.other", cased=b"Git", one_twin=True)
def namespace(court: Court, fault: bool, name: bytes) -> Accused:
    return signed(court, fault, keys.ssh("alice", namespace=name), keys.ssh_keygen("alice"))


@TABLE.row("sk key without presence flag", none=("alice-sk", 0), pin_alone=("alice-sk", 4), ecdsa=("alice-sk-ecdsa", 0))
def no_presence(court: Court, fault: bool, key: tuple[str, int]) -> Accused:
    name, flags = key
    return signed(court, fault, keys.ssh(name, flags=flags), keys.ssh(name, flags=flags | 1))


@TABLE.row("sk key, presence only, where verified is demanded", ed25519="alice-sk", ecdsa="alice-sk-ecdsa")
def presence_alone(court: Court, fault: bool, name: str) -> Accused:
    court.begin(verb="payments.close", params={"to": "DE89370400440532013000"})
    return signed(court, fault, keys.ssh(name, flags=1), keys.ssh(name, flags=5))


@TABLE.row(
    "software key where presence is demanded", ssh=keys.ssh("alice"), openpgp=keys.openpgp("alice"), one_twin=True
)
def software_key(court: Court, fault: bool, signer: keys.Signer) -> Accused:
    court.begin(verb="payments.refund")
    return signed(court, fault, signer, keys.ssh("alice-sk"))


@TABLE.row("sk counter falls", by_one=6, to_nothing=0, one_twin=True)
def counter(court: Court, fault: bool, fallen: int) -> Accused:
    first = court.vote("alice", request=court.ask(amount_minor=7), signer=keys.ssh("alice-sk", counter=7))
    court.look()
    assert court.counted(first) == 1
    return signed(court, fault, keys.ssh("alice-sk", counter=fallen), keys.ssh("alice-sk", counter=8))


def script(text: str) -> Callable[[Path], Path]:
    """Write a program in place of gpg."""

    def write(folder: Path) -> Path:
        path = folder / "gpg"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o700)
        return path

    return write


STATUS = "printf '[GNUPG:] %s\\n'"


@TABLE.row(
    "gpg prints garbage",
    noise=script("head -c 100000 /dev/urandom; exit 0"),
    words=script("echo all is well; exit 0"),
    nothing=script("exit 0"),
    half=script(f"{STATUS} NEWSIG 'GOODSIG 9651AE4DE43DA25D alice'; exit 0"),
    one_twin=True,
)
def garbage(court: Court, fault: bool, program: Callable[[Path], Path]) -> Accused:
    court.settle()
    if fault:
        court.use_gpg(program)
    return court.vote("alice")


def missing(folder: Path) -> Path:
    """Name a program that is not there."""
    return folder / "no-gpg"


def not_a_program(folder: Path) -> Path:
    """Name a file that cannot be run."""
    path = folder / "gpg"
    path.write_bytes(os.urandom(16))
    return path


@TABLE.row(
    "gpg missing, killed or out of time",
    missing=missing,
    no_program=not_a_program,
    killed=script("kill -9 $$"),
    too_slow=script("exec sleep 600"),
    one_twin=True,
)
def tool_failed(court: Court, fault: bool, program: Callable[[Path], Path]) -> Accused:
    court.settle()
    if fault:
        court.use_gpg(program, seconds=1.0)
    return court.vote("alice")


@pytest.mark.parametrize("case", acted(TABLE.refused))
def test_the_fault_is_blamed(case: Case, court: Court) -> None:
    check_blamed(case, court)


@pytest.mark.parametrize("case", acted(TABLE.twins))
def test_without_the_fault_it_counts(case: Case, court: Court) -> None:
    check_twin(case, court)


@pytest.mark.parametrize("case", acted([case for case in TABLE.cases if case not in TABLE.refused]))
def test_what_is_held_counts_once_when_the_tool_is_back(case: Case, court: Court) -> None:
    check_held(case, court)


@pytest.mark.parametrize(
    ("certificate", "code"),
    [
        ("alice.expired", "key_expired"),
        ("alice.revoked-hard", "key_revoked"),
        ("alice.revoked-retired", "key_revoked"),
        ("alice.subkey-expired", "key_expired"),
    ],
)
def test_a_branch_that_never_was_sound_is_blamed_for_its_key(court: Court, certificate: str, code: str) -> None:
    """Root and vote are by the same key, which did not count when the broker first saw the branch."""
    court.begin(certificates={"alice": certificate})
    vote = court.vote("alice")
    court.look()
    assert court.outcome(vote) == code
    assert court.counted(vote) == 0


def test_a_tool_that_failed_holds_nobody_who_does_not_need_it(court: Court) -> None:
    """gpg is missing when both branches are first seen; bob signs by SSH, root and vote."""
    court.begin()
    court.stage.signers["bob"] = keys.ssh("bob")
    waiting, other = court.vote("alice"), court.vote("bob")
    court.use_gpg(missing)
    court.look()
    assert court.outcome(other) == COUNTED
    assert court.counted(waiting) == 0
    court.repair()
    court.look()
    assert court.outcome(waiting) == COUNTED


def test_every_row_is_played() -> None:
    assert list(TABLE.missing) == []
