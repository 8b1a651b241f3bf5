"""The fingerprint of a segment agrees with every other implementation."""

import json
from pathlib import Path

import pytest

from gitops_bot.loop.segments import fingerprint

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "loop.json").read_text())


@pytest.mark.parametrize("vector", VECTORS["fingerprint_fnv1a64"], ids=lambda vector: vector["hex"])
def test_vectors(vector: dict[str, object]) -> None:
    parts = vector["parts"]
    assert isinstance(parts, list)
    assert fingerprint(*parts) == vector["hex"]


def test_the_borders_between_parts_count() -> None:
    assert fingerprint("ab", "c") != fingerprint("a", "bc")
