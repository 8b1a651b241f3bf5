"""Whatever bytes a bundle holds, it loads or a typed error says why, at a cost that grows with its size; and whatever
loads denies what it does not name."""

import copy
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.durations import parse_duration, show_duration
from gitops_bot.core.errors import Malformed, Refused
from gitops_bot.core.principals import PrincipalKind, PrincipalName
from gitops_bot.core.readings import Permission
from gitops_bot.core.verdicts import Channel, Decision
from gitops_bot.policy.grammar import parse_bundle
from gitops_bot.policy.lookup import Allowed, lookup, may_vote
from gitops_bot.policy.model import Policy, VerbRule
from gitops_bot.policy.params import check_values
from gitops_bot.policy.patterns import compile_pattern
from gitops_bot.policy.rules import QuorumState, tally
from gitops_bot.policy.tables import MAX_FILE
from tests.policy_bundles import GOOD, document, load

HEAD = b'schema = "gitops-bot/policy/v1"\nversion = 1\n'
GOOD_BYTES = document(GOOD)
POLICY = load({})
UNDECLARED = load({"verbs/capture.approve/voters": {"undeclared": True, "github_permission": "write"}})

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from(["alice", "bob", "agent", "signed", "forge", "verified", "1h", "7d", "keys/a.asc", "[a-z]{3}"])
)


def mutations(value: object) -> st.SearchStrategy[object]:
    """Break one place of a bundle's value: replace, drop, or add something."""
    choices = [LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(st.text(max_size=9), LEAVES, max_size=3)]
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            choices.append(mutations(inner).map(lambda new, key=key: {**value, key: new}))
        choices.append(st.sampled_from(sorted(value)).map(lambda key: {k: v for k, v in value.items() if k != key}))
        choices.append(st.tuples(st.text(max_size=9), LEAVES).map(lambda pair: {**value, pair[0]: pair[1]}))
    if isinstance(value, list) and value:
        choices.append(mutations(value[0]).map(lambda new: [new, *value[1:]]))
        choices.append(st.just([*value, value[0]]))
    return st.one_of(choices)


def loads(files: dict[str, bytes]) -> Policy | None:
    try:
        return parse_bundle(files, {})
    except Malformed:
        return None


@given(st.dictionaries(st.sampled_from(["policy.toml", "a.toml", "keys/a.asc", "../a"]), st.binary(max_size=200)))
def test_arbitrary_bytes_raise_nothing_but_the_typed_error(files: dict[str, bytes]) -> None:
    """I20: bad input costs one refusal."""
    loads(files)


@given(st.integers(0, len(GOOD_BYTES)), st.binary(max_size=4), st.integers(0, 4))
def test_a_damaged_bundle_raises_nothing_but_the_typed_error(at: int, new: bytes, dropped: int) -> None:
    """I20: a bundle with bytes replaced loads or is refused; when it loads it is a policy with another digest."""
    damaged = GOOD_BYTES[:at] + new + GOOD_BYTES[at + dropped :]
    policy = loads({"policy.toml": damaged})
    assert policy is None or damaged == GOOD_BYTES or policy.digest != POLICY.digest


@given(mutations({key: value for key, value in GOOD.items() if key not in ("schema", "version")}))
def test_a_bundle_with_one_broken_place_keeps_every_rule(broken: object) -> None:
    """I13: what loads after one change still has thresholds, human voters and the signed channel for gated verbs."""
    if not isinstance(broken, dict):
        return
    try:
        body = document({**broken, "schema": GOOD["schema"], "version": 3})
    except (AssertionError, AttributeError):
        return
    policy = loads({"policy.toml": body})
    if policy is None:
        return
    for verb in policy.verbs.values():
        for rule in verb.every_tier:
            assert rule.approve >= 1
            assert rule.deny >= 1
            assert rule.gated == (rule.channels == {Channel.SIGNED})
            assert rule.voters.undeclared or rule.voters.owner or len(rule.voters.people) >= rule.approve
            for name in rule.voters.people:
                assert policy.people[name].principal.kind is PrincipalKind.HUMAN


