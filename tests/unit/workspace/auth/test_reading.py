"""No GET decides anything: whatever page or document is looked at, by whomever, every row is as it was."""

from pytest import Subtests

from tests.signed_in import browser
from tests.unit.workspace.auth.routes import SAFE_ONES, patient
from tests.unit.workspace.conftest import Workplace


def test_no_get_changes_a_row(workplace: Workplace, subtests: Subtests) -> None:
    """The note of when a session was last seen excepted, as the design says."""
    alice, nobody = patient(workplace), browser(workplace.app, workplace.services)
    ask = workplace.ok("POST", "/asks", "shell", {"question": "?", "options": ["a", "b"]})
    before = workplace.everything()
    token = {"Authorization": f"Bearer {workplace.tokens['shell']}"}
    for route in SAFE_ONES:
        with subtests.test(route=str(route)):
            path = route.path.replace("0" * 26, ask["id"])
            for client, headers in ((alice, {}), (nobody, {}), (nobody, token)):
                for query in ("", "?code=ABCD-EFGH&state=x&option=a&answer=approve&fresh=1"):
                    assert client.get(path + query, headers=headers).status_code < 500
                assert client.open("HEAD", path, headers=headers).status_code < 500
            assert workplace.everything() == before
    # The accepting twin: what a change changes is seen by this.
    assert alice.call("POST", "/auth/preferences", {"single_keys": False}).status_code == 200
    assert workplace.everything() != before
