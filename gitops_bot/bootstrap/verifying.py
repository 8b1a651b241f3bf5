"""One commit is taken through the numbered steps again and each says what it found, offline: nothing is fetched.

On the host the asks, the remembered revocations and what was stored come from the database; elsewhere a bundle and a
request from files are enough (`bootstrap.offline`). A commit that was judged is explained as of its receipt; nothing is
written, and what was judged stands whatever is found here.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from gitops_bot.bootstrap.clones import people_with
from gitops_bot.bootstrap.offline import Setting, person_of
from gitops_bot.core.asks import AskId, AskState, late
from gitops_bot.core.errors import Malformed, Reason, Refusal, Refused, Unavailable, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.signed.channel import Examined, Known, Receipt
from gitops_bot.signed.evidence import ObjectId, SignatureKind, Window
from gitops_bot.signed.grammar import read_id
from gitops_bot.signed.history import descends, roots_of
from gitops_bot.signed.remedies import remedy
from gitops_bot.signed.votes import follows
from gitops_bot.store import asks, branches, signed_commits, signed_votes
from gitops_bot.store.signed_commits import COUNTED, REVOCATION, ROOT, SignedCommit
from gitops_bot.store.states import BranchState, CommitState

WOULD_COUNT: Final = "would_count"
WOULD_REVOKE: Final = "would_revoke"
HELD: Final = "held"
SOUND: Final = frozenset({COUNTED, REVOCATION, ROOT, WOULD_COUNT, WOULD_REVOKE})
"""Outcomes that refuse nothing."""

_ENGINES: Final[Mapping[SignatureKind, tuple[str, str]]] = {
    SignatureKind.OPENPGP: ("Sequoia", "gpg"),
    SignatureKind.SSH: ("cryptography", "ssh-keygen"),
}


def verify(setting: Setting, commit: str, person: str | None, received_at: int | None, now: int) -> dict[str, Any]:
    """Explain one commit: every step with what it found, what was stored of it, and the outcome. Times in ms.

    Raises:
        Refusal: the commit is not here, or whose branch it is on is not known (`not_found`).
        Unavailable: git failed.
    """
    try:
        oid = read_id(commit)
    except Malformed as error:
        raise Refusal(refuse(Reason.NOT_FOUND, "Give the full id of a commit: git rev-parse.")) from error
    if setting.repository.kind(oid) != "commit":
        raise Refusal(refuse(Reason.NOT_FOUND, "The broker's repository has no such commit; name a clone with --git."))
    name = _whose(setting, oid, person)
    row = _row(setting, name, oid)
    at = received_at if received_at is not None else now if row is None else row.received_at
    standing, found = _history(setting, name, oid, now)
    judged = row is not None and row.state is CommitState.JUDGED
    channel = setting.channel(known=_as_judged(setting, row), again=judged)
    examined = channel.examine(name, oid, Receipt(at, standing))
    steps = [{"step": 1, "title": "fetch", **_word(setting.fetched or _whence(setting))}]
    if standing is None:
        steps.append({"step": 2, "title": "history", **_word(found)})
    steps += _steps(examined)
    steps += _second(setting, examined, at)
    eighth = _last(setting, name, examined, row, at, now)
    steps.append({"step": 8, "title": "vote", **_word(eighth)})
    outcome, refused = _outcome(setting, examined, row, eighth)
    return {
        "commit": oid,
        "person": name,
        "received_at": at,
        "outcome": outcome,
        "sentence": refused.sentence if refused is not None else examined.held,
        "remedy": remedy(outcome),
        "steps": steps,
        "stored": None if row is None else _stored(row),
    }


def _whose(setting: Setting, oid: ObjectId, person: str | None) -> PrincipalName:
    if person is not None:
        return person_of(setting.policy, person)
    found = people_with(setting.repository, setting.place.environment, oid)
    if len(found) != 1:
        said = f"It is on the branches of {', '.join(found)}." if found else "It is on no branch that is known here."
        raise Refusal(refuse(Reason.NOT_FOUND, f"{said} Say whose it is judged as: --person NAME."))
    return person_of(setting.policy, found[0])


def _row(setting: Setting, person: PrincipalName, oid: ObjectId) -> SignedCommit | None:
    if setting.database is None:
        return None
    with setting.database.read() as tx:
        return signed_commits.get(tx, person, oid)


def _whence(setting: Setting) -> str:
    if setting.clone is None:
        return "the commit is in the broker's repository"
    return "copied from the clone; git's fsck accepts every tree"


def _history(setting: Setting, person: PrincipalName, oid: ObjectId, now: int) -> tuple[Refused | None, str]:
    """2. Say where the commit stands on its branch, offline, and whether that branch begins with a root of its own."""
    branch = None
    if setting.database is not None:
        with setting.database.read() as tx:
            branch = branches.get(tx, person)
    tip = None if branch is None or branch.tip is None else ObjectId(branch.tip)
    if tip is not None and setting.repository.kind(tip) and descends(setting.repository, tip, oid):
        said = f"on the branch of {person}, which was read up to {tip}"
    elif branch is not None and branch.state is BranchState.FROZEN:
        return refuse(Reason(branch.reason or Reason.FROZEN.value), branch.detail or ""), ""
    elif person in people_with(setting.repository, setting.place.environment, oid):
        said = f"on the branch of {person}"
    else:
        said = f"on no branch of {person} that is known here; judged as if it were"
    place = setting.place
    roots = roots_of(setting.objects, oid, repository=place.repository, environment=place.environment, person=person)
    if isinstance(roots, Refused):
        # A commit without a parent is judged as a root by the next steps.
        return (None, said) if _is_root(setting, oid) else (roots, "")
    why: Refused | None = None
    for root in roots:
        if root.id == oid:
            return None, said
        examined = setting.channel(again=True).examine(person, root.id, Receipt(now))
        if examined.refused is None:
            return None, f"{said}, from its root {root.id}"
        why = why or examined.refused
    assert why is not None
    return refuse(Reason.ROOT_COMMIT, f"Its root does not stand: {why.reason.value}. {why.sentence}"), ""


def _is_root(setting: Setting, oid: ObjectId) -> bool:
    return list(setting.objects.roots(oid, 2)) == [oid]


def _as_judged(setting: Setting, row: SignedCommit | None) -> Callable[[AskId], Known | None]:
    """Give asks as they were when the commit was judged, if it was: an ask that ended later was open."""

    def known(ask: AskId) -> Known | None:
        found = setting.known(ask)
        if found is None or row is None or row.judged_at is None or found.ask.ended_at is None:
            return found
        if found.ask.ended_at < row.judged_at:
            return found
        return replace(found, ask=replace(found.ask, state=AskState.OPEN))

    return known


def _word(said: Refused | str) -> dict[str, Any]:
    if isinstance(said, Refused):
        return {"ok": False, "said": said.sentence, "code": said.reason.value}
    return {"ok": True, "said": said, "code": None}


def _steps(examined: Examined) -> list[dict[str, Any]]:
    """Give the channel's own steps; the fifth comes twice, once for each engine."""
    found = []
    engines = iter(("", "") if examined.commit is None else _ENGINES[examined.commit.kind])
    for step in examined.steps:
        title = f"{step.title}, {next(engines)}" if step.number == 5 else step.title
        found.append({"step": step.number, "title": title, **_word(step.refused or step.found)})
    return found


