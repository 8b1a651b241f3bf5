"""What git, gpg, Sequoia or ssh-keygen accept and we do not, by what was done to the commit, each with its reason.

The differential test holds both ways: what it sees beyond these tables fails it, and so does a row that it never sees.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.errors import Reason

EVERYBODY: Final = frozenset({"git", "gpg", "sequoia", "ssh-keygen"})


@dataclass(frozen=True, slots=True)
class Row:
    """The codes that we give, who may accept it all the same, and why we do not. `sometimes`: by chance, or only with
    other versions of the programs, so that a run need not see it."""

    codes: frozenset[Reason]
    by: frozenset[str]
    why: str
    sometimes: bool = False


@dataclass(frozen=True, slots=True)
class _Why:
    codes: tuple[Reason, ...]
    why: str
    damages: tuple[str, ...]
    by: frozenset[str] = EVERYBODY
    sometimes: bool = False

    def rows(self) -> Iterator[tuple[str, Row]]:
        for damage in self.damages:
            yield damage, Row(frozenset(self.codes), self.by, self.why, self.sometimes)


def _table(*whys: _Why) -> Mapping[str, Row]:
    rows: dict[str, Row] = {}
    for why in whys:
        for damage, row in why.rows():
            assert damage not in rows, damage
            rows[damage] = row
    return rows


_M, _B, _T = Reason.MALFORMED_COMMIT, Reason.BAD_SIGNATURE, Reason.SIGNATURE_TIME
_GIT: Final = frozenset({"git"})
_SEQUOIA: Final = frozenset({"sequoia"})
_COMMON: Final = (
    _Why(
        (_M,),
        "A header that git leaves out of what is signed: a stranger could give a signed commit another id.",
        ("gpgsigX before", "gpgsigX after", "gpgsig-sha256 beside"),
        _GIT,
    ),
    _Why(
        (_M,),
        "A header that no vote has; readers differ in what it means.",
        ("encoding header", "mergetag header", "foreign header", "signature before the author"),
    ),
    _Why(
        (_M,),
        "A line of author or committer in another spelling than git writes; readers differ in its date.",
        ("no e-mail", "zone of three digits", "zone of noon and more", "date with a zero", "date without end"),
    ),
    _Why((_M,), "A date before 1970.", ("date below zero",)),
    _Why((_M,), "A NUL: readers in C end there.", ("NUL in the message", "NUL in the name")),
    _Why((Reason.TOO_LARGE,), "No vote is so large; its reading is bounded.", ("large message",)),
    _Why((Reason.MERGE_COMMIT,), "A merge never counts: it could hide a deny.", ("two parents",)),
    _Why((Reason.MULTIPLE_SIGNATURES,), "Exactly one signature.", ("signature header twice", "two armors")),
    _Why(
        (_M,),
        "Text beside the armor is not signed: a stranger could give a signed commit another id.",
        ("text after the armor", "blank line after the armor", "blank at a line's end"),
    ),
    _Why((_T,), "Made before the ask was opened, or after it was received.", ("dated early", "dated later")),
    _Why(
        (_B, _M, Reason.UNKNOWN_KEY, Reason.WEAK_DIGEST),
        "A bit that the programs do not look at; nothing of a signature may be changed without its key.",
        ("letter of the armor", "bit of the signature"),
        sometimes=True,
    ),
    _Why((_M, _B), "A bit of the object that its reader lets pass.", ("bit of the headers",), sometimes=True),
)

OPENPGP: Final = _table(
    *_COMMON,
    _Why(
        (_M,),
        "Text in or beside the armor is not signed: a stranger could give a signed commit another id.",
        ("armor comment", "text before the armor", "armor of carriage returns", "armor in one line"),
    ),
    _Why((_B,), "Not the armor of a signature, or not to its end.", ("armor of another kind", "armor without an end")),
    _Why((_B,), "Base64 in another spelling.", ("armor without padding",)),
    _Why((_T,), "Far ahead of every clock; gpg accepts any date.", ("dated far ahead",)),
    _Why((_T,), "The signature's own date is outside the window.", ("signature dated early", "signature dated later")),
    _Why(
        (_T,), "It ends by itself, so that a vote would fall without anybody's doing.", ("signature that will expire",)
    ),
    _Why(
        (Reason.ENGINES_DISAGREE,),
        "gpg refuses a digest shorter than the curve; both engines must agree.",
        ("digest shorter than the curve",),
        _SEQUOIA,
    ),
    _Why(
        (Reason.ENGINES_DISAGREE,),
        "gpg 2.2 then names the key 0000000000000000 beside its true fingerprint, which is no clear word.",
        ("no key id",),
    ),
    _Why((Reason.WEAK_DIGEST,), "SHA-1 is broken, SHA-224 is not agreed upon.", ("digest SHA-1", "digest SHA-224")),
    _Why((Reason.WRONG_SIGNATURE_CLASS,), "A text signature survives another line end.", ("class text",)),
    _Why(
        (_B,),
        "What is outside of the hashed part could be added or changed by a stranger.",
        ("notation unhashed", "date unhashed", "junk unhashed", "key id twice", "another key id", "made twice"),
    ),
    _Why((_B,), "It brings a key of its own.", ("key inside",)),
    _Why(
        (_B,),
        "Octets or packets beside the one signature, which a stranger could add.",
        ("marker packet before", "packet after", "octets after", "octet inside the packet"),
    ),
    _Why((Reason.MULTIPLE_SIGNATURES,), "Exactly one signature.", ("signature twice",)),
    _Why(
        (_B,),
        "A number in another spelling; Sequoia does not take it.",
        ("number with a zero before", "number of another count"),
    ),
    _Why((_B,), "Ed25519 with s + L, which RFC 8032 forbids and libgcrypt takes.", ("other half",)),
    _Why(
        (_B, Reason.UNKNOWN_KEY),
        "A bit outside of what is hashed.",
        ("bit of what is not", "bit of the packet", "bit of the numbers", "bit of what is hashed", "signature cut"),
        sometimes=True,
    ),
    _Why(
        (Reason.UNKNOWN_KEY,),
        "Too weak a key to be in a policy, which would not load.",
        ("weak RSA", "short RSA", "DSA", "key bound by SHA-1"),
    ),
    _Why((Reason.UNKNOWN_KEY,), "Sequoia does not compute this curve here.", ("Brainpool curve",)),
    _Why(
        (Reason.KEY_EXPIRED,),
        "The key's end had passed at receipt. Sequoia asks at the signature's own time, git from 2.54 not at all.",
        ("expired key, backdated",),
    ),
    _Why(
        (Reason.KEY_EXPIRED,),
        "git from 2.54 accepts a key that has expired since.",
        ("expired key", "expired subkey"),
        _GIT,
        sometimes=True,
    ),
)

SSH: Final = _table(
    *_COMMON,
    _Why(
        (_M,),
        "Another spelling of the armor: a stranger could give a signed commit another id.",
        ("armor in lines of 40", "armor in lines of 76", "armor in one line"),
    ),
    _Why(
        (_T,),
        "SSH signatures have no date of their own; ours is the committer's, and must lie in the window.",
        ("dated far ahead", "dated before the key"),
    ),
    _Why((_B,), "A reserved field is not signed and is to be empty.", ("reserved, unsigned",)),
    _Why((_B,), "OpenSSH takes versions below its own.", ("version 0",)),
    _Why((_B,), "A number in another spelling.", ("value with a zero before",)),
    _Why((_B,), "Ed25519 with s + L, which RFC 8032 forbids and OpenSSH takes.", ("other half",)),
    _Why(
        (Reason.NO_USER_PRESENCE,),
        "ssh-keygen does not look at a security key's flags.",
        ("no touch", "PIN without touch"),
    ),
    _Why((Reason.UNKNOWN_KEY,), "Too weak a key to be in a policy, which would not load.", ("weak RSA",)),
    _Why((Reason.KEY_EXPIRED,), "The dates of a key are the policy's.", ("key past its end",)),
    _Why((Reason.KEY_NOT_YET_VALID,), "The dates of a key are the policy's.", ("key not valid yet",)),
    _Why((Reason.KEY_REVOKED,), "Revocations are the policy's.", ("key revoked",)),
    _Why(
        (_B, _M, Reason.UNKNOWN_KEY, Reason.NO_USER_PRESENCE, Reason.WRONG_NAMESPACE, Reason.WEAK_DIGEST),
        "A bit that OpenSSH does not look at.",
        ("bit of the packet", "bit of the blob", "bit of the last octets", "signature cut"),
        sometimes=True,
    ),
)

BEYOND: Final[Mapping[str, tuple[frozenset[str], str]]] = {
    "key retired later": (
        _SEQUOIA,
        "A soft revocation dated after receipt does not count yet. gpg counts it whatever its date (REVKEYSIG), and "
        "then a key that is retired would take back all that it ever signed.",
    ),
}
"""What we accept and not everybody does: who does, and why. gpg must still call the signature itself good."""
