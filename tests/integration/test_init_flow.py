"""A newcomer connects a repository of the local GitHub: `init`, the steps that it prints, `doctor` until it is green.

Every request and answer is held to GitHub's published description.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import requests

from gitops_bot.bootstrap.database import Finding
from gitops_bot.bootstrap.hook_doctor import approvals_repository, hook_findings, ruleset_findings, secret_findings
from gitops_bot.bootstrap.initial.choices import PLACEHOLDER_ID
from gitops_bot.bootstrap.initial.files import NOBODY, UNPINNED
from gitops_bot.bootstrap.people_doctor import people_findings
from gitops_bot.cli import run
from gitops_bot.config import Settings, load
from gitops_bot.process import run as run_program
from gitops_bot.sandbox.http import Sandbox
from tests.capture_stage import REPOSITORY
from tests.contract.described import FILE
from tests.contract.recorded import recording
from tests.forge_stage import BOT, PEOPLE, accounts, populate

SECRET = "0123456789abcdef" * 4


@dataclass
class Newcomer:
    """Somebody with a repository, a bot's token, and a command line."""

    top: Path
    github: Sandbox
    token: str
    capture: pytest.CaptureFixture[str]

    def bot(self, *arguments: str) -> tuple[int, str]:
        self.capture.readouterr()
        try:
            status = run(list(arguments))
        except SystemExit as ending:
            status = int(ending.code or 0)
        out, err = self.capture.readouterr()
        return status, out + err

    def missing(self) -> dict[str, str]:
        """Give what `doctor` says is missing, by name."""
        _, out = self.bot("doctor", "--json", "--config", str(self.top / "gitops-bot.toml"))
        return {one["name"]: one["fix"] for one in json.loads(out)["findings"] if not one["ok"]}

    def edit(self, path: str, *pairs: tuple[str, str]) -> None:
        text = (self.top / path).read_text()
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        (self.top / path).write_text(text)

    def private(self, name: str, text: str) -> None:
        (self.top / ".gitops-bot" / name).touch(mode=0o600)
        (self.top / ".gitops-bot" / name).write_text(text)

    def post(self, path: str, body: dict[str, Any]) -> None:
        """Send what a person clicks, as the bot's account with an administrator's role."""
        answer = requests.post(
            f"{self.github.url}{path}", json=body, headers={"Authorization": f"token {self.token}"}, timeout=10
        )
        assert answer.status_code == 201, answer.text

    @property
    def settings(self) -> Settings:
        return load(self.top / "gitops-bot.toml")


