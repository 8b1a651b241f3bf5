"""The rows of the life of an ask that a forge has a part in, played against the local GitHub by the real adapter."""

import json

import pytest

from gitops_bot.authority.settling import Settled
from gitops_bot.broker import pulls
from gitops_bot.core.asks import AskState
from gitops_bot.core.captures import CaptureState, slug
from gitops_bot.core.ledger import EventKind
from gitops_bot.core.readings import Permission
from gitops_bot.store import captures, due
from gitops_bot.store.captures import Capture
from gitops_bot.store.states import SeatState
from tests.capture_stage import REGIME, REPOSITORY
from tests.decisions import rules_of
from tests.forge_stage import APPROVE, BOT, DENY, ForgeStage
from tests.policy_bundles import CAPTURE


def approve_elsewhere(forge: ForgeStage, capture: Capture, who: str) -> None:
    """Approve in the workspace, which has read the person's permission."""
    result = forge.answer(forge.get(capture.ask or ""), who, "approve", permission=Permission.WRITE)
    assert isinstance(result, Settled), result


BRANCH = f"capture/{slug(REGIME.trace_id)}"


def test_an_approval_on_the_pull_request_reaches_the_loop_and_the_record(forge: ForgeStage) -> None:
    capture = forge.opened()
    assert capture.pull_request == 1
    assert "A person has to decide" in forge.status(1)
    said = forge.say(capture, "alice", APPROVE)
    forge.look()
    done = forge.capture(capture)
    assert done.state is CaptureState.RESCOPED
    assert forge.link.taken() == [f"loop-1:1 rescope:{capture.ask}"]
    assert forge.reactions(said) == ["eyes", "rocket"]
    assert "goes on under it" in forge.status(1)
    assert forge.replies(1) == []


def test_the_order_at_the_end_is_rescope_then_record_then_ready(forge: ForgeStage) -> None:
    """43: the bot's own commit moves the head after the acknowledged rescope, and nobody takes it for a moved head."""
    capture = forge.opened()
    forge.say(capture, "alice", APPROVE)
    forge.look()
    pull = forge.pull(1)
    assert pull.open and pull.pull is not None and not pull.pull.draft
    assert pull.pull.head_sha != capture.head
    written = forge.github.read_file(REPOSITORY, BRANCH, f"captures/{slug(REGIME.trace_id)}/calibration.json")
    assert written is not None and json.loads(written)["digest"] == forge.capture(capture).digest
    told = [entry["kind"] for entry in forge.entries(forge.get(capture.ask or ""))]
    assert told.index(EventKind.RESCOPE_ACKNOWLEDGED) > told.index(EventKind.CAPTURE_READY)
    for _ in range(2):
        forge.look()
    assert forge.capture(capture).state is CaptureState.RESCOPED
    # Somebody who comes later gets the same trace, though the head is another one by now.
    forge.request("loop-2")
    forge.settle()
    seats = {seat.loop: seat.state for seat in forge.read(lambda tx: captures.seats(tx, capture.id))}
    assert seats == {"loop-1": SeatState.RESCOPED, "loop-2": SeatState.RESCOPED}
    assert len(forge.github.threads(REPOSITORY)) == 1


def test_34_a_push_before_the_submission_is_asked_anew_and_nothing_is_submitted(forge: ForgeStage) -> None:
    capture = forge.opened()
    approve_elsewhere(forge, capture, "alice")
    forge.github.push(REPOSITORY, BRANCH, {"evil.py": b"x"}, "bob")
    forge.settle()
    now = forge.capture(capture)
    assert now.state is CaptureState.REQUESTED and now.ask != capture.ask and now.pull_request == 2
    assert forge.outside.calls("submit") == []
    forge.say(capture, "alice", APPROVE)
    forge.look()
    assert forge.capture(capture).state is CaptureState.RESCOPED


def test_34_an_approval_of_another_head_than_the_bots_is_refused_and_asked_anew(forge: ForgeStage) -> None:
    capture = forge.opened()
    forge.github.push(REPOSITORY, BRANCH, {"evil.py": b"x"}, "bob")
    said = forge.say(capture, "alice", APPROVE)
    forge.look(pulls_too=False)
    assert forge.reactions(said) == ["confused"]
    old = forge.get(capture.ask or "")
    assert old.state is AskState.SUPERSEDED and forge.capture(capture).ask == old.superseded_by
    assert forge.outside.calls("submit") == []


