"""A card says what is to be decided from the structured action and the rows; what an agent wrote stands apart."""

from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from gitops_bot.authority import closing, handling
from gitops_bot.authority.asking import Opened
from gitops_bot.authority.cards import card
from gitops_bot.authority.closing import Ended
from gitops_bot.authority.handling import Handled
from gitops_bot.authority.settling import Counted, Revoked, Settled
from gitops_bot.authority.shown import AgentText, Card, Outcome, Surroundings
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.errors import Reason, Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Channel
from gitops_bot.store import snoozes, suspensions
from gitops_bot.store.engine import Tx
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind
from tests.decisions import VERB, Stage, reason_of, rules_of
from tests.policy_bundles import TRANSFER
from tests.reading import plan, statements, texts
from tests.store_fixtures import FreshDatabase

ACTS: Final = frozenset({"answer", "withdraw", "delegate", "snooze", "hold", "claim"})
MONEY: Final = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}
MARK: Final = "<b onclick=x>HOSTILE</b>\u202e"
PEOPLE: Final = ("alice", "bob", "carol", "dave", "agent", "mallory", None)


@pytest.fixture
def stage(database: FreshDatabase) -> Stage:
    return Stage(database.open(Role.WORKSPACE))


def see(stage: Stage, ask: Ask | str, who: str | None = "bob", around: Surroundings | None = None) -> Card:
    name = None if who is None else PrincipalName(who)
    ask_id = ask if isinstance(ask, str) else ask.id
    found = stage.read(lambda tx: card(tx, stage.rules, ask_id, name, around))
    assert found is not None
    return found


def ended(found: Card) -> Outcome:
    assert found.outcome is not None
    return found.outcome


def gated(stage: Stage, **changes: Any) -> Ask:
    return stage.ask(verb="payments.transfer", params={**MONEY, **changes})


def test_a_card_is_of_the_action_and_never_of_the_words(stage: Stage) -> None:
    """An agent that lies about what it asks changes nothing in what is shown as the action."""
    ask = stage.ask(params={"version": "2.0"}, text="Harmless: fix a typo", why="trust me")
    found = see(stage, ask)
    assert found.title == "agent-1 asks for release.cut" and found.summary is None
    assert [(one.name, one.shown, one.raw_json) for one in found.params] == [("version", "2.0", '"2.0"')]
    assert found.text == AgentText("Harmless: fix a typo", "agent-1") and found.why == AgentText("trust me", "agent-1")
    assert found.policy_says[0] == "release.cut needs 2 to approve and 1 to deny, of: alice, bob, carol."
    assert found.risk == "normal" and found.answerable and found.channels == ("forge", "operator", "workspace")
    assert (found.binding.action, found.binding.run_version) == (
        f"{ask.binding.action_hash[7:13]}…{ask.binding.action_hash[-6:]}",
        1,
    )


def test_no_such_ask_is_no_card(stage: Stage) -> None:
    """Whatever comes as an id."""
    for ask_id in ("01jd0m1q2w3e4r5t6y7z8x9c0v", "", "\x00", "\ud800", "x" * 500):
        with stage.database.read() as tx:
            assert card(tx, stage.rules, ask_id, PrincipalName("bob")) is None


def test_a_mark_in_everything_that_an_agent_words_is_only_in_agent_text(stage: Stage) -> None:
    """Question, reason, labels, the reason of a withdrawal: none of it in a text that a page takes for ours."""
    first = stage.ask(text=MARK, why=MARK)
    asked = stage.question((MARK, "b"), why=MARK)
    words = stage.ask(verb=None, params=None, text=MARK)
    for ask in (first, asked, words):
        for who in ("alice", "bob", None):
            assert [path for path, text in texts(see(stage, ask, who)) if "HOSTILE" in text] == []
    stage.write(lambda tx: closing.withdraw(tx, first.id, "agent", MARK))
    found = see(stage, first)
    assert [path for path, text in texts(found) if "HOSTILE" in text] == []
    assert ended(found).words == AgentText(MARK, "agent withdrew it") and ended(found).who == ("agent",)
    assert [one.label for one in see(stage, asked).options] == [AgentText(MARK, "agent-1"), AgentText("b", "agent-1")]


def test_a_mark_in_a_parameter_is_shown_as_what_it_is(stage: Stage) -> None:
    """The action itself is shown, for it is what is decided; with nothing in it that hides or reorders."""
    refused = stage.try_ask(stage.wish(params={"version": MARK}))
    assert reason_of(refused) == "unprintable"
    found = see(stage, stage.ask(params={"version": "<b>HOSTILE</b>"}))
    where = {path for path, text in texts(found) if "HOSTILE" in text}
    assert where == {".params[0].shown", ".params[0].raw_json"}


