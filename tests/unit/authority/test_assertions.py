"""A bound answer counts with its person's own assertion over exactly it, once; everything else is refused."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from gitops_bot.authority import enrolling, signing_in
from gitops_bot.authority.authenticators import encode
from gitops_bot.authority.proofs import recheck
from gitops_bot.authority.settling import Counted, Revoked, Settled
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import Reason, Refused
from gitops_bot.core.statements import MOST_IN_BATCH, batch_challenge
from gitops_bot.demo.passkey import SoftwarePasskey
from gitops_bot.store import votes
from tests.decisions import QUORUM, facts_of, reason_of
from tests.people_stage import HOUR, SITE, People, altered, given_for, got, people_of
from tests.store_fixtures import FreshDatabase

DAY = 24 * HOUR
OTHER = Digest("sha256:" + "ab" * 32)


@pytest.fixture
def people(database: FreshDatabase) -> People:
    return people_of(database)


@pytest.fixture
def quick(sqlite_database: FreshDatabase) -> People:
    return people_of(sqlite_database)


def asks_of(people: People, many: int) -> list[Ask]:
    return [people.stage.ask(params={"version": str(number)}) for number in range(many)]


def stored(people: People, ask: Ask) -> list[votes.StoredVote]:
    return people.stage.read(lambda tx: votes.of_ask(tx, ask.id))


def test_an_asserted_answer_counts_and_its_evidence_stands_by_itself(people: People) -> None:
    """The accepting twin of every refusal below."""
    alice, bob, ask = people.person("alice"), people.person("bob"), people.stage.ask()
    (counted,) = got(people.answer(alice, given_for(ask)))
    assert isinstance(counted, Counted)
    (settled,) = got(people.answer(bob, given_for(ask, text="looks right – grüße")))
    assert isinstance(settled, Settled)
    assert settled.verdict.state is AskState.APPROVED
    for vote in stored(people, ask):
        assert recheck(vote.evidence) is None


def test_what_is_signed_is_what_is_shown(quick: People) -> None:
    alice, ask = quick.person("alice"), quick.stage.ask()
    begun = got(quick.begin_answer(alice, [given_for(ask, "deny", "no")]))
    (document,) = begun.statements
    assert (document["origin"], document["workspace"], document["person"]) == (SITE.origin, "gitops-bot", "alice")
    assert (document["ask"], document["verb"], document["option"]) == (ask.id, "release.cut", "deny")
    assert (document["action_hash"], document["policy"]) == (ask.binding.action_hash, ask.binding.policy)
    assert (document["nonce"], document["credential"]) == (begun.id, alice.session.credential)
    assert [one["id"] for one in begun.options["allowCredentials"]] == [alice.session.credential]
    assert begun.options["userVerification"] == "required"


def test_a_bound_answer_without_an_assertion_is_refused(people: People) -> None:
    alice, ask = people.person("alice"), people.stage.ask()
    assert reason_of(people.settle_with(alice, given_for(ask), None)) == Reason.ASSERTION_REQUIRED
    assert stored(people, ask) == []


@pytest.mark.parametrize("option", ["approve", "deny"])
@pytest.mark.parametrize(
    "other",
    [
        lambda given, _: replace(given, option={"approve": "deny", "deny": "approve"}[given.option]),
        lambda given, _: replace(given, text="another reason"),
        lambda given, _: replace(given, text=""),
        lambda given, ask: replace(given, ask=ask.id),
        lambda given, _: replace(given, binding=replace(given.binding, action_hash=OTHER)),
        lambda given, _: replace(given, binding=replace(given.binding, policy=OTHER)),
        lambda given, _: replace(given, binding=replace(given.binding, run_version=9)),
    ],
    ids=["option", "text", "empty-text", "ask", "action", "policy", "run"],
)
def test_an_assertion_over_another_answer_is_refused(quick: People, option: str, other: Any) -> None:
    """Statement of another ask, option, text, action, policy, run: at the ceremony, and past it at settling."""
    alice = quick.person("alice")
    ask, second = asks_of(quick, 2)
    given = given_for(ask, option)
    begun = got(quick.begin_answer(alice, [given]))
    credential = quick.passkey("alice").get(begun.options)
    changed = other(given, second)
    assert reason_of(quick.settle(alice, begun.id, credential, [changed])) == Reason.ASSERTION_INVALID
    assert quick.why() == "other answers, or another order"
    honest = got(quick.begin_answer(alice, [given]))
    (asserted,) = got(quick.finish_answer(alice, honest.id, quick.passkey("alice").get(honest.options), [given]))
    past = quick.settle_with(alice, changed, asserted)
    if changed.binding == given.binding:
        assert reason_of(past) == Reason.ASSERTION_INVALID
    else:
        assert reason_of(past) in (Reason.STALE_ACTION, Reason.STALE_POLICY, Reason.STALE_RUN)
    assert stored(quick, ask) == stored(quick, second) == []


def test_the_assertion_of_another_person_is_refused(people: People) -> None:
    """At the ceremony by session and by passkey, and past it at settling by the name that was signed."""
    alice, bob, ask = people.person("alice"), people.person("bob"), people.stage.ask()
    given = given_for(ask)
    begun = got(people.begin_answer(alice, [given]))
    credential = people.passkey("alice").get(begun.options)
    assert reason_of(people.settle(bob, begun.id, credential, [given])) == Reason.ASSERTION_INVALID
    assert people.why() == "no such challenge here"
    bobs = people.passkey("bob").get({**begun.options, "allowCredentials": []})
    assert reason_of(people.settle(alice, begun.id, bobs, [given])) == Reason.ASSERTION_INVALID
    assert people.why() == "another passkey than the statement's"
    begun = got(people.begin_answer(alice, [given]))
    (asserted,) = got(people.finish_answer(alice, begun.id, people.passkey("alice").get(begun.options), [given]))
    assert reason_of(people.settle_with(bob, given, asserted)) == Reason.ASSERTION_INVALID
    assert isinstance(people.settle_with(alice, given, asserted), Counted)


def test_another_session_of_the_same_person_does_not_finish_it(quick: People) -> None:
    alice, ask = quick.person("alice"), quick.stage.ask()
    other = got(quick.sign_in("alice")).person
    begun = got(quick.begin_answer(alice, [given_for(ask)]))
    credential = quick.passkey("alice").get(begun.options)
    assert isinstance(quick.settle(other, begun.id, credential, [given_for(ask)]), Refused)
    got(quick.settle(alice, begun.id, credential, [given_for(ask)]))


@pytest.mark.parametrize("changed", [{"origin": "http://localhost:9999"}, {"name": "another"}, {"rp_id": "evil"}])
def test_an_assertion_of_another_site_is_refused(quick: People, changed: dict[str, str]) -> None:
    """Statement of another origin or workspace: it is refused where it is replayed."""
    alice, ask = quick.person("alice"), quick.stage.ask()
    begun = got(quick.begin_answer(alice, [given_for(ask)]))
    elsewhere = quick.at(**changed)
    theirs = got(elsewhere.begin_answer(alice, [given_for(ask)]))
    quick.passkey("alice").origin = elsewhere.site.origin
    for one in quick.passkey("alice").credentials.values():
        one.rp_id = elsewhere.site.rp_id
    credential = quick.passkey("alice").get(theirs.options)
    assert reason_of(quick.settle(alice, begun.id, credential, [given_for(ask)])) == Reason.ASSERTION_INVALID
    assert stored(quick, ask) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: setattr(one, "verifies", False), "without user verification"),
        (lambda one: setattr(one, "present", False), "the signature or what it covers does not hold"),
        (lambda one: one.client.update(type="webauthn.create"), "another kind of ceremony"),
        (lambda one: one.client.update(crossOrigin=True), "inside a frame of another origin"),
    ],
)
def test_an_assertion_made_otherwise_is_refused(
    quick: People, change: Callable[[SoftwarePasskey], Any], why: str
) -> None:
    alice, ask = quick.person("alice"), quick.stage.ask()
    begun = got(quick.begin_answer(alice, [given_for(ask)]))
    change(quick.passkey("alice"))
    credential = quick.passkey("alice").get(begun.options)
    assert reason_of(quick.settle(alice, begun.id, credential, [given_for(ask)])) == Reason.ASSERTION_INVALID
    assert quick.why() == why
    assert stored(quick, ask) == []


def test_ceremonies_of_other_purposes_give_no_answer_and_answers_nothing_else(people: People) -> None:
    """Sign-in and fresh assertions used for a verdict, and a verdict's for both: challenge and assertion alike."""
    alice, ask = people.person("alice"), people.stage.ask()
    given, mine = given_for(ask), people.passkey("alice")
    act = enrolling.adding_passkey()
    sign_in, fresh = people.begin_sign_in(), people.begin_fresh(alice, act)
    of_sign_in, of_fresh = mine.get(sign_in.options), mine.get(fresh.options)
    for ceremony, credential in ((sign_in.id, of_sign_in), (fresh.id, of_fresh)):
        assert reason_of(people.settle(alice, ceremony, credential, [given])) == Reason.ASSERTION_INVALID
        begun = got(people.begin_answer(alice, [given]))
        assert reason_of(people.settle(alice, begun.id, credential, [given])) == Reason.ASSERTION_INVALID
        assert people.why() == "another challenge"
    begun = got(people.begin_answer(alice, [given]))
    of_verdict = mine.get(begun.options)
    assert isinstance(people.finish_sign_in(begun.id, of_verdict), Refused)
    assert isinstance(people.finish_sign_in(sign_in.id, of_verdict), Refused)
    assert isinstance(people.finish_fresh(alice, begun.id, of_verdict, act), Refused)
    assert isinstance(people.finish_fresh(alice, fresh.id, of_verdict, act), Refused)
    got(people.settle(alice, begun.id, of_verdict, [given]))