NAMES = [*GOOD["people"], "erin", "github:77"]


@given(
    st.sampled_from([POLICY, UNDECLARED]),
    st.sampled_from(sorted(POLICY.verbs)),
    st.sampled_from(NAMES),
    st.sampled_from(list(Channel)),
    st.sampled_from(list(Decision)),
    st.sampled_from(NAMES),
    st.sampled_from([*NAMES, None]),
    st.sampled_from([None, 77, 1001, 1002]),
    st.sampled_from([None, *Permission]),
)
def test_no_combination_without_a_match_is_allowed(
    policy: Policy,
    verb: str,
    name: str,
    channel: Channel,
    decision: Decision,
    requester: str,
    owner: str | None,
    account: int | None,
    held: Permission | None,
) -> None:
    """I13, I15: whoever is allowed is a named human or an admitted account, on a listed channel, not themselves."""
    rule = policy.verbs[verb]
    person = policy.people.get(PrincipalName(name))
    answer = may_vote(
        policy,
        rule,
        None if person is None else person.principal,
        channel,
        decision=decision,
        requester=PrincipalName(requester),
        agent_owner=None if owner is None else PrincipalName(owner),
        account=account,
        github_permission=held,
    )
    if not isinstance(answer, Allowed):
        return
    assert channel in rule.channels
    assert not rule.gated or channel is Channel.SIGNED
    assert person is None or person.principal.kind is PrincipalKind.HUMAN
    assert answer.voter in rule.voters.people or (rule.voters.undeclared and channel is Channel.FORGE)
    if rule.voters.github_permission is not None:
        assert held in (Permission.WRITE, Permission.MAINTAIN, Permission.ADMIN)
    if decision in (Decision.APPROVE, Decision.ANSWER):
        assert answer.voter != requester
        assert not rule.gated or answer.voter != owner


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(list(Decision))), max_size=12),
    st.sampled_from(sorted(POLICY.verbs)),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
)
def test_a_quorum_is_never_reached_by_those_who_may_not(
    votes: list[tuple[str, Decision]], verb: str, requester: str, owner: str
) -> None:
    """I15: no list of votes approves without enough distinct named humans other than the requester and owner."""
    rule = POLICY.verbs[verb]
    cast = [(PrincipalName(name), decision) for name, decision in votes]
    quorum = tally(POLICY, rule, cast, requester=PrincipalName(requester), agent_owner=PrincipalName(owner))
    assert len(set(quorum.approved_by)) == len(quorum.approved_by)
    assert set(quorum.approved_by) <= {name for name, decision in cast if decision is Decision.APPROVE}
    assert requester not in quorum.approved_by
    assert not rule.gated or owner not in quorum.approved_by
    if quorum.state is QuorumState.APPROVED:
        assert len(quorum.approved_by) >= rule.approve
        assert not quorum.denied_by
    assert not set(quorum.may_still) & {name for name, _ in cast}


