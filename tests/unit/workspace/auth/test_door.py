"""Signing in with a passkey: the way in, and everything that only looks like it."""

import dataclasses
from typing import Any

import pytest
from sqlalchemy import select

from gitops_bot.authority.enrolling import issue_code
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.site import Site
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.ledger import EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.demo.passkey import SoftwarePasskey
from gitops_bot.store.work_tables import ledger
from tests.signed_in import PersonClient, bare, browser
from tests.unit.workspace.auth.routes import patient
from tests.unit.workspace.conftest import Workplace, refused
from workspace import create_app
from workspace.auth import cookies
from workspace.auth.people import local_path


def under(workplace: Workplace, alice: PersonClient, **changes: Any) -> PersonClient:
    """Give the same browser, with its cookie, at the same database under other rules or another site."""
    services: Services = dataclasses.replace(workplace.services, **changes)
    other = browser(create_app(services), services, alice.passkey)
    other.csrf = alice.csrf
    assert alice.secret is not None
    other.http.set_cookie(cookies.NAME, alice.secret, domain="localhost", secure=True)
    return other


def failures(workplace: Workplace) -> list[str]:
    """List why ceremonies failed, as the ledger has it."""
    with workplace.host.read() as tx:
        rows = tx.execute(select(ledger.c.facts).where(ledger.c.kind == EventKind.CEREMONY_FAILED.value)).all()
    return [str(row.facts) for row in rows]


def is_in(client: PersonClient) -> bool:
    return client.get("/api/v1/auth/session").status_code == 200


def test_somebody_with_a_code_enrols_and_signs_in(workplace: Workplace) -> None:
    alice = workplace.person("alice")
    shown = alice.ok("GET", "/auth/session")
    assert shown["person"] == "alice"
    assert shown["csrf"] == alice.csrf != ""
    assert alice.sign_out().status_code == 200
    assert alice.secret is None
    assert refused(alice.get("/api/v1/auth/session")) == (401, None)
    assert alice.sign_in().status_code == 200
    assert alice.ok("GET", "/auth/session")["session"]["method"] == "passkey"


def test_the_cookie_has_every_guard(workplace: Workplace) -> None:
    alice = workplace.person("alice")
    [set_cookie] = alice.sign_in().headers.getlist("Set-Cookie")
    parts = {part.strip().lower() for part in set_cookie.split(";")[1:]}
    assert set_cookie.startswith("__Host-gitops-bot=")
    assert {"secure", "httponly", "samesite=strict", "path=/"} <= parts
    assert not any(part.startswith("domain") for part in parts)


def test_session_fixation(workplace: Workplace) -> None:
    """A secret that was planted before the sign-in opens nothing after it: neither one made up nor a session of the
    attacker's own, which ends."""
    alice, mallory = workplace.person("alice"), workplace.person("bob")
    planted = mallory.secret
    assert planted is not None
    assert alice.sign_out().status_code == 200
    for secret in ("x" * 43, planted):
        alice.http.set_cookie(cookies.NAME, secret, domain="localhost", secure=True)
        assert alice.sign_in().status_code == 200
        assert alice.secret not in (None, secret)
        thief = browser(workplace.app, workplace.services)
        thief.http.set_cookie(cookies.NAME, secret, domain="localhost", secure=True)
        assert not is_in(thief)
        assert is_in(alice)
    assert not is_in(mallory)


def test_another_sign_in_ends_the_session_that_the_browser_had(workplace: Workplace) -> None:
    alice = workplace.person("alice")
    before = alice.secret
    elsewhere = browser(workplace.app, workplace.services, alice.passkey)
    assert elsewhere.sign_in().status_code == 200
    assert alice.sign_in().status_code == 200
    assert alice.secret != before
    assert len(alice.ok("GET", "/auth/sessions")["items"]) == 2
    assert is_in(elsewhere)


