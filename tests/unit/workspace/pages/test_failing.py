"""What goes wrong is a page in words where a person looks at one, and a problem document everywhere else."""

import importlib

import pytest

from gitops_bot.core.errors import Unavailable
from tests.unit.workspace.conftest import refused
from tests.unit.workspace.pages.conftest import HTML, Desk
from tests.unit.workspace.pages.reading import acting, read


def test_a_missing_page_is_told_in_words_with_a_way_on(desk: Desk) -> None:
    response = desk.open("/nowhere%3Cscript%3Ealert(1)%3C/script%3E")
    page = response.get_data(as_text=True)
    assert (response.status_code, response.mimetype) == (404, "text/html")
    assert "There is no such page" in page
    assert 'href="/needs-you"' in page
    assert "alert(1)" not in page
    assert acting(read(page)) == []


def test_an_error_page_has_the_guards_of_every_page(desk: Desk) -> None:
    response = desk.open("/nowhere", desk.stranger)
    assert "'nonce-" in response.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("accept", ["application/json", "*/*", "application/problem+json, text/html;q=0.5", None])
def test_who_does_not_ask_for_a_page_gets_the_document(desk: Desk, accept: str | None) -> None:
    response = desk.alice.get("/nowhere", headers={"Accept": accept})
    assert refused(response) == (404, "not_found")


def test_the_api_never_answers_with_a_page(desk: Desk) -> None:
    assert refused(desk.alice.get("/api/v1/nowhere", headers=HTML))[0] == 404
    assert refused(desk.stranger.get("/api/v1/auth/session", headers=HTML))[0] == 401


def test_a_refused_change_is_a_document_even_from_a_browser(desk: Desk) -> None:
    assert refused(desk.alice.post("/people", headers=HTML))[0] == 405


def test_a_database_that_does_not_answer_is_said_to_have_decided_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_given: object) -> None:
        raise Unavailable("the disk at /secret/place is full")

    monkeypatch.setattr(importlib.import_module("workspace.pages.backlog"), "backlog_page", fails)
    response = desk.open("/backlog")
    page = response.get_data(as_text=True)
    assert (response.status_code, response.mimetype) == (503, "text/html")
    assert response.headers["Retry-After"]
    assert "load the page again" in page
    assert "secret" not in page


def test_a_fault_of_ours_tells_nothing_of_the_inside(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_given: object) -> None:
        raise RuntimeError("at /secret/place")

    monkeypatch.setattr(importlib.import_module("workspace.pages.backlog"), "backlog_page", fails)
    response = desk.open("/backlog")
    page = response.get_data(as_text=True)
    assert (response.status_code, response.mimetype) == (500, "text/html")
    assert "Something broke here" in page
    assert "secret" not in page