def _second(setting: Setting, examined: Examined, at: int) -> list[dict[str, Any]]:
    """Ask the second engine where the steps ended before it, for whoever wants to know what it says."""
    commit = examined.commit
    if commit is None or examined.first is None or sum(step.number == 5 for step in examined.steps) > 1:
        return []
    opened = None if examined.known is None else examined.known.ask.opened_at
    title = f"signature, {_ENGINES[commit.kind][1]}"
    try:
        said = setting.keys.pairs[commit.kind].second.verify(commit, Window(at, setting.place.skew, opened))
    except Unavailable as error:
        return [{"step": 5, "title": title, "ok": False, "said": str(error), "code": HELD}]
    word: Refused | str = said if isinstance(said, Refused) else f"{said.component} signed it"
    return [{"step": 5, "title": title, **_word(word)}]


def _last(
    setting: Setting, person: PrincipalName, examined: Examined, row: SignedCommit | None, at: int, now: int
) -> Refused | str:
    """8. Say what was stored, or what counting it now would say."""
    if row is not None and row.state is CommitState.JUDGED:
        code = row.code or ""
        if code in SOUND:
            return f"stored as {code}"
        return refuse(Reason(code), row.detail or "")
    if examined.refused is not None:
        return "not reached"
    if examined.held is not None:
        return "waits until both engines were asked"
    if examined.root:
        return "the branch's root; it votes for nothing"
    return _counting(setting, person, examined, at, now)


def _counting(setting: Setting, person: PrincipalName, examined: Examined, at: int, now: int) -> Refused | str:
    assert examined.change is not None and examined.known is not None
    ask, decision = examined.known.ask, examined.change.decision
    if setting.database is None:
        if decision is Decision.APPROVE and ask.expires_at is not None and at >= ask.expires_at:
            return refuse(Reason.EXPIRED)
        return "would count on an open ask as its person's first vote; without a database neither is known"
    with setting.database.read() as tx:
        current = asks.get(tx, ask.id)
        own = [vote.decision for vote in signed_votes.of_ask(tx, ask.id) if vote.principal == person]
    assert current is not None
    if current.state is AskState.APPROVED:
        return "would be taken as a revocation"
    if current.state is not AskState.OPEN:
        return late(current)
    if current.expires_at is not None and current.expires_at <= now:
        return refuse(Reason.EXPIRED)
    refused = follows(person, own[-1] if own else None, decision)
    return "would count" if refused is None else refused


def _outcome(
    setting: Setting, examined: Examined, row: SignedCommit | None, eighth: Refused | str
) -> tuple[str, Refused | None]:
    """Name the outcome. What fails now is said, though what was judged stands; else what was stored."""
    refused = examined.refused
    if refused is None and isinstance(eighth, Refused):
        refused = eighth
    if refused is None and row is None:
        refused = setting.fetched
    if refused is not None:
        return refused.reason.value, refused
    if examined.held is not None:
        return HELD, None
    if row is not None and row.code in SOUND:
        return row.code or "", None
    if examined.root:
        return ROOT, None
    return (WOULD_REVOKE if eighth == "would be taken as a revocation" else WOULD_COUNT), None


def _stored(row: SignedCommit) -> dict[str, Any]:
    return {
        "state": row.state.value,
        "code": row.code,
        "detail": row.detail,
        "ask": row.ask,
        "decision": row.decision,
        "key": row.key,
        "attempts": row.attempts,
        "received_at": row.received_at,
        "judged_at": row.judged_at,
    }
