"""What people do with asks at the workspace, signed in with real passkeys in software, on every engine."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

import pytest
from flask import Flask
from werkzeug.exceptions import Unauthorized

from gitops_bot.api.person.grammar import Assertion, GivenBody
from gitops_bot.authority.batches import Answered
from gitops_bot.authority.proofs import recheck
from gitops_bot.authority.sessions import Person
from gitops_bot.authority.settling import Counted, Revoked, Settled
from gitops_bot.authority.voters import Held
from gitops_bot.bootstrap.floors import Floors
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.broker.captures import Place
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.canonical import canonical
from gitops_bot.core.errors import Refusal, Refused, Unavailable
from gitops_bot.core.readings import Permission
from gitops_bot.policy.lookup import NeedsPermission
from gitops_bot.store import asks, threads, votes
from gitops_bot.store.roles import Role
from tests.decisions import VERB, Stage, rules_of
from tests.policy_bundles import GONE, Patch
from tests.signed_in import PersonClient, browser, enrolled
from tests.store_fixtures import FreshDatabase
from workspace import create_app
from workspace.auth.people import person_here
from workspace.inbox import acting

P = ParamSpec("P")
T = TypeVar("T")
TRANSFER = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}
ONE: Patch = {"people/alice/passkey": GONE, f"verbs/{VERB}/approve": 1}


@dataclass
class Desk:
    """A workspace, its rows, and the browsers of people."""

    stage: Stage
    services: Services
    app: Flask
    fresh: FreshDatabase
    people: dict[str, PersonClient] = field(default_factory=dict)

    def person(self, name: str) -> PersonClient:
        if name not in self.people:
            self.people[name] = enrolled(self.app, self.services, self.stage.database, name)
        return self.people[name]

    def do(self, who: str, act: Callable[Concatenate[Services, Person, P], T], *given: P.args, **more: P.kwargs) -> T:
        """Call a service as a route does: in a request that carries this person's cookie."""
        cookie = f"__Host-gitops-bot={self.person(who).secret}"
        with self.app.test_request_context("/", base_url=self.services.site.origin, headers={"Cookie": cookie}):
            return act(self.services, person_here(), *given, **more)

    def no(
        self, who: str, act: Callable[Concatenate[Services, Person, P], T], *given: P.args, **more: P.kwargs
    ) -> Refused:
        """Insist that a service refuses."""
        with pytest.raises(Refusal) as refused:
            self.do(who, act, *given, **more)
        return refused.value.refused

    def assertion(self, who: str, *answers: tuple[Ask, GivenBody]) -> Assertion:
        """Let a person's passkey assert answers, as the page's script does."""
        begun = self.do(who, acting.begin, [(ask.id, given) for ask, given in answers])
        return Assertion(begun.id, self.person(who).passkey.get(begun.options))

    def answer(self, who: str, ask: Ask, option: str, text: str | None = None, **more: Any) -> Any:
        given = said(ask, option, text, **more)
        return self.do(who, acting.answer, ask.id, given, self.assertion(who, (ask, given)))[1]


def said(ask: Ask, option: str | None, text: str | None = None, key: str | None = None) -> GivenBody:
    return GivenBody(option, text, ask.binding, key)


def desk_of(fresh: FreshDatabase, patch: Patch = ONE) -> Desk:
    rules = rules_of(patch)
    services = Services(fresh.open(Role.WORKSPACE), rules, Place("test", "acme/ops"), lambda path: None)
    return Desk(Stage(fresh.open(Role.HOST), rules), services, create_app(services), fresh)


@pytest.fixture
def desk(database: FreshDatabase) -> Iterator[Desk]:
    yield desk_of(database)