def test_the_same_answer_again_after_a_lost_reply_gives_the_same_result(people: People) -> None:
    alice, bob, ask = people.person("alice"), people.person("bob"), people.stage.ask()
    given = given_for(ask, text="fine")
    begun = got(people.begin_answer(alice, [given]))
    credential = people.passkey("alice").get(begun.options)
    (first,) = got(people.settle(alice, begun.id, credential, [given]))
    (again,) = got(people.settle(alice, begun.id, credential, [given]))
    assert isinstance(first, Counted)
    assert isinstance(again, Counted)
    assert (again.ask, again.quorum, again.repeated) == (first.ask, first.quorum, True)
    got(people.answer(bob, given_for(ask)))
    (late,) = got(people.settle(alice, begun.id, credential, [given]))
    assert isinstance(late, Settled)
    assert late.repeated
    assert len(stored(people, ask)) == 2


def test_a_replay_for_anything_else_is_refused(people: People) -> None:
    alice, ask = people.person("alice"), people.stage.ask()
    given = given_for(ask)
    begun = got(people.begin_answer(alice, [given]))
    mine = people.passkey("alice")
    credential = mine.get(begun.options)
    got(people.settle(alice, begun.id, credential, [given]))
    for changed in (replace(given, option="deny"), replace(given, text="x")):
        assert reason_of(people.settle(alice, begun.id, credential, [changed])) == Reason.ASSERTION_INVALID
    signed_again = mine.get(begun.options)
    assert reason_of(people.settle(alice, begun.id, signed_again, [given])) == Reason.ASSERTION_INVALID
    assert people.why() == "the challenge was used before"
    broken = altered(credential, "signature", lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]))
    assert reason_of(people.settle(alice, begun.id, broken, [given])) == Reason.ASSERTION_INVALID


