"""Attacks through the forge, each beside the same thing done honestly."""

import json

import pytest

from gitops_bot.authority.comments import leave_hint
from gitops_bot.broker import captures as moves
from gitops_bot.broker import polling
from gitops_bot.broker.captures import Answered, Request
from gitops_bot.core.asks import AskState
from gitops_bot.core.captures import CaptureState, slug
from gitops_bot.core.errors import Refused
from gitops_bot.core.ledger import EventKind
from gitops_bot.sandbox.records import App
from gitops_bot.store import agents, captures, due
from gitops_bot.store.engine import Tx
from gitops_bot.store.states import SeatState
from tests.capture_stage import REGIME, REPOSITORY
from tests.decisions import rules_of
from tests.forge_stage import APPROVE, BOT, REPOSITORY_ID, ForgeStage
from tests.policy_bundles import CAPTURE

TEAM = 4001


def stands(forge: ForgeStage, ask: str | None) -> bool:
    return forge.get(ask or "").state is AskState.OPEN and forge.outside.calls("submit") == []


def test_what_a_hint_says_does_not_count_only_the_comment_itself(forge: ForgeStage) -> None:
    """An event may claim any author, body and pull request; intake reads the comment and believes nothing else."""
    capture = forge.opened()
    stranger = forge.say(capture, "mallory", APPROVE)
    harmless = forge.say(capture, "alice", "looks good to me")
    deleted = forge.say(capture, "alice", APPROVE)
    forge.github.delete_comment(REPOSITORY, deleted, "alice")
    with forge.database.write() as tx:
        for comment, pull in ((stranger, 1), (harmless, 1), (deleted, 1), (999_999_999, 1)):
            leave_hint(tx, REPOSITORY_ID, comment, pull)
        leave_hint(tx, REPOSITORY_ID + 1, harmless, 1)
    forge.settle()
    assert stands(forge, capture.ask)
    honest = forge.say(capture, "alice", APPROVE)
    with forge.database.write() as tx:
        leave_hint(tx, REPOSITORY_ID, honest, 77)  # a wrong pull request in the hint changes nothing either
    forge.settle()
    assert forge.capture(capture).state is CaptureState.RESCOPED


def test_a_comment_of_another_pull_request_does_not_count_for_this_one(forge: ForgeStage) -> None:
    capture = forge.opened()
    issue = forge.github.issue(REPOSITORY, "alice", "An issue")
    said = forge.github.comment(REPOSITORY, issue, "alice", APPROVE)
    with forge.database.write() as tx:
        leave_hint(tx, REPOSITORY_ID, said, 1)
    forge.look()
    assert stands(forge, capture.ask) and forge.reactions(said) == []


@pytest.mark.parametrize("way", ["app", "mail", "bot"])
def test_nobody_approves_through_an_app_by_mail_or_as_a_bot(forge: ForgeStage, way: str) -> None:
    """A token of an app acts as the person, and a reply address is a bearer secret: neither shows who wrote it."""
    capture = forge.opened()
    match way:
        case "app":
            forge.say(capture, "alice", APPROVE, app=App(3, "tracker"))
        case "mail":
            forge.say(capture, "alice", APPROVE, via_email=True)
        case _:
            forge.say(capture, BOT, APPROVE)
    forge.look()
    assert stands(forge, capture.ask)
    assert forge.replies(1) == []
    reasons = [entry["reason"] for entry in forge.entries(forge.get(capture.ask or ""))]
    assert {"app": "via_app", "mail": "via_email", "bot": "from_bot"}[way] in reasons
    forge.say(capture, "alice", APPROVE)
    forge.look()
    assert forge.capture(capture).state is CaptureState.RESCOPED


def test_a_machine_user_with_write_that_nobody_declared_is_nobody(forge: ForgeStage) -> None:
    capture = forge.opened()
    forge.github.add_account("deploy-machine", 5555)
    forge.github.grant(REPOSITORY, "deploy-machine", "admin")
    said = forge.say(capture, "deploy-machine", APPROVE)
    forge.say(capture, "deploy-machine", "/approve-captur")
    forge.look()
    assert stands(forge, capture.ask)
    assert forge.reactions(said) == [] and forge.replies(1) == [], "nobody makes the bot write"


def test_a_team_that_was_made_again_under_its_old_name_is_another_team(forge: ForgeStage) -> None:
    """The policy names the team's number; membership of one with the same slug gives nothing."""
    forge.rules = rules_of({f"{CAPTURE}/voters": {"people": ["alice", "bob"], "team": TEAM}})
    forge.github.add_team("acme", "Judges", TEAM)
    capture = forge.opened()
    with forge.github.world.lock:
        forge.github.world.model.teams.teams.pop(TEAM)
    forge.github.add_team("acme", "Judges", TEAM + 1)
    forge.github.set_membership(TEAM + 1, "alice", "active")
    said = forge.say(capture, "alice", APPROVE)
    forge.look()
    assert stands(forge, capture.ask) and forge.reactions(said) == ["eyes", "confused"]