def test_a_moved_head_is_asked_anew_at_once_and_the_old_pull_request_points_to_the_new(forge: ForgeStage) -> None:
    """Nobody needs to comment; the successor is open before the old one closes."""
    capture = forge.opened()
    forge.github.push(REPOSITORY, BRANCH, {"evil.py": b"x"}, "bob")
    forge.look()
    old, new = forge.pull(1), forge.pull(2)
    assert not old.open and new.open
    assert old.closed_at is not None and new.created_at <= old.closed_at
    assert "Replaced, because something moved" in forge.status(1) and "- successor: #2" in forge.status(1)
    assert "A person has to decide" in forge.status(2)
    assert new.pull is not None and new.pull.head_ref == f"{BRANCH}-2"
    now = forge.capture(capture)
    assert (now.id, now.pull_request, now.state) == (capture.id, 2, CaptureState.REQUESTED)
    said = forge.say(capture, "alice", APPROVE)
    forge.look()
    assert forge.reactions(said) == ["eyes", "rocket"]


def test_the_third_move_in_a_row_opens_none_and_the_loop_is_told_no(forge: ForgeStage) -> None:
    capture = forge.opened()
    for number in (1, 2, 3):
        suffix = f"-{number}" if number > 1 else ""
        forge.github.push(REPOSITORY, BRANCH + suffix, {f"evil-{number}.py": b"x"}, "bob")
        forge.look()
    assert [thread.open for thread in forge.github.threads(REPOSITORY)] == [False, False, False]
    assert forge.capture(capture).state is CaptureState.DENIED
    assert [entry.ask for entry in forge.backlog()] == [forge.capture(capture).ask]
    assert [key.split(":")[1].split()[-1] for key in forge.link.taken()] == ["deny"]


def test_36_a_502_after_the_comment_was_created_leaves_one_comment(forge: ForgeStage) -> None:
    capture = forge.requested()
    forge.github.fail_next("POST */issues/*/comments", 502, after_effect=True)
    forge.settle()
    assert len(forge.by_bot(1)) == 1
    forge.say(capture, "alice", "/capture-help")
    forge.github.fail_next("POST */issues/*/comments", 502, after_effect=True)
    forge.look()
    assert len(forge.replies(1)) == 1 and len(forge.by_bot(1)) == 2


def test_36_a_502_after_each_step_of_the_opening_leaves_one_pull_request(forge: ForgeStage) -> None:
    for route in ("POST */git/refs", "POST */pulls"):
        forge.github.fail_next(route, 502, after_effect=True)
    forge.requested()
    forge.settle()
    assert len(forge.github.threads(REPOSITORY)) == 1
    assert set(forge.github.branches(REPOSITORY)) == {"main", BRANCH}


def test_37_a_503_at_the_permission_is_held_and_then_counted(forge: ForgeStage) -> None:
    capture = forge.opened()
    said = forge.say(capture, "alice", APPROVE)
    forge.github.fail_next("GET */collaborators/*/permission", 503, times=3)
    forge.look()
    assert forge.capture(capture).state is CaptureState.RESCOPED
    assert forge.reactions(said) == ["eyes", "rocket"], "no public refusal"
    assert forge.replies(1) == []
    assert forge.count("claims") == 1


def test_38_a_renamed_person_is_still_allowed_and_who_took_the_old_name_is_not(forge: ForgeStage) -> None:
    capture = forge.opened()
    forge.github.rename("alice", "alice-cooper")
    forge.github.rename("mallory", "alice")
    stranger = forge.say(capture, "alice", APPROVE)
    forge.look()
    assert forge.capture(capture).state is CaptureState.REQUESTED
    assert forge.reactions(stranger) == []
    said = forge.say(capture, "alice-cooper", APPROVE)
    forge.look()
    assert forge.reactions(said) == ["eyes", "rocket"]
    assert forge.capture(capture).state is CaptureState.RESCOPED


