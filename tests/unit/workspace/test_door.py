"""Signing in with a passkey: the way in, and what of it is refused."""

from tests.unit.workspace.conftest import Workplace, refused


def test_somebody_with_a_code_enrols_and_signs_in(workplace: Workplace) -> None:
    alice = workplace.person("alice")
    shown = alice.ok("GET", "/auth/session")
    assert shown["person"] == "alice"
    assert shown["csrf"] == alice.csrf != ""
    assert alice.sign_out().status_code == 200
    assert refused(alice.get("/api/v1/auth/session")) == (401, None)
    assert alice.sign_in().status_code == 200
    assert alice.ok("GET", "/auth/session")["session"]["method"] == "passkey"
