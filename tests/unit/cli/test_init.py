"""`gitops-bot init`: what it writes loads as it stands, a second run changes nothing, nothing of others is lost, and
nothing is written outside the repository."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import responses

from gitops_bot.bootstrap.bundle import load_bundle
from gitops_bot.bootstrap.initial.choices import PLACEHOLDER_ID
from gitops_bot.bootstrap.initial.files import GUARDED, NOBODY
from gitops_bot.bootstrap.repository_doctor import placeholder_finding, repository_findings, workflow_faults
from gitops_bot.cli import run
from gitops_bot.config import load
from gitops_bot.forge.app import PERMISSIONS
from gitops_bot.process import run as run_program

WRITTEN = {
    ".github/CODEOWNERS",
    ".github/workflows/gitops-bot.yml",
    ".gitignore",
    "gitops-bot-app-manifest.json",
    "gitops-bot-ruleset.json",
    "gitops-bot.toml",
    "policies/policy.toml",
}
DOCS = Path(__file__).parents[3] / "docs"
Init = Callable[..., tuple[int, str, str]]


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GITOPS_BOT_CONFIG", "GITOPS_BOT_URL", "GITOPS_BOT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "ops"
    folder.mkdir()
    assert run_program(("git", "init", "-q"), cwd=folder, timeout=30).returncode == 0
    return folder


@pytest.fixture
def init(top: Path, capsys: pytest.CaptureFixture[str]) -> Init:
    def call(*arguments: str, folder: Path = top, repository: str = "acme/ops") -> tuple[int, str, str]:
        capsys.readouterr()
        named = ("--repository", repository) if repository else ()
        try:
            status = run(["init", *named, "--dir", str(folder), *arguments])
        except SystemExit as ending:
            status = int(ending.code or 0)
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture
def github() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock() as mock:
        yield mock


def told(init: Init, *arguments: str, **more: Any) -> dict[str, Any]:
    status, out, err = init("--json", *arguments, **more)
    assert status == 0, err
    document: dict[str, Any] = json.loads(out)
    return document


def outcomes(document: dict[str, Any]) -> dict[str, str]:
    return {one["path"]: one["outcome"] for one in document["files"]}


def everything(top: Path) -> dict[str, bytes]:
    found = (path for path in top.rglob("*") if path.is_file() and ".git/" not in str(path))
    return {path.relative_to(top).as_posix(): path.read_bytes() for path in found}


def test_an_empty_repository_gets_a_set_up_that_loads(init: Init, top: Path) -> None:
    assert outcomes(told(init)) == dict.fromkeys(WRITTEN, "written")
    assert set(everything(top)) == WRITTEN
    settings = load(top / "gitops-bot.toml")
    assert settings.forge.repositories == ("acme/ops",)
    assert settings.repository == "github.com/acme/ops"
    policy = load_bundle(top / "policies")
    assert set(policy.people) == {"me", "agent"}
    assert stat.S_IMODE((top / ".gitops-bot").stat().st_mode) == 0o700
    assert list((top / ".gitops-bot").iterdir()) == [], "no secret is made"
    ruleset = json.loads((top / "gitops-bot-ruleset.json").read_text())
    assert ruleset["conditions"]["ref_name"]["include"] == ["refs/heads/gated/**"]
    assert [rule["type"] for rule in ruleset["rules"]] == ["deletion", "non_fast_forward"]
    assert ruleset["bypass_actors"] == []
    manifest = json.loads((top / "gitops-bot-app-manifest.json").read_text())
    assert manifest["default_permissions"] == PERMISSIONS, "what its tokens are asked for with, and nothing more"
    assert manifest["public"] is False


def test_a_second_run_changes_nothing_and_says_so(init: Init, top: Path) -> None:
    init()
    before = everything(top)
    status, out, _ = init()
    assert (status, "nothing changed" in out) == (0, True)
    assert everything(top) == before
    (top / "gitops-bot.toml").unlink()
    assert "nothing changed" not in init()[1]


def test_a_file_that_differs_is_shown_and_kept(init: Init, top: Path) -> None:
    init()
    policy = top / "policies" / "policy.toml"
    mine = policy.read_text().replace('expires = "7d"', 'expires = "3d"')
    policy.write_text(mine)
    status, out, _ = init()
    assert status == 0 and '-expires = "3d"' in out and '+expires = "7d"' in out
    assert "--force" in out and policy.read_text() == mine


def test_a_file_that_differs_is_replaced_when_told_to(init: Init, top: Path) -> None:
    init()
    policy = top / "policies" / "policy.toml"
    ours = policy.read_text()
    policy.write_text("# mine\n")
    found = told(init, "--force")
    assert outcomes(found)["policies/policy.toml"] == "replaced"
    assert "-# mine" in next(one["difference"] for one in found["files"] if one["path"] == "policies/policy.toml")
    assert policy.read_text() == ours


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_dry_run_writes_nothing(init: Init, top: Path, force: tuple[str, ...]) -> None:
    (top / "gitops-bot.toml").write_text("# mine\n")
    found = told(init, "--dry-run", *force)
    assert found["dry_run"] and outcomes(found)["gitops-bot.toml"] == ("replaced" if force else "kept")
    assert everything(top) == {"gitops-bot.toml": b"# mine\n"}
    assert not (top / ".gitops-bot").exists()


@pytest.mark.parametrize("place", [".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"])
def test_code_owners_are_added_where_the_forge_looks(init: Init, top: Path, place: str) -> None:
    (top / place).parent.mkdir(exist_ok=True)
    (top / place).write_text("* @acme/all\n/policies/ @acme/keepers")
    assert outcomes(told(init, "--force"))[place] == "added to"
    lines = (top / place).read_text().splitlines()
    assert lines[:2] == ["* @acme/all", "/policies/ @acme/keepers"]
    assert sum(line.startswith("/policies/") for line in lines) == 1
    assert [line.split()[0] for line in lines[2:] if line.startswith("/")] == list(GUARDED[1:])
    assert outcomes(told(init))[place] == "unchanged"
    assert [one for one in (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS") if (top / one).exists()] == [place]


def test_what_git_ignores_is_kept_and_gets_the_state_folder(init: Init, top: Path) -> None:
    (top / ".gitignore").write_text("*.pyc")
    init()
    assert (top / ".gitignore").read_text().startswith("*.pyc\n")
    (top / ".gitops-bot" / "forge.token").write_text("secret")
    status = run_program(("git", "status", "--porcelain", "-uall"), cwd=top, timeout=30).stdout.decode()
    assert "gitops-bot.toml" in status and "forge.token" not in status


def test_a_bundle_of_other_files_is_not_added_to(init: Init, top: Path) -> None:
    (top / "policies").mkdir()
    (top / "policies" / "people.toml").write_text("# ours\n")
    assert outcomes(told(init, "--force"))["policies/policy.toml"] == "kept"
    assert not (top / "policies" / "policy.toml").exists()


def test_who_you_are_is_looked_up(init: Init, top: Path, github: responses.RequestsMock) -> None:
    about = {"id": 1001, "login": "Alice", "type": "User"}
    github.get("https://api.github.com/users/alice", json=about)
    assert told(init, "--me", "@alice")["warning"] is None
    policy = load_bundle(top / "policies")
    assert [one.value for one in policy.people["alice"].principal.identities] == ["1001"]
    assert placeholder_finding(policy) is None
    assert "/policies/" in (top / ".github" / "CODEOWNERS").read_text()
    assert "@alice" in (top / ".github" / "CODEOWNERS").read_text()


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 404, "json": {"message": "Not Found"}},
        {"json": {"id": 7, "login": "alice", "type": "Organization"}},
        {"json": {"id": "7", "login": "alice", "type": "User"}},
        {"json": {"id": 7, "login": "mallory\n[people.x]", "type": "User"}},
        {"body": "<html>"},
        {"status": 302, "headers": {"Location": "http://127.0.0.1:9/"}},
    ],
)
def test_who_is_not_told_is_a_placeholder_that_doctor_names(
    init: Init, top: Path, github: responses.RequestsMock, answer: dict[str, Any]
) -> None:
    github.get("https://api.github.com/users/alice", **answer)
    assert "placeholder" in told(init, "--me", "alice")["warning"]
    policy = load_bundle(top / "policies")
    assert [one.value for one in policy.people["me"].principal.identities] == [str(PLACEHOLDER_ID)]
    found = placeholder_finding(policy)
    assert found is not None and not found.ok and "me" in found.detail
    assert NOBODY in (top / ".github" / "CODEOWNERS").read_text()


def test_outside_a_git_repository_nothing_is_written(init: Init, tmp_path: Path, top: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    status, _, err = init(folder=elsewhere)
    assert status == 1 and "git init" in err and list(elsewhere.iterdir()) == []
    inside = top / "inside"
    inside.mkdir()
    status, _, err = init(folder=inside)
    assert status == 1 and f"--dir {top}" in err and list(inside.iterdir()) == []
    assert init()[0] == 0


@pytest.mark.parametrize(
    "name",
    ["ops", "acme/ops/x", "https://x.org/a/b", "acme/ops.git", "acme/..", "../ops", "acme/op s", 'a"/b', "a/b\n"],
)  # fmt: skip
def test_what_is_no_repository_is_refused_in_words(init: Init, top: Path, name: str) -> None:
    status, _, err = init(repository=name)
    assert status == 64 and "owner/name" in err
    assert everything(top) == {}


@pytest.mark.parametrize(
    ("option", "value"),
    [("--origin", "http://example.org"), ("--origin", "https://a/b"), ("--me", "a b"), ("--api-url", "ftp://x")],
)
def test_other_values_are_checked_too(init: Init, top: Path, option: str, value: str) -> None:
    assert init(option, value)[0] == 64
    assert everything(top) == {}


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://github.com/acme/tools.git", "acme/tools"),
        ("git@github.com:acme/tools.git", "acme/tools"),
        ("ssh://git@github.example/acme/tools", "acme/tools"),
        ("", None),
        ("/srv/git", None),
    ],
)
def test_the_repository_is_read_from_git(init: Init, top: Path, address: str, name: str | None) -> None:
    if address:
        run_program(("git", "remote", "add", "origin", address), cwd=top, timeout=30)
    status, out, err = init("--json", repository="")
    if name is None:
        assert status == 1 and "--repository" in err and everything(top) == {}
    else:
        assert json.loads(out)["repository"] == name


@pytest.mark.parametrize("path", ["gitops-bot.toml", ".gitignore", ".github/CODEOWNERS", "policies/policy.toml"])
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_nothing_is_written_through_a_link(
    init: Init, top: Path, tmp_path: Path, path: str, force: tuple[str, ...]
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("theirs\n")
    (top / path).parent.mkdir(exist_ok=True)
    (top / path).symlink_to(outside)
    status, _, err = init(*force)
    assert status == 1 and "link" in err
    assert outside.read_text() == "theirs\n"
    assert set(everything(top)) == {path}, "everything is looked at before anything is written"
    (top / path).unlink()
    assert init(*force)[0] == 0


@pytest.mark.parametrize("folder", ["policies", ".github"])
def test_nothing_is_written_through_a_folder_that_is_a_link(init: Init, top: Path, tmp_path: Path, folder: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (top / folder).symlink_to(outside)
    status, _, err = init()
    assert status == 1 and "link" in err
    assert list(outside.iterdir()) == []
    (top / folder).unlink()
    (top / folder).mkdir()
    assert init()[0] == 0


def test_a_state_folder_that_is_a_link_is_refused_before_anything_is_written(
    init: Init, top: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (top / ".gitops-bot").symlink_to(tmp_path / "outside")
    status, _, err = init()
    assert status == 1 and "link" in err and everything(top) == {}
    (top / ".gitops-bot").unlink()
    (top / ".gitops-bot").mkdir(0o700)
    assert init()[0] == 0


def test_a_pipe_in_the_way_is_refused_and_not_waited_for(init: Init, top: Path) -> None:
    os.mkfifo(top / ".gitignore")
    status, _, err = init()
    assert status == 1 and "regular" in err


def test_an_app_has_its_settings_and_a_form_filled_in(init: Init, top: Path) -> None:
    found = told(init, "--app", "--origin", "https://approvals.example.org")
    text = (top / "gitops-bot.toml").read_text()
    assert "app_id" in text and "token_file" not in text
    form = next(step["address"] for step in found["steps"] if "settings/apps/new?" in (step["address"] or ""))
    assert "contents=write" in form and "events%5B%5D=issue_comment" in form
    assert "webhook_url=https%3A%2F%2Fapprovals.example.org%2Fhooks%2Fgithub" in form
    assert "app_id" not in everything_by_token(init, top)


def everything_by_token(init: Init, top: Path) -> str:
    init("--force", "--token")
    return (top / "gitops-bot.toml").read_text()


def test_enterprise_has_its_own_addresses(init: Init, top: Path) -> None:
    found = told(init, "--api-url", "https://git.example.org/api/v3")
    settings = load(top / "gitops-bot.toml")
    assert settings.forge.api_url == "https://git.example.org/api/v3"
    assert settings.repository == "git.example.org/acme/ops"
    addresses = [step["address"] for step in found["steps"] if step["address"]]
    assert addresses and all(address.startswith("https://git.example.org/") for address in addresses)


# The workflow, as doctor reads it


def test_the_workflow_is_the_one_that_the_documents_show(init: Init, top: Path) -> None:
    init()
    written = (top / ".github" / "workflows" / "gitops-bot.yml").read_text()
    assert written == (DOCS / "examples" / "gitops-bot.yml").read_text()


def test_the_workflow_lacks_nothing_but_its_pin(init: Init, top: Path) -> None:
    init()
    text = (top / ".github" / "workflows" / "gitops-bot.yml").read_text()
    assert [detail for detail, _ in workflow_faults(text)] == [
        "OWNER/gitops-bot/.github/actions/handle-event@" + "0" * 40 + " is still to be pinned"
    ]
    assert list(workflow_faults(text.replace("0" * 40, "1234567890" * 4))) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("1234567890" * 4, "v1", "not pinned"),
        ("permissions: {}", "permissions: write-all", "more rights"),
        ("permissions: {}\n", "", "states no permissions"),
        ("id-token: write", "id-token: write\n      contents: write", "contents"),
        ("id-token: write", "contents: read", "cannot say who it is"),
        ("issue_comment", "pull_request_target", "stranger"),
        ("    steps:\n", "    steps:\n      - uses: actions/checkout@" + "a" * 40 + "\n", "checks code out"),
    ],
)
def test_a_workflow_that_may_more_than_it_needs_is_told(init: Init, top: Path, old: str, new: str, words: str) -> None:
    init()
    text = (top / ".github" / "workflows" / "gitops-bot.yml").read_text().replace("0" * 40, "1234567890" * 4)
    assert old in text
    faults = [detail for detail, _ in workflow_faults(text.replace(old, new))]
    assert any(words in detail for detail in faults), faults


# The files, as doctor finds them


def found_wrong(top: Path) -> dict[str, str]:
    return {one.name: one.detail for one in repository_findings(load(top / "gitops-bot.toml")) if not one.ok}


def test_doctor_names_what_is_still_to_be_filled_in(init: Init, top: Path) -> None:
    init()
    assert set(found_wrong(top)) == {"code owners", "workflow"}
    owners = top / ".github" / "CODEOWNERS"
    owners.write_text(owners.read_text().replace(NOBODY, "keepers"))
    workflow = top / ".github" / "workflows" / "gitops-bot.yml"
    workflow.write_text(workflow.read_text().replace("0" * 40, "1234567890" * 4))
    assert found_wrong(top) == {}
    (top / ".github" / "CODEOWNERS").write_text("/docs/ @acme/keepers\n")
    assert set(found_wrong(top)) == {"code owners"}


def test_doctor_sees_a_secret_in_reach_of_git(init: Init, top: Path) -> None:
    init()
    assert "secrets and git" not in found_wrong(top)
    (top / ".gitops-bot" / "forge.token").write_text("secret")
    run_program(("git", "add", "-f", ".gitops-bot/forge.token"), cwd=top, timeout=30)
    assert "part of the repository" in found_wrong(top)["secrets and git"]
    run_program(("git", "rm", "-q", "-r", "--cached", ".gitops-bot"), cwd=top, timeout=30)
    (top / ".gitignore").write_text("")
    assert "does not ignore" in found_wrong(top)["secrets and git"]


def test_a_difference_is_shown_before_anything_is_overwritten(top: Path) -> None:
    """Where it cannot be shown, because nobody takes what is printed, everything stays as it was; the twin is told."""
    policy = top / "policies" / "policy.toml"
    policy.parent.mkdir()
    policy.write_text("# mine\n")
    command = [sys.executable, "-m", "gitops_bot.cli", "init", "--repository", "acme/ops", "--dir", str(top), "--force"]
    with Path("/dev/full").open("wb") as full:
        assert subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=120).returncode != 0
    assert everything(top) == {"policies/policy.toml": b"# mine\n"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "-# mine" in done.stdout
    assert set(everything(top)) == WRITTEN