@pytest.fixture(autouse=True)
def exchanges(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not FILE.exists():
        yield
        return
    with recording(monkeypatch, of_request=False):
        yield


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Newcomer]:
    for name in ("GITOPS_BOT_CONFIG", "GITOPS_BOT_URL", "GITOPS_BOT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    top = tmp_path / "ops"
    top.mkdir()
    run_program(("git", "init", "-q"), cwd=top, timeout=30)
    with Sandbox.start(tmp_path / "github") as github:
        token = accounts(github)
        populate(github)
        found = Newcomer(top, github, token, capsys)
        status, said = found.bot("init", "--repository", REPOSITORY, "--api-url", github.url, "--dir", str(top))
        assert status == 0, said
        yield found


def test_from_an_empty_repository_to_a_green_doctor(newcomer: Newcomer) -> None:
    config = ("--config", str(newcomer.top / "gitops-bot.toml"))
    assert newcomer.bot("db", "upgrade", *config)[0] == 0
    assert newcomer.bot("trust", "pin", *config)[0] == 0
    found = newcomer.missing()
    assert set(found) == {"forge token", "forge", "code owners", "workflow", "people"}
    assert all(found.values()), "each with its fix"

    newcomer.private("forge.token", newcomer.token)
    newcomer.edit("policies/policy.toml", (str(PLACEHOLDER_ID), str(PEOPLE["alice"])))
    assert newcomer.bot("trust", "repin", "--from", "disk", "--yes", *config)[0] == 0
    newcomer.edit(".github/CODEOWNERS", (NOBODY, "keepers"))
    newcomer.edit(".github/workflows/gitops-bot.yml", (UNPINNED, "1234567890" * 4))
    assert newcomer.missing() == {}
    status, said = newcomer.bot("doctor", *config)
    assert status == 0 and "FAIL" not in said and newcomer.token not in said


def hooks(newcomer: Newcomer) -> list[Finding]:
    return [*secret_findings(newcomer.settings), *hook_findings(newcomer.settings)]


def wrong(findings: list[Finding]) -> str:
    return " | ".join(one.detail for one in findings if not one.ok)


def make_hook(newcomer: Newcomer, **config: str) -> None:
    hook = {"url": f"{newcomer.settings.origin}/hooks/github", "content_type": "json", **config}
    body = {"name": "web", "active": True, "events": ["issue_comment", "pull_request"], "config": hook}
    newcomer.post(f"/repos/{REPOSITORY}/hooks", body)
    newcomer.github.wait_for_deliveries()


def name_secret(newcomer: Newcomer) -> None:
    newcomer.edit("gitops-bot.toml", ("# webhook_secret_files", "webhook_secret_files"))


def test_a_token_that_may_not_see_webhooks_says_where_a_person_does(newcomer: Newcomer) -> None:
    newcomer.private("forge.token", newcomer.token)
    (finding,) = hooks(newcomer)
    assert finding.ok and f"{REPOSITORY}/settings/hooks" in finding.detail


def test_a_webhook_is_looked_at_step_by_step(newcomer: Newcomer) -> None:
    newcomer.private("forge.token", newcomer.token)
    newcomer.github.grant(REPOSITORY, BOT, "admin")
    (finding,) = hooks(newcomer)
    assert finding.ok and "the poll" in finding.detail, "none, and none is wanted"
    name_secret(newcomer)
    assert "webhook.secret" in wrong(hooks(newcomer))
    newcomer.private("webhook.secret", "short")
    assert "fewer than" in wrong(hooks(newcomer))
    newcomer.private("webhook.secret", SECRET)
    assert "has none" in wrong(hooks(newcomer))
    make_hook(newcomer, secret=SECRET)
    assert "deliveries failed" in wrong(hooks(newcomer)), "nothing listens there yet"
    assert SECRET not in repr(hooks(newcomer))


def test_a_webhook_that_arrives_is_sound_and_one_without_a_secret_is_not(newcomer: Newcomer) -> None:
    from tests.integration.sandbox.test_webhooks import Receiver

    newcomer.private("forge.token", newcomer.token)
    newcomer.github.grant(REPOSITORY, BOT, "admin")
    heard = Receiver()
    try:
        origin = heard.url.removesuffix("/hooks/github")
        newcomer.edit("gitops-bot.toml", ('# origin = "https://approvals.example.org"', f'origin = "{origin}"'))
        make_hook(newcomer, secret=SECRET)
        assert "no secret is named" in wrong(hooks(newcomer))
        name_secret(newcomer)
        newcomer.private("webhook.secret", SECRET)
        found = hooks(newcomer)
        assert wrong(found) == "" and "1 of the last 1 deliveries arrived" in found[-1].detail
        number = next(iter(newcomer.github.world.model.hooks.registered))
        hook = newcomer.github.world.model.hooks.registered[number]
        newcomer.github.world.model.hooks.registered[number] = replace(hook, secret=None, active=False)
        assert "no secret" in wrong(hooks(newcomer)) and "switched off" in wrong(hooks(newcomer))
    finally:
        heard.server.shutdown()
        heard.server.server_close()
        heard.thread.join()


@pytest.mark.parametrize(
    ("remote", "api", "found"),
    [
        ("https://github.com/acme/approvals.git", "https://api.github.com", "acme/approvals"),
        ("ssh://git@github.com/acme/approvals", "https://api.github.com", "acme/approvals"),
        ("https://git.example/acme/approvals.git", "https://git.example/api/v3", "acme/approvals"),
        ("https://git.example/acme/approvals.git", "https://api.github.com", None),
        ("file:///srv/approvals.git", "https://api.github.com", None),
        ("https://github.com/acme", "https://api.github.com", None),
        ("https://[", "https://api.github.com", None),
    ],
)
def test_the_approvals_repository_is_known_where_it_is_on_the_forge(remote: str, api: str, found: str | None) -> None:
    assert approvals_repository(remote, api) == found


def test_the_ruleset_that_init_wrote_is_found_once_it_is_imported(newcomer: Newcomer) -> None:
    newcomer.private("forge.token", newcomer.token)
    settings = newcomer.settings
    assert list(ruleset_findings(settings)) == [], "no signed channel, nothing to guard"
    signed = replace(settings.signed, remote=f"https://127.0.0.1/{REPOSITORY}.git")
    settings = replace(settings, signed=signed)
    (finding,) = ruleset_findings(settings)
    assert not finding.ok and "deleted and rewritten" in finding.detail and "gitops-bot-ruleset.json" in finding.fix
    newcomer.github.grant(REPOSITORY, BOT, "admin")
    document = json.loads((newcomer.top / "gitops-bot-ruleset.json").read_text())
    newcomer.post(f"/repos/{REPOSITORY}/rulesets", {**document, "name": "half", "rules": [{"type": "deletion"}]})
    (finding,) = ruleset_findings(settings)
    assert not finding.ok and "may be rewritten" in finding.detail
    newcomer.post(f"/repos/{REPOSITORY}/rulesets", document)
    (finding,) = ruleset_findings(settings)
    assert finding.ok, finding
    elsewhere = replace(settings, signed=replace(signed, remote="file:///srv/approvals.git"))
    assert "not on the forge" in next(iter(ruleset_findings(elsewhere))).detail


@pytest.mark.parametrize(
    ("origin", "ok"),
    [("https://approvals.example.org", True), ("http://localhost:8480", True), ("http://approvals.example.org", False)],
)
def test_an_origin_without_passkeys_is_told(newcomer: Newcomer, origin: str, ok: bool) -> None:
    found = {one.name: one for one in people_findings(replace(newcomer.settings, origin=origin))}
    assert found["workspace"].ok is ok
