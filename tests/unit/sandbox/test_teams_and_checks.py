"""Teams by number, check runs by their app, and the journal, without HTTP."""

import pytest

from gitops_bot.sandbox.checks import TEXT_LIMIT, Check, Checks, Wish
from gitops_bot.sandbox.model import Model
from gitops_bot.sandbox.records import Account, AccountType, App, Ids, Pull, Repository
from gitops_bot.sandbox.refusals import Rejected
from gitops_bot.sandbox.teams import Membership, Team, Teams

ALICE = Account(1001, "alice", AccountType.USER, 0)
BOB = Account(1002, "bob", AccountType.USER, 0)
JUDGE = Repository(501, 50, "judge", "main", False, 0)
OURS, THEIRS = App(7, "ours"), App(8, "theirs")
HEAD = "a" * 40


@pytest.fixture
def teams() -> Teams:
    made = Teams()
    made.add_team(Team(9, 50, "Judge Keepers"))
    made.set_membership(made.teams[9], ALICE, Membership.ACTIVE)
    return made


def test_a_team_is_found_by_slug_or_number_in_its_organisation_only(teams: Teams) -> None:
    assert teams.named(50, "Judge-Keepers") == teams.numbered(50, 9) == teams.numbered(None, 9)
    for look in (
        lambda: teams.named(51, "judge-keepers"),
        lambda: teams.numbered(51, 9),
        lambda: teams.numbered(50, 1),
    ):
        with pytest.raises(Rejected) as refused:
            look()
        assert refused.value.status == 404


def test_membership_is_active_pending_absent_or_not_told(teams: Teams) -> None:
    team = teams.teams[9]
    assert teams.membership(team, ALICE, 1) is Membership.ACTIVE
    teams.set_membership(team, BOB, Membership.PENDING)
    assert teams.membership(team, BOB, 1) is Membership.PENDING
    teams.set_membership(team, BOB, None)
    for account in (BOB, None):
        with pytest.raises(Rejected) as absent:
            teams.membership(team, account, 1)
        assert absent.value.status == 404
    teams.hidden_from[(50, 1)] = True
    with pytest.raises(Rejected) as hidden:
        teams.membership(team, ALICE, 1)
    assert hidden.value.status == 403


@pytest.mark.parametrize(("number", "name"), [(9, "Another"), (10, "judge keepers"), (10, "!!")])
def test_a_team_has_an_id_and_a_slug_of_its_own(teams: Teams, number: int, name: str) -> None:
    with pytest.raises(ValueError, match="taken"):
        teams.add_team(Team(number, 50, name))
    assert teams.add_team(Team(10, 50, "Others")).slug == "others"


def _made(checks: Checks, **wish: object) -> Check:
    return checks.create(JUDGE, OURS, HEAD, Wish(name="n", **wish), 10)  # type: ignore[arg-type] # values under test


def test_a_check_run_goes_from_queued_to_its_end_and_keeps_what_is_not_named() -> None:
    checks = Checks(Ids())
    made = _made(checks, external_id="e", output=("t", "s", None))
    assert (made.status, made.conclusion, made.completed_at) == ("queued", None, None)
    running = checks.update(made, OURS, Wish(status="in_progress"), 20)
    assert (running.status, running.external_id, running.output) == ("in_progress", "e", ("t", "s", None))
    done = checks.update(running, OURS, Wish(conclusion="success"), 30)
    assert (done.status, done.conclusion, done.completed_at) == ("completed", "success", 30)
    again = checks.update(done, OURS, Wish(status="in_progress"), 40)
    assert (again.conclusion, again.completed_at) == (None, None)
    assert checks.of_commit(JUDGE, HEAD) == (again,)


def test_only_its_own_app_changes_a_check_run() -> None:
    checks = Checks(Ids())
    made = _made(checks)
    with pytest.raises(Rejected) as refused:
        checks.update(made, THEIRS, Wish(conclusion="success"), 20)
    assert refused.value.status == 403
    assert checks.check(JUDGE, made.id).status == "queued"


@pytest.mark.parametrize(
    "wish",
    [
        {"status": "waiting"},
        {"status": "completed"},
        {"conclusion": "fine"},
        {"output": ("t", "x" * (TEXT_LIMIT + 1), None)},
        {"actions": ({"label": "l", "description": "d", "identifier": "i"},) * 4},
        {"actions": ({"label": "x" * 21, "description": "d", "identifier": "i"},)},
        {"actions": ({"label": "l", "description": "", "identifier": "i"},)},
    ],
)
def test_a_check_run_that_does_not_fit_is_422(wish: dict[str, object]) -> None:
    """A status that only GitHub sets, an end without conclusion, texts and buttons beyond their limits."""
    checks = Checks(Ids())
    with pytest.raises(Rejected) as refused:
        _made(checks, **wish)
    assert refused.value.status == 422
    at_the_limit = {"label": "l" * 20, "description": "d" * 40, "identifier": "i" * 20}
    _made(checks, output=("t", "x" * TEXT_LIMIT, None), actions=(at_the_limit,) * 3)


def test_the_journal_tells_of_pull_requests_and_of_every_comment() -> None:
    """What changes nothing is no event, and what was taken is not told again."""
    model = Model()
    model.directory.add_account("alice", 1001, AccountType.USER, 0)
    there = model.directory.add_repository("alice/judge", 501, "main", False, 1, 0)
    issue = model.threads.open_thread(there, 1001, "A question", None, 0)
    pull = model.threads.open_pull(there, 1001, "A pull", None, Pull(0, "b", "main", HEAD, "b" * 40, True), 0)
    model.threads.edit_thread(issue, 1001, 5, state="closed")
    model.threads.edit_thread(pull, 1001, 5, title="A pull")
    model.threads.set_draft(pull, 1001, True, 5)
    made = model.comments.add_comment(issue, 1001, "text", 6)
    model.comments.edit_comment(made, 1001, "text", 7)
    told = [(event.name, event.action, event.number) for event in model.journal.take()]
    assert told == [("pull_request", "opened", 2), ("issue_comment", "created", 1)]
    assert model.journal.take() == ()