def test_the_last_approved_action_of_the_verb_is_compared(stage: Stage) -> None:
    """Only what is different, and with the newest that was approved before; a denied one is none."""
    first = stage.ask(params={"version": "1.0", "notes": "x"})
    assert see(stage, first).compared_with is None
    for who in ("alice", "bob"):
        stage.answer(first, who, "approve")
    denied = stage.ask(params={"version": "1.5"})
    stage.answer(denied, "bob", "deny")
    second = stage.ask(params={"version": "2.0", "notes": "x"})
    found = see(stage, second)
    assert found.compared_with == first.id
    assert [(one.name, one.before, one.after) for one in found.changes] == [("version", "1.0", "2.0")]
    same = stage.ask(stage.agent("agent-2"), params={"version": "1.0", "notes": "x"})
    assert see(stage, same).compared_with == first.id and see(stage, same).changes == ()


def test_votes_and_who_is_missing(stage: Stage) -> None:
    """Two of three: one voted, one vote is missing, two people could give it; the card of the voter says so, too."""
    ask = stage.ask()
    assert isinstance(stage.answer(ask, "alice", "approve", "looks fine"), Counted)
    found = see(stage, ask, "alice")
    assert [(one.name, one.decision, one.text, one.channel, one.counts) for one in found.voted] == [
        ("alice", "approve", "looks fine", "workspace", True)
    ]
    assert (found.missing, found.missing_people) == (1, ("bob", "carol"))
    assert {one.name: one.said for one in found.may_answer} == {"alice": "approve", "bob": None, "carol": None}
    assert {one.id: reason_of(one.refused) for one in found.options} == {"approve": "duplicate", "deny": None}
    assert "answer" in found.can
    stage.answer(ask, "alice", "deny")
    after = see(stage, ask, "alice")
    assert [(one.decision, one.counts) for one in after.voted] == [("approve", False), ("deny", True)]
    assert ended(after).state == "DENIED" and after.missing_people == ()


def test_a_suspended_voter_is_named_and_not_missed(stage: Stage, database: FreshDatabase) -> None:
    """Whom the host suspended cannot bring it about, and does not see that they could act."""
    ask = stage.ask()
    with database.open(Role.HOST).write() as tx:
        suspensions.suspend(tx, PrincipalName("carol"), None)
    found = see(stage, ask, "carol")
    assert found.missing_people == ("alice", "bob") and not found.can
    assert {reason_of(one) for one in found.cannot.values()} == {"suspended"}
    assert [one.barred for one in found.may_answer if one.name == "carol"] == [
        "is suspended, or no person of the policy any more"
    ]


def test_every_act_is_allowed_or_refused_with_one_reason_and_the_services_say_the_same(stage: Stage) -> None:
    """What a card shows as possible is possible, and what it refuses is refused for that very reason."""
    asks = [stage.ask(), stage.question(("a", "b")), stage.question(candidates=(PrincipalName("carol"),)), gated(stage)]
    over = stage.ask(params={"version": "over"})
    stage.answer(over, "bob", "deny")
    withdrawn = stage.ask(params={"version": "withdrawn"})
    stage.withdraw(withdrawn)
    for ask in [*asks, over, withdrawn]:
        for who in PEOPLE:
            found = see(stage, ask, who)
            if who is None:
                assert not found.can and not found.cannot
                continue
            assert found.can | found.cannot.keys() == ACTS and not found.can & found.cannot.keys(), (ask.kind, who)
            assert all(one.sentence and isinstance(one.reason, Reason) for one in found.cannot.values())
            for act, given in served(stage, ask, PrincipalName(who)).items():
                said = found.cannot.get(act)
                assert reason_of(said) == reason_of(given), (ask.kind, ask.state, who, act, said, given)


def served(stage: Stage, ask: Ask, who: PrincipalName) -> dict[str, object]:
    """Do each act in a transaction that is not kept."""

    class Undone(Exception):
        pass

    def once(work: Any) -> object:
        kept: list[object] = []
        try:
            with stage.database.write() as tx:
                kept.append(work(tx))
                raise Undone
        except Undone:
            return kept[0]

    rules, of = stage.rules, ask.id
    return {
        "claim": once(lambda tx: handling.claim(tx, rules, who, of)),
        "delegate": once(lambda tx: handling.delegate(tx, rules, who, of, who)),
        "snooze": once(lambda tx: handling.snooze(tx, rules, who, of, tx.now + 60_000)),
        "hold": once(lambda tx: handling.hold(tx, rules, who, of, 3_600_000, None)),
        "withdraw": withdrawing(once, stage, ask, who),
    }


