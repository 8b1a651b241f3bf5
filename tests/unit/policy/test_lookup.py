"""No match denies: who may vote, through what, with which permission, for which parameters."""

from dataclasses import replace

import pytest

from gitops_bot.core.errors import Reason, Refused
from gitops_bot.core.principals import Identity, IdentityKind, Principal, PrincipalName
from gitops_bot.core.readings import Permission
from gitops_bot.core.verdicts import Channel, Decision
from gitops_bot.policy.lookup import (
    Allowed,
    Answerable,
    NeedsPermission,
    lookup,
    lookup_question,
    may_vote,
    principal_of,
)
from gitops_bot.policy.model import Policy, Risk, VerbRule
from tests.policy_bundles import ADOPT, CAPTURE, GONE, TRANSFER, Patch, load

AGENT = PrincipalName("agent")
ALICE = PrincipalName("alice")
TRANSFER_PARAMS = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}
OPEN_CAPTURE: Patch = {f"{CAPTURE}/voters": {"people": ["alice", "bob"]}}
NO_SPARE: Patch = {f"{TRANSFER}/accept_no_spare": True, f"{ADOPT}/accept_no_spare": True}
UNDECLARED: Patch = {f"{CAPTURE}/voters": {"undeclared": True, "github_permission": "write"}}


def rule_of(policy: Policy, verb: str = "capture.approve", params: dict[str, object] | None = None) -> VerbRule:
    found = lookup(policy, verb, params or {})
    assert isinstance(found, VerbRule)
    return found


def person(policy: Policy, name: str) -> Principal:
    return policy.people[PrincipalName(name)].principal


def ask(
    policy: Policy,
    rule: VerbRule,
    name: str | None,
    channel: Channel = Channel.WORKSPACE,
    decision: Decision = Decision.APPROVE,
    requester: str = "agent",
    owner: str | None = "alice",
    **facts: object,
) -> Answerable:
    return may_vote(
        policy,
        rule,
        None if name is None else person(policy, name),
        channel,
        decision=decision,
        requester=PrincipalName(requester),
        agent_owner=None if owner is None else PrincipalName(owner),
        **facts,  # type: ignore[arg-type] # keyword facts of may_vote, as each test names them
    )


def reason(answer: object) -> Reason | None:
    return answer.reason if isinstance(answer, Refused) else None


def test_a_named_person_is_allowed() -> None:
    """The accepting twin of every refusal below."""
    policy = load(OPEN_CAPTURE)
    assert ask(policy, rule_of(policy), "bob") == Allowed(PrincipalName("bob"))


def test_an_unknown_verb_is_refused_and_the_nearest_is_named() -> None:
    """No rule means that nobody can grant it (I13)."""
    refused = lookup(load({}), "capture.aprove", {})
    assert reason(refused) is Reason.UNKNOWN_VERB
    assert isinstance(refused, Refused)
    assert "capture.approve" in refused.sentence


def test_a_policy_without_a_question_rule_lets_nobody_answer() -> None:
    """I13: a missing rule is a no."""
    assert reason(lookup_question(load({"asks": GONE}))) is Reason.NOT_AUTHORISED
    assert isinstance(lookup_question(load({})), VerbRule)


@pytest.mark.parametrize("channel", [channel for channel in Channel if channel is not Channel.SIGNED])
@pytest.mark.parametrize("decision", list(Decision))
def test_gated_is_answered_by_signed_commits_alone(channel: Channel, decision: Decision) -> None:
    """I3: every other channel is told `gated`, whoever asks and whatever they say."""
    policy = load({})
    rule = rule_of(policy, "payments.transfer", TRANSFER_PARAMS)
    assert reason(ask(policy, rule, "bob", channel, decision)) is Reason.GATED
    assert ask(policy, rule, "bob", Channel.SIGNED, decision) == Allowed(PrincipalName("bob"))


def test_a_channel_that_is_not_listed_is_wrong() -> None:
    """The operator's terminal counts only where the policy names it."""
    policy = load(OPEN_CAPTURE)
    assert reason(ask(policy, rule_of(policy), "bob", Channel.OPERATOR)) is Reason.WRONG_CHANNEL
    assert reason(ask(policy, rule_of(policy), "bob", Channel.SIGNED)) is Reason.WRONG_CHANNEL