def test_a_removed_persons_cookie(workplace: Workplace) -> None:
    """A person who is no longer in the policy, or is suspended there, is signed in nowhere, from that moment."""
    alice = workplace.person("alice")
    assert isinstance(workplace.services.decided_by, Rules)
    rules = workplace.services.decided_by
    name = PrincipalName("alice")
    gone = {one: person for one, person in rules.policy.people.items() if one != name}
    principal = dataclasses.replace(rules.policy.people[name].principal, suspended=True)
    stopped = {**rules.policy.people, name: dataclasses.replace(rules.policy.people[name], principal=principal)}
    for people in (gone, stopped):
        policy = dataclasses.replace(rules.policy, people=people)
        later = under(workplace, alice, decided_by=dataclasses.replace(rules, policy=policy))
        assert not is_in(later)
        assert refused(later.call("POST", "/auth/preferences", {"single_keys": False})) == (401, None)
        assert later.get("/needs-you").status_code == 303
        assert refused(later.sign_in())[1] == "assertion_invalid"
    assert is_in(alice)


@pytest.mark.parametrize("limits", [{"lasts": 1}, {"idle": 1}])
def test_an_old_or_unused_session_is_over(workplace: Workplace, limits: dict[str, int]) -> None:
    alice = workplace.person("alice")
    site: Site = dataclasses.replace(workplace.services.site, **limits)
    later = under(workplace, alice, site=site)
    assert not is_in(later)
    assert refused(later.call("POST", "/auth/preferences", {"single_keys": False})) == (401, None)
    assert is_in(under(workplace, alice))


def test_a_revoked_session_is_over_and_only_ones_own_can_be_revoked(workplace: Workplace) -> None:
    alice, bob = workplace.person("alice"), workplace.person("bob")
    phone = browser(workplace.app, workplace.services, alice.passkey)
    assert phone.sign_in().status_code == 200
    [there] = [one for one in alice.ok("GET", "/auth/sessions")["items"] if not one["here"]]
    assert refused(bob.call("POST", f"/auth/sessions/{there['id']}/revoke")) == (404, "not_found")
    assert is_in(phone)
    assert alice.call("POST", f"/auth/sessions/{there['id']}/revoke").status_code == 200
    assert not is_in(phone)
    assert refused(alice.call("POST", f"/auth/sessions/{there['id']}/revoke")) == (404, "not_found")
    assert phone.sign_in().status_code == 200
    assert alice.ok("POST", "/auth/sessions/others/revoke") == {"ended": 1}
    assert not is_in(phone)
    assert is_in(alice) and is_in(bob)


@pytest.mark.parametrize(
    "header",
    ["{0}={1}; {0}={1}", "{0}={1}; {0}={2}", "{2}", "__Secure-gitops-bot={1}", '{0}="{1}"', "{0}={1}; \t{0}={2}"],
)
def test_cookie_tricks_sign_nobody_in(workplace: Workplace, header: str) -> None:
    alice = workplace.person("alice")
    sent = header.format(cookies.NAME, alice.secret, "y" * 43)
    nobody = bare(workplace.app, workplace.services)
    assert refused(nobody.get("/api/v1/auth/session", headers={"Cookie": sent})) == (401, None)
    post = nobody.post("/api/v1/auth/preferences", {"single_keys": False}, headers={"Cookie": sent})
    assert post.status_code in (401, 403)
    once = f"{cookies.NAME}={alice.secret}"
    assert nobody.get("/api/v1/auth/session", headers={"Cookie": once}).status_code == 200