def withdrawing(once: Any, stage: Stage, ask: Ask, who: PrincipalName) -> object:
    """Withdrawing what was withdrawn is a repetition for its own people, and nothing to offer on a card."""
    found = once(lambda tx: handling.withdraw(tx, stage.rules, who, ask.id, "not needed"))
    if isinstance(found, Handled) and found.repeated:
        return Refused(Reason.WITHDRAWN)
    return found


@pytest.mark.parametrize("who", ["alice", "bob", "carol", "dave", "agent", "mallory"])
def test_whether_somebody_can_answer_is_what_an_answer_comes_to(stage: Stage, who: str) -> None:
    """For each option of an approval and for a question in words."""
    ask, question = stage.ask(), stage.question()
    known = who in stage.rules.policy.people
    for option in see(stage, ask, who).options:
        if known:
            fresh = stage.ask(stage.agent(f"agent-of-{option.id}-{who}"))
            given = stage.answer(fresh, who, option.id)
            assert reason_of(given) == reason_of(option.refused), option
        else:
            assert reason_of(option.refused) == "unknown_principal"
    if known:
        said = see(stage, question, who).cannot.get("answer")
        assert reason_of(stage.answer(question, who, None, "left")) == reason_of(said)


def test_lifecycle_29_the_ask_decides_and_not_the_page_it_is_seen_from(stage: Stage) -> None:
    """A card of agent A is the same from wherever it is opened, and an answer from the page of B is A's."""
    a, b = stage.agent("agent-a"), stage.agent("agent-b", owner="bob")
    of_a, of_b = stage.ask(a, params={"version": "a"}), stage.ask(b, params={"version": "b"})
    assert see(stage, of_a).agent.slug == "agent-a" and see(stage, of_a).params[0].shown == "a"
    mixed = stage.answer(of_a, "bob", "approve", binding=of_b.binding)
    assert reason_of(mixed) in ("stale_action", "assertion_invalid") and not see(stage, of_b).voted
    assert isinstance(stage.answer(of_a, "bob", "approve"), Counted)
    assert [one.name for one in see(stage, of_a).voted] == ["bob"] and not see(stage, of_b).voted


def test_a_denied_action_that_is_asked_again_shows_the_last_denial(stage: Stage) -> None:
    """Who, when, and in which words; also when another agent asks the same."""
    stage.rules = replace(stage.rules, limits=replace(stage.rules.limits, repeat_after=0))
    first = stage.ask()
    assert see(stage, first).last_denial is None
    stage.answer(first, "carol", "deny", "not before the audit")
    again = stage.ask(stage.agent("agent-2"), why="please")
    denial = see(stage, again).last_denial
    assert denial is not None
    assert (denial.ask, denial.who, denial.words) == (first.id, "carol", "not before the audit")
    assert denial.at == stage.get(first).ended_at
    assert see(stage, stage.ask(params={"version": "2"})).last_denial is None
    assert see(stage, first).last_denial is None


def test_the_verdict_says_who_when_through_which_channel_and_how_long_it_took(stage: Stage) -> None:
    """Two people through two channels; the one whose vote decided gives the channel."""
    ask = stage.ask()
    stage.answer(ask, "alice", "approve", channel=Channel.FORGE, account=1001)
    assert isinstance(stage.answer(ask, "bob", "approve", "go"), Settled)
    found = see(stage, ask)
    over = ended(found)
    assert (over.state, over.who, over.channel, over.option, over.text) == (
        "APPROVED",
        ("alice", "bob"),
        "workspace",
        "approve",
        "go",
    )
    settled = stage.get(ask)
    assert settled.ended_at is not None and over.at == settled.ended_at
    assert over.took_ms == settled.ended_at - settled.opened_at
    assert not found.answerable and reason_of(found.cannot["answer"]) == "already_settled"
    (effect,) = found.effects
    assert effect.state == "not_recorded" and "not recorded" in effect.detail


def test_what_comes_after_the_verdict_is_shown_beside_it(stage: Stage) -> None:
    """A late deny is a revocation: the ask stays approved, and the card says who took it back, in their words."""
    ask = stage.ask()
    for who in ("alice", "bob"):
        stage.answer(ask, who, "approve")
    assert isinstance(stage.answer(ask, "carol", "deny", "stop"), Revoked)
    found = see(stage, ask)
    assert ended(found).state == "APPROVED"
    assert [(one.who, one.decision, one.words) for one in found.taken_back] == [("carol", "deny", "stop")]


