"""A capture's page offers to cancel it to whom the service would let cancel it, and to nobody else."""

from tests.unit.workspace.pages.conftest import Desk
from tests.unit.workspace.pages.rows import Filled


def test_the_owner_cancels_a_capture_from_its_page_while_it_runs(desk: Desk, filled: Filled) -> None:
    path = f"/api/v1/captures/{filled.capture}/cancel"
    assert f'action="{path}"' in desk.page(f"/captures/{filled.capture}")
    done = desk.alice.post(path, {"reason": "too dear"})
    assert done.status_code == 200, done.get_data(as_text=True)
    page = desk.page(f"/captures/{filled.capture}")
    assert f'action="{path}"' not in page
    assert "cancelled" in page.lower()


def test_nobody_else_is_offered_it_and_nobody_else_may(desk: Desk, filled: Filled) -> None:
    bob = desk.workplace.person("bob")
    path = f"/api/v1/captures/{filled.capture}/cancel"
    assert path not in desk.open(f"/captures/{filled.capture}", bob).get_data(as_text=True)
    assert bob.post(path, {}).status_code == 403
    assert f'action="{path}"' in desk.page(f"/captures/{filled.capture}")


def test_pages_that_are_read_again_name_what_they_are_of_and_their_parts(desk: Desk, filled: Filled) -> None:
    """parts.js exchanges parts by name, so a name is there once."""
    for path, of in ((f"/captures/{filled.capture}", filled.capture), ("/agents/tuner", filled.agent.id)):
        page = desk.page(path)
        assert f'data-live-of="{of}"' in page
        names = [piece.partition('"')[0] for piece in page.split('data-live-part="')[1:]]
        assert len(names) == len(set(names)) >= 2
        assert "/js/parts.js" in page