def test_an_assertion_whose_answer_was_refused_makes_no_vote_later(quick: People) -> None:
    """A nonce that was used without a stored vote stands for nothing, whatever became of the ask."""
    carol, dave, ask = quick.person("carol"), quick.person("dave"), quick.stage.ask()
    begun = got(quick.begin_answer(dave, [given_for(ask)]))
    credential = quick.passkey("dave").get(begun.options)
    (refused,) = got(quick.settle(dave, begun.id, credential, [given_for(ask)]))
    assert reason_of(refused) == Reason.NOT_AUTHORISED
    assert reason_of(quick.settle(dave, begun.id, credential, [given_for(ask)])) == Reason.ASSERTION_INVALID
    got(quick.answer(carol, given_for(ask)))
    assert [vote.principal for vote in stored(quick, ask)] == ["carol"]


def test_a_revocation_after_the_end_is_asserted_and_repeats_alike(people: People) -> None:
    alice, bob, carol, ask = (*(people.person(name) for name in ("alice", "bob", "carol")), people.stage.ask())
    for one in (alice, bob):
        got(people.answer(one, given_for(ask)))
    given = given_for(ask, "deny", "stop")
    begun = got(people.begin_answer(carol, [given]))
    credential = people.passkey("carol").get(begun.options)
    assert isinstance(got(people.settle(carol, begun.id, credential, [given]))[0], Revoked)
    (again,) = got(people.settle(carol, begun.id, credential, [given]))
    assert isinstance(again, Revoked)
    assert again.repeated