def test_a_bound_answer_is_settled_with_its_assertion(desk: Desk) -> None:
    """The evidence of the vote stands by itself, offline; a plain approval without one is refused."""
    ask = desk.stage.ask()
    assert desk.no("bob", acting.answer, ask.id, said(ask, "approve")).reason == "assertion_required"
    given = said(ask, "approve", "looks good")
    shown, result = desk.do("bob", acting.answer, ask.id, given, desk.assertion("bob", (ask, given)))
    assert isinstance(result, Settled)
    assert (shown.ask.state, shown.verdict is not None and shown.verdict.by) == (AskState.APPROVED, ("bob",))
    (vote,) = desk.stage.read(lambda tx: votes.of_ask(tx, ask.id))
    assert (vote.text, recheck(vote.evidence)) == ("looks good", None)
    assert desk.stage.events(ask) == ["ask.opened", "vote.refused", "vote.counted", "ask.answered"]


def test_an_assertion_is_for_one_answer(desk: Desk) -> None:
    """Neither another option nor another ask takes it, and it is used up by the attempt."""
    ask, other = desk.stage.ask(), desk.stage.ask(params={"version": "2"})
    for wrong, given in ((ask, said(ask, "deny")), (other, said(other, "approve"))):
        right = said(ask, "approve")
        assertion = desk.assertion("bob", (ask, right))
        assert desk.no("bob", acting.answer, wrong.id, given, assertion).reason == "assertion_invalid"
        assert desk.no("bob", acting.answer, ask.id, right, assertion).reason == "assertion_invalid", "it was used"
    assert isinstance(desk.answer("bob", ask, "approve"), Settled)
    assert desk.stage.get(other).state is AskState.OPEN


def test_a_question_is_answered_as_somebody_is_signed_in(desk: Desk) -> None:
    """What is kept of it names session, method and passkey, and holds nothing that opens anything."""
    ask = desk.stage.question(["left", "right"])
    _, result = desk.do("alice", acting.answer, ask.id, said(ask, "o2"))
    assert isinstance(result, Settled) and result.verdict.option == "o2"
    (vote,) = desk.stage.read(lambda tx: votes.of_ask(tx, ask.id))
    assert b'"method":"passkey"' in vote.evidence
    assert (desk.person("alice").secret or "").encode() not in vote.evidence
    assert vote.evidence == canonical(json.loads(vote.evidence))


def test_5_the_same_answer_twice_is_the_same_result(desk: Desk) -> None:
    """A double click, or a retry after a lost reply, with the very same assertion; the same key with another body is a
    conflict."""
    ask = desk.stage.ask()
    given = said(ask, "approve", key="k1")
    assertion = desk.assertion("bob", (ask, given))
    results = [desk.do("bob", acting.answer, ask.id, given, assertion)[1] for _ in range(2)]
    assert [isinstance(one, Settled) and one.repeated for one in results] == [False, True]
    assert desk.stage.count("verdicts") == 1
    question = desk.stage.question()
    for repeated in (False, True):
        _, result = desk.do("alice", acting.answer, question.id, said(question, None, "go", key="q"))
        assert isinstance(result, Settled) and result.repeated is repeated
    conflict = desk.no("alice", acting.answer, question.id, said(question, None, "stop", key="q"))
    assert conflict.reason == "idempotency_conflict"


def test_6_what_is_not_there_is_a_visible_refusal(desk: Desk) -> None:
    """An unknown ask; an option of another ask. Nothing else happens."""
    ask, other = desk.stage.question(["left", "right"]), desk.stage.question()
    assert desk.no("alice", acting.answer, "0" * 26, said(ask, "o1")).reason == "not_found"
    assert desk.no("alice", acting.answer, ask.id, said(ask, "o3")).reason == "unknown_option"
    assert desk.no("alice", acting.answer, other.id, said(other, "o1")).reason == "unknown_option"
    assert desk.stage.count("votes") == 0
    assert isinstance(desk.do("alice", acting.answer, ask.id, said(ask, "o1"))[1], Settled)


def test_7_expired_is_told_and_a_late_deny_is_recorded(desk: Desk) -> None:
    """Whether the duty came by or not."""
    ask = desk.stage.expiring()
    given = said(ask, "approve")
    assert desk.no("bob", acting.answer, ask.id, given, desk.assertion("bob", (ask, given))).reason == "expired"
    assert isinstance(desk.answer("bob", ask, "deny"), Revoked)
    assert desk.stage.get(ask).state is AskState.EXPIRED


