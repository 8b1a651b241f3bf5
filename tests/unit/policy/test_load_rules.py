"""Every load rule refuses what it is about, with its code, and loads the accepting twin: the same bundle repaired."""

import datetime
import tomllib
from pathlib import Path

import pytest

from gitops_bot.core.errors import Malformed
from gitops_bot.policy.adoption import adopt_check
from gitops_bot.policy.faults import DoesNotLoad, LoadFault
from gitops_bot.policy.grammar import parse_bundle
from gitops_bot.policy.model import ComponentKey, KeyFacts, Policy
from tests.policy_bundles import (
    ADOPT,
    CAPTURE,
    ED,
    GONE,
    TRANSFER,
    Patch,
    blob,
    ed25519,
    facts,
    load,
    rsa,
    sk,
    ssh,
)

TWO = ["bob", "carol"]

# name -> (what breaks the rule, its code, the accepting twin)
RULES: dict[str, tuple[Patch, LoadFault, Patch]] = {
    # identities
    "one ssh key, two people": (
        {"people/bob/ssh": ssh(sk(1))},
        LoadFault.SHARED_IDENTITY,
        {"people/bob/ssh": ssh(sk(7))},
    ),
    "one account, two people": (
        {"people/bob/github": 1001},
        LoadFault.SHARED_IDENTITY,
        {"people/bob/github": [1002, 1005]},
    ),
    "one passkey, two people": (
        {"people/bob/passkey": ["cGFzc2tleTE"]},
        LoadFault.SHARED_IDENTITY,
        {"people/bob/passkey": ["cGFzc2tleTI"]},
    ),
    "one sign-in, two people": (
        {
            "people/alice/oidc": [{"issuer": "https://id.example", "subject": "7"}],
            "people/bob/oidc": [{"issuer": "https://id.example", "subject": "7"}],
        },
        LoadFault.SHARED_IDENTITY,
        {
            "people/alice/oidc": [{"issuer": "https://id.example", "subject": "7"}],
            "people/bob/oidc": [{"issuer": "https://id.example", "subject": "8"}],
        },
    ),
    "one key material in a software and a security key of two people": (
        {"people/bob/ssh": ssh(ed25519(1))},
        LoadFault.SHARED_IDENTITY,
        {"people/bob/ssh": [*ssh(ed25519(6)), *ssh(sk(6))]},
    ),
    "one key material as OpenPGP and as SSH of two people": (
        {
            "+keys/alice.asc": KeyFacts(
                "B" * 40, (ComponentKey("B" * 40, "eddsa", 256, "ed25519", "ed25519:" + "02" * 32),)
            ),
            "people/alice/openpgp": ["keys/alice.asc"],
        },
        LoadFault.SHARED_IDENTITY,
        {
            "+keys/alice.asc": KeyFacts(
                "B" * 40, (ComponentKey("B" * 40, "eddsa", 256, "ed25519", "ed25519:" + "01" * 32),)
            ),
            "people/alice/openpgp": ["keys/alice.asc"],
        },
    ),
    "one person names an identity twice": (
        {"people/bob/ssh": ssh(sk(2)) * 2},
        LoadFault.SHARED_IDENTITY,
        {"people/bob/ssh": [*ssh(sk(2)), *ssh(sk(8))]},
    ),
    "bot key as a person": (
        {"people/bob/ssh": ssh(ed25519(9))},
        LoadFault.SHARED_IDENTITY,
        {"people/bob/ssh": ssh(sk(2))},
    ),
    "two services with the bot's role": (
        {"people/agent/role": "requests"},
        LoadFault.BOT_KEY,
        {"people/agent/role": "requests", "people/bot/role": GONE, "people/bot/owner": "bob"},
    ),
    "a human with the bot's role": (
        {"people/bob/role": "requests"},
        LoadFault.OWNER,
        {"people/bob/github": 1002},
    ),
    "short key id": (
        {"people/bob/openpgp": ["0xDEADBEEF"]},
        LoadFault.SHORT_KEY_ID,
        {"people/bob/openpgp": ["keys/bob.asc"], "+keys/bob.asc": ED},
    ),
    "short key id from a reader": (
        {"people/bob/openpgp": ["keys/b.asc"], "+keys/b.asc": facts("rsa", 4096, fingerprint="DEADBEEFDEADBEEF")},
        LoadFault.SHORT_KEY_ID,
        {"people/bob/openpgp": ["keys/b.asc"], "+keys/b.asc": facts("rsa", 4096)},
    ),
    "forge key as a person": (
        {
            "people/bob/openpgp": ["keys/b.asc"],
            "+keys/b.asc": facts("rsa", 4096, fingerprint="5DE3E0509C47EA3CF04A42D34AEE18F83AFDEB23"),
        },
        LoadFault.FORGE_KEY,
        {
            "people/bob/openpgp": ["keys/b.asc"],
            "+keys/b.asc": facts("rsa", 4096, fingerprint="5DE3E0509C47EA3CF04A42D34AEE18F83AFDEB24"),
        },
    ),
    "forge's newer key by its id, as the bot": (
        {
            "people/bot/openpgp": ["keys/b.asc"],
            "+keys/b.asc": facts("rsa", 4096, fingerprint="0" * 24 + "B5690EEEBB952194"),
        },
        LoadFault.FORGE_KEY,
        {"people/bot/openpgp": ["keys/b.asc"], "+keys/b.asc": facts("rsa", 4096)},
    ),
    "certificate that nobody could read": (
        {"people/bob/openpgp": ["keys/bob.asc"], "+keys/bob.asc": None},
        LoadFault.UNKNOWN_KEY,
        {"people/bob/openpgp": ["keys/bob.asc"], "+keys/bob.asc": ED},
    ),
    "certificate that is not in the bundle": (
        {"people/bob/openpgp": ["keys/bob.asc"]},
        LoadFault.UNKNOWN_KEY,
        {"people/bob/openpgp": ["keys/bob.asc"], "+keys/bob.asc": ED},
    ),
    "certificate that is nobody's": (
        {"+keys/bob.asc": ED},
        LoadFault.UNKNOWN_KEY,
        {"people/bob/openpgp": ["keys/bob.asc"], "+keys/bob.asc": ED},
    ),
    "service without an owner": (
        {"people/agent/owner": GONE},
        LoadFault.OWNER,
        {"people/agent/owner": "carol"},
    ),
    "service of a service": ({"people/agent/owner": "bot"}, LoadFault.OWNER, {"people/agent/owner": "bob"}),
    "empty key list": (
        {"people/bob/passkey": []},
        LoadFault.EMPTY_RULE,
        {"people/bob/passkey": ["cGFzc2tleTI"]},
    ),
    # weak keys
    "weak ssh rsa": (
        {"people/bob/ssh": ssh(rsa(1024))},
        LoadFault.WEAK_KEY,
        {"people/bob/ssh": [*ssh(rsa(3072)), *ssh(sk(2))]},
    ),
    "weak ssh rsa by eight bits": (
        {"people/bob/ssh": ssh(rsa(3064))},
        LoadFault.WEAK_KEY,
        {"people/bob/ssh": [*ssh(rsa(4096)), *ssh(sk(2))]},
    ),
    "weak openpgp rsa": (
        {"people/bob/openpgp": ["keys/b.asc"], "+keys/b.asc": facts("rsa", 1024)},
        LoadFault.WEAK_KEY,
        {"people/bob/openpgp": ["keys/b.asc"], "+keys/b.asc": facts("rsa", 3072)},
    ),
    "weak dsa": (
        {"people/bob/openpgp": ["keys/b.asc"], "+keys/b.asc": facts("dsa", 3072)},
        LoadFault.WEAK_KEY,
        {"people/bob/openpgp": ["keys/b.asc"], "+keys/b.asc": ED},
    ),
    "weak ssh dsa": (
        {"people/bob/ssh": ssh(f"ssh-dss {blob(b'ssh-dss', b'1', b'2', b'3', b'4')}")},
        LoadFault.WEAK_KEY,
        {"people/bob/ssh": ssh(sk(2))},
    ),
    "short curve": (
        {"people/bob/openpgp": ["keys/b.asc"], "+keys/b.asc": facts("ecdsa", 192, "nistp192")},
        LoadFault.WEAK_KEY,
        {"people/bob/openpgp": ["keys/b.asc"], "+keys/b.asc": facts("ecdsa", 256, "nistp256")},
    ),
    "a curve that one engine cannot verify": (
        {"people/bob/openpgp": ["keys/b.asc"], "+keys/b.asc": facts("ecdsa", 256, "brainpoolp256r1")},
        LoadFault.WEAK_KEY,
        {"people/bob/openpgp": ["keys/b.asc"], "+keys/b.asc": facts("ecdsa", 521, "nistp521")},
    ),
    "a curve that the other engine cannot verify": (
        {"people/bob/openpgp": ["keys/b.asc"], "+keys/b.asc": facts("eddsa", 448, "ed448")},
        LoadFault.WEAK_KEY,
        {"people/bob/openpgp": ["keys/b.asc"], "+keys/b.asc": ED},
    ),
    "weak subkey": (
        {
            "people/bob/openpgp": ["keys/b.asc"],
            "+keys/b.asc": KeyFacts(
                "A" * 40, (*ED.components, ComponentKey("C" * 40, "elgamal", 4096, None, "elgamal:1"))
            ),
        },
        LoadFault.WEAK_KEY,
        {
            "people/bob/openpgp": ["keys/b.asc"],
            "+keys/b.asc": KeyFacts(
                "A" * 40, (*ED.components, ComponentKey("C" * 40, "ecdh", 256, "cv25519", "cv25519:1"))
            ),
        },
    ),
    # thresholds and reachability
    "threshold 0": ({f"{CAPTURE}/approve": 0}, LoadFault.THRESHOLD, {f"{CAPTURE}/approve": 2}),
    "threshold missing": ({f"{CAPTURE}/approve": GONE}, LoadFault.THRESHOLD, {f"{CAPTURE}/approve": 1}),
    "deny threshold 0": ({f"{CAPTURE}/deny": 0}, LoadFault.THRESHOLD, {f"{CAPTURE}/deny": 2}),
    "gated threshold 0": ({f"{TRANSFER}/approve": 0}, LoadFault.THRESHOLD, {f"{TRANSFER}/approve": 1}),
    "threshold 0 in a tier": (
        {f"{TRANSFER}/tiers/0/approve": 0},
        LoadFault.THRESHOLD,
        {f"{TRANSFER}/tiers/0/approve": 1},
    ),
    "more approvals than people": ({f"{CAPTURE}/approve": 3}, LoadFault.UNREACHABLE, {f"{CAPTURE}/approve": 2}),
    "more denials than people": ({f"{CAPTURE}/deny": 3}, LoadFault.UNREACHABLE, {f"{CAPTURE}/deny": 2}),
    "people without an account where one is needed": (
        {"people/bob/github": GONE, f"{CAPTURE}/approve": 2},
        LoadFault.UNREACHABLE,
        {"people/bob/github": GONE, f"{CAPTURE}/approve": 2, f"{CAPTURE}/voters": {"people": ["alice", "bob"]}},
    ),
    "suspended people do not count": (
        {"people/bob/suspended": True, f"{CAPTURE}/approve": 2},
        LoadFault.UNREACHABLE,
        {"people/bob/suspended": False, f"{CAPTURE}/approve": 2},
    ),
    "not reachable with one voter and the requester away": (
        {f"{TRANSFER}/voters": {"people": ["alice", *TWO]}},
        LoadFault.UNREACHABLE,
        {f"{TRANSFER}/voters": {"people": ["alice", *TWO]}, f"{TRANSFER}/accept_no_spare": True},
    ),
    "the owner's vote may be allowed": (
        {f"{TRANSFER}/voters": {"people": ["alice", *TWO]}},
        LoadFault.UNREACHABLE,
        {f"{TRANSFER}/voters": {"people": ["alice", *TWO]}, f"{TRANSFER}/owner_may_approve": True},
    ),
    "the owner is no voter": (
        {f"{TRANSFER}/voters": {"people": ["alice", *TWO]}},
        LoadFault.UNREACHABLE,
        {f"{TRANSFER}/voters": {"people": [*TWO, "dave"]}},
    ),
    "no spare is still one too few": (
        {f"{TRANSFER}/voters": {"people": ["alice", "bob"]}, f"{TRANSFER}/accept_no_spare": True},
        LoadFault.UNREACHABLE,
        {f"{TRANSFER}/voters": {"people": TWO}, f"{TRANSFER}/accept_no_spare": True},
    ),
    "a tier that is not reachable": (
        {f"{TRANSFER}/tiers/0/approve": 3, f"{ADOPT}/approve": 3, f"{ADOPT}/accept_no_spare": True},
        LoadFault.UNREACHABLE,
        {
            f"{TRANSFER}/tiers/0/approve": 3,
            f"{TRANSFER}/accept_no_spare": True,
            f"{ADOPT}/approve": 3,
            f"{ADOPT}/accept_no_spare": True,
        },
    ),
    "keys that prove too little do not reach": (
        {"people/dave/ssh": ssh(ed25519(4))},
        LoadFault.UNREACHABLE,
        {
            "people/dave/ssh": ssh(ed25519(4)),
            f"{TRANSFER}/accept_no_spare": True,
            f"{ADOPT}/accept_no_spare": True,
        },
    ),
    "policy.adopt is not reachable": ({f"{ADOPT}/approve": 3}, LoadFault.UNREACHABLE, {f"{ADOPT}/approve": 2}),
    # empty means no (I13)
    "no voters": ({f"{CAPTURE}/voters": GONE}, LoadFault.EMPTY_RULE, {f"{CAPTURE}/voters": {"people": TWO}}),
    "empty voters": (
        {f"{CAPTURE}/voters": {"github_permission": "write"}},
        LoadFault.EMPTY_RULE,
        {f"{CAPTURE}/voters": {"github_permission": "write", "undeclared": True}},
    ),
    "empty list of voters": (
        {f"{CAPTURE}/voters": {"people": []}},
        LoadFault.EMPTY_RULE,
        {f"{CAPTURE}/voters": {"people": TWO}},
    ),
    "empty channels": ({f"{CAPTURE}/channels": []}, LoadFault.CHANNEL, {f"{CAPTURE}/channels": ["workspace"]}),
    "no channels": ({f"{CAPTURE}/channels": GONE}, LoadFault.CHANNEL, {f"{CAPTURE}/channels": ["operator"]}),
    "empty condition of a tier": (
        {f"{TRANSFER}/tiers": [{"where": {}, "delay": "1h"}]},
        LoadFault.EMPTY_RULE,
        {f"{TRANSFER}/tiers": [{"where": {"currency": {"one_of": ["USD"]}}, "delay": "1h"}]},
    ),
    # channels
    "gated verb with another channel": (
        {f"{TRANSFER}/channels": ["signed", "workspace"]},
        LoadFault.CHANNEL,
        {f"{TRANSFER}/channels": ["signed"]},
    ),
    "gated verb with no channel": (
        {f"{TRANSFER}/channels": []},
        LoadFault.CHANNEL,
        {f"{TRANSFER}/channels": ["signed"]},
    ),
    "tier with a channel": (
        {f"{TRANSFER}/tiers/0/channels": ["signed"]},
        LoadFault.CHANNEL,
        {f"{TRANSFER}/tiers/0/expires": "1h"},
    ),
    "ordinary verb with the signed channel": (
        {f"{CAPTURE}/channels": ["signed"]},
        LoadFault.CHANNEL,
        {f"{CAPTURE}/channels": ["forge"]},
    ),
    "ordinary verb with an application's page": (
        {f"{CAPTURE}/channels": ["app"]},
        LoadFault.CHANNEL,
        {"asks/question/channels": ["app"]},
    ),
    # voters
    "service as a voter": (
        {f"{CAPTURE}/voters": {"people": ["agent"]}},
        LoadFault.VOTERS,
        {f"{CAPTURE}/voters": {"people": ["alice"]}},
    ),
    "voter who is nobody": (
        {f"{CAPTURE}/voters": {"people": ["alise"]}},
        LoadFault.VOTERS,
        {f"{CAPTURE}/voters": {"people": ["alice"]}},
    ),
    "gated verb that asks the forge": (
        {f"{TRANSFER}/voters/github_permission": "admin"},
        LoadFault.VOTERS,
        {f"{CAPTURE}/voters/github_permission": "admin"},
    ),
    "undeclared with two approvals": (
        {f"{CAPTURE}/voters/undeclared": True, f"{CAPTURE}/approve": 2},
        LoadFault.VOTERS,
        {f"{CAPTURE}/voters/undeclared": True, f"{CAPTURE}/approve": 1},
    ),
    "undeclared with two approvals in a tier": (
        {
            f"{CAPTURE}/voters/undeclared": True,
            f"{CAPTURE}/params": {"n": {"integer": True}},
            f"{CAPTURE}/tiers": [{"where": {"n": {"ge": 9}}, "approve": 2}],
        },
        LoadFault.VOTERS,
        {
            f"{CAPTURE}/voters/undeclared": True,
            f"{CAPTURE}/params": {"n": {"integer": True}},
            f"{CAPTURE}/tiers": [{"where": {"n": {"ge": 9}}, "approve": 2, "voters": {"people": ["alice", "bob"]}}],
        },
    ),
    "undeclared without the forge": (
        {f"{CAPTURE}/voters/undeclared": True, f"{CAPTURE}/channels": ["workspace"]},
        LoadFault.VOTERS,
        {f"{CAPTURE}/voters/undeclared": True, f"{CAPTURE}/channels": ["forge"]},
    ),
    "undeclared without a permission": (
        {f"{CAPTURE}/voters": {"undeclared": True}},
        LoadFault.VOTERS,
        {f"{CAPTURE}/voters": {"undeclared": True, "github_permission": "triage"}},
    ),
    "undeclared with what everybody has": (
        {f"{CAPTURE}/voters": {"undeclared": True, "github_permission": "read"}},
        LoadFault.VOTERS,
        {f"{CAPTURE}/voters": {"people": ["alice"], "github_permission": "read"}},
    ),
    # gated verbs
    "keys unstated": ({f"{TRANSFER}/keys": GONE}, LoadFault.KEYS_UNSTATED, {f"{TRANSFER}/keys": "any"}),
    "open parameters": (
        {f"{TRANSFER}/params": GONE, f"{TRANSFER}/limits": GONE, f"{TRANSFER}/tiers": GONE},
        LoadFault.OPEN_PARAMS,
        {
            f"{TRANSFER}/params": {},
            f"{TRANSFER}/limits": GONE,
            f"{TRANSFER}/tiers": GONE,
            f"{TRANSFER}/summary": "Shut it down",
        },
    ),
    "summary missing": (
        {f"{TRANSFER}/summary": GONE},
        LoadFault.SUMMARY,
        {f"{TRANSFER}/summary": "{to} {currency} {amount_minor}"},
    ),
    "summary that hides a parameter": (
        {f"{TRANSFER}/summary": "Transfer {amount_minor:money(currency)}"},
        LoadFault.SUMMARY,
        {f"{TRANSFER}/summary": "Transfer {amount_minor:money(currency)} ({to})"},
    ),
    "money in an unknown currency": (
        {f"{TRANSFER}/params/currency": {"one_of": ["EUR", "XYZ"]}},
        LoadFault.SUMMARY,
        {f"{TRANSFER}/params/currency": {"one_of": ["EUR", "JPY"]}},
    ),
    "money in an open currency": (
        {f"{TRANSFER}/params/currency": {"match": "[A-Z]{3}"}},
        LoadFault.SUMMARY,
        {f"{TRANSFER}/params/currency": {"one_of": ["EUR"]}},
    ),
    # policy.adopt
    "policy.adopt missing": ({ADOPT: GONE}, LoadFault.ADOPT_MISSING, {ADOPT: GONE, TRANSFER: GONE}),
    "policy.adopt with a lower threshold": (
        {f"{ADOPT}/approve": 1},
        LoadFault.ADOPT_WEAKER,
        {f"{ADOPT}/approve": 1, f"{TRANSFER}/approve": 1},
    ),
    "policy.adopt below a tier's threshold": (
        {f"{TRANSFER}/tiers/0/approve": 2, f"{TRANSFER}/approve": 1, f"{ADOPT}/approve": 1},
        LoadFault.ADOPT_WEAKER,
        {f"{TRANSFER}/tiers/0/approve": 2, f"{TRANSFER}/approve": 1},
    ),
    "policy.adopt with weaker keys": (
        {f"{ADOPT}/keys": "presence"},
        LoadFault.ADOPT_WEAKER,
        {f"{ADOPT}/keys": "presence", f"{TRANSFER}/keys": "any"},
    ),
    "policy.adopt with a shorter delay": (
        {f"{ADOPT}/delay": "59m"},
        LoadFault.ADOPT_WEAKER,
        {f"{ADOPT}/delay": "60m"},
    ),
    "policy.adopt with a tier": (
        {f"{ADOPT}/tiers": [{"where": {"version": {"ge": 2}}, "delay": "2h"}]},
        LoadFault.ADOPT_BUILT_IN,
        {f"{ADOPT}/delay": "2h"},
    ),
    "policy.adopt with parameters": (
        {f"{ADOPT}/params": {"x": {"integer": True}}},
        LoadFault.ADOPT_BUILT_IN,
        {f"{ADOPT}/gated": True},
    ),
    "policy.adopt not gated": ({f"{ADOPT}/gated": False}, LoadFault.ADOPT_BUILT_IN, {f"{ADOPT}/gated": True}),
    "policy.adopt with another channel": (
        {f"{ADOPT}/channels": ["workspace"]},
        LoadFault.CHANNEL,
        {f"{ADOPT}/channels": ["signed"]},
    ),
    # head
    "another schema": ({"schema": "gitops-bot/policy/v2"}, LoadFault.SCHEMA, {"schema": "gitops-bot/policy/v1"}),
    "schema missing": ({"schema": GONE}, LoadFault.SCHEMA, {}),
    "version missing": ({"version": GONE}, LoadFault.VERSION, {"version": 1}),
    "version 0": ({"version": 0}, LoadFault.VERSION, {"version": 1}),
}


