"""Through an OpenID provider, a real one on loopback: the pair of issuer and subject is a person, nothing else is."""

import contextlib
import dataclasses
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

from gitops_bot.authority.rules import Rules
from gitops_bot.bootstrap.provider import Provider
from gitops_bot.core.principals import Identity, IdentityKind, PrincipalName
from tests.policy_bundles import CAPTURE, GONE, load
from tests.ports import free_port
from tests.signed_in import PersonClient, browser, enrolled
from tests.unit.workspace.conftest import REGIME, Workplace, refused
from workspace import create_app
from workspace.auth import cookies, oidc
from workspace.waiting import Waiting

SUBJECT = "248289761001"
FINISH = "/auth/oidc/finish"
pytestmark = pytest.mark.xdist_group("oidc")


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run a provider of its own; give its issuer."""
    issuer = f"http://127.0.0.1:{free_port()}"
    log = (folder / "provider.log").open("wb")
    argv = [sys.executable, "-m", "oidc_provider_mock", "--port", issuer.rpartition(":")[2], "--require-nonce", "true"]
    process = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert process.poll() is None, (folder / "provider.log").read_text()
            with contextlib.suppress(requests.RequestException):
                if requests.get(f"{issuer}/jwks", timeout=30).status_code == 200:
                    break
            time.sleep(0.1)
        yield issuer
    finally:
        process.kill()
        process.wait()
        log.close()


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("provider")) as found:
        yield found


@dataclass
class House:
    """A workplace whose door leads through a provider, where alice is `SUBJECT`."""

    workplace: Workplace
    issuer: str

    def under(self, issuer: str) -> None:
        """Let the door lead through a provider."""
        policy = load({"people/alice/passkey": GONE, f"{CAPTURE}/voters": {"people": ["alice", "bob"]}})
        alice = policy.people[PrincipalName("alice")]
        # A bundle takes issuers by https alone, and this one is on loopback.
        known = (*alice.principal.identities, Identity(IdentityKind.OIDC, f"{self.issuer} {SUBJECT}"))
        alice = dataclasses.replace(alice, principal=dataclasses.replace(alice.principal, identities=known))
        policy = dataclasses.replace(policy, people={**policy.people, PrincipalName("alice"): alice})
        rules = Rules(policy, "github.com/acme/ops", "production")
        place = self.workplace
        place.services = dataclasses.replace(
            place.services, decided_by=rules, provider=Provider(issuer, "gitops-bot", "s3cret")
        )
        place.app = create_app(place.services, Waiting(most=2, look=0.01))

    def browser(self) -> PersonClient:
        """Open a browser."""
        return browser(self.workplace.app, self.workplace.services)

    def there_and_back(self, client: PersonClient, subject: str, **claims: object) -> dict[str, str]:
        """Let somebody sign in at the provider; give what the browser is sent back with."""
        left = client.get("/sign-in/oidc?next=/agents")
        assert left.status_code == 303, left.get_data(as_text=True)
        address = left.headers["Location"]
        provider = "{0.scheme}://{0.netloc}".format(urlsplit(address))
        requests.put(f"{provider}/users/{subject}", json=claims, timeout=30).raise_for_status()
        sent = requests.post(address, data={"sub": subject}, allow_redirects=False, timeout=30)
        back = urlsplit(sent.headers["Location"])
        assert (back.netloc, back.path) == ("localhost:8480", "/sign-in/oidc/back")
        page = client.get(f"{back.path}?{back.query}")
        assert page.status_code == 200
        query = parse_qs(back.query)
        assert query["code"][0] not in page.get_data(as_text=True)
        return {"code": query["code"][0], "state": query["state"][0]}


@pytest.fixture
def house(workplace: Workplace, issuer: str) -> House:
    made = House(workplace, issuer)
    made.under(issuer)
    return made


def test_issuer_and_subject_are_a_person(house: House) -> None:
    client = house.browser()
    given = house.there_and_back(client, SUBJECT, email="somebody.else@example.org")
    assert client.secret is None
    answer = client.call("POST", FINISH, given)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    document = answer.get_json()
    assert (document["person"], document["session"]["method"], document["next"]) == ("alice", "oidc", "/agents")
    client.csrf = document["csrf"]
    assert client.ok("GET", "/auth/session")["person"] == "alice"
    assert client.get("/agents").status_code == 200
    assert client.http.get_cookie(cookies.BEFORE, "localhost") is None


@pytest.mark.parametrize("subject", ["mallory", "alice", "alice@example.org", SUBJECT + "2", f"x {SUBJECT}"])
def test_an_address_of_e_mail_or_a_name_is_nobody(house: House, subject: str) -> None:
    """OIDC mapped by e-mail: every claim says alice, but the subject is another's."""
    client = house.browser()
    claims = {"email": "alice@example.org", "email_verified": True, "preferred_username": "alice", "name": "alice"}
    given = house.there_and_back(client, subject, **claims)
    assert refused(client.call("POST", FINISH, given)) == (422, "assertion_invalid")
    assert client.secret is None
    twin = house.browser()
    assert twin.call("POST", FINISH, house.there_and_back(twin, SUBJECT)).status_code == 200