@pytest.mark.parametrize("text", [None, "", " \u2003\u200b", "\u3164"])
def test_9_empty_words_are_no_answer(desk: Desk, text: str | None) -> None:
    """White space of any script shows nothing."""
    ask = desk.stage.question()
    assert desk.no("alice", acting.answer, ask.id, said(ask, None, text)).reason == "empty"
    assert isinstance(desk.do("alice", acting.answer, ask.id, said(ask, None, "yes"))[1], Settled)


def test_10_words_in_a_thread_are_never_an_answer(desk: Desk) -> None:
    """A message is a line of the thread; the ask is as open as before."""
    ask = desk.stage.question(["left", "right"])
    desk.stage.write(lambda tx: threads.post(tx, ask.agent, "message", "left", author_kind="person", author="alice"))
    assert desk.stage.get(ask).state is AskState.OPEN
    assert desk.stage.count("votes") == 0


def test_13_an_answer_to_what_was_asked_under_another_policy_is_stale(desk: Desk) -> None:
    """What was shown is what is echoed; an ask of the policy in force takes it."""
    ask = desk.stage.ask()
    other = Desk(desk.stage, replace(desk.services, decided_by=rules_of({**ONE, "version": 4})), desk.app, desk.fresh)
    other.app = create_app(other.services)
    other.people = desk.people
    desk.person("bob")
    given = said(ask, "approve")
    assertion = other.assertion("bob", (ask, given))
    assert other.no("bob", acting.answer, ask.id, given, assertion).reason == "stale_policy"
    assert isinstance(desk.answer("bob", ask, "approve"), Settled)


def test_a_gated_ask_is_only_stopped_here(desk: Desk) -> None:
    """I3: no answer, no claim; a hold by anybody, and withdrawn by the owner."""
    ask = desk.stage.ask(verb="payments.transfer", params=TRANSFER)
    assert desk.no("bob", acting.answer, ask.id, said(ask, "approve")).reason == "gated"
    assert desk.no("bob", acting.begin, [(ask.id, said(ask, "approve"))]).reason == "gated"
    assert desk.no("bob", acting.claim, ask.id).reason == "gated"
    _, until = desk.do("bob", acting.hold, ask.id, 3_600_000, "wait")
    assert until is not None
    assert desk.no("bob", acting.withdraw, ask.id, "").reason == "not_authorised"
    assert desk.do("alice", acting.withdraw, ask.id, "").ask.state is AskState.WITHDRAWN
    assert desk.stage.count("grants") == 0


def test_29_the_ask_decides_and_not_the_page(desk: Desk) -> None:
    """Two agents, two asks: an answer names its ask, wherever it was clicked."""
    first, second = desk.stage.question(), desk.stage.ask(desk.stage.agent("other"), verb=None, params=None, text="?")
    desk.do("alice", acting.answer, second.id, said(second, None, "this one"))
    assert (desk.stage.get(first).state, desk.stage.get(second).state) == (AskState.OPEN, AskState.ANSWERED)


def test_claims_delegations_and_snoozes(desk: Desk) -> None:
    """Each acts as the person of the session; handing on is confirmed with the passkey first."""
    ask = desk.stage.ask()
    assert desk.do("bob", acting.claim, ask.id).ask.assignee == "bob"
    assert desk.do("alice", acting.claim, ask.id).ask.assignee == "alice"
    assert desk.no("bob", acting.claim, ask.id, release=True).reason == "not_authorised"
    assert desk.do("alice", acting.claim, ask.id, release=True).ask.assignee is None
    unconfirmed = desk.no("bob", acting.delegate, ask.id, "carol")
    assert (unconfirmed.reason, "carol" in str(unconfirmed.facts["act"])) == ("assertion_required", True)
    _, until = desk.do("bob", acting.snooze, ask.id, 60_000)
    assert until is not None
    assert desk.do("bob", acting.snooze, ask.id, None)[1] is None
    assert desk.no("bob", acting.snooze, ask.id, 31 * 86_400_000).reason == "limit_exceeded"