@given(
    st.recursive(LEAVES | st.floats(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=9)
)
def test_any_parameters_are_taken_or_refused(params: Any) -> None:
    """I20: parameters from an agent raise nothing; what is taken holds no float and nothing hidden."""
    before = copy.deepcopy(params)
    for verb in POLICY.verbs:
        found = lookup(POLICY, verb, params)
        assert isinstance(found, VerbRule | Refused)
    assert repr(before) == repr(params)
    if check_values(params) is None:
        assert "\u202e" not in json.dumps(params, ensure_ascii=False)


@given(st.text(max_size=40) | st.from_regex(r"[ab().|*+?{}\[\]\\^,0-9-]{0,24}", fullmatch=True))
def test_any_pattern_compiles_or_is_refused(text: str) -> None:
    """I20: no pattern raises anything else, and none hangs on a text that was made against it."""
    try:
        pattern = compile_pattern(text)
    except Malformed:
        return
    for probe in ("", "a", "ab" * 20, "a" * 400 + "!"):
        pattern.matches(probe)


@given(st.text(max_size=12) | st.from_regex(r"[0-9]{1,9}[smhd]", fullmatch=True))
def test_a_duration_has_one_spelling(text: str) -> None:
    """What is read is written back as the same length; everything else is the typed error."""
    try:
        length = parse_duration(text)
    except Malformed:
        return
    assert parse_duration(show_duration(length)) == length


def calls(work: Callable[[], object]) -> int:
    """Count the function calls, C functions included, that some work takes: a cost without a clock."""
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


SHAPES: dict[str, Callable[[int], bytes]] = {
    "people": lambda n: b"".join(b'[people.p%d]\nkind = "human"\ngithub = %d\n' % (i, i + 1) for i in range(n // 8)),
    "accounts": lambda n: (
        b'[people.a]\nkind = "human"\ngithub = [' + b"\n".join(b"%d," % (i + 1) for i in range(n)) + b"]"
    ),
    "comments": lambda n: b"# nothing\n" * n,
    "empty tables": lambda n: b"".join(b"[x%d]\n" % i for i in range(n)),
    "keys below a deep header": lambda n: b"[" + b"a." * 30 + b"a]\n" + b"".join(b"k%d=1\n" % i for i in range(n)),
    "nested arrays": lambda n: b"x = [" + b"[\n" * n,
    "one string": lambda n: b"\n".join([b'x = "' + b"a" * 4_000 + b'"'] * 1) + b"\n" + b"# a\n" * n,
    "quotes": lambda n: (b'"' * 2 + b" ") * 900 + b"\n" * n,
    "dotted keys": lambda n: b"".join(b"a%d" % i + b".b" * 30 + b" = 1\n" for i in range(n // 16)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_cost_grows_with_the_size(shape: str) -> None:
    """Four times the bundle costs at most some six times the calls, whatever it is made of."""
    small, large = (SHAPES[shape](n) for n in (500, 2_000))
    cost = calls(lambda: loads({"policy.toml": HEAD + small}))
    assert calls(lambda: loads({"policy.toml": HEAD + large})) <= 6 * cost + 2_000


@pytest.mark.parametrize(
    "filler", [b"#\n", b"a", b"a.", b"[", b'"', b"'''", b"\xff", b"[[a]]\n", b"[a.a.a.a]\n", b"x=1\n"]
)
def test_a_bundle_at_the_cap_is_refused_or_read(filler: bytes) -> None:
    """I20: a file of exactly the cap costs one refusal or one read; one byte more is refused unread."""
    full = (HEAD + filler * (MAX_FILE // len(filler)))[:MAX_FILE]
    loads({"policy.toml": full})
    with pytest.raises(Malformed, match="larger than"):
        parse_bundle({"policy.toml": full + b"#"}, {})


def test_a_bundle_full_of_patterns_is_refused_before_they_are_compiled() -> None:
    """I20: a pattern of twenty bytes costs milliseconds, so a megabyte of them is not begun; some are read."""

    def bundle(verbs: int) -> bytes:
        params = b", ".join(b"p%d = { match = '(a?){50%d}' }" % (one, one) for one in range(10))
        rule = b"channels = ['workspace']\nvoters = { people = ['a'] }\napprove = 1\nparams = { %b }\n" % params
        people = b"[people.a]\nkind = 'human'\n"
        return HEAD + people + b"".join(b"[verbs.v%d]\n" % one + rule for one in range(verbs))

    assert loads({"policy.toml": bundle(1)}) is not None
    assert calls(lambda: loads({"policy.toml": bundle(60)})) < calls(lambda: loads({"policy.toml": bundle(10)}))


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "(.{0,20}.{0,20}b?)*x", "(a?){60}a{60}"])
def test_matching_is_linear_in_the_text(pattern: str) -> None:
    """The patterns that ruin a backtracking matcher cost at most some six times as much for four times the text."""
    compiled = compile_pattern(pattern)
    cost = calls(lambda: compiled.matches("a" * 200 + "!"))
    assert calls(lambda: compiled.matches("a" * 800 + "!")) <= 8 * cost + 1_000
