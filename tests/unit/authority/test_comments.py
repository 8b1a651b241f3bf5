"""The steps of intake in their order: each refusal with its code and its accepting twin, on every engine."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import select

from gitops_bot.authority import comments
from gitops_bot.authority.comments import Intake, leave_hint, take
from gitops_bot.authority.duties import Pace, RowDuty
from gitops_bot.authority.sealing import Sealer
from gitops_bot.broker.successors import head_moved
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.captures import CaptureState
from gitops_bot.core.errors import Unavailable
from gitops_bot.core.readings import Comment, Permission, PullRequest
from gitops_bot.core.verdicts import Channel, ClaimState
from gitops_bot.forge.grammar import Outcome, judge, parse
from gitops_bot.policy.model import Policy
from gitops_bot.ports import Forge
from gitops_bot.store import captures, claims, due, ledger, votes
from gitops_bot.store.claims import Claim
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Tx
from gitops_bot.store.roles import Role
from gitops_bot.store.tables import claims as claims_table
from gitops_bot.store.work_tables import effects
from tests.capture_stage import REGIME, CaptureStage
from tests.outside import REPOSITORY_ID
from tests.policy_bundles import CAPTURE, Patch
from tests.store_fixtures import FreshDatabase

BOT, ALICE, BOB, CAROL, MALLORY = 900, 1001, 1002, 1003, 1666
HOUR = 3_600_000
APPROVE = f"/approve-capture {REGIME.trace_id}"
DENY = f"/deny-capture {REGIME.trace_id}"
FLOOR: Patch = {f"{CAPTURE}/voters": {"people": ["alice", "bob"], "github_permission": "write"}}
ANYBODY: Patch = {f"{CAPTURE}/voters": {"undeclared": True, "github_permission": "write"}}


@dataclass
class Script:
    """A forge that says what it was told to say, and counts how often it was asked."""

    comments: dict[int, Comment] = field(default_factory=dict)
    pull: PullRequest | None = None
    permissions: dict[int, Permission] = field(default_factory=dict)
    away: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def _call(self, method: str) -> None:
        self.calls[method] += 1
        if self.away[method]:
            self.away[method] -= 1
            raise Unavailable(f"{method}: 503")

    def comment(self, repository: str, comment_id: int) -> Comment | None:
        self._call("comment")
        return self.comments.get(comment_id)

    def pull_request(self, repository: str, number: int) -> PullRequest | None:
        self._call("pull_request")
        return self.pull

    def permission(self, repository: str, login: str, account_id: int) -> Permission:
        self._call("permission")
        return self.permissions.get(account_id, Permission.NONE)


@dataclass
class Desk:
    """A pull request of the bot's own with an open ask, and the intake of its comments."""

    stage: CaptureStage
    script: Script
    moved: list[str] = field(default_factory=list)
    comment_id: int = 100
    pull: int = 1

    @property
    def intake(self) -> Intake:
        """The intake under the stage's present rules."""

        def moved(tx: Tx, capture: str) -> None:
            self.moved.append(capture)
            head_moved(tx, self.stage.rules, self.stage.place, capture)

        forge = cast(Forge, self.script)
        return Intake(self.stage.database, forge, self.stage.rules, {REPOSITORY_ID: "acme/ops"}, BOT, moved)

    def under(self, patch: Patch) -> None:
        """Open everything anew under another policy."""
        self.stage.rules = replace(self.stage.rules, policy=policy(self.stage, patch))

    @property
    def ask(self) -> Ask:
        """The capture's present ask."""
        newest = self.stage.read(lambda tx: captures.page(tx, "", 9))[-1]
        return self.stage.get(newest.ask or "")

    def write(self, body: str, author: int = BOB, **changes: Any) -> int:
        """Let somebody write a comment; its id."""
        self.comment_id += 1
        written = Comment(
            repository_id=REPOSITORY_ID,
            id=self.comment_id,
            pull_request=self.pull,
            author_id=author,
            author_login=f"user-{author}",
            author_type="User",
            via_app=False,
            via_email=False,
            body=body,
            created_at=self.stage.read(lambda tx: tx.now) - 1_000,
            edited=False,
            minimised=False,
            raw=json.dumps({"id": self.comment_id, "body": body}).encode(),
        )
        self.script.comments[self.comment_id] = replace(written, **changes)
        return self.comment_id

    def hint(self, comment_id: int, repository_id: int = REPOSITORY_ID) -> bool:
        """Leave a hint, as any channel does."""
        return self.stage.write(lambda tx: leave_hint(tx, repository_id, comment_id, self.pull))

    def work(self) -> None:
        """Take every claim that is due, as the duty does."""
        duty = RowDuty(comments.DUTY, self.stage.database, lambda one: take(self.intake, one), Pace(first_ms=60_000))
        duty.step()

    def hear(self, body: str, author: int = BOB, **changes: Any) -> Claim:
        """Write, hint and take a comment; give its claim."""
        comment_id = self.write(body, author, **changes)
        self.hint(comment_id)
        self.work()
        return self.claim(comment_id)

    def claim(self, comment_id: int) -> Claim:
        """Read the claim of a comment."""
        statement = select(claims_table.c.id).where(claims_table.c.source == f"{REPOSITORY_ID}:{comment_id}")

        def work(tx: Tx) -> Claim | None:
            return claims.get(tx, tx.execute(statement).scalar_one())

        found = self.stage.read(work)
        assert found is not None
        return found

    def effects(self, kind: str) -> list[dict[str, Any]]:
        """List the payloads of the effects of a kind."""
        statement = select(effects.c.payload).where(effects.c.kind == kind).order_by(effects.c.id)
        return [json.loads(text) for text in self.stage.read(lambda tx: tx.execute(statement).scalars().all())]

    def reactions(self) -> list[tuple[int, str]]:
        """List the reactions that are on their way."""
        return [(one["comment"], one["reaction"]) for one in self.effects("forge.react")]


