"""The best tree is kept and restored exactly, `state/` aside."""

import os
from pathlib import Path

import pytest

from gitops_bot.core.errors import Unavailable
from gitops_bot.loop import snapshots
from gitops_bot.loop.snapshots import Snapshots


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / "deep").mkdir(parents=True)
    (made / "state").mkdir()
    (made / "state" / "secret").write_text("s")
    (made / "deep" / "file").write_text("best")
    (made / "link").symlink_to("deep/file")
    return made


def test_restore_brings_back_what_was_kept(workspace: Path, tmp_path: Path) -> None:
    kept = Snapshots(workspace, tmp_path / "snapshots")
    kept.keep("1")
    assert not (tmp_path / "snapshots" / "1" / "state").exists()
    (workspace / "deep" / "file").write_text("worse")
    (workspace / "new").mkdir()
    (workspace / "link").unlink()
    os.mkfifo(workspace / "pipe")
    kept.restore("1")
    assert sorted(entry.name for entry in workspace.iterdir()) == ["deep", "link", "state"]
    assert (workspace / "deep" / "file").read_text() == "best"
    assert (workspace / "link").readlink() == Path("deep/file")
    assert (workspace / "state" / "secret").read_text() == "s"


def test_a_link_to_the_outside_is_kept_as_a_link_and_its_target_untouched(workspace: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("o")
    (workspace / "out").symlink_to(outside)
    kept = Snapshots(workspace, tmp_path / "snapshots")
    kept.keep("1")
    kept.restore("1")
    assert (outside / "file").read_text() == "o"
    assert (workspace / "out").is_symlink()


def test_a_tree_beyond_the_limits_is_refused(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Snapshots(workspace, tmp_path / "snapshots")
    kept.keep("1")
    monkeypatch.setattr(snapshots, "MAX_FILES", 2)
    with pytest.raises(Unavailable):
        kept.keep("2")
    assert not (tmp_path / "snapshots" / "2").exists()


def test_pruning_leaves_one_and_a_missing_one_is_said(workspace: Path, tmp_path: Path) -> None:
    kept = Snapshots(workspace, tmp_path / "snapshots")
    kept.keep("1")
    kept.keep("2")
    kept.prune("2")
    kept.restore("2")
    with pytest.raises(Unavailable):
        kept.restore("1")