def test_38_a_name_that_moves_between_the_comment_and_the_permission_grants_nothing(forge: ForgeStage) -> None:
    """The permission is asked for by name; an answer about another id does not count."""
    forge.rules = rules_of({f"{CAPTURE}/voters": {"undeclared": True, "github_permission": "write"}})
    capture = forge.opened()
    forge.github.grant(REPOSITORY, "mallory", "read")
    said = forge.say(capture, "mallory", APPROVE)
    forge.github.rename("mallory", "nobody")
    forge.github.rename("bob", "mallory")
    forge.look()
    assert forge.reactions(said) == ["eyes", "confused"]
    assert forge.capture(capture).state is CaptureState.REQUESTED
    # Its twin: bob himself, under the taken name, has write.
    again = forge.say(capture, "mallory", APPROVE)
    forge.look()
    assert forge.reactions(again) == ["eyes", "rocket"]


def test_39_on_a_locked_thread_the_verdict_stands_and_nothing_waits_for_the_comment(forge: ForgeStage) -> None:
    """The bot may neither write its status anew nor record; both end as failed, and the loop is told all the same."""
    capture = forge.opened()
    forge.github.delete_comment(REPOSITORY, forge.by_bot(1)[0].id, "alice")
    forge.github.lock_thread(REPOSITORY, 1)
    forge.github.grant(REPOSITORY, BOT, "triage")
    approve_elsewhere(forge, capture, "alice")
    forge.settle()
    assert forge.get(capture.ask or "").state is AskState.APPROVED
    assert forge.capture(capture).state is CaptureState.RESCOPED
    assert forge.link.taken() == [f"loop-1:1 rescope:{capture.ask}"]
    assert forge.by_bot(1) == []
    failed = [entry["facts"]["kind"] for entry in forge.ledger() if entry["kind"] == EventKind.EFFECT_FAILED]
    assert "forge.status" in failed and "forge.record" in failed


def test_39_a_locked_thread_on_which_the_bot_may_write_is_no_obstacle(forge: ForgeStage) -> None:
    capture = forge.opened()
    forge.github.lock_thread(REPOSITORY, 1)
    said = forge.say(capture, "alice", APPROVE)
    forge.look()
    assert forge.reactions(said) == ["eyes", "rocket"] and "goes on under it" in forge.status(1)


def test_40_a_comment_beyond_the_first_page_is_seen(forge: ForgeStage) -> None:
    """The 31st, which is on the second page of the forge's own default, and the 131st, on the second of ours."""
    capture = forge.opened()
    for index in range(30):
        forge.say(capture, "mallory", f"chatter {index}")
    said = forge.say(capture, "alice", "/capture-help")
    forge.look()
    assert len(forge.replies(1)) == 1
    for index in range(100):
        forge.say(capture, "mallory", f"more chatter {index}")
    forge.say(capture, "alice", APPROVE)
    forge.look()
    assert forge.capture(capture).state is CaptureState.RESCOPED
    assert said


def test_closing_by_a_person_who_may_vote_is_a_deny_with_the_reading_as_evidence(forge: ForgeStage) -> None:
    capture = forge.opened()
    forge.github.set_state(REPOSITORY, 1, "alice", "closed")
    forge.look()
    ask = forge.get(capture.ask or "")
    assert ask.state is AskState.DENIED
    verdict = forge.verdict(ask)
    assert verdict is not None and verdict.by == ("alice",) and verdict.text == "closed the pull request"
    assert forge.capture(capture).state is CaptureState.DENIED
    assert [key.split(":")[1].split()[-1] for key in forge.link.taken()] == ["deny"]
    assert "Denied" in forge.status(1)


@pytest.mark.parametrize("who", ["carol", BOT])
def test_closing_by_anybody_else_decides_nothing(forge: ForgeStage, who: str) -> None:
    """Carol may close, by her role, and may not vote; what the bot closes is its own business. It is shown, once."""
    capture = forge.opened()
    forge.github.set_state(REPOSITORY, 1, who, "closed")
    for _ in range(2):
        forge.look()
    ask = forge.get(capture.ask or "")
    assert ask.state is AskState.OPEN and not forge.pull(1).open
    assert forge.capture(capture).state is CaptureState.REQUESTED
    seen = [entry for entry in forge.entries(ask) if entry["kind"] == EventKind.PULL_REQUEST_SEEN]
    if who == "carol":
        assert len(seen) == 1 and seen[0]["facts"]["closed_by"] == 1003
        assert "It was closed by" in forge.status(1) and "Reopen it" in forge.status(1).replace("reopen", "Reopen")
    late = forge.say(capture, "alice", APPROVE)
    forge.look()
    assert forge.reactions(late) == ["confused"], "on a closed pull request nothing is approved"