def policy(stage: CaptureStage, patch: Patch) -> Policy:
    return stage.under(patch).rules.policy


@pytest.fixture
def desk(database: FreshDatabase, tmp_path: Path) -> Iterator[Desk]:
    stage = CaptureStage(database.open(Role.BROKER), folder=tmp_path)
    stage.requested()
    stage.settle()
    pull = stage.on_forge.pull_request("acme/ops", 1)
    yield Desk(stage, Script(pull=pull))


def outcome(claim: Claim) -> tuple[str, str | None]:
    return claim.state.value, claim.reason


COUNTED = ("counted", None)


def test_an_approve_counts_and_is_shown(desk: Desk) -> None:
    claim = desk.hear(APPROVE)
    assert outcome(claim) == COUNTED
    assert desk.ask.state is AskState.APPROVED
    (vote,) = desk.stage.read(lambda tx: votes.of_ask(tx, desk.ask.id))
    assert (vote.principal, vote.channel) == ("bob", Channel.FORGE)
    assert json.loads(vote.evidence)["body"] == APPROVE, "the whole comment is the evidence"
    comment = claim.facts["comment_id"]
    assert desk.reactions() == [(comment, "eyes"), (comment, "rocket")], "claimed, then counted"
    assert desk.effects("forge.reply") == []


def test_a_deny_counts_with_its_reason(desk: Desk) -> None:
    assert outcome(desk.hear(f"{DENY} too dear\nand too late")) == COUNTED
    verdict = desk.stage.verdict(desk.ask)
    assert verdict is not None and verdict.text == "too dear\nand too late"


def test_the_first_hint_wins_and_others_change_nothing(desk: Desk) -> None:
    comment_id = desk.write(APPROVE)
    assert [desk.hint(comment_id) for _ in range(3)] == [True, False, False]
    desk.work()
    assert not desk.hint(comment_id)
    desk.work()
    assert desk.script.calls["comment"] == 1


# Steps 1 and 2


def test_step_1_an_unknown_repository_or_a_foreign_pull_request_is_ignored(desk: Desk) -> None:
    comment_id = desk.write(APPROVE)
    desk.stage.write(lambda tx: leave_hint(tx, 1, comment_id, 1))
    desk.pull = 9
    foreign = desk.hear(APPROVE)
    assert outcome(foreign) == ("ignored", None)
    assert desk.script.calls["comment"] == 1, "no repository that is not configured is read"
    assert desk.ask.state is AskState.OPEN
    desk.pull = 1
    assert outcome(desk.hear(APPROVE)) == COUNTED


