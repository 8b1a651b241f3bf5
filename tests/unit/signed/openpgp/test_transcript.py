"""gpg's status lines: one verdict on one signature, or they are not believed."""

import pytest

from gitops_bot.core.errors import Malformed
from gitops_bot.signed.openpgp.transcript.grammar import (
    MAX_TRANSCRIPT,
    NO_KEY,
    Transcript,
    Valid,
    Verdict,
    read_transcript,
)

SUBKEY, PRIMARY = "7D050F5DF5AFD1D0AC67CBBDFF9524FECBB515A5", "ADCF612687EF2DBA5EBACC2AB138D72258EE9C86"
FIELDS = f"{SUBKEY} 2026-01-10 1768003200 0 4 0 22 8 00 {PRIMARY}"
VALID = Valid(SUBKEY, PRIMARY, 1_768_003_200, 0, 4, 22, 8, 0)
NEW, CONSIDERED, ID = "NEWSIG a@example.com", f"KEY_CONSIDERED {PRIMARY} 0", "SIG_ID vb38 2026-01-10 1768003200"
GOOD = f"GOODSIG {SUBKEY[-16:]} a <a@example.com>"
WHOLE = (NEW, CONSIDERED, ID, CONSIDERED, GOOD, f"VALIDSIG {FIELDS}", CONSIDERED, "TRUST_FULLY 0 always")
UNKNOWN = f"ERRSIG {SUBKEY[-16:]} 22 8 00 1768003200 9 {SUBKEY}"


def said(*lines: str) -> bytes:
    return b"".join(b"[GNUPG:] " + line.encode() + b"\n" for line in lines)


def test_a_good_signature_is_read_with_all_that_gpg_says_of_it() -> None:
    assert read_transcript(said(*WHOLE)) == Transcript(Verdict.GOOD, VALID)


def test_notations_and_a_policy_are_heard_and_mean_nothing() -> None:
    extra = ("NOTATION_NAME a@b", "NOTATION_FLAGS 0 1", "NOTATION_DATA c", "POLICY_URL x", "KEYEXPIRED 1768003200")
    assert read_transcript(said(*WHOLE, *extra)).verdict is Verdict.GOOD


@pytest.mark.parametrize("verdict", [Verdict.KEY_EXPIRED, Verdict.KEY_REVOKED, Verdict.SIGNATURE_EXPIRED])
def test_a_good_signature_by_a_key_that_ended_is_told_from_a_good_one(verdict: Verdict) -> None:
    lines = [line.replace("GOODSIG", verdict.value) for line in WHOLE]
    assert read_transcript(said(*lines)) == Transcript(verdict, VALID)


def test_a_bad_signature_and_an_unknown_key_have_no_fields() -> None:
    bad = said(NEW, CONSIDERED, GOOD.replace("GOODSIG", "BADSIG"), "FAILURE gpg-exit 33554433")
    assert read_transcript(bad) == Transcript(Verdict.BAD)
    unknown = said(NEW, UNKNOWN, f"NO_PUBKEY {SUBKEY[-16:]}")
    assert read_transcript(unknown) == Transcript(Verdict.ERROR, error=NO_KEY)


def test_a_name_that_looks_like_a_verdict_is_never_read() -> None:
    hostile = GOOD + " [GNUPG:] BADSIG VALIDSIG %0A[GNUPG:] NEWSIG"
    assert read_transcript(said(*(hostile if line == GOOD else line for line in WHOLE))).verdict is Verdict.GOOD


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (NEW,),
        WHOLE[1:],
        (NEW, *WHOLE),
        (*WHOLE, *WHOLE),
        (*WHOLE, GOOD),
        (*WHOLE, GOOD.replace("GOODSIG", "BADSIG")),
        (*WHOLE, UNKNOWN),
        (NEW, UNKNOWN, *WHOLE[1:]),
        (*WHOLE, f"VALIDSIG {FIELDS}"),
        (NEW, GOOD),
        (NEW, f"VALIDSIG {FIELDS}"),
        (NEW, f"VALIDSIG {FIELDS}", GOOD),
        (NEW, GOOD, "VALIDSIG " + FIELDS.lower()),
        (NEW, GOOD, "VALIDSIG " + FIELDS.removesuffix(PRIMARY)),
        (NEW, GOOD, f"VALIDSIG {FIELDS} more"),
        (NEW, GOOD, "VALIDSIG " + FIELDS.replace(SUBKEY, PRIMARY)),
        (NEW, "GOODSIG", f"VALIDSIG {FIELDS}"),
        (NEW, GOOD.replace("GOODSIG", "BADSIG"), f"VALIDSIG {FIELDS}"),
        (NEW, "ERRSIG 1 2 3"),
        (*WHOLE, "FAILURE gpg-exit 33554433"),
        (*WHOLE, f"NO_PUBKEY {SUBKEY[-16:]}"),
        (*WHOLE, "PLAINTEXT 62 0 "),
        (*WHOLE, "DECRYPTION_OKAY"),
        (*WHOLE, "TRUST_NEVER 0"),
        (*WHOLE, "goodsig"),
        (*WHOLE, ""),
    ],
)
def test_anything_but_one_verdict_on_one_signature_is_not_believed(lines: tuple[str, ...]) -> None:
    with pytest.raises(Malformed):
        read_transcript(said(*lines))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"garbage\n",
        said(*WHOLE)[:-1],
        said(*WHOLE) + b"gpg: hello\n",
        said(*WHOLE).replace(b"\n", b"\r\n"),
        said(*WHOLE) + b"[GNUPG:] KEY_CONSIDERED x\n" * MAX_TRANSCRIPT,
    ],
)
def test_other_lines_a_cut_end_and_a_flood_are_not_believed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        read_transcript(raw)
