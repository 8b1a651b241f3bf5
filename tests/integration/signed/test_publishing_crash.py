"""A publisher that is killed at any point leaves a branch that the next one continues, with nothing twice."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops_bot import process
from gitops_bot.core.errors import Unavailable
from gitops_bot.process import Completed
from gitops_bot.signed.bot_key import BotKey
from gitops_bot.signed.publication import request_files
from gitops_bot.signed.rendering import DECISIONS
from gitops_bot.signed.repository import Repository
from tests.publication_stage import AT, Stage, opened_key
from tests.signed_stage import transfer

FILES = request_files(transfer(), {})
MORE = request_files(transfer(), {"alice": DECISIONS})  # type: ignore[dict-item] # a name in form


@pytest.fixture(scope="module")
def key() -> Iterator[BotKey]:
    with opened_key("ssh") as opened:
        yield opened


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the product catches it."""


class Mortal(Repository):
    """A repository whose bot dies after its n-th git."""

    left = 10**9

    def run(self, *arguments: str, **options: Any) -> Completed:
        done = super().run(*arguments, **options)
        self.left -= 1
        if self.left < 0:
            raise Killed
        return done


def test_whatever_it_was_doing_the_next_one_goes_on(
    tmp_path: Path, key: BotKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kill after each git of a publication: the branch grows by one commit, and nobody is suspected."""
    monkeypatch.setattr("tests.publication_stage.Repository", Mortal)
    stage = Stage(tmp_path)
    stage.publisher(key).publish(FILES, AT)
    files, lived = dict(FILES), False
    for survived in range(40):
        count = stage.count()
        more = {f"ledger/{survived + 1}.json": b"{}"}
        publisher = stage.publisher(key)
        publisher._repository.left = survived  # type: ignore[attr-defined] # a Mortal
        try:
            publisher.publish(more, AT)
            lived = True
        except Killed:
            pass
        published = stage.publisher(key).publish(more, AT)
        files |= more
        assert (stage.count(), published.foreign) == (count + 1, ()), f"killed after {survived}"
        assert stage.tip() == published.commit
        assert published.changed is False or not lived
        if lived:
            break
    assert lived
    assert stage.files() == files


def test_killed_while_pushing(tmp_path: Path, key: BotKey) -> None:
    """A true SIGKILL of the process, its push under way; the locks that it left are no hindrance."""
    stage = Stage(tmp_path)
    stage.publisher(key).publish(FILES, AT)
    reached = tmp_path / "reached"
    hook = stage.far / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {reached}\nsleep 60\n")
    hook.chmod(0o755)
    program = (
        "import sys; from pathlib import Path; from tests.publication_stage import *; from tests.signed_stage import *;"
        "from gitops_bot.signed.publication import request_files; from gitops_bot.signed.rendering import DECISIONS;"
        "stage = Stage.__new__(Stage); stage.folder = Path(sys.argv[1]); stage.far = stage.folder / 'far';"
        "key = open_key(key_file(stage.folder, keys.ssh_path('bot').read_bytes()), stage.folder / 'home');"
        "stage.publisher(key).publish(request_files(transfer(), {'alice': DECISIONS}), AT)"
    )
    root = Path(__file__).parents[3]
    child = process.start([sys.executable, "-c", program, str(tmp_path)], cwd=root, env={"PYTHONPATH": str(root)})
    try:
        deadline = time.monotonic() + 60
        while not reached.exists():
            assert child.poll() is None, "it ended before it pushed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    finally:
        process.end_group(child, grace=0)
    hook.unlink()
    (tmp_path / "near" / "refs" / "publication" / "production" / "own.lock").touch()
    published = stage.publisher(key).publish(MORE, AT)
    assert (published.changed, published.foreign, stage.count()) == (False, (), 2)
    assert stage.files() == MORE


def test_one_at_a_time(tmp_path: Path, key: BotKey) -> None:
    stage = Stage(tmp_path)
    one, other = stage.publisher(key), stage.publisher(key)
    with one._store.alone():
        with pytest.raises(Unavailable, match="another publisher"):
            other.publish(FILES, AT)
        with pytest.raises(Unavailable, match="another publisher"):
            other.look()
    assert other.publish(FILES, AT).changed
