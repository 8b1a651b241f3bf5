"""What is done to a commit whatever signs it: other contents, dates, headers, armors; some of it does no harm."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.interop.drafts import Damage, Draft, Edit, flipped, who
from tests.signed_stage import NOW

MESSAGES: Final = (
    b"",
    b"\n",
    b"no line end",
    b"two\nlines\n",
    b"blank at the end \n\n\n",
    b"carriage\r\nreturns\r\n",
    "Überweisung 👍 ́\n".encode(),
    b"\xff\xfe not UTF-8\n",
    b"gpgsig like a header\n more\n\n-----BEGIN PGP SIGNATURE-----\n",
    b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n",
    b"tabs\tand \x01 controls\x7f\n",
    b"long " * 4_000 + b"\n",
    b" leading blank\n",
    b"#comment\n- -----\n",
)
NAMES: Final = ("a <>", "Ünï Cödé <u@example.com>", "a b  c <a@b>", "alice <alice>", "a.b, c <x@y>", "\\u200d <q@r>")
ZONES: Final = ("+0000", "-0000", "+1400", "-1130", "+0530")


def none(draft: Draft, _rng: Random) -> Draft:
    """Leave it sound."""
    return draft


def message(draft: Draft, rng: Random) -> Draft:
    """Sign another message."""
    return draft.commit(message=rng.choice(MESSAGES))


def identity(draft: Draft, rng: Random) -> Draft:
    """Sign under other names and zones; the committer's date stays."""
    author = who(rng.choice((0, 1, NOW, 2**33, 99_999_999_999)), name=rng.choice(NAMES), zone=rng.choice(ZONES))
    return draft.commit(author=author, committer=who(name=rng.choice(NAMES), zone=rng.choice(ZONES)))


def date(draft: Draft, rng: Random) -> Draft:
    """Date commit and signature within the window."""
    return draft.commit(at=NOW + rng.choice((-3_900, -3_600, -60, 0, 60, 360)))


def early(draft: Draft, rng: Random) -> Draft:
    """Date commit and signature before the ask was opened."""
    return draft.commit(at=NOW - rng.choice((3_901, 7_200, 86_400 * 365)))


def later(draft: Draft, rng: Random) -> Draft:
    """Date commit and signature after receipt."""
    return draft.commit(at=NOW + rng.choice((361, 3_600, 86_400 * 300)))


def ahead(draft: Draft, _rng: Random) -> Draft:
    """Date commit and signature far in the future."""
    return draft.commit(at=2**31 + 86_400 * 365)


def oldest(draft: Draft, _rng: Random) -> Draft:
    """Date commit and signature before the key was made."""
    return draft.commit(at=1_500_000_000)


def unsigned(draft: Draft, _rng: Random) -> Draft:
    """Sign nothing."""
    return draft.commit(signer=None)


def recipe(**changes: Any) -> Damage:
    """Have other headers signed."""
    return lambda draft, _rng: draft.commit(**changes)


def on_raw(edit: Edit) -> Damage:
    """Edit the finished object."""
    return lambda draft, _rng: replace(draft, raw=edit)


def on_armor(edit: Edit) -> Damage:
    """Edit the signature's text."""
    return lambda draft, _rng: replace(draft, armor=edit)


def raw_drawn(edit: Callable[[bytes, Random], bytes]) -> Damage:
    """Edit the finished object as a seed says."""
    return lambda draft, rng: replace(draft, raw=_seeded(edit, rng.random()))


def armor_drawn(edit: Callable[[bytes, Random], bytes]) -> Damage:
    """Edit the signature's text as a seed says."""
    return lambda draft, rng: replace(draft, armor=_seeded(edit, rng.random()))


def blob_drawn(edit: Callable[[bytes, Random], bytes]) -> Damage:
    """Edit the signature's bytes as a seed says."""
    return lambda draft, rng: replace(draft, blob=_seeded(edit, rng.random()))


def _seeded(edit: Callable[[bytes, Random], bytes], seed: float) -> Edit:
    return lambda content: edit(content, Random(seed))


def swap(old: bytes, new: bytes) -> Edit:
    """Replace the first of some bytes."""
    return lambda content: content.replace(old, new, 1)


def _head(raw: bytes) -> int:
    return raw.index(b"\n\n")


def _cut(content: bytes, rng: Random) -> bytes:
    return content[: rng.randrange(len(content))]


def _flip_head(raw: bytes, rng: Random) -> bytes:
    return flipped(raw, rng, 0, raw.index(b"gpgsig") - 1)


def _flip_signature(raw: bytes, rng: Random) -> bytes:
    return flipped(raw, rng, raw.index(b"gpgsig"), _head(raw))


def _flip_message(raw: bytes, rng: Random) -> bytes:
    return flipped(raw + b"x", rng, _head(raw) + 2)


def _upper(raw: bytes) -> bytes:
    return raw[:5] + raw[5:45].upper().replace(b"0", b"A") + raw[45:]


def _last(raw: bytes) -> bytes:
    """Put the signature's header before the author."""
    start = raw.index(b"gpgsig ")
    head, signature = raw[:start], raw[start : _head(raw) + 1]
    author = head.index(b"author ")
    return head[:author] + signature + head[author:] + raw[_head(raw) + 1 :]


def _twice(raw: bytes) -> bytes:
    signature = raw[raw.index(b"gpgsig ") : _head(raw) + 1]
    return raw.replace(b"gpgsig ", signature + b"gpgsig ", 1)


