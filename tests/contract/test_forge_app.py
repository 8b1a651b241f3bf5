"""The bot as a GitHub App: its JWT and tokens, in time and out of it, at several owners, and what it is refused."""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import jwt
import pytest

from gitops_bot.bootstrap.forge import client_of
from gitops_bot.config import Settings, load
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.forge.app import JWT_SECONDS, MEMBERS, PERMISSIONS, Installed, Signer
from gitops_bot.forge.client import GitHubForge
from gitops_bot.forge.wires import AppWires
from gitops_bot.sandbox.http import Sandbox
from tests.app_keys import APP, app_at, forge_as_app, keys
from tests.contract.test_forge import REPO, START, Hand, Stage, populate_app

MINT = ("POST", "/app/installations/{installation_id}/access_tokens")
TEAM = 4711


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def people(tmp_path: Path, clock: Hand) -> Iterator[Sandbox]:
    """A forge with the App of `app_keys` installed on `REPO`."""
    with Sandbox.start(tmp_path / "github", clock=clock) as sandbox:
        populate_app(sandbox)
        yield sandbox


@pytest.fixture
def forge(people: Sandbox, clock: Hand) -> Iterator[GitHubForge]:
    made = forge_as_app(people, clock, REPO)
    yield made
    made.disconnect()


def minted(people: Sandbox) -> int:
    return people.count_requests()[MINT]


def held(people: Sandbox) -> list[str]:
    """The tokens of installations that the forge gave."""
    return [token for token, session in people.world.model.directory.sessions.items() if session.installation]


# Who it is


def test_a_jwt_begins_a_minute_ago_and_lives_less_than_ten() -> None:
    claims = jwt.decode(Signer(APP, keys("ours")[0], lambda: START).current(), options={"verify_signature": False})
    assert claims == {"iat": START - 60, "exp": START - 60 + JWT_SECONDS, "iss": str(APP)}
    assert claims["exp"] - claims["iat"] <= 600


def test_the_bots_account_is_found_by_the_apps_slug(forge: GitHubForge, people: Sandbox) -> None:
    assert forge.self_id() == 900
    asked = people.count_requests()
    assert (asked[("GET", "/app")], asked[("GET", "/users/{username}")], asked[("GET", "/user")]) == (1, 1, 0)


@pytest.mark.parametrize("off", [-3_600, 3_600])
def test_a_clock_that_is_off_is_named_and_made_up_for(people: Sandbox, clock: Hand, off: int) -> None:
    """The first JWT is refused; whoever tries again goes by the forge's clock."""
    forge = forge_as_app(people, clock, REPO)
    wires = AppWires(app_at(people, lambda: clock() + off), (REPO,))
    drifting = GitHubForge(people.url, wires)
    with pytest.raises(Unavailable, match="3600 s off") as caught:
        drifting.self_id()
    assert not caught.value.refused, "its duty tries again"
    assert drifting.self_id() == forge.self_id() == 900
    for made in (forge, drifting):
        made.disconnect()


def test_another_apps_key_is_refused_with_what_to_look_at(people: Sandbox, clock: Hand) -> None:
    app = app_at(people, clock)
    assert app.slug() == "gitops-bot"
    people.add_app("other", 78, 901, keys("theirs")[1])
    people.world.model.apps.registered[APP] = people.world.model.apps.registered[78]
    with pytest.raises(Unavailable, match="app_id and private_key_file") as caught:
        app.slug()
    assert caught.value.refused
    app.close()


# Tokens


def test_a_token_has_no_more_than_is_needed(forge: GitHubForge, people: Sandbox) -> None:
    """Only this repository, only these permissions; and what it has not is refused to it."""
    people.add_repository("acme/other", 6, private=True)
    people.grant("acme/other", "gitops-bot[bot]", "write")
    forge.repository(REPO)
    (session,) = (one for one in people.world.model.directory.sessions.values() if one.installation)
    assert session.repositories == (5,)
    assert dict(session.permissions or ()) == PERMISSIONS
    with pytest.raises(Unavailable, match="not one of"):
        forge.repository("elsewhere/rig")
    with pytest.raises(Unavailable):
        forge.repository("acme/other")
    assert forge.repository(REPO).id == 5


def test_a_team_is_asked_about_with_a_token_for_nothing_else(forge: GitHubForge, people: Sandbox) -> None:
    people.add_team("acme", "Keepers", TEAM)
    people.set_membership(TEAM, "alice", "active")
    forge.repository(REPO)
    assert minted(people) == 1
    assert forge.team_member(REPO, TEAM, "alice", 1001) is True
    given = [dict(one.permissions or ()) for one in people.world.model.directory.sessions.values() if one.installation]
    assert given == [PERMISSIONS, MEMBERS]


