"""Each refusal is told in words that say what happened and what to do: by API, batch, shell and page."""

import json
from typing import Any

import pytest

import gitops_bot.cli as cli
from gitops_bot.api.grammar import read_problem
from gitops_bot.authority.remedies import remedy_of
from gitops_bot.core.errors import SENTENCES, Reason, Refusal, refuse
from tests.unit.workspace.conftest import Workplace
from workspace.api import documents
from workspace.pages import backlog
from workspace.problems import refusal, status_of


@pytest.mark.parametrize("reason", Reason)
def test_the_api_and_a_shell_behind_it_tell_each_in_words(reason: Reason, capsys: pytest.CaptureFixture[str]) -> None:
    """The document holds both, and the command line says the same of what came over HTTP as of its own."""
    response = refusal(refuse(reason, "Of this one."))
    problem = json.loads(response.get_data())
    assert (problem["status"], problem["reason"]) == (status_of(reason), reason.value)
    assert problem["detail"] == f"{SENTENCES[reason]} Of this one."
    assert problem["remedy"] == remedy_of(reason.value) != ""
    item = documents.refusal(refuse(reason))
    assert (item["detail"], item["remedy"]) == (SENTENCES[reason], problem["remedy"])
    read = read_problem(response.get_data())
    assert read is not None and read.sentence == problem["detail"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli.gitops_bot, "main", _raising(Refusal(read)))
        assert cli.run(["ask", "list"]) == cli.REFUSED
    told = capsys.readouterr().err.splitlines()
    assert told == [f"gitops-bot: {reason.value}: {problem['detail']}", f"  do: {problem['remedy']}"]


def test_a_page_tells_each_in_words(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = workplace.person("alice")
    for reason in Reason:
        monkeypatch.setattr(backlog, "backlog_page", _raising(Refusal(refuse(reason))))
        response = alice.get("/backlog", headers={"Accept": "text/html"})
        page = response.get_data(as_text=True)
        assert (response.status_code, response.mimetype) == (status_of(reason), "text/html")
        assert reason.value in page
        if status_of(reason) == 404:
            assert "What is open is under" in page
        elif status_of(reason) == 429:
            assert "Wait a minute" in page
        else:
            assert _quoted(SENTENCES[reason]) in page, reason
            assert _quoted(remedy_of(reason.value)) in page, reason


def _raising(error: Exception) -> Any:
    def raises(*_given: object, **_named: object) -> None:
        raise error

    return raises


def _quoted(text: str) -> str:
    from markupsafe import escape

    return str(escape(text))