def test_host_header_tricks_lead_nowhere(workplace: Workplace) -> None:
    """What a request calls this host is not repeated, and makes no origin the right one."""
    alice = workplace.person("alice")
    nobody = bare(workplace.app, workplace.services)
    for host in ("evil.example", "localhost:8480@evil.example", "evil.example:8480", "localhost:1"):
        for path in ("/needs-you", "/", "/sign-in", "/people"):
            answer = nobody.get(path, headers={"Host": host, "X-Forwarded-Host": host})
            assert answer.headers.get("Location", "/").startswith("/")
            assert "evil" not in answer.get_data(as_text=True) + str(answer.headers)
        hers = {"Cookie": f"{cookies.NAME}={alice.secret}", "X-CSRF-Token": alice.csrf}
        there = {**hers, "Host": host, "Origin": f"http://{host}"}
        assert refused(nobody.call("POST", "/auth/preferences", {"single_keys": True}, headers=there)) == (403, None)
    assert alice.call("POST", "/auth/preferences", {"single_keys": True}).status_code == 200


def test_who_was_refused_learns_nothing(workplace: Workplace) -> None:
    """The same words for a key that is nobody's, one that was revoked, a challenge that is none, another's, used or of
    another kind; the ledger says which it was."""
    alice = patient(workplace)
    told = set()

    def finish(ceremony: str, credential: object) -> None:
        response = browser(workplace.app, workplace.services).call(
            "POST", "/auth/sign-in/finish", {"ceremony": ceremony, "credential": credential}
        )
        assert refused(response) == (422, "assertion_invalid")
        told.add(response.get_data(as_text=True))

    def begun() -> Any:
        return browser(workplace.app, workplace.services).ok("POST", "/auth/sign-in/begin")

    stranger = SoftwarePasskey(workplace.services.site.origin)
    created = alice.confirmed("POST", "/auth/passkeys/begin", {"label": "x"}).get_json()
    stranger.create(created["options"])
    document = begun()
    finish(document["id"], stranger.get(document["options"]))
    document = begun()
    credential = alice.passkey.get(document["options"])
    finish("x" * 22, credential)
    finish(begun()["id"], credential)
    assert browser(workplace.app, workplace.services).ok(
        "POST", "/auth/sign-in/finish", {"ceremony": document["id"], "credential": credential}
    )
    finish(document["id"], credential)
    fresh = alice.ok("POST", "/auth/fresh/begin", {"act": {"act": "shell.confirm", "code": "x"}})
    finish(fresh["id"], alice.passkey.get(fresh["options"]))
    unverified = SoftwarePasskey(alice.origin, verifies=False, credentials=alice.passkey.credentials)
    document = begun()
    finish(document["id"], unverified.get(document["options"]))
    foreign = SoftwarePasskey("https://evil.example", credentials=alice.passkey.credentials)
    document = begun()
    finish(document["id"], foreign.get(document["options"]))
    assert len(told) == 1
    assert len(failures(workplace)) >= 4


def test_wrong_codes_are_all_alike_and_a_code_works_once(workplace: Workplace) -> None:
    patient(workplace)
    nobody = browser(workplace.app, workplace.services)
    with workplace.host.write() as tx:
        code = issue_code(tx, workplace.services.rules, "alice")
    told = set()
    for wrong in ("", "ABCDE-ABCDE-ABCDE", "22222-22222-22222", "alice", "é", code[:-1]):
        response = nobody.enrol(wrong)
        assert refused(response) == (403, "not_authorised")
        told.add(response.get_data(as_text=True))
    assert len(told) == 1
    assert nobody.enrol(code).status_code == 201
    assert refused(browser(workplace.app, workplace.services).enrol(code))[0] == 403


