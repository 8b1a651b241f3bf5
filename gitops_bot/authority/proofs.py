"""The evidence of an asserted answer: everything that was verified, in one canonical document, to be verified again.

Offline and without a database it proves that the key in it signed the statement, with user verification, at the
statement's origin. That the key was the person's is told by the ledger, whose entry of its enrolment has its digest.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gitops_bot.authority.authenticators import Assertion, Unfit, decode, encode, read_assertion, verify_use
from gitops_bot.core.canonical import canonical, digest
from gitops_bot.core.errors import Malformed
from gitops_bot.core.statements import BATCH, MOST_IN_BATCH, ONE, Statement
from gitops_bot.core.strictjson import loads

VERSION: Final = 1
MOST: Final = 131_072
"""Bytes of one evidence."""
_MOST_KEY: Final = 2048
_MEMBERS: Final = frozenset(
    {
        "v", "rp_id", "statements", "position", "credential", "public_key", "client_data", "authenticator_data",
        "signature",
    }
)  # fmt: skip
_SAID: Final = frozenset(Statement.__dataclass_fields__)


def evidence_of(
    rp_id: str, statements: Sequence[Statement], position: int, assertion: Assertion, public_key: bytes
) -> bytes:
    """Give the evidence of the answer at a position, from 0, of what one assertion stands for."""
    return canonical(
        {
            "v": VERSION,
            "rp_id": rp_id,
            "statements": [one.document() for one in statements],
            "position": position,
            "credential": assertion.id,
            "public_key": encode(public_key),
            "client_data": encode(assertion.client_data),
            "authenticator_data": encode(assertion.authenticator_data),
            "signature": encode(assertion.signature),
        }
    )


def recheck(evidence: bytes) -> str | None:
    """Verify the evidence of an asserted answer again, from its bytes alone; give what is wrong, None when it stands.

    Whose key it is, and that the statement is that of the vote beside it, is *not* checked: see `stated`.
    """
    try:
        document = _read(evidence)
    except Malformed as error:
        return error.message
    public_key, assertion = _parts(document)
    if public_key is None or assertion is None:
        return "a part of the assertion is no base64url, or is too large"
    statements: list[Mapping[str, Any]] = document["statements"]
    origins = {(one["origin"], one["person"], one["credential"], one["nonce"]) for one in statements}
    if len(origins) > 1 or len({one["ask"] for one in statements}) < len(statements):
        return "its statements are not of one ceremony"
    if statements[0]["credential"] != assertion.id:
        return "its statements name another passkey"
    used = verify_use(
        assertion,
        challenge=_challenge(statements),
        origin=statements[0]["origin"],
        rp_id=document["rp_id"],
        public_key=public_key,
    )
    return used.why if isinstance(used, Unfit) else None


def stated(evidence: bytes) -> tuple[Mapping[str, Any], bytes]:
    """Give the statement that an evidence stands for, and the COSE key in it; the evidence is *not* verified.

    Raises:
        Malformed: it is no evidence of an assertion.
    """
    document = _read(evidence)
    statement: Mapping[str, Any] = document["statements"][document["position"]]
    public_key = decode(document["public_key"], _MOST_KEY)
    if public_key is None:
        raise Malformed("its key is no base64url, or is too large")
    return statement, public_key


def _read(evidence: bytes) -> dict[str, Any]:
    document = loads(evidence, limit=MOST, where="evidence")
    if not isinstance(document, dict) or set(document) != _MEMBERS or document["v"] != VERSION:
        raise Malformed("it is no assertion")
    if canonical(document) != evidence:
        raise Malformed("it is not in its canonical form")
    statements, position = document["statements"], document["position"]
    if not isinstance(statements, list) or not 1 <= len(statements) <= MOST_IN_BATCH:
        raise Malformed("it holds no statements, or too many")
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < len(statements):
        raise Malformed("its position is outside of its statements")
    if not all(isinstance(one, dict) and set(one) == _SAID for one in statements):
        raise Malformed("a statement of it has other members")
    if not isinstance(document["rp_id"], str) or not all(isinstance(one["origin"], str) for one in statements):
        raise Malformed("it names no origin")
    return document


def _parts(document: Mapping[str, Any]) -> tuple[bytes | None, Assertion | None]:
    assertion = read_assertion(
        {
            "id": document["credential"],
            "rawId": document["credential"],
            "type": "public-key",
            "response": {
                "clientDataJSON": document["client_data"],
                "authenticatorData": document["authenticator_data"],
                "signature": document["signature"],
            },
        }
    )
    return decode(document["public_key"], _MOST_KEY), None if isinstance(assertion, Unfit) else assertion


def _challenge(statements: Sequence[Mapping[str, Any]]) -> bytes:
    one, many = (ONE, statements[0]), (BATCH, list(statements))
    tag, said = one if len(statements) == 1 else many
    return bytes.fromhex(digest(tag, canonical(said)).removeprefix("sha256:"))