def test_step_2_only_the_fresh_reading_counts(desk: Desk) -> None:
    comment_id = desk.write(APPROVE)
    desk.hint(comment_id)
    desk.script.comments[comment_id] = replace(desk.script.comments[comment_id], body="never mind")
    desk.work()
    assert outcome(desk.claim(comment_id)) == ("ignored", None)
    gone = desk.write(APPROVE)
    desk.hint(gone)
    del desk.script.comments[gone]
    desk.work()
    assert outcome(desk.claim(gone)) == ("ignored", None)
    assert desk.ask.state is AskState.OPEN


# Step 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"author_type": "Bot"}, "from_bot"),
        ({"author_type": ""}, "from_bot"),
        ({"author_type": "Organization"}, "from_bot"),
        ({"author_id": BOT}, "from_bot"),
        ({"via_app": True}, "via_app"),
        ({"via_email": True}, "via_email"),
    ],
    ids=str,
)
def test_step_3_only_a_users_own_comment(desk: Desk, changes: dict[str, Any], reason: str) -> None:
    assert outcome(desk.hear(APPROVE, **changes)) == ("refused", reason)
    assert desk.ask.state is AskState.OPEN
    assert bool(desk.reactions()) == (reason != "from_bot"), "bots are not answered"
    assert outcome(desk.hear(APPROVE)) == COUNTED


# Step 4


def test_step_4_a_near_miss_is_told_to_people_who_may_vote(desk: Desk) -> None:
    claim = desk.hear("/aprove-capture")
    assert outcome(claim) == ("refused", "near_miss")
    (reply,) = desk.effects("forge.reply")
    assert f"    {APPROVE}\n" in reply["body"] and "`near_miss`" in reply["body"]
    assert outcome(desk.hear("/aprove-capture", MALLORY)) == ("refused", "near_miss")
    assert len(desk.effects("forge.reply")) == 1, "nobody else is answered"


def test_step_4_another_trace_id_is_not_found(desk: Desk) -> None:
    other = APPROVE.replace("c=4", "c=8")
    assert outcome(desk.hear(other)) == ("refused", "not_found")
    assert desk.ask.state is AskState.OPEN
    assert outcome(desk.hear(APPROVE)) == COUNTED


def test_step_4_a_person_gets_three_replies_an_hour(desk: Desk) -> None:
    for _ in range(5):
        assert outcome(desk.hear("/approve-captur", BOB)) == ("refused", "near_miss")
    assert len(desk.effects("forge.reply")) == 3
    desk.hear("/approve-captur", ALICE)
    assert len(desk.effects("forge.reply")) == 4, "another person has a budget of their own"


def test_step_4_a_pull_request_gets_ten_replies_an_hour(desk: Desk) -> None:
    desk.under(ANYBODY)
    voters = range(2001, 2007)
    desk.script.permissions = dict.fromkeys(voters, Permission.WRITE)
    for voter in voters:
        for _ in range(2):
            desk.hear("/approve-captur", voter)
    assert len(desk.effects("forge.reply")) == 10
    asked = desk.script.calls["permission"]
    desk.hear("/approve-captur", 2007)
    assert desk.script.calls["permission"] == asked, "beyond the budget the forge is not even asked"


def test_step_4_replies_of_an_earlier_hour_do_not_count(desk: Desk, database: FreshDatabase) -> None:
    for _ in range(3):
        desk.hear("/approve-captur")
    owner = database.open(Role.OWNER)
    with owner.write() as tx:
        tx.execute(claims_table.update().values(settled_at=claims_table.c.settled_at - HOUR))
    desk.hear("/approve-captur")
    assert len(desk.effects("forge.reply")) == 4


def test_step_4_a_late_approve_is_told_how_it_ended(desk: Desk) -> None:
    desk.hear(APPROVE, ALICE)
    claim = desk.hear(APPROVE, BOB)
    assert outcome(claim) == ("refused", "already_settled")
    (reply,) = desk.effects("forge.reply")
    assert "APPROVED" in reply["body"] and "alice" in reply["body"]