def test_the_assertion_of_a_removed_key_is_refused(people: People) -> None:
    alice, ask = people.person("alice"), people.stage.ask()
    begun = got(people.begin_answer(alice, [given_for(ask)]))
    credential = people.passkey("alice").get(begun.options)
    people.execute("UPDATE passkeys SET revoked_at = 1, revoked_by = 'host'")
    assert reason_of(people.settle(alice, begun.id, credential, [given_for(ask)])) == Reason.ASSERTION_INVALID
    assert people.why() == "a revoked passkey"
    assert reason_of(people.begin_answer(alice, [given_for(ask)])) == Reason.ASSERTION_REQUIRED


def test_a_key_that_rests_answers_nothing_bound_and_then_does(people: People) -> None:
    resting = people.at(rest=DAY)
    alice, ask = resting.person("alice"), people.stage.ask()
    refused = people.begin_answer(alice, [given_for(ask)])
    assert reason_of(refused) == Reason.ASSERTION_INVALID
    assert facts_of(refused)["resting"]
    people.execute("UPDATE passkeys SET rests_until = 0")
    begun = got(people.begin_answer(alice, [given_for(ask)]))
    people.execute("UPDATE passkeys SET rests_until = 9999999999999")
    credential = people.passkey("alice").get(begun.options)
    assert reason_of(people.settle(alice, begun.id, credential, [given_for(ask)])) == Reason.ASSERTION_INVALID
    assert people.why() == "a passkey that rests"
    people.execute("UPDATE passkeys SET rests_until = 0")
    got(people.answer(alice, given_for(ask)))


def test_the_sessions_new_key_leaves_the_answer_to_an_older_one(quick: People) -> None:
    quick.enrol("alice", "old")
    alice, ask = quick.at(rest=DAY).person("alice", "new"), quick.stage.ask()
    begun = got(quick.begin_answer(alice, [given_for(ask)]))
    assert [one["id"] for one in begun.options["allowCredentials"]] == list(quick.passkey("alice", "old").credentials)
    got(quick.settle(alice, begun.id, quick.passkey("alice", "old").get(begun.options), [given_for(ask)]))
    named = quick.begin_answer(alice, [given_for(ask)], passkey=alice.session.credential)
    assert facts_of(named)["resting"]
    assert reason_of(quick.begin_answer(alice, [given_for(ask)], passkey="x")) == Reason.ASSERTION_REQUIRED


