"""What goes through a database or real bodies is left to `make test`; what decides is in `make check` too."""

from pathlib import Path

import pytest

QUICK = frozenset(
    {"test_grammar", "test_machine", "test_capsule", "test_schedule", "test_agent_protocol", "test_settle"}
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the others slow."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.stem not in QUICK:
            item.add_marker(pytest.mark.slow)