def test_an_answered_question_names_the_option_and_the_words_of_a_person(stage: Stage) -> None:
    """The label is the agent's, the text the person's."""
    ask = stage.question(("left", "right"))
    assert isinstance(stage.answer(ask, "alice", "o2", "mind the step"), Settled)
    over = ended(see(stage, ask, "alice"))
    assert (over.state, over.option, over.text, over.words) == ("ANSWERED", "o2", "mind the step", None)


def test_an_expired_ask_says_that_nothing_was_approved(stage: Stage) -> None:
    """Before the duty came by it is over, too, for the card and its acts."""
    ask = stage.expiring()
    before = see(stage, ask)
    assert before.deadline.over and not before.answerable and reason_of(before.cannot["answer"]) == "expired"
    stage.expire_all()
    over = ended(see(stage, ask))
    assert over.state == "EXPIRED" and "nothing was approved" in over.sentence and over.who == ()


def test_a_superseded_ask_names_its_successor_and_why(stage: Stage) -> None:
    """And the successor names what it replaced; the old card cannot be answered any more."""
    ask = stage.ask()
    later = stage.under({"version": 4})
    opened = later.write(lambda tx: closing.supersede(tx, later.rules, ask.id, Reason.STALE_POLICY))
    assert isinstance(opened, Opened)
    old, new = see(later, ask), see(later, opened.ask)
    assert old.successor == opened.ask.id and new.predecessor == ask.id and new.successor is None
    assert "The policy changed after this was shown" in ended(old).sentence
    assert reason_of(old.cannot["answer"]) == "stale_policy" and "answer" in new.can


def test_refused_attempts_have_a_reason_a_sentence_and_what_to_do(stage: Stage) -> None:
    """Newest first; an account that the policy does not know is named by its number."""
    ask = stage.ask()
    stage.answer(ask, "dave", "approve")
    stage.answer(ask, None, "approve", channel=Channel.FORGE, account=4711)
    stage.answer(ask, "bob", "approve", channel=Channel.APP)
    stage.answer(ask, "carol", "approve", asserted=None)
    found = see(stage, ask)
    assert [(one.who, one.channel, one.reason) for one in found.attempts] == [
        ("carol", "workspace", "assertion_required"),
        ("bob", "app", "wrong_channel"),
        ("github:4711", "forge", "unknown_principal"),
        ("dave", "workspace", "not_authorised"),
    ]
    assert all(one.sentence and one.remedy for one in found.attempts) and not found.voted


def test_what_is_off_for_a_person_is_shown_to_them_alone(stage: Stage) -> None:
    """A snooze is one's own."""
    ask = stage.ask()
    with stage.database.write() as tx:
        until = tx.now + 60_000
        snoozes.put_off(tx, ask.id, PrincipalName("bob"), until)
    assert see(stage, ask, "bob").snoozed_until == until
    assert see(stage, ask, "alice").snoozed_until is None and see(stage, ask, None).snoozed_until is None


def test_a_gated_ask_shows_and_takes_nothing(stage: Stage) -> None:
    """No option to give, hold and withdraw alone; no grant was minted; authority lives on people's branches."""
    ask = gated(stage, amount_minor=2_000_000)
    found = see(stage, ask, "bob", Surroundings("https://forge.example/approvals.git", shared_uid=True))
    assert found.title == "Transfer 20,000.00 EUR to DE89370400440532013000" == found.summary
    assert found.can == {"hold", "snooze"} and not found.answerable and found.risk == "high"
    assert {act: reason_of(found.cannot[act]) for act in ("answer", "claim", "delegate")} == {
        "answer": "gated",
        "claim": "gated",
        "delegate": "gated",
    }
    shown = found.gated
    assert shown is not None and shown.sentence.startswith("No grant was minted.") and shown.grant is None
    assert shown.repository == "https://forge.example/approvals.git"
    assert shown.branches[PrincipalName("bob")] == "refs/heads/gated/test/approvals/bob"
    assert shown.command == f"gitops-bot approval sign {ask.id}"
    assert "a wall around an owner" in shown.limits_of_this
    assert any("Tier 1 of payments.transfer applies, because amount_minor is at least 1000001" in one for one in
               found.policy_says)  # fmt: skip
    assert any("waits 1h" in one for one in found.policy_says)
    assert any("At most 50,000,000 of amount_minor for each currency within 24h" in one or "within 1d" in one
               for one in found.policy_says)  # fmt: skip
    assert any(one.startswith("shared_uid") for one in found.warnings)
    assert [one.barred for one in found.may_answer if one.name == "alice"] == ["owns the agent that asks; may deny"]
    assert found.missing_people == ("bob", "carol", "dave") and found.missing == 2
    assert see(stage, ask, "alice").can == {"hold", "snooze", "withdraw"}