def test_a_session_that_ended_acts_no_more(desk: Desk) -> None:
    """The person is asked for again in the transaction itself."""
    ask = desk.stage.question()
    kept: list[Person] = []
    desk.do("alice", lambda services, person: kept.append(person))
    client = desk.person("alice")
    cookie = f"__Host-gitops-bot={client.secret}"
    assert client.sign_out().status_code < 300
    headers = {"Cookie": cookie}
    late = desk.app.test_request_context("/", base_url=desk.services.site.origin, headers=headers)
    with late, pytest.raises(Unauthorized):
        acting.answer(desk.services, kept[0], ask.id, said(ask, None, "late"))
    assert desk.stage.get(ask).state is AskState.OPEN
    desk.people["alice"] = browser(desk.app, desk.services, client.passkey)
    desk.people["alice"].sign_in()
    assert isinstance(desk.do("alice", acting.answer, ask.id, said(ask, None, "now"))[1], Settled)


# Batches


def batch(desk: Desk, who: str, these: list[Ask], option: str = "approve") -> tuple[Answered, ...]:
    answers = [(ask, said(ask, option)) for ask in these]
    assertion = desk.assertion(who, *answers)
    return desk.do(who, acting.answer_batch, [(ask.id, given) for ask, given in answers], assertion)


def cast(desk: Desk, ask: Ask) -> list[votes.StoredVote]:
    return desk.stage.read(lambda tx: votes.of_ask(tx, ask.id))


def several(desk: Desk, count: int, **given: Any) -> list[Ask]:
    return [desk.stage.ask(params={"version": str(number)}, **given) for number in range(count)]


def test_a_batch_answers_each_in_the_order_given(desk: Desk) -> None:
    """One gesture, one list, a verdict and a vote with its own evidence for each."""
    these = several(desk, 20)
    these.reverse()
    done = batch(desk, "bob", these)
    assert [one.ask for one in done] == [ask.id for ask in these]
    assert all(isinstance(one.result, Settled) for one in done)
    for ask in these[:2]:
        (vote,) = cast(desk, ask)
        assert recheck(vote.evidence) is None


def test_one_stale_item_does_not_stop_the_others(desk: Desk) -> None:
    """Its ask ended after it was shown: it is told so by name, and the rest is settled."""
    these = several(desk, 3)
    answers = [(ask, said(ask, "approve")) for ask in these]
    assertion = desk.assertion("bob", *answers)
    desk.stage.answer(these[1], "carol", "deny")
    done = desk.do("bob", acting.answer_batch, [(ask.id, given) for ask, given in answers], assertion)
    first, stale, last = (one.result for one in done)
    assert isinstance(first, Settled) and isinstance(last, Settled)
    assert isinstance(stale, Refused)
    assert (stale.reason, stale.facts["by"]) == ("already_settled", "carol")
    assert "vote.refused" in desk.stage.events(these[1])


def test_a_batch_is_asserted_as_one(desk: Desk) -> None:
    """Neither without an assertion, nor in another order, nor with one of another list."""
    these = several(desk, 2)
    answers = [(ask.id, said(ask, "approve")) for ask in these]
    assert desk.no("bob", acting.answer_batch, answers, None).reason == "assertion_required"
    whole = [(ask, said(ask, "approve")) for ask in these]
    for wrong in (answers[::-1], answers[:1]):
        assertion = desk.assertion("bob", *whole)
        assert desk.no("bob", acting.answer_batch, wrong, assertion).reason == "assertion_invalid"
    assert all(isinstance(one.result, Settled) for one in batch(desk, "bob", these))


def test_a_batch_is_of_one_verb_and_never_high(database: FreshDatabase) -> None:
    """Nothing of it is done then; one at a time it is."""
    patch = {**ONE, "verbs/release.drop": {"channels": ["workspace"], "voters": {"people": ["bob"]}, "approve": 1}}
    desk = desk_of(database, {**patch, f"verbs/{VERB}/risk": "high"})
    cut, drop = several(desk, 2), [desk.stage.ask(verb="release.drop", params={"n": one}) for one in range(2)]
    for wrong in (cut, [cut[0], drop[0]], [drop[0], desk.stage.question()]):
        with pytest.raises(Refusal):
            batch(desk, "bob", wrong)
    assert desk.stage.count("votes") == 0
    assert len(batch(desk, "bob", drop)) == 2
    assert isinstance(desk.answer("bob", cut[0], "approve"), Settled)