def test_the_same_subject_at_another_issuer_is_nobody(house: House, tmp_path: Path) -> None:
    with running(tmp_path) as other:
        house.under(other)
        client = house.browser()
        given = house.there_and_back(client, SUBJECT)
        assert refused(client.call("POST", FINISH, given)) == (422, "assertion_invalid")


def test_what_comes_back_is_for_the_browser_that_left_and_for_its_own_journey(house: House) -> None:
    """Another's code pushed into one's browser, a state that was made up, a code under another journey's state."""
    mallory, alice = house.browser(), house.browser()
    theirs = house.there_and_back(mallory, SUBJECT)
    assert refused(house.browser().call("POST", FINISH, theirs)) == (422, "assertion_invalid")
    hers = house.there_and_back(alice, SUBJECT)
    for wrong in (
        theirs,
        {**theirs, "state": hers["state"]},
        {**hers, "state": theirs["state"]},
        {**hers, "state": hers["state"] + "x"},
        {**hers, "state": f"{hers['state'].partition('.')[0]}.Ly9ldmls"},
        {**hers, "state": "x"},
        {**hers, "code": "x"},
    ):
        assert refused(alice.call("POST", FINISH, wrong))[1] in ("assertion_invalid", "rate_limited")
        assert alice.secret is None
    house.under(house.issuer)
    again = house.browser()
    given = house.there_and_back(again, SUBJECT)
    assert again.call("POST", FINISH, given).status_code == 200
    assert refused(again.call("POST", FINISH, given)) == (422, "assertion_invalid")


def test_a_get_opens_no_session(house: House) -> None:
    client = house.browser()
    given = house.there_and_back(client, SUBJECT)
    before = house.workplace.everything()
    client.get(f"/sign-in/oidc/back?code={given['code']}&state={given['state']}")
    client.get(f"/api/v1/auth/oidc/finish?code={given['code']}&state={given['state']}")
    assert house.workplace.everything() == before
    assert client.call("POST", FINISH, given).status_code == 200


def test_such_a_session_answers_no_bound_ask(house: House) -> None:
    """The accepting twin is the same person by passkey."""
    place = house.workplace
    token = place.register()
    ask = place.ok("GET", f"/asks/{place.ok('POST', '/captures', token, REGIME)['approval']}", token)
    answer = {"option": "approve", **ask["binding"]}
    by_key = enrolled(place.app, place.services, place.host, "alice")
    client = house.browser()
    client.csrf = client.call("POST", FINISH, house.there_and_back(client, SUBJECT)).get_json()["csrf"]
    for path in ("statement", "answer"):
        response = client.call("POST", f"/asks/{ask['id']}/{path}", answer)
        assert refused(response)[1] in ("assertion_required", "not_authorised"), response.get_data(as_text=True)
    assert place.ok("GET", f"/asks/{ask['id']}", token)["state"] == "OPEN"
    assert by_key.call("POST", f"/asks/{ask['id']}/statement", answer).status_code == 200