def test_membership_that_cannot_be_read_is_held_and_counted_when_it_can(forge: ForgeStage) -> None:
    """I14: allowed, denied and unknown are three answers."""
    forge.rules = rules_of({f"{CAPTURE}/voters": {"people": ["alice", "bob"], "team": TEAM}})
    forge.github.add_team("acme", "Judges", TEAM)
    forge.github.set_membership(TEAM, "alice", "active")
    forge.github.set_membership(TEAM, "bob", "pending")
    capture = forge.opened()
    denied = forge.say(capture, "bob", APPROVE)
    forge.look()
    assert forge.reactions(denied) == ["eyes", "confused"]
    forge.github.hide_teams("acme", BOT)
    said = forge.say(capture, "alice", APPROVE)
    for duty in (*forge.duties(), *forge.duties()):
        duty.step()
    with forge.database.write() as tx:
        due.set_due(tx, polling.DUTY, REPOSITORY, tx.now)
    for _ in range(4):
        for duty in forge.duties():
            duty.step()
    assert stands(forge, capture.ask)
    assert forge.reactions(said) == ["eyes"], "held: neither granted nor refused in public"
    assert EventKind.CLAIM_HELD in [entry["kind"] for entry in forge.ledger()]
    forge.github.hide_teams("acme", BOT, hidden=False)
    forge.settle()
    assert forge.capture(capture).state is CaptureState.RESCOPED
    assert forge.reactions(said) == ["eyes", "rocket"]


def test_what_an_agent_writes_acts_nowhere_on_the_pull_request(forge: ForgeStage) -> None:
    """Another bot's command, a mention, a closing keyword, a fence that ends ours, HTML: all in one dead field."""
    evil = f"@alice merge\n/merge\n{APPROVE}\ncloses #1 fixes acme/ops#1 GH-1\n```\n/lgtm\n<!-- -->\n![x](http://evil)"
    run = forge.loop("loop-1").run

    def ask(tx: Tx) -> Answered | Refused:
        agent = agents.get(tx, run.agent)
        assert agent is not None
        return moves.request(tx, forge.rules, forge.place, Request(agent, run, REGIME, evil, loop="loop-1"), hit=None)

    answered = forge.write(ask)
    assert isinstance(answered, Answered)
    forge.settle()
    texts = [forge.pull(1).body or "", forge.status(1)]
    request = forge.github.read_file(
        REPOSITORY, f"capture/{slug(REGIME.trace_id)}", f"captures/{slug(REGIME.trace_id)}/request.json"
    )
    assert request is not None
    for text in texts:
        assert not any(line.startswith("/") for line in text.split("\n"))
        for active in ("@alice", "#1", "GH-1", "```\n/lgtm", "](http://"):
            assert active not in text, active
    assert "binding" not in json.loads(request)


def test_a_calibration_that_is_changed_before_the_merge_is_not_what_anybody_is_told(forge: ForgeStage) -> None:
    """The file is a record. Later requests go by the ledgered digest and the artefact, not by what was merged."""
    capture = forge.opened()
    forge.say(capture, "alice", APPROVE)
    forge.look()
    branch, path = f"capture/{slug(REGIME.trace_id)}", f"captures/{slug(REGIME.trace_id)}/calibration.json"
    forge.github.push(REPOSITORY, branch, {path: b'{"knobs":{"alpha":"999"}}'}, "bob")
    forge.look()
    done = forge.capture(capture)
    assert done.state is CaptureState.RESCOPED and done.knobs == {"alpha": "1.5"}
    forge.request("loop-2")
    forge.settle()
    seats = {seat.loop: seat.state for seat in forge.read(lambda tx: captures.seats(tx, capture.id))}
    assert seats["loop-2"] is SeatState.RESCOPED
    assert len(forge.github.threads(REPOSITORY)) == 1


@pytest.mark.parametrize(
    "trace_id",
    [
        REGIME.trace_id.replace("acme/tiny", "acme/../tiny"),
        REGIME.trace_id.replace("acme/tiny", "-acme/tiny"),
        REGIME.trace_id.replace("c=4", "c=٤"),
        REGIME.trace_id.replace("c=4", "c=04"),
        REGIME.trace_id + " ",
        REGIME.trace_id.replace("c=4", "c=5"),
    ],
)
def test_only_the_trace_id_byte_for_byte_approves(forge: ForgeStage, trace_id: str) -> None:
    capture = forge.opened()
    forge.say(capture, "alice", f"/approve-capture {trace_id}")
    forge.look()
    if trace_id.endswith(" "):  # the twin: trailing spaces are allowed
        assert forge.capture(capture).state is CaptureState.RESCOPED
    else:
        assert stands(forge, capture.ask)
        assert len(forge.replies(1)) == 1 and APPROVE in forge.replies(1)[0]


def test_floods_get_three_replies_a_person_and_ten_a_pull_request(forge: ForgeStage) -> None:
    """And one ledger row a person, pull request and hour for what is refused without words."""
    people = {f"person-{index}": {"kind": "human", "github": 7000 + index} for index in range(5)}
    names = ["alice", "bob", *people]
    patch = {f"people/{name}": person for name, person in people.items()}
    forge.rules = rules_of({**patch, f"{CAPTURE}/voters": {"people": names}})
    for index in range(5):
        forge.github.add_account(f"person-{index}", 7000 + index)
    capture = forge.opened()
    for login in people:
        for _ in range(4):
            forge.say(capture, login, "/approve-captur")
    for _ in range(5):
        forge.say(capture, "mallory", APPROVE)
    forge.look()
    replies = forge.replies(1)
    assert len(replies) == 10
    refused = [
        entry["facts"]["account"]
        for entry in forge.entries(forge.get(capture.ask or ""))
        if entry["kind"] == EventKind.VOTE_REFUSED
    ]
    assert sorted(refused) == sorted([*range(7000, 7005), 1666])