def test_step_4_a_late_deny_is_a_revocation(desk: Desk) -> None:
    desk.hear(APPROVE, ALICE)
    assert outcome(desk.hear(DENY, BOB)) == COUNTED
    (revocation,) = desk.stage.read(lambda tx: votes.revocations_of(tx, desk.ask.id))
    assert revocation.principal == "bob"
    assert desk.ask.state is AskState.APPROVED, "it never touches the ask"
    desk.stage.settle()
    (capture,) = desk.stage.read(lambda tx: captures.page(tx, "", 9))
    assert capture.state is CaptureState.CANCELLED


def test_step_4_a_late_deny_needs_no_open_draft(desk: Desk) -> None:
    desk.hear(APPROVE, ALICE)
    assert desk.script.pull is not None
    desk.script.pull = replace(desk.script.pull, state="closed")
    assert outcome(desk.hear(DENY, BOB)) == COUNTED


def test_step_4_help_and_status_decide_nothing_and_answer_voters(desk: Desk) -> None:
    assert outcome(desk.hear("/capture-help")) == ("ignored", None)
    assert outcome(desk.hear("/capture-status")) == ("ignored", None)
    assert len(desk.effects("forge.reply")) == 1
    assert [reaction for _, reaction in desk.reactions()] == ["eyes"]
    for _ in range(4):
        desk.hear("/capture-status", MALLORY)
        desk.hear("/capture-help", MALLORY)
    assert (len(desk.effects("forge.reply")), len(desk.reactions())) == (1, 1), "nobody else makes the bot write"


def test_i16_only_what_a_reader_sees_acting_acts(desk: Desk) -> None:
    """I16: commands in code, quotes, HTML and the middle of a text leave everything as it is."""
    hidden = [
        f"`{APPROVE}`",
        f"```\n{APPROVE}\n```",
        f"> {APPROVE}",
        f"<!-- {APPROVE} -->",
        f"    {APPROVE}",
        f"\t{APPROVE}",
        f"Please write\n{APPROVE}",
        f"I would write {APPROVE}",
        f"[{APPROVE}](https://example.org)",
    ]
    for body in hidden:
        assert judge(parse(body), REGIME.trace_id).outcome is Outcome.SILENT
        assert outcome(desk.hear(body)) == ("ignored", None)
    assert desk.ask.state is AskState.OPEN
    assert desk.effects("forge.reply") == [] and desk.reactions() == []
    assert outcome(desk.hear(APPROVE)) == COUNTED


# Step 5


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"edited": True}, "edited"), ({"minimised": True}, "minimised"), ({"created_at": 0}, "too_old")],
    ids=str,
)
def test_step_5_as_it_was_written_and_lately(desk: Desk, changes: dict[str, Any], reason: str) -> None:
    for body in (APPROVE, DENY):
        assert outcome(desk.hear(body, **changes)) == ("refused", reason)
    assert desk.ask.state is AskState.OPEN
    assert outcome(desk.hear(APPROVE)) == COUNTED


# Step 6


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"draft": False}, "not_draft"), ({"state": "closed"}, "closed"), ({"state": "closed", "merged": True}, "closed")],
    ids=str,
)
def test_step_6_the_pull_request_stands_as_the_bot_made_it(desk: Desk, changes: dict[str, Any], reason: str) -> None:
    whole = desk.script.pull
    assert whole is not None
    desk.script.pull = replace(whole, **changes)
    assert outcome(desk.hear(APPROVE)) == ("refused", reason)
    assert desk.ask.state is AskState.OPEN and desk.moved == []
    desk.script.pull = whole
    assert outcome(desk.hear(APPROVE)) == COUNTED


def test_step_6_a_pull_request_that_is_gone_is_closed(desk: Desk) -> None:
    desk.script.pull = None
    assert outcome(desk.hear(APPROVE)) == ("refused", "closed")


