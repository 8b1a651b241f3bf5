"""What an approver reads of the requests branch, and what they type, become values; anything else is refused.

The branch's words are the broker's by the signature of its tip, which is *not* checked here.
"""

import re
from typing import Any, Final, cast

from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import MAX_INTEGER, Digest, canonical
from gitops_bot.core.errors import Malformed
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.strictjson import load_object
from gitops_bot.policy.params import printable
from gitops_bot.signed.grammar import read_id
from gitops_bot.signed.publication import MAX_RECEIPTS, MAX_SENTENCE, OUTCOMES, RECEIPTS, SPENT, Receipt

MAX_RECEIPTS_FILE: Final = 64 * 1024
MAX_MARKER: Final = 8 * 1024

_ASK: Final = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}", re.ASCII)
_URL: Final = re.compile(r"https?://[!-~]{1,2000}", re.ASCII)
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}", re.ASCII)
_CODE: Final = re.compile(r"[a-z2-7]{8}", re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_BUNDLE: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NONCE: Final = re.compile(r"[!-~]{1,200}", re.ASCII)
_RECEIPT: Final = frozenset(Receipt.__slots__) - {"ask", "person"}


def read_ask(text: str) -> AskId:
    """Read an ask's id, or the one id in the path of a page's address; the address is never opened.

    Raises:
        Malformed: neither.
    """
    if _ASK.fullmatch(text):
        return AskId(text)
    if _URL.fullmatch(text):
        path = re.split(r"[?#]", text, maxsplit=1)[0]
        found = {part for part in path.split("/")[3:] if _ASK.fullmatch(part)}
        if len(found) == 1:
            return AskId(found.pop())
    raise Malformed("neither the id of an ask nor the address of its page", where="ask")


def same_code(typed: str, code: str) -> bool:
    """Tell whether somebody typed a short code: in any case, blanks and hyphens left out."""
    plain = "".join(char for char in typed[:64] if char not in " -\t\r\n").lower()
    return _CODE.fullmatch(plain) is not None and plain == code.lower()


def read_bundle_name(text: str) -> Digest:
    """Read the name of a bundle's folder on the requests branch as the digest that it claims.

    Raises:
        Malformed: it is none.
    """
    if not _BUNDLE.fullmatch(text):
        raise Malformed("no hex of a digest", where="bundles/")
    return Digest(f"sha256:{text}")


def read_marker(raw: bytes, ask: AskId) -> Digest:
    """Read the marker that an ask's grant is spent; give the hash of the action that was.

    Raises:
        Malformed: other members, another ask's, or any other bytes than the canonical ones.
    """
    found = load_object(raw, limit=MAX_MARKER, where="spent")
    if found.keys() != {"protocol", "ask", "action_hash", "nonce", "at"} or found["protocol"] != SPENT:
        raise Malformed(f"not exactly the members of {SPENT}", where="spent")
    if found["ask"] != ask:
        raise Malformed("of another ask", where="spent")
    _text(_DIGEST, found["action_hash"], "spent")
    _text(_NONCE, found["nonce"], "spent")
    _count(found["at"], "spent")
    if canonical(found) != raw:
        raise Malformed("not the canonical bytes (RFC 8785)", where="spent")
    return Digest(found["action_hash"])


def read_receipts(raw: bytes, ask: AskId, person: PrincipalName) -> tuple[Receipt, ...]:
    """Read one person's receipts on one ask, oldest first.

    Raises:
        Malformed: other members or values, somebody else's, or any other bytes than the canonical ones.
    """
    where = "receipts"
    document = load_object(raw, limit=MAX_RECEIPTS_FILE, where=where)
    if document.keys() != {"protocol", "ask", "person", "receipts"} or document["protocol"] != RECEIPTS:
        raise Malformed(f"not exactly the members of {RECEIPTS}", where=where)
    if (document["ask"], document["person"]) != (ask, person):
        raise Malformed("of another ask or person", where=where)
    listed = document["receipts"]
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_RECEIPTS:
        raise Malformed(f"not 1 to {MAX_RECEIPTS} receipts", where=where)
    receipts = tuple(_receipt(one, ask, person) for one in cast("list[object]", listed))
    if canonical(document) != raw:
        raise Malformed("not the canonical bytes (RFC 8785)", where=where)
    return receipts


def _receipt(raw: object, ask: AskId, person: PrincipalName) -> Receipt:
    where = "receipt"
    if not isinstance(raw, dict) or raw.keys() != _RECEIPT:
        raise Malformed("not exactly its members", where=where)
    found = cast("dict[str, Any]", raw)
    if not isinstance(found["commit"], str):
        raise Malformed("no commit", where=where)
    if not isinstance(found["code"], str) or found["code"] not in OUTCOMES:
        raise Malformed("an outcome that is none", where=where)
    for name in ("sentence", "fix"):
        text = found[name]
        if not isinstance(text, str) or len(text) > MAX_SENTENCE or not printable(text):
            raise Malformed("no sentence that can be shown", where=f"{where}: {name}")
    return Receipt(
        ask,
        person,
        read_id(found["commit"], where=where),
        found["code"],
        found["sentence"],
        found["fix"],
        _count(found["at"], where),
        _names(found["votes"], where),
        _count(found["needed"], where),
        _names(found["missing"], where),
    )


def _names(raw: object, where: str) -> tuple[PrincipalName, ...]:
    if not isinstance(raw, list):
        raise Malformed("no list of names", where=where)
    return tuple(PrincipalName(_text(_NAME, name, where)) for name in cast("list[object]", raw))


def _text(form: re.Pattern[str], value: object, where: str) -> str:
    if not isinstance(value, str) or form.fullmatch(value) is None:
        raise Malformed("a value of another form", where=where)
    return value


def _count(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INTEGER:
        raise Malformed("no whole number from 0", where=where)
    return value
