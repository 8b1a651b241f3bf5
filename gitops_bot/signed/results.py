"""What the engine in process found of a commit, in the form in which it is kept under the name of the key set."""

from typing import Any

from gitops_bot.core.errors import Reason, Refused, refuse
from gitops_bot.policy.model import KeyKind
from gitops_bot.signed.evidence import SignatureKind, Signed


def to_document(found: Signed | Refused) -> dict[str, Any]:
    """Write a result."""
    if isinstance(found, Refused):
        return {"refused": found.reason.value, "detail": found.detail}
    return {
        "kind": found.kind.value,
        "key": found.key,
        "component": found.component,
        "signed_at": found.signed_at,
        "proof": found.proof.value,
        "counter": found.counter,
    }


def from_document(document: dict[str, Any]) -> Signed | Refused:
    """Read what `to_document` wrote."""
    if "refused" in document:
        return refuse(Reason(document["refused"]), document["detail"])
    return Signed(
        SignatureKind(document["kind"]),
        document["key"],
        document["component"],
        document["signed_at"],
        KeyKind(document["proof"]),
        document["counter"],
    )