def test_a_deny_by_closing_after_the_approval_revokes(forge: ForgeStage) -> None:
    capture = forge.opened()
    approve_elsewhere(forge, capture, "bob")
    forge.github.set_state(REPOSITORY, 1, "alice", "closed")
    with forge.database.write() as tx:
        due.set_due(tx, pulls.DUTY, REPOSITORY, tx.now)
    next(duty for duty in forge.duties() if duty.name == pulls.DUTY).step()
    assert EventKind.REVOCATION in forge.events(forge.get(capture.ask or ""))
    forge.settle()
    assert forge.capture(capture).state is CaptureState.CANCELLED
    assert forge.outside.calls("submit") == []


@pytest.mark.parametrize("what", ["ready", "merged"])
def test_marking_ready_or_merging_is_never_an_approval_and_is_shown(forge: ForgeStage, what: str) -> None:
    capture = forge.opened()
    forge.github.set_draft(REPOSITORY, 1, "alice", False)
    if what == "merged":
        world = forge.github.world
        with world.lock:
            thread = world.model.threads.pull(world.model.directory.repository_named(REPOSITORY), 1)
            world.model.threads.merge(thread, 1001, world.now())
    forge.look()
    assert forge.get(capture.ask or "").state is AskState.OPEN
    assert "approves nothing" in forge.status(1)
    said = forge.say(capture, "alice", APPROVE)
    forge.look()
    assert forge.reactions(said) == ["confused"]
    assert forge.outside.calls("submit") == []
    if what == "ready":  # back in draft it is as the bot made it
        forge.github.set_draft(REPOSITORY, 1, "alice", True)
        forge.look()
        assert "approves nothing. Convert" not in forge.status(1)
        forge.say(capture, "bob", APPROVE)
        forge.look()
        assert forge.capture(capture).state is CaptureState.RESCOPED


def test_a_later_edit_of_a_claimed_comment_is_noted_once_an_edit_and_changes_nothing(forge: ForgeStage) -> None:
    now = [1_900_000_000.0]
    forge.github.set_now(lambda: now[0])
    capture = forge.opened()
    said = forge.say(capture, "alice", "/capture-help")
    forge.look()
    for text in (APPROVE, "never mind"):
        now[0] += 30
        forge.github.edit_comment(REPOSITORY, said, "alice", text)
        for _ in range(2):
            forge.look()
    told = [entry for entry in forge.ledger() if entry["kind"] == EventKind.CLAIM_EDITED]
    assert [entry["facts"]["changed_at"] for entry in told] == [1_900_000_030_000, 1_900_000_060_000]
    assert forge.capture(capture).state is CaptureState.REQUESTED
    assert len(forge.replies(1)) == 1


def test_a_comment_that_was_edited_into_a_command_never_acts(forge: ForgeStage) -> None:
    capture = forge.opened()
    said = forge.say(capture, "mallory", "hello")
    forge.github.edit_comment(REPOSITORY, said, "alice", APPROVE)
    mine = forge.say(capture, "alice", "hello")
    forge.github.edit_comment(REPOSITORY, mine, "alice", APPROVE)
    forge.look()
    assert forge.capture(capture).state is CaptureState.REQUESTED
    assert forge.reactions(mine) == ["confused"]


def test_a_late_approve_is_told_so_and_a_late_deny_takes_away(forge: ForgeStage) -> None:
    capture = forge.opened()
    forge.say(capture, "alice", DENY)
    forge.look()
    forge.say(capture, "alice", APPROVE)
    forge.look()
    assert len(forge.replies(1)) == 1 and "already_settled" in forge.replies(1)[0]
    assert forge.capture(capture).state is CaptureState.DENIED