@pytest.mark.parametrize("changes", [{"head_sha": "f" * 40}, {"base_ref": "elsewhere"}], ids=str)
def test_step_6_a_move_is_asked_anew_in_the_same_transaction(desk: Desk, changes: dict[str, Any]) -> None:
    old = desk.ask
    assert desk.script.pull is not None
    desk.script.pull = replace(desk.script.pull, **changes)
    assert outcome(desk.hear(APPROVE)) == ("refused", "stale_head")
    assert desk.stage.get(old).state is AskState.SUPERSEDED
    assert desk.ask.id != old.id and desk.ask.state is AskState.OPEN
    assert outcome(desk.hear(APPROVE)) == ("refused", "stale_head"), "told as late, on the old pull request"
    assert len(desk.moved) == 1, "one move asks once"


# Step 7


def test_step_7_ids_decide_and_logins_do_not(desk: Desk) -> None:
    """A renamed account still counts; whoever took its old login does not."""
    assert outcome(desk.hear(APPROVE, MALLORY, author_login="bob")) == ("refused", "unknown_principal")
    assert desk.ask.state is AskState.OPEN and desk.reactions() == []
    assert outcome(desk.hear(APPROVE, BOB, author_login="somebody-new")) == COUNTED


def test_step_7_a_person_whom_the_policy_does_not_name_is_not_authorised(desk: Desk) -> None:
    claim = desk.hear(APPROVE, CAROL)
    assert outcome(claim) == ("refused", "not_authorised")
    assert [reaction for _, reaction in desk.reactions()] == ["confused"]
    assert outcome(desk.hear(APPROVE)) == COUNTED


def test_step_7_the_requester_does_not_approve_and_may_deny(database: FreshDatabase, tmp_path: Path) -> None:
    stage = CaptureStage(database.open(Role.BROKER), folder=tmp_path)
    stage.agent("agent-of-loop-1", principal="bob")
    stage.requested()
    stage.settle()
    desk = Desk(stage, Script(pull=stage.on_forge.pull_request("acme/ops", 1)))
    assert outcome(desk.hear(APPROVE, BOB)) == ("refused", "self_approval")
    assert outcome(desk.hear(DENY, BOB)) == COUNTED


def test_step_7_a_permission_below_the_floor_is_not_authorised(desk: Desk) -> None:
    desk.stage.withdraw(desk.ask)
    floor = again(desk, FLOOR)
    floor.script.permissions[BOB] = Permission.TRIAGE
    assert outcome(floor.hear(APPROVE)) == ("refused", "not_authorised")
    floor.script.permissions[BOB] = Permission.MAINTAIN
    assert outcome(floor.hear(APPROVE)) == COUNTED


def again(desk: Desk, patch: Patch) -> Desk:
    """Ask for the capture anew under another policy."""
    desk.stage.settle()
    desk.under(patch)
    capture = desk.stage.requested()
    desk.stage.settle()
    number = desk.stage.capture(capture).pull_request
    assert number is not None
    return replace(desk, pull=number, script=Script(pull=desk.stage.on_forge.pull_request("acme/ops", number)))


def test_i14_an_unknown_permission_holds_the_claim_and_is_counted_later(desk: Desk) -> None:
    """I14: unknown is not no. No public refusal, no vote, a ledger entry, and the next try counts."""
    desk.stage.withdraw(desk.ask)
    floor = again(desk, FLOOR)
    floor.script.permissions[BOB] = Permission.WRITE
    floor.script.away["permission"] = 1
    claim = floor.hear(APPROVE)
    assert claim.state is ClaimState.HELD
    assert [reaction for _, reaction in floor.reactions()] == ["eyes"] and floor.effects("forge.reply") == []
    assert floor.ask.state is AskState.OPEN
    kinds = [one.document["kind"] for one in _sealed(floor)]
    assert kinds.count("claim.held") == 1
    floor.stage.write(lambda tx: due.set_due(tx, comments.DUTY, claim.id, tx.now))
    floor.work()
    assert outcome(floor.claim(claim.facts["comment_id"])) == COUNTED
    assert floor.ask.state is AskState.APPROVED


