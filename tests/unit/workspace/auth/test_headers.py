"""What every answer says of itself: no frame, nothing inline, nothing remote, kept by no cache."""

import dataclasses
import re

from pytest import Subtests
from werkzeug.test import TestResponse

from gitops_bot.authority.site import Site
from tests.signed_in import browser
from tests.unit.workspace.auth.routes import SAFE_ONES, UNSAFE, patient, stay
from tests.unit.workspace.conftest import Workplace
from workspace import create_app


def policy(text: str) -> dict[str, str]:
    return {name: rest for name, _, rest in (part.strip().partition(" ") for part in text.split(";"))}


def test_no_answer_may_be_framed_sniffed_or_load_anything_from_elsewhere(
    workplace: Workplace, subtests: Subtests
) -> None:
    """The framed page: whatever is answered, an error too."""
    alice, nobody = patient(workplace), browser(workplace.app, workplace.services)
    for route in (*SAFE_ONES, *UNSAFE):
        with subtests.test(route=str(route)):
            stay(alice)
            body = None if route.method == "GET" else {}
            _guarded(alice.open(route.method, route.path, body), kept="/static/" in route.path)
            _guarded(nobody.open(route.method, route.path), kept="/static/" in route.path)


def _guarded(response: TestResponse, *, kept: bool) -> None:
    said = policy(response.headers["Content-Security-Policy"])
    assert said["frame-ancestors"] == "'none'"
    assert said["default-src"] == "'none'"
    assert said["base-uri"] == "'none'"
    assert said["form-action"] in ("'self'", "'none'")
    text = response.headers["Content-Security-Policy"]
    assert not re.search(r"unsafe|https?:|\*", text), text
    assert response.headers["X-Frame-Options"] == "DENY"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "publickey-credentials-get=(self)" in response.headers["Permissions-Policy"]
    assert "Strict-Transport-Security" not in response.headers
    if not kept:
        assert response.headers["Cache-Control"] == "no-store"


def test_scripts_run_by_the_nonce_of_this_answer_alone(workplace: Workplace) -> None:
    """Each tag carries it, nothing else may run, and the next answer has another."""
    nobody = browser(workplace.app, workplace.services)
    seen = set()
    for _ in range(3):
        response = nobody.get("/sign-in")
        assert response.status_code == 200
        said = policy(response.headers["Content-Security-Policy"])
        nonce = said["script-src"].removeprefix("'nonce-").removesuffix("'")
        assert said["script-src"] == f"'nonce-{nonce}'"
        page = response.get_data(as_text=True)
        tags = re.findall(r"<script\b[^>]*>", page)
        assert tags
        assert all(f'nonce="{nonce}"' in tag and " src=" in tag for tag in tags), tags
        assert not re.search(r"\son[a-z]+=|javascript:|<style|\sstyle=", page)
        seen.add(nonce)
    assert len(seen) == 3


def test_over_https_browsers_are_told_to_stay_there(workplace: Workplace) -> None:
    site = Site("https://ops.example.org", "ops.example.org", "gitops-bot", 0, 1000, 1000)
    app = create_app(dataclasses.replace(workplace.services, site=site))
    response = app.test_client().get("/healthz", base_url=site.origin)
    assert response.headers["Strict-Transport-Security"].startswith("max-age=")
