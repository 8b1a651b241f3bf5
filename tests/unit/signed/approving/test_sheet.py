"""What a person is shown is all that they decide on, rendered from request and policy."""

from dataclasses import replace

import pytest

from gitops_bot.core.errors import Refused
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.lookup import lookup
from gitops_bot.policy.model import VerbRule
from gitops_bot.signed.approving.asked import Home, belongs, may_say, rule_for
from gitops_bot.signed.approving.sheet import Sheet, lines, parameters
from gitops_bot.signed.rendering import Request, render_file, render_message, short_code
from tests.signed_bundle import bundle, policy
from tests.signed_stage import transfer

ALICE, BOB, CAROL = (PrincipalName(name) for name in ("alice", "bob", "carol"))
POLICY = policy(bundle())
REQUEST = transfer(policy=POLICY.digest)
NOW = REQUEST.opened_at + 3_600_000


def rule(request: Request = REQUEST) -> VerbRule:
    found = lookup(POLICY, request.verb, request.params)
    assert isinstance(found, VerbRule)
    return found


def sheet(request: Request = REQUEST, **changes: object) -> Sheet:
    file = render_file(request, ALICE, Decision.APPROVE)
    message = render_message(request, ALICE, Decision.APPROVE)
    values: dict[str, object] = {"policy": POLICY, "rule": rule(request), "request": request, "person": ALICE}
    values |= {"decision": Decision.APPROVE, "file": file, "message": message, "code": short_code(file), "now": NOW}
    return Sheet(**(values | changes))  # type: ignore[arg-type] # as given


def test_every_byte_of_the_file_is_shown_and_its_code_last() -> None:
    shown = lines(sheet())
    file = render_file(REQUEST, ALICE, Decision.APPROVE)
    assert [line[2:] for line in shown if line.startswith("  ")][-len(file.decode().splitlines()) :] == (
        file.decode().splitlines()
    )
    assert shown[-1] == f"short code: {short_code(file)}"


def test_who_asks_what_it_takes_and_when_it_ends_are_shown() -> None:
    text = "\n".join(lines(sheet(key="ssh SHA256:x", warnings=("beware",), changes=("Version 1 becomes version 2.",))))
    for part in (
        "asked by  worker, whose owner is carol; run run-1, version 1",
        "takes     2 to approve, 1 to deny, of alice, bob, carol",
        "keys      any key (whatever runs as the signer can approve)",
        "barred    carol: may deny, not approve",
        "expires   2024-06-02T12:00:00Z (in 24 h)",
        "signed with: ssh SHA256:x",
        "warning: beware",
        "what adopting it changes\n  Version 1 becomes version 2.",
        "alice says: I approve exactly this action, once.",
    ):
        assert part in text


def test_an_amount_stands_beside_its_money() -> None:
    assert parameters(rule(), REQUEST)[0] == ("amount_minor", "125000  =  1,250.00 EUR")
    assert parameters(rule(), REQUEST)[1:] == [("currency", '"EUR"'), ("to", '"DE89370400440532013000"')]


@pytest.mark.parametrize(("left", "shown"), [(0, "over"), (90_000, "in 90 s"), (3_600_000, "in 60 min")])
def test_the_time_that_is_left_is_shown(left: int, shown: str) -> None:
    assert f"({shown})" in "\n".join(lines(sheet(now=REQUEST.expires_at - left)))


HOME = Home(REQUEST.repository, REQUEST.repository_id, REQUEST.environment, 1, POLICY.digest)


@pytest.mark.parametrize(
    ("home", "code"),
    [
        (HOME, None),
        (replace(HOME, environment="staging"), "not_found"),
        (replace(HOME, repository="github.com/acme/other"), "not_found"),
        (replace(HOME, repository_id=7002), "not_found"),
        (replace(HOME, epoch=2), "epoch"),
        (replace(HOME, policy=type(POLICY.digest)("sha256:" + "00" * 32)), "stale_policy"),
    ],
)
def test_a_request_of_another_place_is_not_this_machine_s(home: Home, code: str | None) -> None:
    found = belongs(REQUEST, home)
    assert (None if found is None else found.reason.value) == code


def test_the_sentence_must_be_the_policy_s_own() -> None:
    assert isinstance(rule_for(POLICY, REQUEST), VerbRule)
    lied = rule_for(POLICY, replace(REQUEST, summary="Transfer 1.00 EUR to DE89370400440532013000"))
    assert isinstance(lied, Refused) and lied.reason.value == "bytes_differ"
    unknown = rule_for(POLICY, replace(REQUEST, verb="payments.steal"))
    assert isinstance(unknown, Refused) and unknown.reason.value == "unknown_verb"


@pytest.mark.parametrize(
    ("person", "decision", "now", "code"),
    [
        (ALICE, Decision.APPROVE, NOW, None),
        (CAROL, Decision.APPROVE, NOW, "self_approval"),
        (CAROL, Decision.DENY, NOW, None),
        (PrincipalName("worker"), Decision.DENY, NOW, "unknown_principal"),
        (PrincipalName("mallory"), Decision.APPROVE, NOW, "unknown_principal"),
        (ALICE, Decision.APPROVE, REQUEST.expires_at, "expired"),
        (ALICE, Decision.REVOKE, REQUEST.expires_at, None),
    ],
)
def test_who_may_say_what_is_decided_before_a_signature(
    person: PrincipalName, decision: Decision, now: int, code: str | None
) -> None:
    found = may_say(POLICY, rule(), REQUEST, person, decision, now)
    assert (found.reason.value if isinstance(found, Refused) else None) == code
