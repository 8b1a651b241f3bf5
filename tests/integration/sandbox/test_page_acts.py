"""Whatever a person does on the page is done as the account that they chose, by the forge's own rules."""

import re

import pytest
import requests

REPOSITORY = "acme/judge"


class Page:
    """The page of one pull request, and its forms as a browser sends them."""

    def __init__(self, forge, number: int) -> None:
        self.forge, self.number = forge, number
        self.url = f"{forge.sandbox.url}/{REPOSITORY}/pull/{number}"

    def send(self, act: str, login: str, **fields: object) -> requests.Response:
        """Send a form."""
        form = {"login": login, **{name: str(value) for name, value in fields.items()}}
        return requests.post(f"{self.url}/{act}", form, headers={"Origin": self.forge.sandbox.url}, timeout=60)

    def text(self, login: str = "alice") -> str:
        """Read the page."""
        return requests.get(self.url, params={"as": login}, timeout=60).text

    def forms(self, login: str = "alice") -> set[str]:
        """Name the acts that the page offers."""
        return set(re.findall(rf'action="/{REPOSITORY}/pull/{self.number}/(\w+)"', self.text(login)))


@pytest.fixture
def page(forge) -> Page:
    """The page of a draft."""
    return Page(forge, forge.draft().number)


def test_a_comment_is_written_edited_reacted_to_hidden_and_removed(forge, page: Page) -> None:
    """And each is shown: the text, who edited it and what it said before, the reaction, that it is hidden."""
    assert page.send("comment", "carol", body="first text").status_code == 200
    (made,) = forge.sandbox.comments(REPOSITORY, page.number)
    assert page.send("edit", "alice", comment=made.id, body="second text").status_code == 200
    assert page.send("react", "bob", comment=made.id, content="+1").status_code == 200
    shown = page.text()
    for words in ("second text", "first text", "edited by alice", "1 earlier", 'title="bob"'):
        assert words in shown
    assert page.send("minimise", "alice", comment=made.id).status_code == 200
    assert "This comment was minimised: outdated." in page.text()
    assert page.send("delete", "carol", comment=made.id).status_code == 200
    assert forge.sandbox.comments(REPOSITORY, page.number) == ()


def test_a_pull_request_is_closed_reopened_locked_readied_and_merged(forge, page: Page) -> None:
    """The page offers what can be done in each state, and shows the state."""
    everywhere = {"comment", "review", "push", "close", "lock"}
    assert page.forms() == everywhere | {"ready"}
    steps = (
        ("close", "closed", {"comment", "review", "reopen", "lock"}),
        ("reopen", "draft", everywhere | {"ready"}),
        ("lock", "locked", everywhere - {"lock"} | {"ready", "unlock"}),
        ("unlock", "draft", everywhere | {"ready"}),
        ("ready", "open", everywhere | {"draft", "merge"}),
        ("draft", "draft", everywhere | {"ready"}),
        ("ready", "open", everywhere | {"draft", "merge"}),
        ("merge", "merged", {"comment", "review", "lock"}),
    )
    for act, state, offered in steps:
        assert page.send(act, "alice").status_code == 200, act
        assert re.search(rf'class="state[^"]*">{state}<', page.text())
        assert page.forms() == offered
    assert forge.sandbox.thread(REPOSITORY, page.number).pull.merged_at == forge.now


def test_a_button_moves_the_head(forge, page: Page) -> None:
    before = forge.sandbox.thread(REPOSITORY, page.number).pull.head_sha
    assert page.send("push", "alice").status_code == 200
    after = forge.sandbox.thread(REPOSITORY, page.number).pull.head_sha
    assert before != after
    assert after in page.text()


@pytest.mark.parametrize("act", ["edit", "minimise", "delete", "close", "lock", "ready", "push"])
def test_a_reader_is_told_why_not_and_nothing_changes(forge, page: Page, act: str) -> None:
    """The refusing twin of the three above."""
    made = forge.sandbox.comment(REPOSITORY, page.number, "alice", "theirs")
    before = (forge.sandbox.thread(REPOSITORY, page.number), forge.sandbox.comments(REPOSITORY, page.number))
    answered = page.send(act, "carol", comment=made, body="mine")
    assert answered.status_code == 403
    assert 'role="alert"' in answered.text
    after = (forge.sandbox.thread(REPOSITORY, page.number), forge.sandbox.comments(REPOSITORY, page.number))
    assert after == before


@pytest.mark.parametrize(
    ("act", "login", "fields"),
    [
        ("nothing", "alice", {}),
        ("edit", "nobody", {"body": "x"}),
        ("edit", "alice", {"body": "x"}),
        ("edit", "alice", {"comment": "1e3", "body": "x"}),
        ("delete", "alice", {"comment": "９"}),
        ("react", "alice", {"comment": "99999999999999999999"}),
    ],
)
def test_a_form_that_fits_nothing_is_404(forge, page: Page, act: str, login: str, fields: dict) -> None:
    assert page.send(act, login, **fields).status_code == 404


def test_a_comment_of_another_pull_request_is_not_touched(forge, page: Page) -> None:
    other = forge.draft("capture/judge-2").number
    made = forge.sandbox.comment(REPOSITORY, other, "alice", "there")
    assert page.send("delete", "alice", comment=made).status_code == 404
    assert len(forge.sandbox.comments(REPOSITORY, other)) == 1


def test_check_runs_of_the_head_are_shown(forge, page: Page) -> None:
    app = forge.sandbox.add_app("capture-desk", 7, 2002)
    forge.sandbox.grant(REPOSITORY, "capture-desk[bot]", "write")
    headers = {"Authorization": f"token {forge.sandbox.installation_token(app)}"}
    body = {
        "name": "capture request",
        "head_sha": forge.sandbox.thread(REPOSITORY, page.number).pull.head_sha,
        "conclusion": "success",
        "output": {"title": "Approved", "summary": "by alice"},
        "actions": [{"label": "Refresh", "description": "again", "identifier": "refresh"}],
    }
    there = f"{forge.sandbox.url}/repos/{REPOSITORY}/check-runs"
    assert requests.post(there, json=body, headers=headers, timeout=60).status_code == 201
    for words in ("success", "capture request", "Approved", "by capture-desk", "Refresh"):
        assert words in page.text()
    (check,) = forge.sandbox.checks(REPOSITORY, body["head_sha"])
    assert "press" in page.forms()
    assert page.send("press", "carol", check=check.id, identifier="refresh").status_code == 200
    assert page.send("press", "carol", check=check.id, identifier="approve").status_code == 404
    assert page.send("press", "carol", check=check.id + 1, identifier="refresh").status_code == 404


def test_a_review_is_written_and_shown(forge, page: Page) -> None:
    assert page.send("review", "carol", body="looks <b>fine</b>", event="COMMENT").status_code == 200
    assert page.send("review", "bob", body="", event="COMMENT").status_code == 422
    for words in ("looks &lt;b&gt;fine&lt;/b&gt;", "commented", "reviewed"):
        assert words in page.text()
    assert forge.sandbox.comments(REPOSITORY, page.number) == ()
