"""A shell acts as a person once that person compared its code and confirmed it with a passkey, and not before."""

from typing import Any

from tests.signed_in import PersonClient, bare, browser
from tests.unit.workspace.conftest import Workplace, refused

SILENT = {"Origin": None, "Sec-Fetch-Site": None, "X-CSRF-Token": None}


def begin(workplace: Workplace) -> tuple[PersonClient, dict[str, Any]]:
    shell = browser(workplace.app, workplace.services)
    return shell, shell.ok("POST", "/auth/shells/begin", {"label": "alice on ops1"}, headers=SILENT)


def take(shell: PersonClient, secret: str) -> dict[str, Any]:
    return shell.ok("POST", "/auth/shells/take", {"secret": secret}, headers=SILENT)


def bearer(credential: str) -> dict[str, str | None]:
    return {**SILENT, "Authorization": f"Bearer {credential}"}


def test_a_confirmed_shell_acts_as_its_person_without_a_cookie(workplace: Workplace) -> None:
    shell, begun = begin(workplace)
    assert begun["url"] == "http://localhost:8480/shell"
    assert take(shell, begun["secret"]) == {"pending": True, "credential": None, "person": None}
    alice = workplace.person("alice")
    assert alice.confirmed("POST", "/auth/shells/confirm", {"code": begun["code"]}).status_code == 200
    credential = take(shell, begun["secret"])["credential"]
    assert credential.startswith("gbs_")
    shown = shell.ok("GET", "/auth/session", headers=bearer(credential))
    assert (shown["person"], shown["session"]["kind"], shown["csrf"]) == ("alice", "shell", "")
    assert shown["session"]["label"] == "alice on ops1"
    changed = shell.call("POST", "/auth/preferences", {"single_keys": False}, headers=bearer(credential))
    assert changed.status_code == 200
    assert shell.call("POST", "/auth/sign-out", headers=bearer(credential)).status_code == 200
    assert refused(shell.get("/api/v1/auth/session", headers=bearer(credential))) == (401, None)


def test_its_credential_is_given_once_and_never_for_the_code(workplace: Workplace) -> None:
    shell, begun = begin(workplace)
    alice = workplace.person("alice")
    assert alice.confirmed("POST", "/auth/shells/confirm", {"code": begun["code"]}).status_code == 200
    told = set()
    for secret in (begun["code"], "x" * 43):
        response = shell.call("POST", "/auth/shells/take", {"secret": secret}, headers=SILENT)
        assert refused(response) == (404, "not_found")
        told.add(response.get_data(as_text=True))
    assert take(shell, begun["secret"])["credential"]
    response = shell.call("POST", "/auth/shells/take", {"secret": begun["secret"]}, headers=SILENT)
    assert refused(response) == (404, "not_found")
    assert len({*told, response.get_data(as_text=True)}) == 1


def test_nobody_is_let_in_without_a_fresh_assertion_over_this_code(workplace: Workplace) -> None:
    shell, begun = begin(workplace)
    _, other = begin(workplace)
    alice = workplace.person("alice")
    path = "/auth/shells/confirm"
    assert refused(alice.call("POST", path, {"code": begun["code"]})) == (422, "assertion_required")
    fresh = alice.ok("POST", "/auth/fresh/begin", {"act": {"act": "shell.confirm", "code": other["code"]}})
    given = {"ceremony": fresh["id"], "credential": alice.passkey.get(fresh["options"])}
    assert refused(alice.call("POST", path, {"code": begun["code"], "fresh": given})) == (422, "assertion_invalid")
    assert take(shell, begun["secret"])["pending"]
    assert refused(alice.confirmed("POST", path, {"code": "2222-2222"})) == (404, "not_found")
    assert alice.confirmed("POST", path, {"code": begun["code"]}).status_code == 200
    assert not take(shell, begun["secret"])["pending"]


def test_a_shells_credential_is_no_cookie_and_a_cookies_secret_no_bearer(workplace: Workplace) -> None:
    shell, begun = begin(workplace)
    alice = workplace.person("alice")
    assert alice.confirmed("POST", "/auth/shells/confirm", {"code": begun["code"]}).status_code == 200
    credential = take(shell, begun["secret"])["credential"]
    for headers in (
        {"Cookie": f"__Host-gitops-bot={credential}"},
        {"Cookie": f"__Host-gitops-bot={credential.removeprefix('gbs_')}"},
        {"Authorization": f"Bearer {alice.secret}"},
        {"Authorization": f"Bearer gbs_{alice.secret}"},
    ):
        assert refused(bare(workplace.app, workplace.services).get("/api/v1/auth/session", headers=headers))[0] == 401
    assert shell.get("/api/v1/auth/session", headers=bearer(credential)).status_code == 200
