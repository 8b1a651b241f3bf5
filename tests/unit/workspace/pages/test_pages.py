"""Every page beside the inbox: empty and with rows, with hostile words in each field, for people who may and may not
see it. Pages are documents by GET that change nothing."""

from urllib.parse import quote

from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import suspensions
from tests.unit.workspace.pages.conftest import Desk
from tests.unit.workspace.pages.reading import acting, read, unlabelled
from tests.unit.workspace.pages.rows import HOSTILE, Filled

EMPTY = {
    "/agents": "Nothing is wrong",
    "/captures": "No captures yet",
    "/signed": "Never seen; the first vote begins it.",
    "/backlog": "The backlog is empty",
    "/ledger": "Nothing is sealed yet",
    "/people": "This is your only one",
    "/enrol/second": "Add a second one",
    "/shell": "Code shown in the shell",
}
FULL = {
    "/agents": "waits for a person",
    "/captures": "measuring",
    "/signed": "Transfer 1,250.00 EUR to DE89370400440532013000",
    "/backlog": "Ask it again",
    "/ledger": "ask.opened",
    "/people": "Told to you",
    "/agents/tuner": "A message answers nothing, whatever it says",
    "/captures/CAPTURE": "https://github.com/acme/ops/pull/7",
    "/ledger?check=0": "are as they were sealed, none is missing",
    "/sign-in": "gitops-bot person enrol NAME",
    "/enrol": "Add a passkey with a code",
}
DOOR = ("/sign-in", "/enrol")
SIGNED_IN = [path for path in (*EMPTY, *FULL) if path not in DOOR]


def _here(path: str, filled: Filled) -> str:
    return path.replace("CAPTURE", filled.capture)


def _open(desk: Desk, filled: Filled, path: str) -> tuple[int, str]:
    """Open an address as whoever it is for."""
    response = desk.open(_here(path, filled), desk.stranger if path in DOOR else desk.alice)
    return response.status_code, response.get_data(as_text=True)


def test_a_page_without_rows_says_what_to_do_or_what_will_come(desk: Desk) -> None:
    for path, says in EMPTY.items():
        assert says in desk.page(path), path


def test_a_page_with_rows_shows_them_and_hostile_words_act_on_nothing(desk: Desk, filled: Filled) -> None:
    for path, says in FULL.items():
        status, page = _open(desk, filled, path)
        assert status == 200, path
        assert says in page, path
        assert acting(read(page)) == [], path
        assert HOSTILE not in page, path
        assert "<script>alert" not in page, path


def test_the_reader_of_pages_would_see_what_acts() -> None:
    """The accepting twin: the check above fails where the words come through as they are."""
    assert len(acting(read(f'<p title="{HOSTILE}">'))) >= 3
    assert unlabelled(read("<form><input name=a></form>"))


def test_every_field_has_a_name_and_every_form_that_acts_goes_to_the_api(desk: Desk, filled: Filled) -> None:
    for path in (*FULL, "/enrol/second", "/shell"):
        page = read(_open(desk, filled, path)[1])
        assert unlabelled(page) == [], path
        for form in page.every("form"):
            kind = form.attributes
            assert kind.get("method") in (None, "get", "dialog"), path
            assert "data-act" in kind or "data-ceremony" in kind or "method" in kind, path
            assert "data-act" not in kind or kind["action"].startswith("/api/v1/"), path


def test_a_page_has_one_heading_one_main_part_and_each_id_once(desk: Desk, filled: Filled) -> None:
    for path in (*FULL, *EMPTY):
        page = read(_open(desk, filled, path)[1])
        assert [len(list(page.every(tag))) for tag in ("h1", "main")] == [1, 1], path
        ids = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
        assert len(ids) == len(set(ids)), path


def test_no_page_changes_a_row(desk: Desk, filled: Filled) -> None:
    before = desk.rows()
    for path in (*SIGNED_IN, "/sign-in", "/enrol", "/ledger/export", "/nowhere"):
        desk.open(_here(path, filled))
        desk.open(_here(path, filled), desk.stranger)
    assert desk.rows() == before


def test_nobody_signed_in_is_sent_to_sign_in_and_comes_back(desk: Desk, filled: Filled) -> None:
    for path in SIGNED_IN:
        response = desk.open(_here(path, filled), desk.stranger)
        assert response.status_code == 303, path
        assert response.headers["Location"] == f"/sign-in?next={quote(_here(path, filled), safe='')}", path


def test_somebody_who_is_suspended_sees_no_page(desk: Desk, filled: Filled) -> None:
    assert {desk.open(_here(path, filled)).status_code for path in SIGNED_IN} == {200}
    with desk.workplace.host.write() as tx:
        suspensions.suspend(tx, PrincipalName("alice"), "lost a laptop")
    for path in SIGNED_IN:
        response = desk.open(_here(path, filled))
        assert response.status_code == 303, path
        assert response.headers["Location"].startswith("/sign-in?"), path


def test_a_page_takes_no_change(desk: Desk, filled: Filled) -> None:
    for path in (*SIGNED_IN, *DOOR):
        assert desk.alice.post(_here(path, filled)).status_code == 405, path


def test_somebody_else_is_shown_as_suspended_with_what_reinstates(desk: Desk) -> None:
    with desk.workplace.host.write() as tx:
        suspensions.suspend(tx, PrincipalName("bob"), "lost a laptop")
    page = desk.page("/people")
    assert "suspended" in page
    assert "Suspended on the broker" in page
    assert "reinstates" in page


def test_the_signed_channel_has_no_form_but_the_switch_of_the_keyboard(desk: Desk, filled: Filled) -> None:
    page = read(desk.page("/signed"))
    acts = [form.attributes["action"] for form in page.every("form") if "data-act" in form.attributes]
    assert acts == ["/api/v1/auth/preferences"]
    text = desk.page("/signed")
    assert "nothing on it mints a grant" in text
    assert f"gitops-bot approval sign {filled.gated}" in text
    assert "frozen" in text
    assert "unknown_key" in text
    assert "Sign with a key that the policy names for you" in text
