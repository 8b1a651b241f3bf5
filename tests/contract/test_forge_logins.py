"""What an account is called now, by its number: the floors of people who answer elsewhere than on the forge."""

from pathlib import Path

import pytest

from gitops_bot.bootstrap.floors import Floors
from gitops_bot.config import load
from gitops_bot.core.errors import Unavailable
from gitops_bot.core.readings import Permission
from gitops_bot.forge.client import GitHubForge
from gitops_bot.policy.lookup import NeedsPermission
from gitops_bot.sandbox.http import Sandbox
from tests.contract.test_forge import REPO, Hand, populate

ALICE = 1001


def floors(tmp_path: Path, api_url: str, token: str | None) -> Floors:
    """Make what reads floors from the settings of a host, as its workspace does."""
    if token is not None:
        (tmp_path / "token").write_text(token)
        (tmp_path / "token").chmod(0o600)
    config = tmp_path / "gitops-bot.toml"
    config.write_text(
        f'[forge]\nrepositories = ["{REPO}"]\napi_url = "{api_url}"\ntoken_file = "{tmp_path / "token"}"\n'
    )
    return Floors(load(config))


def test_an_account_is_called_by_its_number(tmp_path: Path) -> None:
    """A renamed account is the same one; a number that is nobody's has no login."""
    with Sandbox.start(tmp_path, clock=Hand()) as sandbox:
        forge = GitHubForge(sandbox.url, populate(sandbox))
        assert (forge.login(ALICE), forge.login(424_242)) == ("alice", None)
        forge.disconnect()


def test_a_floor_is_read_at_the_moment_of_the_answer(tmp_path: Path) -> None:
    """What an account holds now counts; one that is gone holds nothing, which is a no and not an unknown."""
    with Sandbox.start(tmp_path / "forge", clock=Hand()) as sandbox:
        read = floors(tmp_path, sandbox.url, populate(sandbox)).read
        assert read(NeedsPermission(ALICE, Permission.WRITE, None)).permission is Permission.MAINTAIN
        sandbox.grant(REPO, "alice", "read")
        assert read(NeedsPermission(ALICE, Permission.WRITE, None)).permission is Permission.READ
        gone = read(NeedsPermission(424_242, Permission.WRITE, 1))
        assert (gone.permission, gone.in_team) == (Permission.NONE, False)


def test_without_a_token_nothing_is_known(tmp_path: Path) -> None:
    """I14: no answer is no `no`; with a token there is one (see above)."""
    with pytest.raises(Unavailable):
        floors(tmp_path, "http://127.0.0.1:9", None).read(NeedsPermission(ALICE, Permission.WRITE, None))
