"""The lines of gpg's `--status-fd` for one `--verify` become one verdict.

Whoever holds a `Transcript` knows that gpg spoke of exactly one signature and came to exactly one verdict, and what it
says of key, time, digest and class. User id text is chosen by signers and never read.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gitops_bot.core.errors import Malformed

MAX_TRANSCRIPT: Final = 64 * 1024
_PREFIX: Final = b"[GNUPG:] "


class Verdict(StrEnum):
    """gpg's word for a signature. Every one but the last two comes with a signature that is cryptographically good."""

    GOOD = "GOODSIG"
    KEY_EXPIRED = "EXPKEYSIG"
    KEY_REVOKED = "REVKEYSIG"
    SIGNATURE_EXPIRED = "EXPSIG"
    BAD = "BADSIG"
    ERROR = "ERRSIG"


NO_KEY: Final = 9
"""The reason in an ERRSIG line for a key that is not in the keyring."""

_VERDICTS: Final = {verdict.value.encode("ascii"): verdict for verdict in Verdict}
_SILENT: Final = frozenset(
    {b"KEY_CONSIDERED", b"KEYEXPIRED", b"SIG_ID", b"NOTATION_NAME", b"NOTATION_FLAGS", b"NOTATION_DATA", b"POLICY_URL"}
    | {b"TRUST_UNDEFINED", b"TRUST_MARGINAL", b"TRUST_FULLY", b"TRUST_ULTIMATE"}
)
"""Lines that may stand beside a good verdict and change nothing: trust is the policy's, `always` for gpg. KEYEXPIRED is
printed for any expired key of the certificate, used or not; the key that signed has EXPKEYSIG."""
_AFTER_FAULT: Final = frozenset({b"NO_PUBKEY", b"FAILURE", b"KEYREVOKED", b"SIGEXPIRED"})
_VALID: Final = re.compile(
    rb"([0-9A-F]{40}) \d{4}-\d\d-\d\d (\d{1,10}) (\d{1,10}) (\d{1,2}) 0 (\d{1,3}) (\d{1,3}) "
    rb"([0-9A-F]{2}) ([0-9A-F]{40})"
)
_KEY_ID: Final = re.compile(rb"([0-9A-F]{24})?[0-9A-F]{16}")
_ERROR: Final = re.compile(rb"([0-9A-F]{16}) \d{1,3} \d{1,3} [0-9A-F]{2} \d{1,10} (\d{1,5})(?: (?:[0-9A-F]{40}|-))?")


@dataclass(frozen=True, slots=True)
class Valid:
    """The fields of VALIDSIG: fingerprints of the key that signed and of its primary, times in seconds (`expires` 0 =
    never), numbers of version, key algorithm, digest and class."""

    component: str
    primary: str
    created: int
    expires: int
    version: int
    algorithm: int
    digest: int
    kind: int


@dataclass(frozen=True, slots=True)
class Transcript:
    """One verdict. `valid` is there with every verdict but BAD and ERROR; `error` is the number of an ERROR."""

    verdict: Verdict
    valid: Valid | None = None
    error: int | None = None


def read_transcript(raw: bytes) -> Transcript:
    """Read exactly one NEWSIG, one verdict, and with it one VALIDSIG where the signature is good.

    Raises:
        Malformed: anything else: a line of another form or meaning, a second signature, verdicts that differ, too long.
    """
    if len(raw) > MAX_TRANSCRIPT:
        raise Malformed(f"over {MAX_TRANSCRIPT} bytes")
    if not raw.endswith(b"\n"):
        raise Malformed("cut short or empty")
    begun, verdict, rest, valid, after = 0, None, b"", None, False
    for line in raw[:-1].split(b"\n"):
        if not line.startswith(_PREFIX):
            raise Malformed("a line that is none of gpg's status lines")
        keyword, _, text = line.removeprefix(_PREFIX).partition(b" ")
        if keyword == b"NEWSIG":
            begun += 1
        elif begun != 1:
            raise Malformed("not exactly one signature")
        elif keyword in _VERDICTS:
            if verdict is not None:
                raise Malformed("two verdicts")
            verdict, rest = _VERDICTS[keyword], text
        elif keyword == b"VALIDSIG":
            if valid is not None or verdict is None:
                raise Malformed("VALIDSIG twice or before the verdict")
            valid = _valid(text)
        elif keyword in _AFTER_FAULT:
            after = True
        elif keyword not in _SILENT:
            raise Malformed("a status line that has no place in a verification")
    if begun != 1 or verdict is None:
        raise Malformed("no verdict on one signature")
    if after and verdict is Verdict.GOOD:
        raise Malformed("a fault beside a good signature")
    return _conclude(verdict, rest, valid)


def _conclude(verdict: Verdict, rest: bytes, valid: Valid | None) -> Transcript:
    if (valid is None) != (verdict in (Verdict.BAD, Verdict.ERROR)):
        raise Malformed("VALIDSIG does not go with the verdict")
    if verdict is Verdict.ERROR:
        found = _ERROR.fullmatch(rest)
        if found is None:
            raise Malformed("an ERRSIG of another form")
        return Transcript(verdict, error=int(found[2]))
    key = rest.partition(b" ")[0]
    if _KEY_ID.fullmatch(key) is None:
        raise Malformed("a verdict without a key id")
    if valid is not None and not valid.component.endswith(key.decode("ascii")):
        raise Malformed("the verdict and VALIDSIG name two keys")
    return Transcript(verdict, valid)


def _valid(text: bytes) -> Valid:
    found = _VALID.fullmatch(text)
    if found is None:
        raise Malformed("a VALIDSIG of another form")
    component, created, expires, version, algorithm, digest, kind, primary = found.groups()
    return Valid(
        component=component.decode("ascii"),
        primary=primary.decode("ascii"),
        created=int(created),
        expires=int(expires),
        version=int(version),
        algorithm=int(algorithm),
        digest=int(digest),
        kind=int(kind, 16),
    )