@pytest.mark.parametrize("length", [41, 600, 4_000])
def test_a_token_may_have_any_length(
    forge: GitHubForge, people: Sandbox, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr("secrets.token_urlsafe", lambda _: "t" * length)
    assert forge.repository(REPO).id == 5
    assert held(people) == ["ghs_" + "t" * length]


def test_a_token_is_renewed_before_it_ends(forge: GitHubForge, people: Sandbox, clock: Hand) -> None:
    for seconds, expected in ((0, 1), (3_299, 1), (1, 2), (3_299, 2), (2, 3)):
        clock.now += seconds
        forge.repository(REPO)
        assert minted(people) == expected


def test_a_short_token_is_renewed_at_half_its_life(
    forge: GitHubForge, people: Sandbox, clock: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitops_bot.sandbox.routes.apps.INSTALLATION_LIFE", 100)
    for seconds, expected in ((0, 1), (49, 1), (1, 2)):
        clock.now += seconds
        forge.repository(REPO)
        assert minted(people) == expected


def test_whoever_needs_a_token_at_one_moment_gets_the_same(people: Sandbox, clock: Hand) -> None:
    credential = Installed(app_at(people, clock), (REPO,), PERMISSIONS)
    together, got = threading.Barrier(8), list[str]()

    def need() -> None:
        together.wait(30)
        got.append(credential.current())

    for expected in (1, 2):
        threads = [threading.Thread(target=need) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert (minted(people), len(set(got)), len(got)) == (expected, 1, 8)
        got.clear()
        clock.now += 3_500


def test_a_revoked_token_is_dropped_and_the_next_request_goes_through(forge: GitHubForge, people: Sandbox) -> None:
    forge.repository(REPO)
    people.expire_token(held(people)[0])
    with pytest.raises(Unavailable) as caught:
        forge.repository(REPO)
    assert not caught.value.refused, "its duty tries again"
    assert minted(people) == 1, "not in line"
    assert forge.repository(REPO).id == 5
    assert minted(people) == 2


def test_a_forge_that_fails_to_give_one_is_asked_again_after_a_moment(
    forge: GitHubForge, people: Sandbox, clock: Hand
) -> None:
    people.fail_next(" ".join(MINT), 502)
    for _ in range(3):
        with pytest.raises(Unavailable) as caught:
            forge.repository(REPO)
        assert not caught.value.refused
    assert minted(people) == 1
    clock.now += 1
    assert forge.repository(REPO).id == 5


# Installations


def test_repositories_of_several_owners_have_an_installation_each(people: Sandbox, clock: Hand) -> None:
    app = people.world.model.apps.registered[APP].app
    people.add_repository("globex/rig", 6, private=True)
    people.grant("globex/rig", "gitops-bot[bot]", "write")
    people.install(app, "acme", 501)
    people.install(app, "globex", 502)
    forge = forge_as_app(people, clock, REPO, "globex/rig", "Acme/Rig")
    assert [forge.repository(name).id for name in (REPO, "globex/rig")] == [5, 6]
    given = [(one.installation, one.repositories) for one in people.world.model.directory.sessions.values()]
    assert [one for one in given if one[0]] == [(501, (5,)), (502, (6,))]
    people.suspend_installation(501)
    with pytest.raises(Unavailable, match="acme is suspended"):
        forge.repository(REPO)
    assert forge.repository("globex/rig").id == 6, "the other owner's goes on"
    assert forge.self_id() == 900, "and tells who the bot is"
    forge.disconnect()


def _suspended(people: Sandbox) -> Callable[[], None]:
    people.suspend_installation(APP)
    return lambda: people.suspend_installation(APP, suspended=False)


def _removed(people: Sandbox) -> Callable[[], None]:
    app = people.world.model.apps.registered[APP].app
    people.remove_installation(APP)
    return lambda: people.install(app, "acme", 9_001)


def _without_checks(people: Sandbox) -> Callable[[], None]:
    app = people.world.model.apps.registered[APP].app
    people.install(app, "acme", APP, permissions={"contents": "write", "metadata": "read"})
    return lambda: people.install(app, "acme", APP)


@pytest.mark.parametrize(
    ("take", "words"),
    [(_suspended, "Unsuspend"), (_removed, "Install App"), (_without_checks, "checks: write")],
    ids=["suspended", "removed", "without a permission"],
)
@pytest.mark.parametrize("before", [True, False], ids=["with a token", "from the start"])
def test_what_an_installation_lacks_is_said_and_it_comes_back_by_itself(
    people: Sandbox, clock: Hand, take: Callable[[Sandbox], Callable[[], None]], words: str, before: bool
) -> None:
    forge = forge_as_app(people, clock, REPO)
    if before:
        forge.repository(REPO)
    give_back = take(people)
    if take is _removed and before:
        with pytest.raises(Unavailable):
            forge.repository(REPO)  # the token is no longer taken
    clock.now += 3_400 if take is _without_checks else 0
    for _ in range(3):
        with pytest.raises(Unavailable, match=words) as caught:
            forge.repository(REPO)
        assert caught.value.refused
        assert caught.value.retry_after is not None, "what waits to be written waits on"
    asked = sum(people.count_requests().values())
    give_back()
    with pytest.raises(Unavailable):
        forge.repository(REPO)
    assert sum(people.count_requests().values()) == asked, "it is not asked all the time"
    clock.now += 61
    assert forge.repository(REPO).id == 5
    forge.disconnect()


def test_a_configured_installation_is_not_looked_up(people: Sandbox, clock: Hand) -> None:
    wrong = GitHubForge(people.url, AppWires(app_at(people, clock, 4_242), (REPO,)))
    with pytest.raises(Unavailable, match="installation"):
        wrong.repository(REPO)
    right = GitHubForge(people.url, AppWires(app_at(people, clock, APP), (REPO,)))
    assert right.repository(REPO).id == 5
    assert people.count_requests()[("GET", "/repos/{owner}/{repo}/installation")] == 0
    for forge in (wrong, right):
        forge.disconnect()


# Settings and secrets


def settings_of(folder: Path, url: str, *, mode: int = 0o600, more: str = "", key: str = "") -> Settings:
    (folder / "app.pem").write_text(key or keys("ours")[0])
    (folder / "app.pem").chmod(mode)
    (folder / "gitops-bot.toml").write_text(
        f'[forge]\nrepositories = ["{REPO}"]\napi_url = "{url}"\n{more or f"app_id = {APP}"}\n'
        'private_key_file = "app.pem"\n'
    )
    return load(folder / "gitops-bot.toml")


def test_the_settings_make_the_app(people: Sandbox, clock: Hand, tmp_path: Path) -> None:
    import time

    people.set_now(time.time)
    forge = client_of(settings_of(tmp_path, people.url))
    assert forge is not None
    assert (forge.self_id(), forge.repository(REPO).id) == (900, 5)
    forge.disconnect()


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ({"mode": 0o644}, "chmod 600"),
        ({"mode": 0o640}, "chmod 600"),
        ({"key": "-----BEGIN RSA PRIVATE KEY-----\nxx\n-----END RSA PRIVATE KEY-----"}, "generate a private key"),
        ({"key": keys("ours")[1]}, "generate a private key"),
        ({"more": "app_id = 0"}, "app_id ="),
        ({"more": f'app_id = {APP}\ntoken_file = "t"'}, "delete token_file"),
    ],
)
def test_settings_that_make_no_app_are_refused(tmp_path: Path, given: dict[str, object], fix: str) -> None:
    """The accepting twin is above."""
    with pytest.raises(ConfigError) as caught:
        client_of(settings_of(tmp_path, "http://127.0.0.1:9", **given))  # type: ignore[arg-type] # cases of one table
    assert fix in caught.value.fix
    assert "PRIVATE" not in str(caught.value)


def test_one_installation_is_not_for_two_owners(tmp_path: Path) -> None:
    two = f'app_id = {APP}\ninstallation = 5\nrepositories = ["a/b", "c/d"]'
    text = f'[forge]\n{two}\nprivate_key_file = "app.pem"\n'
    settings_of(tmp_path, "http://127.0.0.1:9")
    (tmp_path / "gitops-bot.toml").write_text(text)
    with pytest.raises(ConfigError, match="several"):
        client_of(load(tmp_path / "gitops-bot.toml"))
    (tmp_path / "gitops-bot.toml").write_text(text.replace('"c/d"', '"A/d"'))
    made = client_of(load(tmp_path / "gitops-bot.toml"))
    assert made is not None
    made.disconnect()


def test_no_secret_is_in_a_log_an_error_or_a_representation(
    people: Sandbox, clock: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    """Everything logs at its finest, through a round that works and several that fail."""
    caplog.set_level(logging.DEBUG)
    forge = forge_as_app(people, clock, REPO)
    seen = [repr(forge), json.dumps([forge.self_id(), Stage(forge, people, clock).draft().number])]
    for fault in (401, 403, 404, 422, 500):
        clock.now += 3_600
        people.suspend_installation(APP, suspended=fault == 403)
        if fault != 403:
            people.fail_next(" ".join(MINT), fault)
        with pytest.raises(Unavailable) as caught:
            forge.repository(REPO)
        seen += [repr(caught.value), str(caught.getrepr(style="long", showlocals=True))]
        clock.now += 61
    people.clear_faults()
    told = "\n".join([caplog.text, *seen])
    assert forge.repository(REPO).id == 5
    assert "/app/installations/" in told, "there is something to search"
    words = [keys("ours")[0].splitlines()[3], *held(people), "eyJ"]
    assert [word[:8] for word in words if word in caplog.text + "".join(seen[:2])] == []
    assert [word[:8] for word in words[:1] if word in told] == []
    forge.disconnect()
