"""The files of a demo set-up: settings, policy, the sandbox's seed, the agent's first weights. Tokens are made at once
and for this folder only."""

import json
import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = "acme/inference"
REPOSITORY_ID: Final = 7001
BOT_ID: Final = 9001
PEOPLE: Final = {"alice": 1001, "bob": 1002}

POLICY: Final = """\
schema = "gitops-bot/policy/v1"
version = 1

[people.alice]
kind = "human"
github = 1001

[people.bob]
kind = "human"
github = 1002

[people.demo-agent]
kind = "service"
owner = "alice"

[asks.question]
channels = ["workspace", "operator"]
voters = { owner = true }

[verbs."capture.approve"]
channels = ["forge", "workspace"]
voters = { people = ["alice", "bob"], github_permission = "write" }
approve = 1
expires = "7d"
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything of one demo lies."""

    root: Path

    @property
    def config(self) -> Path:
        """The settings of broker and workspace."""
        return self.root / "gitops-bot.toml"

    @property
    def seed(self) -> Path:
        """What the sandbox starts with."""
        return self.root / "forge" / "seed.json"

    @property
    def workspace(self) -> Path:
        """The folder that the agent works in."""
        return self.root / "problem"

    @property
    def calibrations(self) -> Path:
        """Where the broker publishes what was measured, for the judge."""
        return self.root / "calibrations"

    @property
    def loop_token(self) -> Path:
        """The loop's token."""
        return self.root / "loop.token"

    def person_token(self, login: str) -> str:
        """Read the token by which somebody acts on the sandbox forge."""
        tokens = json.loads((self.root / "forge" / "tokens.json").read_text("utf-8"))
        return str(tokens[login])


def private(path: Path, text: str) -> None:
    """Write a new file that only its owner reads."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)


def write(layout: Layout) -> None:
    """Write everything that the processes read before they start, but for the addresses of others (`settings`)."""
    people = [{"login": login, "id": number, "type": "User"} for login, number in PEOPLE.items()]
    tokens = {login: f"demo-{secrets.token_urlsafe(24)}" for login in (*PEOPLE, "gitops-bot")}
    seed = {
        "tokens": "tokens.json",
        "accounts": [*people, {"login": "gitops-bot", "id": BOT_ID, "type": "User"}],
        "repositories": [
            {"full_name": REPOSITORY, "id": REPOSITORY_ID, "files": {"README.md": "# Inference experiments\n"}}
        ],
        "grants": [{"repository": REPOSITORY, "login": login, "role_name": "write"} for login in tokens],
    }
    private(layout.seed, json.dumps(seed, indent=1))
    private(layout.seed.parent / "tokens.json", json.dumps(tokens))
    private(layout.root / "forge.token", tokens["gitops-bot"])
    private(layout.root / "policies" / "policy.toml", POLICY)
    layout.workspace.mkdir(mode=0o700)
    layout.calibrations.mkdir(mode=0o700)
    # Equal weights are round robin: the picker that the agent has to beat.
    (layout.workspace / "picker.json").write_text('{"load": 0, "prefix": 0}\n', "utf-8")


def settings(layout: Layout, *, forge_url: str, endpoint: str, port: int, signed: str = "") -> None:
    """Write the settings, once the addresses of forge and endpoint are known; `signed` are more lines of `[signed]`."""
    program = [sys.executable, "-I", "-m", "gitops_bot.measure", "--endpoint", endpoint]
    text = f"""\
policies = "policies"
repository = "github.com/{REPOSITORY}"

[forge]
repositories = ["{REPOSITORY}"]
api_url = "{forge_url}"
token_file = "forge.token"
poll_fast = "1s"
poll_slow = "2s"

[signed]
environment = "demo"
{signed}
[workspace]
bind = "127.0.0.1:{port}"
name = "demo"
passkey_rest = "0"         # nobody else can come in here; elsewhere a new passkey rests for a day

[capture]
program = {json.dumps(program)}
timeout = "5m"
cost = "about five seconds of this machine"
publish = "calibrations"
"""
    private(layout.config, text)