@pytest.mark.parametrize(
    ("name", "expected"),
    [("agent", Reason.SERVICE_IDENTITY), ("bot", Reason.SERVICE_IDENTITY), ("carol", Reason.NOT_AUTHORISED)],
)
def test_services_and_others_do_not_vote(name: str, expected: Reason) -> None:
    """I15: a service never approves; a person who is no voter of this verb does not either."""
    policy = load(OPEN_CAPTURE)
    assert reason(ask(policy, rule_of(policy), name)) is expected


def test_suspension_counts_from_the_bundle_and_from_the_caller() -> None:
    """A suspension on the host works before a bundle says it; a caller cannot lift one of the bundle."""
    policy = load({**OPEN_CAPTURE, **NO_SPARE, "people/bob/suspended": True})
    bob = person(policy, "bob")
    rule = rule_of(policy)
    for one in (bob, replace(bob, suspended=False)):
        answer = may_vote(
            policy, rule, one, Channel.WORKSPACE, decision=Decision.APPROVE, requester=AGENT, agent_owner=ALICE
        )
        assert reason(answer) is Reason.SUSPENDED
    alice = replace(person(policy, "alice"), suspended=True)
    answer = may_vote(
        policy, rule, alice, Channel.WORKSPACE, decision=Decision.APPROVE, requester=AGENT, agent_owner=ALICE
    )
    assert reason(answer) is Reason.SUSPENDED


def test_nobody_approves_their_own_request_and_everybody_may_deny_it() -> None:
    """I15: approving is refused to the requester, denying is not."""
    policy = load(OPEN_CAPTURE)
    rule = rule_of(policy)
    assert reason(ask(policy, rule, "bob", requester="bob")) is Reason.SELF_APPROVAL
    assert ask(policy, rule, "bob", requester="bob", decision=Decision.DENY) == Allowed(PrincipalName("bob"))


def test_the_owner_of_the_asking_agent_is_excluded_for_gated_verbs() -> None:
    """I15: the owner approves ordinary asks, gated ones only where the policy says so, and may always deny."""
    policy = load(OPEN_CAPTURE)
    assert ask(policy, rule_of(policy), "alice") == Allowed(ALICE)
    gated = rule_of(policy, "payments.transfer", TRANSFER_PARAMS)
    assert reason(ask(policy, gated, "alice", Channel.SIGNED)) is Reason.SELF_APPROVAL
    assert ask(policy, gated, "alice", Channel.SIGNED, Decision.DENY) == Allowed(ALICE)
    policy = load({f"{TRANSFER}/owner_may_approve": True})
    gated = rule_of(policy, "payments.transfer", TRANSFER_PARAMS)
    assert ask(policy, gated, "alice", Channel.SIGNED) == Allowed(ALICE)


def test_candidates_narrow_who_may_answer() -> None:
    """An ask that names its candidates is theirs; they must be voters as well."""
    policy = load(OPEN_CAPTURE)
    rule = rule_of(policy)
    only = frozenset({ALICE})
    assert reason(ask(policy, rule, "bob", candidates=only)) is Reason.NOT_CANDIDATE
    assert ask(policy, rule, "alice", candidates=only) == Allowed(ALICE)
    carol = frozenset({PrincipalName("carol")})
    assert reason(ask(policy, rule, "carol", candidates=carol)) is Reason.NOT_AUTHORISED


def test_a_floor_is_read_before_it_allows() -> None:
    """I14: an unread permission is neither yes nor no; a lower one is no; nobody else is let in by it."""
    policy = load({})
    rule = rule_of(policy)
    needs = NeedsPermission(1002, Permission.WRITE, None)
    assert ask(policy, rule, "bob", Channel.FORGE, account=1002) == needs
    assert ask(policy, rule, "bob", Channel.WORKSPACE) == needs
    for held in Permission:
        answer = ask(policy, rule, "bob", Channel.FORGE, account=1002, github_permission=held)
        if held in (Permission.WRITE, Permission.MAINTAIN, Permission.ADMIN):
            assert answer == Allowed(PrincipalName("bob"))
        else:
            assert reason(answer) is Reason.NOT_AUTHORISED
    carol = ask(policy, rule, "carol", Channel.FORGE, account=1003, github_permission=Permission.ADMIN)
    assert reason(carol) is Reason.NOT_AUTHORISED