def test_a_key_that_the_policy_does_not_name_answers_nothing(quick: People) -> None:
    alice, ask = quick.person("alice"), quick.stage.ask()
    begun = got(quick.begin_answer(alice, [given_for(ask)]))
    credential = quick.passkey("alice").get(begun.options)
    named = quick.under({"alice": {"passkey": ["b3RoZXItb25l"]}})
    assert reason_of(named.settle(alice, begun.id, credential, [given_for(ask)])) == Reason.ASSERTION_INVALID
    assert quick.why() == "a passkey that the policy does not name"
    assert reason_of(named.begin_answer(alice, [given_for(ask)])) == Reason.ASSERTION_REQUIRED
    listed = quick.under({"alice": {"passkey": [str(alice.session.credential)]}})
    fresh = listed.stage.ask(params={"version": "2.0"})
    assert isinstance(got(listed.answer(alice, given_for(fresh)))[0], Counted)


def test_somebody_who_left_or_is_suspended_answers_nothing(people: People) -> None:
    alice, ask = people.person("alice"), people.stage.ask()
    begun = got(people.begin_answer(alice, [given_for(ask)]))
    credential = people.passkey("alice").get(begun.options)
    people.suspend("alice")
    assert reason_of(people.settle(alice, begun.id, credential, [given_for(ask)])) == Reason.ASSERTION_INVALID
    assert people.why() == "nobody whom the policy lets in"
    assert isinstance(people.begin_answer(alice, [given_for(ask)]), Refused)


def test_a_session_by_oidc_answers_nothing_bound(quick: People) -> None:
    quick.enrol("bob")
    policy = quick.under({"bob": {"oidc": [{"issuer": "https://id.example", "subject": "42"}]}})
    ask = policy.stage.ask()
    bob = got(
        policy.write(lambda tx: signing_in.finish_oidc(tx, policy.stage.rules, SITE, "https://id.example", "42"))
    ).person
    assert reason_of(policy.begin_answer(bob, [given_for(ask)])) == Reason.ASSERTION_REQUIRED
    by_key = got(policy.sign_in("bob")).person
    begun = got(policy.begin_answer(by_key, [given_for(ask)]))
    credential = policy.passkey("bob").get(begun.options)
    assert isinstance(policy.settle(bob, begun.id, credential, [given_for(ask)]), Refused)
    got(policy.settle(by_key, begun.id, credential, [given_for(ask)]))


def test_a_challenge_is_over_after_five_minutes(quick: People) -> None:
    alice, ask = quick.person("alice"), quick.stage.ask()
    begun = got(quick.begin_answer(alice, [given_for(ask)]))
    credential = quick.passkey("alice").get(begun.options)
    quick.execute("UPDATE ceremonies SET expires_at = expires_at - 300000")
    assert reason_of(quick.settle(alice, begun.id, credential, [given_for(ask)])) == Reason.ASSERTION_INVALID
    assert quick.why() == "the challenge is over"


def test_a_counter_that_does_not_rise_gives_no_answer(quick: People) -> None:
    alice, ask = quick.person("alice"), quick.stage.ask()
    got(quick.sign_in("alice"))
    begun = got(quick.begin_answer(alice, [given_for(ask)]))
    next(iter(quick.passkey("alice").credentials.values())).sign_count = 0
    credential = quick.passkey("alice").get(begun.options)
    assert reason_of(quick.settle(alice, begun.id, credential, [given_for(ask)])) == Reason.ASSERTION_INVALID
    assert quick.why() == "the counter did not rise"


