"""Every request and answer of this folder is held to GitHub's published description, where it is installed."""

from collections.abc import Iterator

import pytest

from tests.contract.described import FILE
from tests.contract.recorded import recording


@pytest.fixture(autouse=True)
def exchanges(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Judge each exchange of a test at its end; the requests too, for here only the adapter sends any."""
    if not FILE.exists():
        yield
        return
    with recording(monkeypatch, of_request=True):
        yield