def test_a_team_is_a_floor_too() -> None:
    """Membership is read by the team's numeric id and must hold beside the permission."""
    policy = load({f"{CAPTURE}/voters/team": 42})
    rule = rule_of(policy)
    facts = {"account": 1002, "github_permission": Permission.WRITE}
    assert ask(policy, rule, "bob", Channel.FORGE, **facts) == NeedsPermission(1002, Permission.WRITE, 42)
    assert reason(ask(policy, rule, "bob", Channel.FORGE, **facts, in_team=False)) is Reason.NOT_AUTHORISED
    assert ask(policy, rule, "bob", Channel.FORGE, **facts, in_team=True) == Allowed(PrincipalName("bob"))


def test_an_account_of_somebody_else_is_not_the_person() -> None:
    """The account that acted must be the person's own, by number."""
    policy = load({})
    answer = ask(policy, rule_of(policy), "bob", Channel.FORGE, account=1001, github_permission=Permission.ADMIN)
    assert reason(answer) is Reason.UNKNOWN_PRINCIPAL


def test_undeclared_accounts_vote_only_where_the_policy_admits_them() -> None:
    """`undeclared` admits an account with the permission as `github:<id>`, on the forge alone."""
    policy = load({})
    admin = {"account": 77, "github_permission": Permission.ADMIN}
    assert reason(ask(policy, rule_of(policy), None, Channel.FORGE, **admin)) is Reason.UNKNOWN_PRINCIPAL
    policy = load(UNDECLARED)
    rule = rule_of(policy)
    assert ask(policy, rule, None, Channel.FORGE, account=77) == NeedsPermission(77, Permission.WRITE, None)
    assert ask(policy, rule, None, Channel.FORGE, **admin) == Allowed(PrincipalName("github:77"))
    assert ask(policy, rule, "carol", Channel.FORGE, account=1003, github_permission=Permission.WRITE) == Allowed(
        PrincipalName("carol")
    )
    low = {"account": 77, "github_permission": Permission.TRIAGE}
    assert reason(ask(policy, rule, None, Channel.FORGE, **low)) is Reason.NOT_AUTHORISED
    assert reason(ask(policy, rule, None, Channel.WORKSPACE, **admin)) is Reason.UNKNOWN_PRINCIPAL
    assert reason(ask(policy, rule, None, Channel.FORGE)) is Reason.UNKNOWN_PRINCIPAL


def test_a_declared_account_does_not_come_in_as_undeclared() -> None:
    """A service's or suspended person's account cannot lose its name on the way."""
    policy = load({**UNDECLARED, "people/agent/github": 2001})
    admin = {"account": 2001, "github_permission": Permission.ADMIN}
    assert reason(ask(policy, rule_of(policy), None, Channel.FORGE, **admin)) is Reason.UNKNOWN_PRINCIPAL
    assert reason(ask(policy, rule_of(policy), "agent", Channel.FORGE, **admin)) is Reason.SERVICE_IDENTITY


def test_the_owner_answers_questions() -> None:
    """`owner = true` is the asking agent's owner and nobody else; without an owner it is nobody."""
    policy = load({})
    rule = lookup_question(policy)
    assert isinstance(rule, VerbRule)
    assert ask(policy, rule, "alice", decision=Decision.ANSWER) == Allowed(ALICE)
    assert reason(ask(policy, rule, "bob", decision=Decision.ANSWER)) is Reason.NOT_AUTHORISED
    assert reason(ask(policy, rule, "alice", decision=Decision.ANSWER, owner=None)) is Reason.NOT_AUTHORISED
    assert reason(ask(policy, rule, "alice", Channel.FORGE, Decision.ANSWER)) is Reason.WRONG_CHANNEL