def test_without_a_provider_nothing_leads_there(workplace: Workplace) -> None:
    client = browser(workplace.app, workplace.services)
    assert client.get("/sign-in/oidc").status_code == 404
    assert client.get("/sign-in/oidc/back").status_code == 404
    assert refused(client.call("POST", FINISH, {"code": "x", "state": "x"})) == (404, "not_found")


def test_a_provider_that_is_silent_is_told_in_words(house: House) -> None:
    house.under("http://127.0.0.1:1")
    answer = house.browser().get("/sign-in/oidc")
    assert answer.status_code == 503
    assert "OpenID provider does not answer" in answer.get_json(force=True)["detail"]


@dataclass
class Tokens:
    """A door whose provider's keys are the test's own."""

    door: oidc.Door
    journey: oidc.Journey
    key: RSAKey

    def verified(self, key: Any = None, header: dict[str, str] | None = None, **claims: Any) -> str | oidc.Unproven:
        """Sign claims as the provider would, changed as given, and verify them."""
        said = {
            "iss": "https://id.example.org",
            "aud": "gitops-bot",
            "sub": SUBJECT,
            "iat": 1_000,
            "exp": 2_000,
            "nonce": self.journey.nonce,
        }
        kept = {name: value for name, value in {**said, **claims}.items() if value is not None}
        made = header or {"alg": "RS256", "kid": "1"}
        token = jwt.encode(made, kept, key or self.key, algorithms=[made["alg"]])
        return self.door._verified(token, self.journey, 1_500)


@pytest.fixture(scope="module")
def own_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "1"})


@pytest.fixture
def tokens(own_key: RSAKey, monkeypatch: pytest.MonkeyPatch) -> Tokens:
    door = oidc.Door(Provider("https://id.example.org", "gitops-bot", "s3cret"), "http://localhost:8480")
    documents = {
        "https://id.example.org/.well-known/openid-configuration": {
            "issuer": "https://id.example.org", "jwks_uri": "https://id.example.org/jwks",
        },
        "https://id.example.org/jwks": KeySet([own_key]).as_dict(private=False),
    }  # fmt: skip
    monkeypatch.setattr(door, "_fetch", documents.get)
    return Tokens(door, oidc.depart("/"), own_key)


def test_the_token_of_the_provider_is_verified(tokens: Tokens) -> None:
    assert tokens.verified() == SUBJECT
    assert tokens.verified(aud=["gitops-bot"]) == SUBJECT


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "another"},
        {"aud": ["gitops-bot", "another"]},
        {"aud": ["gitops-bot", "another"], "azp": "gitops-bot"},
        {"aud": None},
        {"azp": "another"},
        {"nonce": "another"},
        {"nonce": None},
        {"exp": 1_000},
        {"exp": None},
        {"iat": 9_000},
        {"nbf": 9_000},
        {"sub": ""},
        {"sub": None},
        {"sub": 5},
        {"sub": "x" * 256},
        {"sub": None, "email": "alice@example.org"},
    ],
    ids=str,
)
def test_a_token_that_says_anything_else_proves_nothing(tokens: Tokens, claims: dict[str, Any]) -> None:
    assert isinstance(tokens.verified(**claims), oidc.Unproven)


def test_a_token_by_another_key_or_by_none_proves_nothing(tokens: Tokens) -> None:
    assert isinstance(tokens.verified(RSAKey.generate_key(2048, {"kid": "1"})), oidc.Unproven)
    shared = OctKey.import_key(b"s3crets3crets3crets3crets3crets3", {"kid": "1"})
    assert isinstance(tokens.verified(shared, {"alg": "HS256", "kid": "1"}), oidc.Unproven)
    none = "eyJhbGciOiJub25lIn0.eyJzdWIiOiIyNDgyODk3NjEwMDEifQ."
    for token in (none, "", "x", "a.b.c", "." * 5, "é.é.é", "x" * 100_000):
        assert isinstance(tokens.door._verified(token, tokens.journey, 1_500), oidc.Unproven)
