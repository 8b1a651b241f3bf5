"""What lies between two commits is worked out once, and for other commits anew."""

from pathlib import Path

import pytest

from gitops_bot.sandbox.control import Control
from gitops_bot.sandbox.git import BareRepository
from gitops_bot.sandbox.refusals import Rejected


def test_a_second_look_starts_no_git_and_another_head_is_another_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    github = Control(tmp_path, lambda: 1_700_000_000.0)
    github.add_account("alice", 1001)
    github.add_repository("acme/ops", 77)
    github.grant("acme/ops", "alice", "write")
    base = github.branches("acme/ops")["main"]
    heads = [github.push("acme/ops", "work", {name: b"one\ntwo\n"}, "alice") for name in ("a", "b")]
    git = BareRepository(github.git_folder("acme/ops"))
    first = [(git.count_between(base, head), git.changes_between(base, head)) for head in heads]
    assert first == [(1, (2, 0, 1)), (2, (4, 0, 2))]
    monkeypatch.setattr(git, "run", None)
    monkeypatch.setattr(git, "output", None)
    assert [(git.count_between(base, head), git.changes_between(base, head)) for head in heads] == first


def test_what_is_no_full_id_is_refused_as_before(tmp_path: Path) -> None:
    git = BareRepository.create(tmp_path / "r.git", "main")
    for wrong in ("main", "--all", "0" * 39):
        with pytest.raises(Rejected):
            git.count_between(wrong, "0" * 40)
        with pytest.raises(Rejected):
            git.changes_between(wrong, "0" * 40)
