"""Whatever goes wrong leaves as a problem document, and nothing of ours inside is shown."""

import logging
from dataclasses import replace

import pytest

from gitops_bot.core.errors import WHO_REASONS, Reason, Unavailable
from gitops_bot.store import asks
from tests.unit.workspace.conftest import Workplace, refused
from workspace import create_app
from workspace.problems import status_of


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("gated", 403), ("wrong_channel", 403), ("not_found", 404), ("stale_head", 409), ("stale_run", 409),
        ("already_settled", 409), ("idempotency_conflict", 409), ("expired", 410), ("withdrawn", 410),
        ("unbindable", 422), ("empty", 422), ("unknown_option", 422), ("bad_params", 422), ("no_way_back", 422),
        ("assertion_required", 422), ("limit_exceeded", 422), ("unknown_verb", 422), ("rate_limited", 429),
        ("repeat_too_soon", 429), ("too_many_open", 429),
    ],
)  # fmt: skip
def test_each_refusal_has_the_status_of_the_interfaces(reason: str, status: int) -> None:
    assert status_of(Reason(reason)) == status


def test_who_is_always_403_and_every_reason_has_a_status() -> None:
    assert {status_of(reason) for reason in WHO_REASONS} == {403}
    assert all(400 <= status_of(reason) < 500 for reason in Reason)


def test_what_is_not_there_or_not_meant_so(workplace: Workplace) -> None:
    assert refused(workplace.call("GET", "/nothing", "shell")) == (404, "not_found")
    assert refused(workplace.client.get("/nowhere")) == (404, "not_found")
    assert refused(workplace.call("GET", "/asks/x", "shell")) == (404, "not_found")
    wrong = workplace.call("DELETE", "/asks", "shell")
    assert refused(wrong) == (405, None)
    assert "POST" in wrong.headers["Allow"]


def test_bodies_are_json_of_a_bounded_size(workplace: Workplace) -> None:
    headers = {"Authorization": f"Bearer {workplace.tokens['shell']}"}

    def post(data: bytes, kind: str = "application/json") -> tuple[int, str | None]:
        return refused(workplace.client.post("/api/v1/asks", data=data, content_type=kind, headers=headers))

    assert post(b"{}", "text/plain") == (415, None)
    assert post(b"question=x", "application/x-www-form-urlencoded") == (415, None)
    assert post(b"x" * 65_537) == (413, "limit_exceeded")
    for raw in (
        b"",
        b"x",
        b"[]",
        b'{"question":"a","question":"b"}',
        b"\xff",
        b"[" * 60_000,
        b'{"question":"\\ud800"}',
    ):
        assert post(raw) == (422, "bad_params")
    pad = b" " * (65_536 - len(b'{"question":"?"}'))
    good = b'{"question":"?"}' + pad
    assert (
        workplace.client.post(
            "/api/v1/asks", data=good, content_type="application/json; charset=utf-8", headers=headers
        ).status_code
        == 201
    )


def test_a_body_of_an_unknown_caller_is_not_read(workplace: Workplace) -> None:
    response = workplace.client.post("/api/v1/asks", data=b"x" * 65_537, content_type="application/json")
    assert refused(response) == (401, None)


def test_a_fault_of_ours_is_logged_and_shows_nothing(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*_given: object, **_named: object) -> None:
        raise LookupError("an inner secret")

    monkeypatch.setattr(asks, "page", breaks)
    with caplog.at_level(logging.ERROR):
        response = workplace.call("GET", "/asks", "shell")
    assert refused(response) == (500, None)
    assert "secret" not in response.get_data(as_text=True)
    assert "LookupError" in caplog.text
    assert workplace.tokens["shell"] not in caplog.text


def test_a_database_that_is_away_is_503(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise Unavailable("database: OperationalError")

    assert workplace.client.get("/readyz").get_json()["ok"] is True
    monkeypatch.setattr(workplace.services.database, "read", away)
    response = workplace.call("GET", "/asks", "shell")
    assert refused(response) == (503, None)
    assert response.headers["Retry-After"] == "1"
    assert workplace.client.get("/readyz").status_code == 503
    assert workplace.client.get("/healthz").status_code == 200


def test_answers_are_kept_out_of_caches(workplace: Workplace) -> None:
    for response in (workplace.call("GET", "/asks", "shell"), workplace.call("GET", "/asks", None)):
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_two_applications_share_nothing(workplace: Workplace) -> None:
    other = create_app(replace(workplace.services))
    assert other.extensions is not workplace.app.extensions
