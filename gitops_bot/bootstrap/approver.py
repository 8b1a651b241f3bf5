"""The composition root of an approver's machine: one person's `sign`, with no server, no database and no way to mint.

Each run looks at the requests branch, settles what it decides by (`approver_pin`), holds the request against it, has
the person read and type, and makes, verifies and pushes one signed commit. Whether it counts is the broker's to say.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitops_bot.bootstrap.approver_machine import load, own_repository
from gitops_bot.bootstrap.approver_pin import Desk, Pinning, Settled, or_refusal
from gitops_bot.bootstrap.approver_profile import Profile
from gitops_bot.bootstrap.bundle import certificates_of
from gitops_bot.bootstrap.clock import wall_seconds
from gitops_bot.bootstrap.trust import Trust
from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import Malformed, Reason, Refusal, Unavailable, refuse
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.diff import difference
from gitops_bot.policy.model import ADOPT, KeyKind, VerbRule
from gitops_bot.signed import by_hand
from gitops_bot.signed.approving.asked import Home, belongs, may_say, rule_for
from gitops_bot.signed.approving.awaiting import accepted, outcome, receipt_for, receipts_at, wait_for
from gitops_bot.signed.approving.clone import Clone, Look
from gitops_bot.signed.approving.following import Follower, bundle_at, grown
from gitops_bot.signed.approving.grammar import same_code
from gitops_bot.signed.approving.judging import Bundle, Judge
from gitops_bot.signed.approving.sheet import Sheet, lines
from gitops_bot.signed.approving.signer import Signer, find_signer
from gitops_bot.signed.approving.voting import Booth
from gitops_bot.signed.channel import Place
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.fetching import Fetcher
from gitops_bot.signed.objects import Objects
from gitops_bot.signed.publication import Receipt, request_folder, spent_path
from gitops_bot.signed.remedies import remedy
from gitops_bot.signed.rendering import (
    MAX_REQUEST,
    Request,
    read_request,
    render_file,
    render_message,
    short_code,
)
from gitops_bot.signed.repository import Repository

SKEW: Final = 300_000
"""How far clocks may differ, in ms; the broker's own setting decides in the end."""
DONE, UNCONFIRMED, STILL_OPEN, REFUSED = 0, 1, 3, 4
_TRIES: Final = 3
_RACES: Final = 3

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be signed, and how long its receipt is awaited, in seconds."""

    ask: AskId
    decision: Decision
    wait: float
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: an exit status, and a document of it."""

    status: int
    document: Document


@dataclass(frozen=True, slots=True)
class _Case:
    """A request that the person may answer, by what is pinned, at one look."""

    look: Look
    settled: Settled
    request: Request
    rule: VerbRule


