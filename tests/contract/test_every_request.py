"""Every method of the adapter is driven here, so that each request that the product can send was judged once.

The judging itself is in conftest.py and happens at the end of each test of this folder; this test makes sure that
nothing was left out, and that no request goes to an address which nobody looked at.
"""

import inspect
from pathlib import Path

import pytest

from gitops_bot.core.readings import Check, CheckButton, Conclusion, Reaction
from gitops_bot.forge.client import GitHubForge
from gitops_bot.ports import Forge
from gitops_bot.sandbox.http import Sandbox
from tests.contract.described import FILE, operation
from tests.contract.recorded import recording
from tests.contract.test_forge import BRANCH, FILES, REPO, Hand, populate

CHECK = Check("capture request", "01J", None, "Waits", "text", (CheckButton("Refresh", "Again", "refresh"),))
TEAM = 4711


def _drive(forge: GitHubForge, sandbox: Sandbox) -> dict[str, object]:
    """Call every method once, in an order that lets each succeed; what each gave."""
    gave: dict[str, object] = {"repository": forge.repository(REPO)}
    gave["publish_branch"] = head = forge.publish_branch(REPO, BRANCH, FILES, "Ask")
    sandbox.push(REPO, "main", {"later": b"x"}, "alice")
    assert forge.publish_branch(REPO, BRANCH, FILES, "Ask") == head, "also after the default branch moved on"
    gave["open_draft"] = opened = forge.open_draft(REPO, BRANCH, "Ask", "Text")
    gave["find_pull_request"] = forge.find_pull_request(REPO, BRANCH)
    gave["pull_request"] = forge.pull_request(REPO, opened.number)
    gave["create_comment"] = written = forge.create_comment(REPO, opened.number, "<!-- mark -->")
    gave["find_comment"] = forge.find_comment(REPO, opened.number, "<!-- mark -->")
    gave["edit_comment"] = forge.edit_comment(REPO, written, "<!-- mark --> changed")
    gave["react"] = forge.react(REPO, written, Reaction.EYES)
    gave["comments_since"] = listed = forge.comments_since(REPO, 0, None)
    assert forge.comments_since(REPO, 0, listed.etag).unchanged
    gave["pulls_since"] = forge.pulls_since(REPO, 0, None)
    gave["comment"] = forge.comment(REPO, written)
    gave["review"] = forge.review(REPO, opened.number, sandbox.review(REPO, opened.number, "alice", "text"))
    gave["permission"] = forge.permission(REPO, "alice", 1001)
    gave["team_member"] = forge.team_member(REPO, TEAM, "alice", 1001)
    gave["create_check"] = made = forge.create_check(REPO, opened.head_sha, CHECK)
    gave["find_check"] = forge.find_check(REPO, opened.head_sha, CHECK)
    done = Check(CHECK.name, CHECK.external_id, Conclusion.SUCCESS, "Approved", "text")
    gave["update_check"] = forge.update_check(REPO, made, done)
    gave["commit_file"] = forge.commit_file(REPO, BRANCH, "captures/x/calibration.json", b"{}", "Measured")
    gave["mark_ready"] = forge.mark_ready(REPO, opened.number)
    gave["close"] = forge.close(REPO, opened.number)
    gave["closing"] = forge.closing(REPO, opened.number)
    return gave


def test_every_method_sends_only_what_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a GitHub App, which may do all of it but ask who it is."""
    with Sandbox.start(tmp_path, clock=Hand()) as sandbox:
        user = GitHubForge(sandbox.url, populate(sandbox))
        assert user.self_id() == 900
        user.disconnect()
        app = sandbox.add_app("gitops-app", 77, 901)
        sandbox.grant(REPO, "gitops-app[bot]", "write")
        sandbox.add_team("acme", "Keepers", TEAM)
        sandbox.set_membership(TEAM, "alice", "active")
        forge = GitHubForge(sandbox.url, sandbox.installation_token(app), account_id=901)
        if FILE.exists():
            with recording(monkeypatch, of_request=True) as heard:
                gave = _drive(forge, sandbox)
            assert all(operation(one.method, one.route) for one in heard)
            assert {one.status for one in heard} <= {200, 201, 204, 304, 404}
        else:
            gave = _drive(forge, sandbox)
        forge.disconnect()
        methods = {name for name, _ in inspect.getmembers(Forge, inspect.isfunction) if not name.startswith("_")}
        assert methods - {"self_id"} == set(gave), "a new method of the port is to be driven here too"
        missing = [
            name
            for name in ("find_pull_request", "pull_request", "comment", "find_comment", "review")
            if not gave[name]
        ]
        assert missing == []
        assert gave["team_member"] is True
        assert gave["find_check"] == gave["create_check"]
