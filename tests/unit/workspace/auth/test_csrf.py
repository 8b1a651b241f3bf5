"""A change is made only by who meant it: no request from another site, and none without the token of the page."""

from pytest import Subtests

from tests.signed_in import browser
from tests.unit.workspace.auth.routes import UNSAFE, patient, stay
from tests.unit.workspace.conftest import Workplace, refused
from workspace.auth.csrf import Door

TOKENED = [route for route in UNSAFE if route.door is None]
DOORS = [route for route in UNSAFE if route.door is not None]
ELSEWHERE = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:8480.evil.example"},
    {"Origin": "http://localhost"},
    {"Origin": "https://localhost:8480"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": None, "Sec-Fetch-Site": None},
    {"Origin": None, "Sec-Fetch-Site": "cross-site"},
]


def test_a_change_without_the_pages_token_is_refused(workplace: Workplace, subtests: Subtests) -> None:
    alice = patient(workplace)
    for route in TOKENED:
        with subtests.test(route=str(route)):
            stay(alice)
            before = workplace.everything()
            for token in (None, "", "x" * 43, alice.csrf[:-1], "ü"):
                response = alice.open(route.method, route.path, {}, headers={"X-CSRF-Token": token})
                assert refused(response) == (403, None), token
            assert workplace.everything() == before
            # The accepting twin: with the token the route itself answers, whatever it says of the body.
            assert "page is of a session" not in alice.open(route.method, route.path, {}).get_data(as_text=True)


def test_a_change_from_another_site_is_refused(workplace: Workplace, subtests: Subtests) -> None:
    alice = patient(workplace)
    for route in UNSAFE:
        with subtests.test(route=str(route)):
            stay(alice)
            before = workplace.everything()
            for headers in ELSEWHERE:
                assert refused(alice.open(route.method, route.path, {}, headers=headers)) == (403, None), headers
            assert workplace.everything() == before
            assert "did not come from a page" not in alice.open(route.method, route.path, {}).get_data(as_text=True)


def test_a_form_of_another_site_is_no_json(workplace: Workplace, subtests: Subtests) -> None:
    """What a form can send without a preflight is never read, however right the rest is."""
    alice = patient(workplace)
    for route in UNSAFE:
        with subtests.test(route=str(route)):
            for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data"):
                response = alice.open(route.method, route.path, data="{}", content_type=kind)
                assert refused(response) == (415, None)


def test_without_cookie_and_bearer_nobody_changes_anything(workplace: Workplace, subtests: Subtests) -> None:
    nobody = browser(workplace.app, workplace.services)
    for route in TOKENED:
        with subtests.test(route=str(route)):
            response = nobody.open(route.method, route.path, {})
            assert refused(response) == (401, None)
            assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_nobody_is_needed_at_a_door_but_a_page_of_ours(workplace: Workplace, subtests: Subtests) -> None:
    """Sign-in and enrolment are for browsers at our pages; a shell, which sends no origin, may ask to be let in."""
    patient(workplace)
    nobody = browser(workplace.app, workplace.services)
    for route in DOORS:
        with subtests.test(route=str(route)):
            for headers in ELSEWHERE:
                response = nobody.open(route.method, route.path, {}, headers=headers)
                if set(headers.values()) == {None} and route.door is Door.SHELL:
                    assert response.status_code not in (401, 403)
                else:
                    assert refused(response) == (403, None), headers
            assert nobody.open(route.method, route.path, {}).status_code not in (401, 403)


def test_a_bearer_needs_no_token_but_a_cookie_beside_it_does(workplace: Workplace) -> None:
    """A browser never sends a bearer by itself; whoever sends the cookie too answers for the cookie."""
    assert workplace.call("POST", "/asks", "shell", {"question": "?"}).status_code == 201
    alice = workplace.person("alice")
    bearer = {"Authorization": f"Bearer {workplace.tokens['shell']}"}
    assert refused(alice.call("POST", "/asks", {"question": "!"}, headers={**bearer, "X-CSRF-Token": None}))[0] == 403
    assert alice.call("POST", "/asks", {"question": "!"}, headers=bearer).status_code == 201


def test_a_token_is_of_one_session_alone(workplace: Workplace) -> None:
    alice, bob = workplace.person("alice"), workplace.person("bob")
    assert alice.csrf != bob.csrf
    path, body = "/auth/preferences", {"single_keys": False}
    assert refused(alice.call("POST", path, body, headers={"X-CSRF-Token": bob.csrf})) == (403, None)
    assert alice.ok("POST", path, body) == {"single_keys": False}
    earlier = alice.csrf
    assert alice.sign_in().status_code == 200
    assert refused(alice.call("POST", path, body, headers={"X-CSRF-Token": earlier})) == (403, None)
    assert alice.ok("POST", path, body) == {"single_keys": False}


def test_no_token_of_an_agent_is_a_person(workplace: Workplace, subtests: Subtests) -> None:
    nobody = browser(workplace.app, workplace.services)
    for route in TOKENED:
        for name in ("shell", "loop"):
            if "/auth/" in route.path:
                with subtests.test(route=str(route), token=name):
                    bearer = {"Authorization": f"Bearer {workplace.tokens[name]}"}
                    assert refused(nobody.open(route.method, route.path, {}, headers=bearer)) == (401, None)
    assert workplace.call("POST", "/asks", "shell", {"question": "?"}).status_code == 201