def test_a_second_key_needs_a_fresh_assertion_and_changes_the_secret(workplace: Workplace) -> None:
    """Adding a key is a change of what the session can do: nobody who had its secret before goes on with it."""
    alice = workplace.person("alice")
    before = alice.secret
    assert before is not None
    asked = alice.call("POST", "/auth/passkeys/begin", {"label": "second"})
    assert refused(asked) == (422, "assertion_required")
    begun = alice.confirmed("POST", "/auth/passkeys/begin", {"label": "second"})
    assert begun.status_code == 200
    second = SoftwarePasskey(alice.origin)
    made = second.create(begun.get_json()["options"])
    added = alice.call("POST", "/auth/passkeys/finish", {"ceremony": begun.get_json()["id"], "credential": made})
    assert added.status_code == 201
    assert alice.secret != before
    thief = browser(workplace.app, workplace.services)
    thief.http.set_cookie(cookies.NAME, before, domain="localhost", secure=True)
    assert not is_in(thief)
    assert added.get_json()["csrf"] != alice.csrf
    alice.csrf = added.get_json()["csrf"]
    key = added.get_json()["passkey"]["id"]
    other = browser(workplace.app, workplace.services, second)
    assert other.sign_in().status_code == 200
    assert refused(alice.call("POST", f"/auth/passkeys/{key}/revoke")) == (422, "assertion_required")
    assert is_in(other)
    assert alice.confirmed("POST", f"/auth/passkeys/{key}/revoke").status_code == 200
    assert not is_in(other)
    assert refused(other.sign_in()) == (422, "assertion_invalid")
    assert is_in(alice)


def test_a_fresh_assertion_is_for_one_act_of_one_session_once(workplace: Workplace) -> None:
    alice, bob = workplace.person("alice"), workplace.person("bob")
    act = {"act": "passkey.add"}

    def given(client: PersonClient, wanted: object, passkey: SoftwarePasskey | None = None) -> dict[str, Any]:
        begun = client.ok("POST", "/auth/fresh/begin", {"act": wanted})
        return {"ceremony": begun["id"], "credential": (passkey or client.passkey).get(begun["options"])}

    path = "/auth/passkeys/begin"
    for wrong in (
        given(alice, {"act": "passkey.revoke", "passkey": "x"}),
        given(bob, act),
        {"ceremony": "x" * 22, "credential": {}},
    ):
        assert refused(alice.call("POST", path, {"label": "x", "fresh": wrong})) == (422, "assertion_invalid")
    begun = alice.ok("POST", "/auth/sign-in/begin")
    signed_in = {"ceremony": begun["id"], "credential": alice.passkey.get(begun["options"])}
    assert refused(alice.call("POST", path, {"fresh": signed_in})) == (422, "assertion_invalid")
    right = given(alice, act)
    assert alice.call("POST", path, {"fresh": right}).status_code == 200
    assert refused(alice.call("POST", path, {"fresh": right})) == (422, "assertion_invalid")


def test_whoever_is_not_signed_in_comes_back_to_the_page_that_they_wanted(workplace: Workplace) -> None:
    nobody = browser(workplace.app, workplace.services)
    answer = nobody.get("/agents?x=1")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in?next=%2Fagents%3Fx%3D1")
    assert workplace.person("alice").get("/agents").status_code == 200


def test_a_link_from_another_site_finds_the_session(workplace: Workplace) -> None:
    """The cookie does not come with such a link (SameSite=Strict); the page to sign in asks again from here."""
    nobody = browser(workplace.app, workplace.services)
    page = nobody.get("/sign-in?next=/people", headers={"Sec-Fetch-Site": "cross-site"}).get_data(as_text=True)
    assert "js/here.js" in page and 'data-next="/people"' in page
    assert "js/here.js" not in nobody.get("/sign-in", headers={"Sec-Fetch-Site": "none"}).get_data(as_text=True)


@pytest.mark.parametrize(
    "text",
    ["//evil.example", "/\\evil.example", "https://evil.example", "evil", "", "/a\nb", "/\tevil", "/%0a\x00",
     "javascript:x", "/" + "a" * 600, "\\\\evil", "/é"],
)  # fmt: skip
def test_nobody_is_sent_to_another_place(text: str) -> None:
    assert local_path(text) == "/"


@pytest.mark.parametrize("text", ["/", "/asks/01j", "/agents?x=1&y=%2F", "/people#keys"])
def test_a_path_of_ours_is_kept(text: str) -> None:
    assert local_path(text) == text
