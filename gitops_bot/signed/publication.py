"""What the requests branch must hold is a mapping of paths to bytes, computed from what the broker has stored.

Every JSON file is RFC 8785 with a protocol of its own; paths are sharded by the last two characters of the ask, for a
flat folder makes 10,000 asks quadratic. Writing them, and signing what is written, is left to `publishing`.

Pure: no I/O, clock, randomness, logging or third-party library; `tests/architecture` holds it to that.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import Digest, bundle_digest, canonical
from gitops_bot.core.errors import Malformed, Reason
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.params import printable
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.rendering import Request, render_file, render_message, request_bytes

SPENT: Final = "gitops-bot/spent/v1"
LEDGER_HEAD: Final = "gitops-bot/ledger-head/v1"
RECEIPTS: Final = "gitops-bot/receipts/v1"
COUNTED: Final = "counted"
REVOCATION: Final = "revocation"
"""The outcomes of a commit that are no refusal."""
OUTCOMES: Final = frozenset({COUNTED, REVOCATION, *(reason.value for reason in Reason)})
MAX_RECEIPTS: Final = 16
"""Of one person on one ask: junk after a vote must not push its receipt out before `sign` has seen it."""
MAX_SENTENCE: Final = 1_000

_ASK: Final = "[0-7][0-9a-hjkmnp-tv-z]{25}"
_PERSON: Final = "[a-z][a-z0-9-]{0,31}"
_FILE: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_PATH: Final = re.compile(
    rf"asks/(?P<a>[0-9a-z]{{2}})/(?P<ask>{_ASK})/(?:request\.json|{_PERSON}\.(?:approve|deny|revoke)(?:\.msg)?)"
    rf"|receipts/(?P<r>[0-9a-z]{{2}})/(?P<receipts>{_ASK})/{_PERSON}\.json"
    rf"|spent/(?P<s>[0-9a-z]{{2}})/(?P<spent>{_ASK})\.json"
    rf"|ledger/[1-9][0-9]{{0,15}}\.json"
    rf"|bundles/[0-9a-f]{{64}}/(?:{_FILE}\.toml|keys/{_FILE})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one commit, for the person who pushed it. `code` is `counted`, `revocation` or the reason; `fix`
    says what to do next, empty when there is nothing; `at` in ms. `votes` are the approves that count so far of
    `needed`, `missing` who could still give one. It is the broker's word by the signature of the commit that adds it.
    """

    ask: AskId
    person: PrincipalName
    commit: ObjectId
    code: str
    sentence: str
    fix: str
    at: int
    votes: tuple[PrincipalName, ...]
    needed: int
    missing: tuple[PrincipalName, ...]


def shard(ask: str) -> str:
    """Give the folder of an ask: the last two characters of its id."""
    return ask[-2:]


def check_path(path: str) -> None:
    """Hold a path against the forms that the branch has.

    Raises:
        Malformed: any other form, or an ask in another ask's folder.
    """
    found = _PATH.fullmatch(path)
    if found is None:
        raise Malformed("no path of the requests branch", where=ascii(path)[:120])
    for folder, ask in (("a", "ask"), ("r", "receipts"), ("s", "spent")):
        if found[ask] is not None and found[folder] != shard(found[ask]):
            raise Malformed("an ask in the folder of another", where=ascii(path)[:120])


def request_folder(ask: str) -> str:
    """Name the folder of an ask's request and of the files to sign."""
    return f"asks/{shard(ask)}/{ask}"


def spent_path(ask: str) -> str:
    """Name the marker that an ask's grant is spent."""
    return f"spent/{shard(ask)}/{ask}.json"


def request_files(request: Request, voters: Mapping[PrincipalName, Collection[Decision]]) -> dict[str, bytes]:
    """Give a request with, for each person, the exact file and commit message of each decision that they may give.

    Raises:
        Malformed: a request or person out of form.
    """
    folder = request_folder(request.ask)
    files = {f"{folder}/request.json": request_bytes(request)}
    for person, decisions in voters.items():
        for decision in decisions:
            path = f"{folder}/{person}.{decision.value}"
            files[path] = render_file(request, person, decision)
            files[f"{path}.msg"] = render_message(request, person, decision)
    return files


def receipt_file(receipts: Sequence[Receipt]) -> dict[str, bytes]:
    """Give the file of one person's receipts on one ask, oldest first; of more than `MAX_RECEIPTS` the last ones.

    Raises:
        Malformed: none, receipts of several people or asks, or an outcome that is none.
    """
    of = {(receipt.ask, receipt.person) for receipt in receipts}
    if len(of) != 1 or not all(receipt.code in OUTCOMES for receipt in receipts):
        raise Malformed("not the receipts of one person on one ask", where="receipts")
    ((ask, person),) = of
    document = {
        "protocol": RECEIPTS,
        "ask": ask,
        "person": person,
        "receipts": [_receipt(receipt) for receipt in receipts[-MAX_RECEIPTS:]],
    }
    return {f"receipts/{shard(ask)}/{ask}/{person}.json": canonical(document)}


def _receipt(receipt: Receipt) -> dict[str, object]:
    return {
        "commit": receipt.commit,
        "code": receipt.code,
        "sentence": _shown(receipt.sentence),
        "fix": _shown(receipt.fix),
        "at": receipt.at,
        "votes": list(receipt.votes),
        "needed": receipt.needed,
        "missing": list(receipt.missing),
    }


def _shown(text: str) -> str:
    """Cut a sentence and replace what a terminal would obey: it may quote what somebody pushed."""
    return "".join(char if printable(char) else "\ufffd" for char in text[:MAX_SENTENCE])


def spent_file(ask: AskId, action_hash: Digest, nonce: str, at: int) -> dict[str, bytes]:
    """Give the marker that an ask's grant is spent under this nonce, `at` in ms. There is one marker an ask, ever."""
    marker = {"protocol": SPENT, "ask": ask, "action_hash": action_hash, "nonce": nonce, "at": at}
    return {spent_path(ask): canonical(marker)}


def ledger_file(seq: int, seal: Digest, epoch: int, at: int) -> dict[str, bytes]:
    """Give an anchored head of the ledger: the seal of entry `seq` as it was at `at`, in ms."""
    head = {"protocol": LEDGER_HEAD, "seq": seq, "seal": seal, "epoch": epoch, "at": at}
    return {f"ledger/{seq}.json": canonical(head)}


def bundle_files(digest: Digest, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Give a bundle's own bytes under its digest.

    Raises:
        Malformed: the bytes are those of another digest, or a path is none of a bundle.
    """
    if bundle_digest(files) != digest:
        raise Malformed("the files have another digest", where=digest)
    found = {f"bundles/{digest.removeprefix('sha256:')}/{path}": content for path, content in files.items()}
    for path in found:
        check_path(path)
    return found