def test_a_gated_ask_that_ended_says_that_none_will_be_minted(stage: Stage) -> None:
    """Withdrawn by its owner: no grant, and a hold has nothing to stop."""
    ask = gated(stage)
    assert isinstance(stage.withdraw(ask, "alice"), Ended)
    found = see(stage, ask)
    assert found.gated is not None and "ended as WITHDRAWN" in found.gated.sentence
    assert reason_of(found.cannot["hold"]) == "withdrawn" and found.effects == ()


def test_a_hold_is_shown_with_its_end(stage: Stage) -> None:
    """Who holds it, until when, in their words."""
    ask = gated(stage)
    held = stage.write(lambda tx: handling.hold(tx, stage.rules, PrincipalName("dave"), ask.id, 3_600_000, "wait"))
    assert isinstance(held, Handled)
    (hold,) = see(stage, ask).holds
    assert (hold.who, hold.words, hold.standing, hold.until) == ("dave", "wait", True, held.until)


def test_weak_rules_are_said_on_every_card(stage: Stage) -> None:
    """accept_no_spare and keys of any kind weaken what signatures mean; without them nothing is said."""
    ask = gated(stage)
    assert see(stage, ask).warnings == ()
    weak = replace(stage, rules=rules_of({f"{TRANSFER}/keys": "any", f"{TRANSFER}/accept_no_spare": True}))
    found = see(weak, ask)
    assert any("accept_no_spare" in one for one in found.warnings)
    assert any("whatever runs as a signer" in one for one in found.warnings)


def test_a_verb_that_the_policy_lost_is_shown_all_the_same(stage: Stage) -> None:
    """Nobody can answer it, and the card says why instead of failing."""
    ask = stage.ask()
    bare = replace(stage, rules=replace(stage.rules, policy=replace(stage.rules.policy, verbs={})))
    found = see(bare, ask)
    assert found.policy_says == (found.cannot["answer"].sentence,) and found.risk == "high" and not found.answerable
    assert reason_of(found.cannot["answer"]) == "unknown_verb" and found.params[0].shown == "1.0"


def test_candidates_narrow_who_is_missing(stage: Stage) -> None:
    """A question put to carol alone is hers, if the rule lets her; nobody else is missing."""
    stage.rules = rules_of({"asks/question": {"channels": ["workspace"], "voters": {"people": ["alice", "carol"]}}})
    ask = stage.question(candidates=(PrincipalName("carol"),))
    found = see(stage, ask, "alice")
    assert found.missing_people == ("carol",) and reason_of(found.cannot["answer"]) == "not_candidate"
    assert "answer" in see(stage, ask, "carol").can
    assert any("put to carol" in one for one in found.policy_says)


TABLES: Final = ("asks", "ledger", "votes", "signed_commits", "signed_votes", "captures", "effects", "executions")


def test_a_card_reads_by_indexes_however_much_there_is(stage: Stage) -> None:
    """The same statements with one ask and with sixty, none of which scans a table that grows with asks."""
    stage.rules = replace(stage.rules, limits=replace(stage.rules.limits, repeat_after=0))
    ask = gated(stage)
    bound = stage.ask()
    counts = []

    def read(of: str, tx: Tx) -> Card | None:
        return card(tx, stage.rules, of, PrincipalName("bob"))

    for _ in range(2):
        for one in (ask, bound):
            _, run = statements(stage.database, partial(read, one.id))
            counts.append(len(run))
            for sql, values in run:
                said = plan(stage.database, sql, values)
                for table in TABLES:
                    assert f"SCAN {table}" not in said.splitlines() and f"Seq Scan on {table} " not in said, said
        for number in range(30):
            other = stage.ask(stage.agent(f"agent-{number}"), params={"version": "1.0"})
            stage.answer(other, "bob", "approve" if number % 2 else "deny")
    assert counts[:2] == counts[2:] and max(counts) < 40


def test_loops_and_applications_have_cards_as_well(stage: Stage) -> None:
    """The kind of an agent changes nothing in what is decided."""
    for kind in (AgentKind.LOOP, AgentKind.APPLICATION):
        ask = stage.ask(stage.agent(f"agent-{kind.value}", kind), params={"version": kind.value})
        assert see(stage, ask).agent.kind is kind and see(stage, ask).view.ask.state is AskState.OPEN
        assert see(stage, ask).blocks is not None and VERB in see(stage, ask).title
