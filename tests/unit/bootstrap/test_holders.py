"""A holder that is gone is known by its free lock; one that lives, or of which nothing is known, is never gone."""

import subprocess
import sys
from pathlib import Path

import pytest

from gitops_bot.bootstrap.holders import Holders

CHILD = """
import sys
from pathlib import Path
from gitops_bot.bootstrap.holders import Holders
print(Holders(Path(sys.argv[1])).name, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "brokers"


def test_a_living_process_is_not_gone_and_a_killed_one_is(folder: Path) -> None:
    """However it died, its lock is free; its name is fresh, so nobody else is taken for it."""
    mine = Holders(folder)
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        other = child.stdout.readline().strip()
        assert mine.gone([mine.name, other]) == frozenset()
        child.kill()
    assert mine.gone([mine.name, other]) == {other}
    mine.close()


def test_what_is_not_known_is_not_gone(folder: Path) -> None:
    """A holder of another host has no file here; nor is a name a way out of the folder."""
    mine = Holders(folder)
    assert mine.gone(["0" * 32, "../brokers", "", mine.name]) == frozenset()
    mine.close()


def test_the_file_of_one_that_is_gone_and_holds_nothing_is_removed(folder: Path) -> None:
    """Only while it holds something is its file of any use."""
    mine = Holders(folder)
    for name in ("a" * 32, "b" * 32):
        (folder / name).touch()
    assert mine.gone(["a" * 32]) == {"a" * 32}
    assert sorted(path.name for path in folder.iterdir()) == sorted(["a" * 32, mine.name])
    mine.close()
    assert [path.name for path in folder.iterdir()] == ["a" * 32]


def test_who_is_gone_twice_closes_nothing_of_others(tmp_path: Path) -> None:
    """Its descriptor may be somebody else's by then."""
    holders = Holders(tmp_path / "brokers")
    holders.close()
    with (tmp_path / "other").open("w") as other:
        holders.close()
        other.write("still open")
    assert (tmp_path / "other").read_text() == "still open"
    assert list((tmp_path / "brokers").iterdir()) == []
