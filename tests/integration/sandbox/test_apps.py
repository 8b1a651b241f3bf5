"""A GitHub App shows who it is by a JWT and gets a token of its installation, through the real client."""

from collections.abc import Callable
from functools import cache

import jwt
import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from github import Auth, Github

REPOSITORY = "acme/judge"


@cache
def _keys(name: str) -> tuple[str, str]:
    """A private and a public key."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem.decode(), public.decode()


def _ask(forge, token: str, installation: int = 7) -> requests.Response:
    there = f"{forge.sandbox.url}/app/installations/{installation}/access_tokens"
    return requests.post(there, headers={"Authorization": f"Bearer {token}"}, timeout=60)


def _claims(now: int) -> dict[str, object]:
    return {"iat": now - 60, "exp": now + 540, "iss": "7"}


def test_the_real_client_works_as_an_app(forge) -> None:
    """Its client makes the JWT, asks for a token and writes with it; what it wrote says so."""
    import time

    forge.now = int(time.time())
    forge.sandbox.add_app("capture-desk", 7, 2002, _keys("ours")[1])
    forge.sandbox.grant(REPOSITORY, "capture-desk[bot]", "write")
    number = forge.draft().number
    auth = Auth.AppAuth(7, _keys("ours")[0]).get_installation_auth(7)
    with Github(base_url=forge.sandbox.url, auth=auth, retry=None) as client:
        written = client.get_repo(REPOSITORY).get_issue(number).create_comment("as the app")
        assert len(auth.token) > 255
    assert (written.user.login, written.user.type) == ("capture-desk[bot]", "Bot")
    assert written.raw_data["performed_via_github_app"]["slug"] == "capture-desk"


def test_a_token_of_an_installation_lives_an_hour_and_asks_not_who_it_is(forge) -> None:
    forge.sandbox.add_app("capture-desk", 7, 2002, _keys("ours")[1])
    given = _ask(forge, jwt.encode(_claims(forge.now), _keys("ours")[0], "RS256"))
    assert given.status_code == 201
    headers = {"Authorization": f"token {given.json()['token']}"}
    there = f"{forge.sandbox.url}/repos/{REPOSITORY}"
    assert requests.get(there, headers=headers, timeout=60).status_code == 200
    assert requests.get(f"{forge.sandbox.url}/user", headers=headers, timeout=60).status_code == 403
    forge.now += 3600
    assert requests.get(there, headers=headers, timeout=60).status_code == 401


@pytest.mark.parametrize(
    "make",
    [
        lambda now: "no token",
        lambda now: "",
        lambda now: jwt.encode(_claims(now), _keys("theirs")[0], "RS256"),
        lambda now: jwt.encode(_claims(now), "k" * 64, "HS256"),
        lambda now: jwt.encode(_claims(now), None, "none"),
        lambda now: jwt.encode({**_claims(now), "exp": now}, _keys("ours")[0], "RS256"),
        lambda now: jwt.encode({**_claims(now), "exp": now + 900}, _keys("ours")[0], "RS256"),
        lambda now: jwt.encode({**_claims(now), "iat": now + 900}, _keys("ours")[0], "RS256"),
        lambda now: jwt.encode({"iss": "7"}, _keys("ours")[0], "RS256"),
        lambda now: jwt.encode({**_claims(now), "iss": "8"}, _keys("ours")[0], "RS256"),
        lambda now: jwt.encode({**_claims(now), "iss": "9" * 40}, _keys("ours")[0], "RS256"),
    ],
)
def test_any_other_jwt_gets_nothing(forge, make: Callable[[int], str]) -> None:
    """The refusing twin: another key, another algorithm, none, times that do not fit, an app that is none."""
    forge.sandbox.add_app("capture-desk", 7, 2002, _keys("ours")[1])
    assert _ask(forge, make(forge.now)).status_code in {401, 404}


def test_an_app_gets_tokens_of_its_own_installation_only(forge) -> None:
    forge.sandbox.add_app("capture-desk", 7, 2002, _keys("ours")[1])
    forge.sandbox.add_app("other", 8, 2003, _keys("theirs")[1])
    ours = jwt.encode(_claims(forge.now), _keys("ours")[0], "RS256")
    assert _ask(forge, ours, 8).status_code == 404
    assert _ask(forge, ours, 7).status_code == 201
    assert _ask(forge, forge.tokens["alice"]).status_code == 401


def test_a_persons_token_through_an_app_writes_as_the_person(forge) -> None:
    """What the bot must not take for a person's own hand: the author is alice, the app is told."""
    from gitops_bot.sandbox.records import App

    number = forge.draft().number
    token = forge.sandbox.add_token("alice", app=App(9, "tracker"))
    made = forge.client("alice", token=token).get_repo(REPOSITORY).get_issue(number).create_comment("text")
    assert (made.user.id, made.raw_data["performed_via_github_app"]["id"]) == (1001, 9)