# Races


def test_4_two_people_say_yes_and_no_at_once(desk: Desk) -> None:
    """Two workspaces, one verdict; the other is told who won, or takes back what was not executed."""
    other = Desk(desk.stage, replace(desk.services, database=desk.fresh.open(Role.WORKSPACE)), desk.app, desk.fresh)
    other.app = create_app(other.services)
    for ask in several(desk, 6):
        start = threading.Barrier(2)
        told: dict[str, object] = {}

        def say(place: Desk, who: str, option: str, ask: Ask = ask, start: threading.Barrier = start) -> None:
            given = said(ask, option)
            assertion = place.assertion(who, (ask, given))
            start.wait(30)
            try:
                told[who] = place.do(who, acting.answer, ask.id, given, assertion)[1]  # noqa: B023 # joined below
            except Refusal as refused:
                told[who] = refused.refused  # noqa: B023 # joined below

        for place, who in ((desk, "bob"), (other, "carol")):
            place.person(who)
        people = [
            threading.Thread(target=say, args=given) for given in ((desk, "bob", "approve"), (other, "carol", "deny"))
        ]
        for one in people:
            one.start()
        for one in people:
            one.join(60)
        state = desk.stage.get(ask).state
        assert desk.stage.events(ask).count("ask.answered") == 1
        if state is AskState.APPROVED:
            assert isinstance(told["bob"], Settled) and isinstance(told["carol"], Revoked)
        else:
            assert isinstance(told["carol"], Settled) and isinstance(told["bob"], Refused)
            assert (told["bob"].reason, told["bob"].facts["by"]) == ("already_settled", "carol")


# Floors of the forge


class Written(Floors):
    """Floors that were written down."""

    def __init__(self, held: Held | None) -> None:
        self.held = held
        self.asked: list[NeedsPermission] = []

    def read(self, need: NeedsPermission) -> Held:
        self.asked.append(need)
        if self.held is None:
            raise Unavailable("no answer")
        return self.held


def test_a_floor_is_read_before_the_answer_counts(database: FreshDatabase) -> None:
    """A permission that was lost refuses, one that stands lets it count; what cannot be read is neither (I14), and
    leaves the assertion as it was."""
    floored = {**ONE, f"verbs/{VERB}/voters": {"people": ["bob"], "github_permission": "write"}}
    desk = desk_of(database, floored)
    ask = desk.stage.ask()
    given = said(ask, "approve")
    assertion = desk.assertion("bob", (ask, given))
    for floors in (None, Written(None)):
        desk.services = replace(desk.services, floors=floors)
        with pytest.raises(Unavailable):
            desk.do("bob", acting.answer, ask.id, given, assertion)
    desk.services = replace(desk.services, floors=Written(Held(Permission.READ)))
    assert desk.no("bob", acting.answer, ask.id, given, assertion).reason == "not_authorised"
    written = Written(Held(Permission.WRITE))
    desk.services = replace(desk.services, floors=written)
    assert isinstance(desk.answer("bob", ask, "approve"), Settled)
    assert written.asked == [NeedsPermission(1002, Permission.WRITE, None)]


def test_no_floor_asks_nobody(desk: Desk) -> None:
    """A policy without one never waits for the forge."""
    written = Written(None)
    desk.services = replace(desk.services, floors=written)
    ask = desk.stage.ask()
    assert isinstance(desk.answer("bob", ask, "approve"), Settled)
    assert not written.asked


def test_more_votes_are_counted_and_shown(database: FreshDatabase) -> None:
    """Two of three: the first answer counts and is told what is missing."""
    desk = desk_of(database, {"people/alice/passkey": GONE})
    ask = desk.stage.ask()
    first = desk.answer("bob", ask, "approve")
    assert isinstance(first, Counted) and first.quorum.missing == 1
    assert isinstance(desk.answer("carol", ask, "approve"), Settled)
    assert desk.stage.read(lambda tx: asks.get(tx, ask.id)) is not None