def test_a_batch_is_signed_as_one_ordered_list(people: People) -> None:
    alice, asks = people.person("alice"), asks_of(people, 3)
    given = [given_for(ask) for ask in asks]
    begun = got(people.begin_answer(alice, given))
    credential = people.passkey("alice").get(begun.options)
    results = got(people.settle(alice, begun.id, credential, given))
    assert all(isinstance(one, Counted) for one in results)
    for place, ask in enumerate(asks):
        (vote,) = stored(people, ask)
        assert recheck(vote.evidence) is None
        assert f'"position":{place}'.encode() in vote.evidence
    again = got(people.settle(alice, begun.id, credential, given))
    assert all(isinstance(one, Counted) and one.repeated for one in again)


@pytest.mark.parametrize(
    "other",
    [
        lambda given, _: given[:-1],
        lambda given, _: given[:1],
        lambda given, more: [*given, more],
        lambda given, _: list(reversed(given)),
        lambda given, _: [given[0], given[0], given[2]],
        lambda given, more: [given[0], more, given[2]],
        lambda given, _: [],
    ],
    ids=["shortened", "to-one", "extended", "reordered", "twice", "replaced", "emptied"],
)
def test_a_batch_that_was_changed_after_signing_is_refused(quick: People, other: Any) -> None:
    alice, asks = quick.person("alice"), asks_of(quick, 4)
    given = [given_for(ask) for ask in asks[:3]]
    begun = got(quick.begin_answer(alice, given))
    credential = quick.passkey("alice").get(begun.options)
    changed = other(given, given_for(asks[3]))
    assert reason_of(quick.settle(alice, begun.id, credential, changed)) == Reason.ASSERTION_INVALID
    assert isinstance(quick.settle(alice, begun.id, credential, given), Refused), "and it is used up"
    assert all(stored(quick, ask) == [] for ask in asks)


def test_one_statement_of_a_batch_is_none_by_itself(quick: People) -> None:
    """The assertion over a list is over no single answer, nor the other way round."""
    alice, asks = quick.person("alice"), asks_of(quick, 2)
    given = [given_for(ask) for ask in asks]
    batch, single = got(quick.begin_answer(alice, given)), got(quick.begin_answer(alice, given[:1]))
    mine = quick.passkey("alice")
    of_batch, of_single = mine.get(batch.options), mine.get(single.options)
    assert isinstance(quick.settle(alice, single.id, of_batch, given[:1]), Refused)
    assert isinstance(quick.settle(alice, batch.id, of_single, given), Refused)


@pytest.mark.parametrize("many", [MOST_IN_BATCH, MOST_IN_BATCH + 1])
def test_a_batch_holds_at_most_twenty(quick: People, many: int) -> None:
    alice, asks = quick.person("alice"), asks_of(quick, many)
    begun = quick.begin_answer(alice, [given_for(ask) for ask in asks])
    assert reason_of(begun) == (Reason.LIMIT_EXCEEDED if many > MOST_IN_BATCH else None)
    if not isinstance(begun, Refused):
        credential = quick.passkey("alice").get(begun.options)
        results = got(quick.settle(alice, begun.id, credential, [given_for(ask) for ask in asks]))
        assert len(results) == many
        assert max(len(stored(quick, ask)[0].evidence) for ask in asks) < 65_536


def test_a_batch_is_of_one_verb_and_names_no_ask_twice(quick: People) -> None:
    policy = quick.with_verbs({"other.verb": QUORUM["verbs/release.cut"]})
    alice = policy.person("alice")
    one, other = policy.stage.ask(), policy.stage.ask(verb="other.verb", params={"version": "1"})
    mixed = policy.begin_answer(alice, [given_for(one), given_for(other)])
    assert reason_of(mixed) == Reason.BAD_PARAMS
    assert reason_of(policy.begin_answer(alice, [given_for(one), given_for(one)])) == Reason.BAD_PARAMS
    got(policy.begin_answer(alice, [given_for(other)]))
    assert reason_of(policy.begin_answer(alice, [])) == Reason.EMPTY


