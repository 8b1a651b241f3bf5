"""The pages at the door: where one goes on to, who is sent where, the shell that is compared before it is let in."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.authority.site import Site
from gitops_bot.bootstrap.provider import Provider
from tests.unit.workspace.conftest import Workplace
from tests.unit.workspace.pages.conftest import Desk
from workspace.pages.nexts import HOME, next_of
from workspace.pages.signing_in import resting

ELSEWHERE = (
    "https://evil.example", "//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example",
    "/\t/evil.example", "/\n//evil.example", "javascript:alert(1)", "data:text/html,x", "evil.example",
    "http:/evil.example", " /people", "/people\r\nSet-Cookie: a=b", "", "?next=/x", "#x", "/\u2215evil.example",
    "/" + "a" * 600,
)  # fmt: skip
ON_THE_WAY = (
    "/",
    "/sign-in",
    "/sign-in?next=/people",
    "/sign-in/oidc",
    "/enrol",
    "/api/v1/asks",
    "/static/css/base.css",
)


@pytest.mark.parametrize("wanted", [*ELSEWHERE, *ON_THE_WAY])
def test_nobody_is_led_elsewhere_or_back_to_the_door_after_signing_in(wanted: str) -> None:
    assert next_of(wanted) == HOME


@pytest.mark.parametrize(
    "wanted", ["/people", "/ledger?kind=ask.&before=3", "/asks/01jd", "/signed#branches", "/enrolled"]
)
def test_a_page_here_is_gone_on_to(wanted: str) -> None:
    assert next_of(wanted) == wanted


@given(st.text(max_size=80))
def test_whatever_is_wanted_a_path_of_one_slash_comes_out(wanted: str) -> None:
    path = next_of(wanted)
    assert path.startswith("/")
    assert not path.startswith(("//", "/\\"))
    assert path.isascii()


def test_the_page_to_go_on_to_is_in_the_form_and_never_a_foreign_one(desk: Desk) -> None:
    assert 'data-next="/people"' in desk.open("/sign-in?next=%2Fpeople", desk.stranger).get_data(as_text=True)
    page = desk.open("/sign-in?next=%2F%2Fevil.example", desk.stranger).get_data(as_text=True)
    assert f'data-next="{HOME}"' in page
    assert "evil.example" not in page


def test_somebody_who_is_signed_in_goes_on_at_once(desk: Desk) -> None:
    response = desk.open("/sign-in?next=%2Fpeople")
    assert (response.status_code, response.headers["Location"]) == (303, "/people")
    response = desk.open("/sign-in?next=https%3A%2F%2Fevil.example")
    assert response.headers["Location"] == HOME


def test_the_second_key_is_offered_until_there_is_one(desk: Desk) -> None:
    assert "Add a second one" in desk.page("/enrol/second")
    begun = desk.alice.confirmed("POST", "/auth/passkeys/begin", {"label": "blue"})
    desk.alice.passkey.credentials.clear()
    document = begun.get_json()
    created = desk.alice.passkey.create(document["options"])
    finished = desk.alice.call("POST", "/auth/passkeys/finish", {"ceremony": document["id"], "credential": created})
    assert finished.status_code == 201, finished.get_data(as_text=True)
    assert "You have 2 passkeys" in desk.page("/enrol/second")
    assert "This is your only one" not in desk.page("/people")


def test_a_shell_is_shown_before_it_is_let_in_and_not_after(desk: Desk) -> None:
    begun = desk.stranger.call("POST", "/auth/shells/begin", {"label": "<b>alice</b>@laptop"}).get_json()
    for typed in (begun["code"], begun["code"].lower(), begun["code"].replace("-", " ")):
        page = desk.page(f"/shell?code={typed}")
        assert begun["code"] in page
        assert "&lt;b&gt;alice&lt;/b&gt;@laptop" in page
    assert desk.alice.confirmed("POST", "/auth/shells/confirm", {"code": begun["code"]}).status_code == 200
    assert "No shell waits under this code" in desk.page(f"/shell?code={begun['code']}")


def test_an_unknown_code_is_told_apart_from_none(desk: Desk) -> None:
    for code in ("XXXX-XXXX", "x" * 300, "%00", "%3Cscript%3E"):
        assert "No shell waits under this code" in desk.page(f"/shell?code={code}"), code
    assert "No shell waits" not in desk.page("/shell")


def test_a_provider_is_offered_only_where_one_is_set_up_with_the_way_on(workplace: Workplace) -> None:
    assert "/sign-in/oidc" not in workplace.client.get("/sign-in?next=%2Fpeople").get_data(as_text=True)
    provider = Provider("https://id.example.org", "gitops-bot", "secret")
    workplace.app.extensions["gitops_bot.services"] = replace(workplace.services, provider=provider)
    page = workplace.client.get("/sign-in?next=%2Fledger%3Fkind%3Dask.").get_data(as_text=True)
    assert 'href="/sign-in/oidc?next=%2Fledger%3Fkind%3Dask."' in page
    assert "needs a passkey" in page
    assert "secret" not in page


@pytest.mark.parametrize(
    ("rest", "words"),
    [(0, ""), (86_400_000, "24 hours"), (3_600_000, "1 hour"), (259_200_000, "3 days"), (1_500, "1 second")],
)
def test_how_long_a_new_key_rests_is_said_in_words(rest: int, words: str) -> None:
    assert resting(Site("http://localhost:1", "localhost", "x", rest, 1, 1)) == words


def test_what_a_new_key_may_not_yet_is_on_the_page_of_the_code(workplace: Workplace) -> None:
    page = workplace.client.get("/enrol").get_data(as_text=True)
    assert "The key counts at once" in page
    mine = workplace.services
    changed = replace(mine, site=replace(mine.site, rest=86_400_000))
    workplace.app.extensions["gitops_bot.services"] = changed
    assert "For 24 hours the key signs you in" in workplace.client.get("/enrol").get_data(as_text=True)