def _crlf_armor(text: bytes) -> bytes:
    return text.replace(b"\n", b"\r\n")


def _blanks(text: bytes) -> bytes:
    lines = text.split(b"\n")
    lines[3] += b" "
    return b"\n".join(lines)


def _wrapped(columns: int) -> Edit:
    def edit(text: bytes) -> bytes:
        lines = text.split(b"\n")
        start = lines.index(b"") + 1 if lines[1] == b"" else 1
        end = next(at for at in range(start, len(lines)) if lines[at][:1] in (b"=", b"-"))
        body = b"".join(lines[start:end])
        again = [body[at : at + columns] for at in range(0, len(body), columns)]
        return b"\n".join([*lines[:start], *again, *lines[end:]])

    return edit


def _unpadded(text: bytes) -> bytes:
    return b"\n".join(line.rstrip(b"=") for line in text.split(b"\n"))


ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _spelled(text: bytes, rng: Random) -> bytes:
    """Change one letter of the armor's body."""
    start = text.index(b"-----\n") + 7
    at = rng.randrange(start, text.rindex(b"\n-----END"))
    return text[:at] + bytes([rng.choice(ALPHABET)]) + text[at + 1 :]


HARMLESS: Final[dict[str, Damage]] = {"nothing": none, "message": message, "identity": identity, "date": date}
COMMON: Final[dict[str, Damage]] = {
    **HARMLESS,
    "dated early": early,
    "dated later": later,
    "dated far ahead": ahead,
    "dated before the key": oldest,
    "unsigned": unsigned,
    "two parents": recipe(parents=("1" * 40, "2" * 40)),
    "no parent": recipe(parents=()),
    "encoding header": recipe(signed=(b"encoding latin-1",)),
    "mergetag header": recipe(signed=(b"mergetag object " + b"1" * 40, b" type commit", b" tag x", b" ", b" y")),
    "foreign header": recipe(signed=(b"HG:extra branch:x",)),
    "no e-mail": recipe(author=b"alice %d +0000" % NOW),
    "zone of three digits": recipe(committer=who(zone="+000")),
    "zone of noon and more": recipe(committer=who(zone="+2500")),
    "date with a zero": recipe(author=who(f"0{NOW}")),
    "date without end": recipe(author=who(10**20)),
    "date below zero": recipe(author=who(-5)),
    "NUL in the message": recipe(message=b"a\0b\n"),
    "NUL in the name": recipe(author=who(name="a\0b <x>")),
    "large message": recipe(message=b"x" * 70_000),
    "signature as gpgsig-sha256": recipe(header=b"gpgsig-sha256"),
    "gpgsigX before": on_raw(swap(b"\ngpgsig ", b"\ngpgsigX junk\ngpgsig ")),
    "gpgsigX after": on_raw(swap(b"\n\n", b"\ngpgsigX junk\n\n")),
    "gpgsig-sha256 beside": on_raw(swap(b"\ngpgsig ", b"\ngpgsig-sha256 junk\ngpgsig ")),
    "gpgsig in capitals": on_raw(swap(b"\ngpgsig ", b"\nGpgSig ")),
    "signature before the author": on_raw(_last),
    "signature header twice": on_raw(_twice),
    "unsigned header": on_raw(swap(b"\ngpgsig ", b"\nnote junk\ngpgsig ")),
    "second tree": on_raw(swap(b"\n", b"\ntree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n")),
    "second parent, unsigned": on_raw(swap(b"\nauthor ", b"\nparent " + b"1" * 40 + b"\nauthor ")),
    "second author": on_raw(swap(b"\ncommitter ", b"\nauthor x <x> 1 +0000\ncommitter ")),
    "id in capitals": on_raw(_upper),
    "carriage return in the header": on_raw(swap(b"\ncommitter ", b"\r\ncommitter ")),
    "two blank lines": on_raw(swap(b"\n\n", b"\n\n\n")),
    "message grows": on_raw(lambda raw: raw + b"\n"),
    "message shrinks": on_raw(lambda raw: raw[:-1]),
    "object cut": raw_drawn(_cut),
    "bit of the headers": raw_drawn(_flip_head),
    "bit of the signature": raw_drawn(_flip_signature),
    "bit of the message": raw_drawn(_flip_message),
    "armor comment": on_armor(swap(b"-----\n", b"-----\nComment: x\n")),
    "text before the armor": on_armor(lambda text: b"junk\n" + text),
    "text after the armor": on_armor(lambda text: text + b"junk\n"),
    "blank line after the armor": on_armor(lambda text: text + b"\n"),
    "two armors": on_armor(lambda text: text * 2),
    "armor of carriage returns": on_armor(_crlf_armor),
    "blank at a line's end": on_armor(_blanks),
    "armor in lines of 40": on_armor(_wrapped(40)),
    "armor in lines of 76": on_armor(_wrapped(76)),
    "armor in one line": on_armor(_wrapped(100_000)),
    "armor without padding": on_armor(_unpadded),
    "armor without an end": on_armor(lambda text: text[: text.index(b"-----END")]),
    "armor of another kind": on_armor(lambda text: text.replace(b" SIGNATURE", b" MESSAGE")),
    "empty armor": on_armor(lambda text: text[: text.index(b"\n") + 1] + b"\n" + text[text.index(b"-----END") :]),
    "letter of the armor": armor_drawn(_spelled),
    "signature cut": blob_drawn(_cut),
    "bit of the packet": blob_drawn(flipped),
}