@pytest.mark.parametrize("name", RULES)
def test_a_broken_rule_does_not_load(name: str) -> None:
    """A bundle that breaks one rule is refused with that rule's code, and says where."""
    broken, code, _ = RULES[name]
    with pytest.raises(DoesNotLoad) as caught:
        load(broken)
    assert caught.value.code is code
    assert caught.value.where


@pytest.mark.parametrize("name", RULES)
def test_its_accepting_twin_loads(name: str) -> None:
    """The same bundle without the fault loads, so that it was the fault that was blamed."""
    assert load(RULES[name][2]).version >= 1


FORMS: dict[str, tuple[Patch, str, Patch]] = {
    "unknown key": (
        {f"{CAPTURE}/aprove": 1},
        "unknown key 'aprove'; did you mean 'approve'?",
        {f"{CAPTURE}/approve": 1},
    ),
    "unknown key at the top": ({"peple": {"x": {}}}, "unknown key 'peple'; did you mean 'people'?", {}),
    "unknown key of a person": (
        {"people/bob/gitub": 1},
        "did you mean 'github'?",
        {"people/bob/github": 1002},
    ),
    "unknown channel": ({f"{CAPTURE}/channels": ["forg"]}, "did you mean 'forge'?", {f"{CAPTURE}/channels": ["forge"]}),
    "a key for gated verbs": ({f"{CAPTURE}/delay": "1h"}, "no meaning for an ordinary", {f"{TRANSFER}/delay": "1h"}),
    "a key for ordinary verbs": ({f"{TRANSFER}/reuse": "1d"}, "no meaning for a gated", {f"{CAPTURE}/reuse": "1d"}),
    "a risk of no name": ({f"{CAPTURE}/risk": "hihg"}, "did you mean 'high'?", {f"{CAPTURE}/risk": "high"}),
    "a risk of another type": ({f"{CAPTURE}/risk": 3}, "must be a string", {f"{CAPTURE}/risk": "low"}),
    "a risk for gated verbs": ({f"{TRANSFER}/risk": "low"}, "no meaning for a gated", {f"{CAPTURE}/risk": "low"}),
    "a login for an account": ({"people/bob/github": "bob"}, "never a login", {"people/bob/github": 1002}),
    "a boolean for an account": ({"people/bob/github": True}, "numeric account id", {"people/bob/github": 1}),
    "a boolean for a threshold": ({f"{CAPTURE}/approve": True}, "must be an integer", {f"{CAPTURE}/approve": 1}),
    "a name out of form": ({"people/Bob": {"kind": "human"}}, "is no name", {"people/bob-2": {"kind": "human"}}),
    "a duration without a unit": ({f"{CAPTURE}/expires": "7"}, "duration", {f"{CAPTURE}/expires": "90s"}),
    "a duration of nothing": ({f"{CAPTURE}/expires": "0s"}, "duration", {f"{CAPTURE}/expires": "1s"}),
    "a date and time": (
        {"people/bob/ssh/0/not_before": datetime.datetime(2026, 1, 1, 1, 1)},
        "must be a date",
        {"people/bob/ssh/0/not_before": datetime.date(2026, 1, 2)},
    ),
    "a date as text": (
        {"people/bob/ssh/0/not_before": "2026-01-01"},
        "must be a date",
        {"people/bob/ssh/0/not_before": datetime.date(2026, 1, 2)},
    ),
    "dates the wrong way round": (
        {"people/bob/ssh/0/not_before": datetime.date(2027, 1, 1)},
        "must come before",
        {"people/bob/ssh/0/not_before": datetime.date(2026, 12, 31)},
    ),
    "ssh options": ({"people/bob/ssh/0/key": f"no-pty {sk(2)}"}, "SSH key", {"people/bob/ssh/0/key": f"{sk(2)} bob"}),
    "ssh blob of another type": (
        {"people/bob/ssh/0/key": f"ssh-ed25519 {blob(b'ssh-rsa', bytes(32))}"},
        "another type",
        {"people/bob/ssh/0/key": sk(2)},
    ),
    "ssh blob with more in it": (
        {"people/bob/ssh/0/key": f"ssh-ed25519 {blob(b'ssh-ed25519', bytes(32), b'x')}"},
        "one key of its type",
        {"people/bob/ssh/0/key": sk(2)},
    ),
    "a parameter of two kinds": (
        {f"{TRANSFER}/params/to": {"match": "a", "one_of": ["a"]}},
        "exactly one",
        {f"{TRANSFER}/params/to": {"one_of": ["a"]}},
    ),
    "a parameter named as no key": (
        {f"{TRANSFER}/params/To": {"match": "a"}},
        "no parameter name",
        {f"{TRANSFER}/params/to": {"match": "a"}},
    ),
    "a pattern outside the subset": (
        {f"{TRANSFER}/params/to": {"match": "(?=a)a"}},
        "look-around",
        {f"{TRANSFER}/params/to": {"match": "(?:a|b)a"}},
    ),
    "an executor with a query": (
        {f"{TRANSFER}/executor": {"http": "https://bank.internal/pay?to=x"}},
        "https address",
        {f"{TRANSFER}/executor": {"http": "http://localhost:8080/pay"}},
    ),
    "an executor over plain http": (
        {f"{TRANSFER}/executor": {"http": "http://bank.internal/pay"}},
        "https address",
        {f"{TRANSFER}/executor": {"http": "https://bank.internal:8443/pay"}},
    ),
    "a program that is not pinned": (
        {f"{TRANSFER}/executor": {"process": ["/opt/pay"]}},
        "sha256 is missing",
        {f"{TRANSFER}/executor": {"process": ["/opt/pay", "-v", "-v"], "sha256": "a" * 64}},
    ),
    "a program by a relative path": (
        {f"{TRANSFER}/executor": {"process": ["pay"], "sha256": "a" * 64}},
        "absolute path",
        {f"{TRANSFER}/executor": {"process": ["/opt/pay"], "sha256": "a" * 64}},
    ),
    "a sum that can be lowered": (
        {f"{TRANSFER}/params/amount_minor": {"integer": True}},
        "negative one would lower",
        {f"{TRANSFER}/params/amount_minor": {"integer": True, "ge": 0}},
    ),
    "a tier on an unknown parameter": (
        {f"{TRANSFER}/tiers/0/where": {"amount": {"gt": 1}}},
        "parameter of the schema",
        {f"{TRANSFER}/tiers/0/where": {"amount_minor": {"gt": 1}}},
    ),
    "a tier that nothing meets": (
        {f"{TRANSFER}/tiers/0/where": {"amount_minor": {"gt": 10_000_000}}},
        "no parameter that fits",
        {f"{TRANSFER}/tiers/0/where": {"amount_minor": {"ge": 10_000_000}}},
    ),
    "a tier that changes nothing": (
        {f"{TRANSFER}/tiers/0/delay": GONE},
        "changes nothing",
        {f"{TRANSFER}/tiers/0/expires": "1h"},
    ),
    "an unprintable summary": (
        {f"{TRANSFER}/summary": "{to} {currency} {amount_minor} \u202e"},
        "printable",
        {f"{TRANSFER}/summary": "{to} {currency} {amount_minor} é"},
    ),
    "a brace that is no field": (
        {f"{TRANSFER}/summary": "{to} {currency} {amount_minor} {"},
        "a brace",
        {f"{TRANSFER}/summary": "{to} {currency} {amount_minor}"},
    ),
    "a verb without its quotes": (
        {"verbs/capture": {"approve": {"approve": 1}}},
        "stands in quotes",
        {"verbs/capture": {"channels": ["workspace"], "voters": {"people": ["bob"]}, "approve": 1}},
    ),
    "a verb that takes the questions' name": (
        {"verbs/asks.question": {"channels": ["workspace"], "voters": {"people": ["bob"]}, "approve": 1}},
        "a verb is",
        {"verbs/asks.other": {"channels": ["workspace"], "voters": {"people": ["bob"]}, "approve": 1}},
    ),
    "a question with a threshold": (
        {"asks/question/approve": 2},
        "unknown key 'approve'",
        {"asks/question/expires": "1d"},
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_out_of_form_is_named(name: str) -> None:
    """A key or value out of form is refused with a message that names it; the twin in form loads."""
    broken, words, twin = FORMS[name]
    with pytest.raises(Malformed) as caught:
        load(broken)
    assert words in str(caught.value)
    assert load(twin).version >= 1


def test_a_table_defined_in_two_files_does_not_load() -> None:
    """No file silently wins over another; entries of one table may be spread over files."""
    main = b'schema = "gitops-bot/policy/v1"\nversion = 1\n[people.alice]\nkind = "human"\n'
    other = b'[people.bob]\nkind = "human"\n'
    assert set(parse_bundle({"policy.toml": main, "people.toml": other}, {}).people) == {"alice", "bob"}
    with pytest.raises(DoesNotLoad) as caught:
        parse_bundle({"policy.toml": main + other, "people.toml": other}, {})
    assert caught.value.code is LoadFault.DEFINED_TWICE
    with pytest.raises(Malformed, match="must be a table"):
        parse_bundle({"policy.toml": main, "a.toml": b"people = 3\n"}, {})


def test_schema_and_version_stand_in_one_file() -> None:
    """A second file cannot bring a version of its own."""
    main = b'schema = "gitops-bot/policy/v1"\nversion = 1\n'
    with pytest.raises(DoesNotLoad, match=r"policy\.toml alone"):
        parse_bundle({"policy.toml": main, "a.toml": b"version = 2\n"}, {})
    with pytest.raises(DoesNotLoad, match=r"policy\.toml"):
        parse_bundle({"a.toml": main}, {})


@pytest.mark.parametrize("path", ["../x.toml", "sub/x.toml", "keys/../x", "x.txt", "keys/a/b", "/x.toml", "keys/"])
def test_a_path_outside_the_bundle_is_refused(path: str) -> None:
    """Only `*.toml` and `keys/*` are a bundle."""
    main = b'schema = "gitops-bot/policy/v1"\nversion = 1\n'
    with pytest.raises(Malformed):
        parse_bundle({"policy.toml": main, path: b""}, {})


def test_an_empty_bundle_loads_and_grants_nothing() -> None:
    """I13: no rule means that nobody may do anything."""
    policy = parse_bundle({"policy.toml": b'schema = "gitops-bot/policy/v1"\nversion = 1\n'}, {})
    assert (policy.people, policy.verbs, policy.question) == ({}, {}, None)


def bundle(patch: Patch) -> Policy:
    return load({"version": 4, **patch})


def test_the_next_version_follows() -> None:
    """The accepting twin of every rule between two bundles."""
    adopt_check(load({}), bundle({}))
    adopt_check(load({}), bundle({"people/erin": {"kind": "human"}}), frozenset({"frank"}))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_or_equal_version_does_not_follow(version: int) -> None:
    """A replayed bundle does not come back into force."""
    with pytest.raises(DoesNotLoad) as caught:
        adopt_check(load({}), load({"version": version}))
    assert caught.value.code is LoadFault.VERSION


def test_a_removed_name_is_not_used_again() -> None:
    """An old approval of a removed person can never be read as somebody else's."""
    with pytest.raises(DoesNotLoad) as caught:
        adopt_check(load({}), bundle({"people/erin": {"kind": "human"}}), frozenset({"erin"}))
    assert caught.value.code is LoadFault.NAME_REUSED


WEAKER_THAN_OLD: dict[str, Patch] = {
    "threshold": {f"{ADOPT}/approve": 1, f"{TRANSFER}/approve": 1},
    "keys": {f"{ADOPT}/keys": "any", f"{TRANSFER}/keys": "any"},
    "delay": {f"{ADOPT}/delay": "1m", f"{TRANSFER}/tiers": GONE},
    "gone": {ADOPT: GONE, TRANSFER: GONE},
}


@pytest.mark.parametrize("name", WEAKER_THAN_OLD)
def test_adopt_is_not_weaker_than_a_verb_of_the_bundle_in_force(name: str) -> None:
    """A bundle that loads by itself does not follow one whose gated verbs are stricter than its `policy.adopt`."""
    new = bundle(WEAKER_THAN_OLD[name])
    with pytest.raises(DoesNotLoad) as caught:
        adopt_check(load({}), new)
    assert caught.value.code in (LoadFault.ADOPT_WEAKER, LoadFault.ADOPT_MISSING)
    adopt_check(load(WEAKER_THAN_OLD[name]), new)


CASES: dict[str, tuple[str, ...]] = {
    "one key under two people; one account under two people": ("one ssh key, two people", "one account, two people"),
    "short key id; forge or bot key as a person": ("short key id", "forge key as a person", "bot key as a person"),
    "threshold 0, missing, or not reachable with one voter and the requester away": (
        "threshold 0",
        "threshold missing",
        "not reachable with one voter and the requester away",
    ),
    "gated verb with another channel; a tier with a channel": (
        "gated verb with another channel",
        "tier with a channel",
    ),
    "policy.adopt weaker than a gated verb, in old or new bundle": ("policy.adopt with a lower threshold",),
    "RSA 1024 key, DSA or short curve in the bundle (weak_key)": ("weak ssh rsa", "weak dsa", "short curve"),
    "older or equal version": (),
    "name of a removed person used again": (),
}


def test_every_row_of_the_policy_cases_is_here() -> None:
    """The shared table of attacks names no policy fault that the rules above leave out."""
    shared = tomllib.loads((Path(__file__).parents[2] / "vectors" / "signed.toml").read_text("utf-8"))["policy"]
    assert shared == dict.fromkeys(CASES, "does not load")
    assert {row for rows in CASES.values() for row in rows} <= RULES.keys()