@pytest.mark.parametrize("method", ["comment", "pull_request"])
def test_i14_any_look_up_that_failed_holds_the_claim(desk: Desk, method: str) -> None:
    desk.script.away[method] = 2
    claim = desk.hear(APPROVE)
    for _ in range(2):
        assert claim.state is ClaimState.HELD
        assert desk.ask.state is AskState.OPEN and all(reaction == "eyes" for _, reaction in desk.reactions())
        desk.stage.write(lambda tx, key=claim.id: due.set_due(tx, comments.DUTY, key, tx.now))  # type: ignore[misc] # bound now
        desk.work()
        claim = desk.claim(claim.facts["comment_id"])
    assert outcome(claim) == COUNTED
    assert [one.document["kind"] for one in _sealed(desk)].count("claim.held") == 1


def _sealed(desk: Desk) -> list[ledger.Sealed]:
    Sealer(desk.stage.database).step(Claimed("seal", "ledger", 0, 1))
    return desk.stage.read(lambda tx: ledger.sealed(tx, 0, 10_000))


def test_step_7_an_undeclared_account_with_the_permission_counts_by_its_id(desk: Desk) -> None:
    desk.stage.withdraw(desk.ask)
    anybody = again(desk, ANYBODY)
    assert outcome(anybody.hear(APPROVE, MALLORY)) == ("refused", "not_authorised")
    anybody.script.permissions[2001] = Permission.WRITE
    assert outcome(anybody.hear(APPROVE, 2001)) == COUNTED
    verdict = anybody.stage.verdict(anybody.ask)
    assert verdict is not None and verdict.by == ("github:2001",)


def test_step_7_a_policy_without_the_forge_takes_no_comment(desk: Desk) -> None:
    desk.under({f"{CAPTURE}/channels": ["workspace"]})
    assert outcome(desk.hear(APPROVE)) == ("refused", "wrong_channel")


# Step 8


def test_step_8_a_comment_binds_the_ask_of_its_pull_request_and_never_a_later_state(desk: Desk) -> None:
    """I4: the binding is that of the ask as it was rendered; a policy adopted since makes it stale."""
    desk.under({"version": 4})
    assert outcome(desk.hear(APPROVE)) == ("refused", "stale_policy")
    assert desk.ask.state is AskState.OPEN


def test_step_8_a_claim_that_another_process_settled_is_not_counted_again(desk: Desk) -> None:
    comment_id = desk.write(APPROVE)
    desk.hint(comment_id)
    inner = desk.script.pull_request

    def meanwhile(repository: str, number: int) -> PullRequest | None:
        claim = desk.claim(comment_id)
        desk.stage.write(
            lambda tx: claims.settle(tx, claim, ClaimState.REFUSED, "edited", ask=None, facts={}, evidence=None)
        )
        return inner(repository, number)

    desk.script.pull_request = meanwhile  # type: ignore[method-assign] # another process, between two reads of this one
    desk.work()
    assert outcome(desk.claim(comment_id)) == ("refused", "edited")
    assert desk.ask.state is AskState.OPEN
    assert [reaction for _, reaction in desk.reactions()] == ["eyes"]


# Step 9 and the ledger


def test_i19_refusals_are_one_ledger_entry_a_person_pull_request_and_hour(desk: Desk) -> None:
    for _ in range(4):
        desk.hear(APPROVE, MALLORY)
    desk.hear(APPROVE, CAROL)
    refused = [one.document for one in _sealed(desk) if one.document["kind"] == "vote.refused"]
    assert [document["reason"] for document in refused] == ["unknown_principal", "not_authorised"]
    states = [desk.claim(number).reason for number in range(101, 106)]
    assert states == ["unknown_principal"] * 4 + ["not_authorised"], "each claim keeps its own reason"


def test_i20_hostile_bodies_cost_one_claim(desk: Desk) -> None:
    bodies = ["", "\x00", "\ud800", "/" * 70_000, APPROVE + "\x00", f"{DENY} \x00\ud800", "\u202e" + APPROVE]
    for body in bodies:
        raw = json.dumps({"body": body}).encode()
        assert desk.hear(body, MALLORY, raw=raw).state in (ClaimState.IGNORED, ClaimState.REFUSED)
    assert desk.ask.state is AskState.OPEN
    assert outcome(desk.hear(f"{DENY} \x00\ud800 {'x' * 60_000}")) == COUNTED
    verdict = desk.stage.verdict(desk.ask)
    assert verdict is not None and verdict.text is not None and len(verdict.text) <= 8_000