def test_an_identity_finds_its_principal() -> None:
    """By kind and value, both exact."""
    policy = load({})
    assert principal_of(policy, Identity(IdentityKind.GITHUB, "1001")) == person(policy, "alice")
    assert principal_of(policy, Identity(IdentityKind.GITHUB, "01001")) is None
    assert principal_of(policy, Identity(IdentityKind.PASSKEY, "1001")) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"amount_minor": True}, Reason.BAD_PARAMS),
        ({"amount_minor": 0}, Reason.BAD_PARAMS),
        ({"amount_minor": 10_000_001}, Reason.BAD_PARAMS),
        ({"amount_minor": "125000"}, Reason.BAD_PARAMS),
        ({"amount_minor": 1.5}, Reason.BAD_PARAMS),
        ({"amount_minor": 2**53}, Reason.BAD_PARAMS),
        ({"currency": "GBP"}, Reason.BAD_PARAMS),
        ({"to": "short"}, Reason.BAD_PARAMS),
        ({"to": None}, Reason.BAD_PARAMS),
        ({"extra": 1}, Reason.BAD_PARAMS),
        ({"to": "DE893704004405320\u202e13000"}, Reason.UNPRINTABLE),
        ({"to": "DE8937040044\u200b0532013000"}, Reason.UNPRINTABLE),
        ({"to": "DE89370400440532013000\n"}, Reason.UNPRINTABLE),
        ({"to": "DE89370400440\ue00032013000"}, Reason.UNPRINTABLE),
        ({"ex\u2028tra": 1}, Reason.UNPRINTABLE),
    ],
)
def test_parameters_fit_the_closed_schema(change: dict[str, object], expected: Reason | None) -> None:
    """Each parameter there, none beside, each fitting, all printable, before anybody is asked."""
    answer = lookup(load({}), "payments.transfer", {**TRANSFER_PARAMS, **change})
    assert reason(answer) is expected


def test_a_missing_parameter_is_refused() -> None:
    """Absent is not null."""
    assert reason(lookup(load({}), "payments.transfer", {"currency": "EUR"})) is Reason.BAD_PARAMS


def test_an_ordinary_verb_without_a_schema_still_refuses_what_no_action_may_hold() -> None:
    """Floats and hidden characters are refused even where parameters are open."""
    policy = load({})
    assert reason(lookup(policy, "capture.approve", {"x": {"y": [1.5]}})) is Reason.BAD_PARAMS
    assert reason(lookup(policy, "capture.approve", {"x": {"y": ["a\u202e"]}})) is Reason.UNPRINTABLE
    assert isinstance(lookup(policy, "capture.approve", {"x": {"y": ["é", None, True]}}), VerbRule)


@pytest.mark.parametrize(("amount", "tier", "delay"), [(1_000_000, None, 0), (1_000_001, 1, 3_600_000)])
def test_parameters_choose_the_tier(amount: int, tier: int | None, delay: int) -> None:
    """The tier applies from its bound on, to the unit, and never changes the channel."""
    rule = rule_of(load({}), "payments.transfer", {**TRANSFER_PARAMS, "amount_minor": amount})
    assert (rule.tier, rule.delay, rule.channels) == (tier, delay, {Channel.SIGNED})


def test_of_several_tiers_the_first_counts() -> None:
    """The order in the file decides."""
    tiers = [
        {"where": {"amount_minor": {"ge": 500}, "currency": {"one_of": ["USD"]}}, "approve": 1},
        {"where": {"amount_minor": {"ge": 100}}, "expires": "1h"},
    ]
    policy = load({f"{TRANSFER}/tiers": tiers})

    def tier(amount: int, currency: str) -> int | None:
        params = {**TRANSFER_PARAMS, "amount_minor": amount, "currency": currency}
        return rule_of(policy, "payments.transfer", params).tier

    assert [tier(600, "USD"), tier(600, "EUR"), tier(200, "USD"), tier(99, "EUR")] == [1, 2, 2, None]


def test_adoption_has_its_parameters_built_in() -> None:
    """`policy.adopt` takes digest, version and previous, whatever the bundle says."""
    policy = load({})
    params = {"digest": "sha256:" + "a" * 64, "version": 4, "previous": "sha256:" + "b" * 64}
    assert rule_of(policy, "policy.adopt", params).gated
    assert reason(lookup(policy, "policy.adopt", {**params, "digest": "a" * 64})) is Reason.BAD_PARAMS


@pytest.mark.parametrize(("said", "risk"), [(None, Risk.NORMAL), ("low", Risk.LOW), ("high", Risk.HIGH)])
def test_a_verb_says_its_risk(said: str | None, risk: Risk) -> None:
    """Absent is normal, and plain questions are too."""
    policy = load({} if said is None else {f"{CAPTURE}/risk": said})
    assert rule_of(policy).risk is risk
    assert policy.question is not None
    assert policy.question.risk is Risk.NORMAL


def test_a_gated_verb_is_always_of_high_risk() -> None:
    """Every tier of it, and adopting a policy as well."""
    policy = load({})
    assert {tier.risk for rule in policy.gated for tier in rule.every_tier} == {Risk.HIGH}