def test_a_verb_of_high_risk_is_answered_one_at_a_time(quick: People) -> None:
    high = quick.with_verbs({"release.cut": {**QUORUM["verbs/release.cut"], "risk": "high"}})
    alice, asks = high.person("alice"), asks_of(high, 2)
    assert reason_of(high.begin_answer(alice, [given_for(ask) for ask in asks])) == Reason.BAD_PARAMS
    for ask in asks:
        assert isinstance(got(high.answer(alice, given_for(ask)))[0], Counted)


def test_nothing_else_can_be_asserted(quick: People) -> None:
    alice, ask, question = quick.person("alice"), quick.stage.ask(), quick.stage.question()
    begin = quick.begin_answer
    assert reason_of(begin(alice, [given_for(question, None, "left")])) == Reason.ASSERTION_INVALID
    assert reason_of(begin(alice, [given_for(ask, "maybe")])) == Reason.UNKNOWN_OPTION
    assert reason_of(begin(alice, [given_for(ask, None)])) == Reason.EMPTY
    assert reason_of(begin(alice, [replace(given_for(ask), ask="nothing")])) == Reason.NOT_FOUND
    assert reason_of(begin(alice, [replace(given_for(ask), ask="\x00")])) == Reason.NOT_FOUND
    assert reason_of(begin(alice, [given_for(ask, text="\ud800")])) == Reason.UNPRINTABLE
    drifted = replace(ask.binding, run_version=2)
    assert reason_of(begin(alice, [given_for(ask, binding=drifted)])) == Reason.STALE_RUN


def test_a_gated_ask_cannot_be_asserted(quick: People) -> None:
    alice = quick.person("alice")
    params = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}
    gated = quick.stage.ask(verb="payments.transfer", params=params)
    for option in ("approve", "deny", None):
        assert reason_of(quick.begin_answer(alice, [given_for(gated, option)])) == Reason.GATED


def test_a_hostile_credential_is_a_refusal(quick: People) -> None:
    alice, ask = quick.person("alice"), quick.stage.ask()
    given = [given_for(ask)]
    hostile: list[Any] = [
        None,
        [],
        "x",
        {},
        {"type": "public-key"},
        {"type": "public-key", "id": "AA", "rawId": "AA", "response": []},
        {"type": "public-key", "id": {"$ne": 1}, "rawId": {"$ne": 1}, "response": {}},
        {"type": "public-key", "id": "A" * 10_000_000, "rawId": "A" * 10_000_000, "response": {}},
    ]
    for credential in hostile:
        begun = got(quick.begin_answer(alice, given))
        assert reason_of(quick.settle(alice, begun.id, credential, given)) == Reason.ASSERTION_INVALID
    for ceremony in (None, 5, "", "x" * 1000, "\x00"):
        assert reason_of(quick.settle(alice, ceremony, {}, given)) == Reason.ASSERTION_INVALID  # type: ignore[arg-type]  # hostile on purpose


def test_the_challenge_of_a_batch_is_that_of_the_vector_form(quick: People) -> None:
    alice, asks = quick.person("alice"), asks_of(quick, 2)
    given = [given_for(ask) for ask in asks]
    begun = got(quick.begin_answer(alice, given))
    asserted = got(quick.finish_answer(alice, begun.id, quick.passkey("alice").get(begun.options), given))
    assert encode(batch_challenge([one.statement for one in asserted])) == begun.options["challenge"]


def test_one_answer_sent_many_times_at_once_is_one_vote(people: People) -> None:
    """Double clicks and repeats of a proxy: each gets the result of the one vote."""
    alice, ask = people.person("alice"), people.stage.ask()
    given = [given_for(ask)]
    begun = got(people.begin_answer(alice, given))
    credential = people.passkey("alice").get(begun.options)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: people.settle(alice, begun.id, credential, given), range(6)))
    counted = [one for result in results for one in got(result)]
    assert [type(one) for one in counted] == [Counted] * 6
    assert sum(not one.repeated for one in counted if isinstance(one, Counted)) == 1
    assert len(stored(people, ask)) == 1