class Approver:
    """One machine's `sign` for one remote and person; `open` makes it."""

    def __init__(self, profile: Profile, environment: Mapping[str, str], repository: Repository) -> None:
        """Take what the machine was set up for; `environment` is what the person's own programs may see."""
        self._profile = profile
        self._environment = environment
        self._home = Path(environment.get("HOME", "/"))
        self._clone = Clone(repository, profile.environment)
        self._fetcher = Fetcher(repository, profile.environment)
        self._objects = Objects(repository)
        self._place = Place(profile.repository or "", profile.repository_id or 0, profile.environment, 1, SKEW)

    def close(self) -> None:
        """End git's processes."""
        self._objects.close()

    def sign(self, wish: Wish, desk: Desk) -> Outcome:
        """Sign one decision on one ask, push it, and wait for the broker's word.

        Raises:
            Refusal: it cannot be signed, or would not count; nothing was pushed.
            Declined: the person did not confirm.
            ConfigError: the set-up of this machine or of the person's git is not right.
            Unavailable: git, an engine or the remote failed.
        """
        with self._clone.alone():
            case = self._case(wish, desk)
            tip, commit = self._standing(case, wish.decision)
            if wish.dry_run:
                return self._dry(case, wish.decision, begun=tip is not None, desk=desk)
            if commit is None:
                signer = self._signer(case)
                if not self._read(case, wish.decision, signer, desk):
                    return Outcome(UNCONFIRMED, {"ask": wish.ask, "code": None, "outcome": "nothing was signed"})
                commit = self._cast(case, wish.decision, signer, tip, desk)
                desk.show((f"pushed {commit}; waiting for the broker's receipt",))
            else:
                desk.show((f"you signed this already, as {commit}; waiting for the broker's receipt",))
        return self._answer(case, commit, wish, desk)

    def pin(self, digest: Digest, desk: Desk) -> Trust:
        """Pin a bundle that the person names, compared word for word.

        Raises:
            Refusal, Declined, ConfigError, Unavailable: as of `sign`.
        """
        with self._clone.alone():
            return self._pinning().again(or_refusal(self._clone.look()), digest, desk)

    # The request, by what is pinned

    def _case(self, wish: Wish, desk: Desk) -> _Case:
        look = or_refusal(self._clone.look())
        request = self._request(look, wish.ask)
        if request.environment != self._profile.environment:
            detail = f"It is of the environment {request.environment}, and this machine signs for "
            raise Refusal(refuse(Reason.NOT_FOUND, f"{detail}{self._profile.environment}."))
        self._place = Place(
            self._profile.repository or request.repository,
            self._profile.repository_id or request.repository_id,
            self._profile.environment,
            request.epoch,
            SKEW,
        )
        settled = self._pinning().settle(look, request, desk, keep=not wish.dry_run)
        trust = settled.trust
        place = self._place
        home = Home(place.repository, place.repository_id, place.environment, trust.epoch, trust.policy_digest)
        strange = belongs(request, home)
        if strange is not None:
            stale = strange.reason is Reason.STALE_POLICY and settled.refused is not None
            raise Refusal(settled.refused if stale and settled.refused is not None else strange)
        rule = or_refusal(rule_for(settled.judge.bundle.policy, request))
        or_refusal(
            may_say(settled.judge.bundle.policy, rule, request, self._profile.person, wish.decision, settled.judge.now)
        )
        if self._clone.one(look.tip, spent_path(request.ask), MAX_REQUEST) is not None:
            late = Reason.ALREADY_SETTLED if wish.decision is Decision.APPROVE else Reason.SPENT
            raise Refusal(refuse(late, "Its grant is spent."))
        return _Case(look, settled, request, rule)

    def _request(self, look: Look, ask: AskId) -> Request:
        path = f"{request_folder(ask)}/request.json"
        try:
            raw = self._clone.one(look.tip, path, MAX_REQUEST)
            if raw is None:
                detail = f"No request of {ask} is published for {self._profile.environment}. Is it the right"
                raise Refusal(refuse(Reason.NOT_FOUND, f"{detail} environment, and does the broker run?", ask=ask))
            request = read_request(raw)
            if request.ask != ask:
                raise Malformed("the request of another ask", where=path)
        except Malformed as error:
            detail = f"The published request is none: {error}. Tell who runs the broker; do not sign it by hand."
            raise Refusal(refuse(Reason.BYTES_DIFFER, detail, ask=ask)) from error
        return request

    def _pinning(self) -> Pinning:
        follower = Follower(self._clone, self._fetcher, self._profile.environment, self._load, self._judge)
        return Pinning(self._profile, self._clone, self._load, self._judge, follower)

    def _judge(self, bundle: Bundle) -> Judge:
        return Judge(self._clone.repository, self._objects, self._place, bundle, wall_seconds() * 1000)

    def _load(self, files: Mapping[str, bytes]) -> Bundle:
        return load(files, self._profile.state / "gpg")

    # The person's branch

    def _standing(self, case: _Case, decision: Decision) -> tuple[ObjectId | None, ObjectId | None]:
        """Give the tip of the person's branch (None: it is to be begun), and their commit that says this already."""
        person, judge = self._profile.person, case.settled.judge
        tip = or_refusal(grown(self._clone, self._profile.environment, person, self._fetcher.fetch([person])[person]))
        if tip is None:
            votes: list[tuple[ObjectId, Decision]] = []
        else:
            refused = judge.root(case.request, person, tip)
            if refused is not None:
                raise Refusal(refused)
            votes = or_refusal(judge.votes(case.request, person, tip))
        receipts = receipts_at(self._clone, case.look.tip, case.request.ask, person)
        told = {commit: receipt_for(receipts, commit) for commit, _ in votes}
        # What the broker refused is no vote, whatever this machine thinks of it.
        stand = [(commit, said) for commit, said in votes if (one := told[commit]) is None or accepted(one)]
        last = stand[-1] if stand else None
        if last is not None and last[1] is decision:
            return tip, last[0]
        if last is not None and last[1] is not Decision.APPROVE:
            raise Refusal(refuse(Reason.WITHDRAWN_VOTE, voter=person, last=last[1].value))
        if last is None and decision is Decision.REVOKE:
            detail = "There is no approval of yours to take back; `--deny` stops it instead."
            raise Refusal(refuse(Reason.NOT_FOUND, detail))
        return tip, None

    # What is signed

    def _signer(self, case: _Case) -> Signer:
        bundle = case.settled.judge.bundle
        certificates = {found.fingerprint: found for found in certificates_of(bundle.files).values()}
        return find_signer(
            bundle.policy.people[self._profile.person],
            certificates,
            case.rule.keys or KeyKind.VERIFIED,
            self._environment,
            home=self._home,
            now=case.settled.judge.now,
        )

    def _sheet(self, case: _Case, decision: Decision, signer: Signer | None) -> Sheet:
        request, person = case.request, self._profile.person
        file = render_file(request, person, decision)
        key = "" if signer is None else f"{signer.kind.value} {signer.shown}"
        return Sheet(
            policy=case.settled.judge.bundle.policy,
            rule=case.rule,
            request=request,
            person=person,
            decision=decision,
            file=file,
            message=render_message(request, person, decision),
            code=short_code(file),
            now=case.settled.judge.now,
            changes=self._changes(case),
            key=key,
            warnings=() if signer is None else signer.warnings,
        )

    def _changes(self, case: _Case) -> tuple[str, ...]:
        """Say what an adoption would change, from bundle bytes whose digest is in the file that is signed."""
        request, policy = case.request, case.settled.judge.bundle.policy
        if request.verb != ADOPT:
            return ()
        if request.params["previous"] != policy.digest:
            raise Refusal(refuse(Reason.STALE_POLICY, "It would replace another policy than the pinned one."))
        new = or_refusal(bundle_at(self._clone, case.look.tip, Digest(str(request.params["digest"])), self._load))
        if new.policy.version != request.params["version"]:
            raise Refusal(refuse(Reason.BYTES_DIFFER, f"The bundle says that it is version {new.policy.version}."))
        return difference(policy, new.policy)

    def _read(self, case: _Case, decision: Decision, signer: Signer, desk: Desk) -> bool:
        """Have the person read what they sign, and type its short code."""
        sheet = self._sheet(case, decision, signer)
        desk.show(lines(sheet))
        for _ in range(_TRIES):
            if same_code(desk.code(), sheet.code):
                return True
            desk.show(("that is not the short code above",))
        return False

    def _dry(self, case: _Case, decision: Decision, *, begun: bool, desk: Desk) -> Outcome:
        sheet = self._sheet(case, decision, None)
        named = by_hand.assignments(
            self._profile.remote,
            case.request.repository,
            self._profile.environment,
            self._profile.person,
            case.request.ask,
            decision,
        )
        commands = named + ("" if begun else by_hand.ROOT) + by_hand.TAKE + by_hand.VOTE
        file, message = sheet.file.decode("ascii"), sheet.message.decode("ascii")
        told = [*lines(sheet), "", "the commit's whole message:", *(f"  {line}" for line in message.splitlines())]
        told += ["", "by hand, as docs/signing.md has it:", *(f"  {line}" for line in commands.splitlines())]
        desk.show((*told, "", "nothing was signed"))
        document = {"ask": case.request.ask, "decision": decision.value, "file": file, "message": message}
        return Outcome(DONE, {**document, "short_code": sheet.code, "commands": commands})

    # The push and the broker's word

    def _cast(self, case: _Case, decision: Decision, signer: Signer, tip: ObjectId | None, desk: Desk) -> ObjectId:
        booth = Booth(self._clone.repository, case.settled.judge, self._profile.person, signer)
        said: str | None = None
        for _ in range(_RACES):
            desk.show(("signing: type the PIN or touch the key where it asks",))
            # Who typed for minutes signs later than the case was opened.
            made = Booth(booth.repository, self._judge(booth.judge.bundle), booth.person, signer).make(
                case.request, decision, tip
            )
            said = booth.push(made)
            if said is None:
                return made.commit
            moved, other = self._standing(case, decision)
            if other is not None:
                return other
            if moved == tip:
                break
            tip = moved
            desk.show(("your branch moved meanwhile; the same is signed once more on top of it",))
        raise Unavailable(f"the vote cannot be pushed: {said}")

    def _answer(self, case: _Case, commit: ObjectId, wish: Wish, desk: Desk) -> Outcome:
        person, request = self._profile.person, case.request
        found = wait_for(
            self._clone,
            lambda: self._judge(case.settled.judge.bundle),
            request.ask,
            person,
            commit,
            monotonic=time.monotonic,
            sleep=time.sleep,
            seconds=wish.wait,
            tell=lambda text: desk.show((text,)),
        )
        base: Document = {
            "ask": request.ask,
            "person": person,
            "decision": wish.decision.value,
            "commit": commit,
            "policy": request.policy,
        }
        if found is None:
            said = "no receipt yet; the same command looks again, and signs nothing anew"
            return Outcome(STILL_OPEN, {**base, "code": None, "outcome": said, "fix": ""})
        return Outcome(DONE if accepted(found) else REFUSED, base | _told(found))


def _told(receipt: Receipt) -> Document:
    return {
        "code": receipt.code,
        "outcome": outcome(receipt),
        "fix": receipt.fix or remedy(receipt.code),
        "votes": list(receipt.votes),
        "needed": receipt.needed,
        "missing": list(receipt.missing),
        "at": receipt.at,
    }


@contextmanager
def opened(profile: Profile, environment: Mapping[str, str]) -> Iterator[Approver]:
    """Open this machine's copy for one run, made where there is none.

    Raises:
        ConfigError: the copy or a secret is not this person's alone.
        Unavailable: it cannot be written.
    """
    approver = Approver(profile, environment, own_repository(profile, environment))
    try:
        yield approver
    finally:
        approver.close()
