"""`gitops-bot handle-event` and the action's own shell line, with hostile text in every input and every file's name.

Whatever a text holds, nothing of it runs, no output is written but the three words, and no line of ours carries it as
a command of the runner's. A file named `pwned` in the current folder would be what a text did that was run.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.architecture.tree import ROOT
from tests.workflow_runs import Issuer, event, start

pytestmark = pytest.mark.xdist_group("hostile-runs")
LINE = "/approve-capture model=acme/tiny;c=4;p=2;mt=16;lt=0;lf=0.0000"
NASTY = (
    "${{ github.token }}", "`touch pwned`", "$(touch pwned)", "x\r\ndecision=approve", "x\n::set-output name=a::b",
    "EOF\ndecision<<EOF\napprove\nEOF", "##[add-path]/tmp", "'; touch pwned #", '"; touch pwned #', "| touch pwned",
    "&& touch pwned", "\U0001f680", "--broker=http://127.0.0.1:1", "-", "~", "*", "../../etc/passwd",
)  # fmt: skip
INPUTS = (
    "GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH", "GITOPS_BOT_URL", "ACTIONS_ID_TOKEN_REQUEST_URL",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
)  # fmt: skip
OUTPUTS = re.compile(
    r"(?:(decision|reason|ask)<<(gitops-bot-[0-9a-f]{32})\n[a-z_]*\n\2\n){3}", re.ASCII
)  # the three of them, each between lines that nobody could know
ACTION = ROOT / ".github" / "actions" / "handle-event"


@dataclass
class Runner:
    """A runner with a folder of its own, and an issuer of tokens that it knows."""

    folder: Path
    issuer: Issuer

    def environment(self, **changes: str) -> dict[str, str]:
        """Give what a step is told."""
        for name in ("output", "summary"):
            (self.folder / name).write_text("")
        (self.folder / "event.json").write_bytes(event(5, 7, LINE))
        return {
            "PATH": os.environ["PATH"],
            "GITHUB_EVENT_NAME": "issue_comment",
            "GITHUB_EVENT_PATH": str(self.folder / "event.json"),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
            "GITOPS_BOT_URL": "",
            **self.issuer.environment(),
            **changes,
        }

    def run(self, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
        """Run a step; nothing but its files was written, and it says nothing that the runner obeys."""
        known = {path.name for path in self.folder.iterdir()}
        done = subprocess.run(command, capture_output=True, env=environment, cwd=self.folder, timeout=120)
        assert {path.name for path in self.folder.iterdir()} == known
        for line in (done.stdout + done.stderr).decode().splitlines():
            assert not line.lstrip().startswith(("::", "##[")), line
            assert "Traceback" not in line
        return done

    def written(self, name: str = "output") -> str:
        """Read what a step wrote."""
        return (self.folder / name).read_text("utf-8")


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    issuer = start()
    yield Runner(tmp_path, issuer)
    issuer.close()


COMMAND = [sys.executable, "-P", "-m", "gitops_bot.cli", "handle-event"]


@pytest.mark.slow  # a process for each text in each input
@pytest.mark.parametrize("name", INPUTS)
def test_nothing_in_an_input_runs_or_is_written(runner: Runner, name: str) -> None:
    plain = runner.run(COMMAND, runner.environment())
    assert (plain.returncode, plain.stdout) == (0, b"decision=pending reason=no_broker ask=\n")
    assert OUTPUTS.fullmatch(runner.written())
    for text in NASTY:
        url = {} if name == "GITOPS_BOT_URL" else {"GITOPS_BOT_URL": "http://127.0.0.1:9"}
        done = runner.run(COMMAND, runner.environment(**{**url, name: text}))
        assert done.returncode in (0, 1), text
        written = runner.written()
        assert written == "" if done.returncode else OUTPUTS.fullmatch(written), text
        assert "approve" not in written
        assert b"\n::" not in done.stdout
        assert len(done.stdout.splitlines()) == (0 if done.returncode else 1)
        assert (text not in runner.written("summary")) or len(text) == 1


@pytest.mark.slow  # as above
@pytest.mark.parametrize("option", [True, False], ids=["as an option", "from the environment"])
def test_an_address_of_a_broker_is_an_address_or_refused(runner: Runner, option: bool) -> None:
    for text in NASTY:
        url = f"https://{text}"
        more, changes = ([f"--broker={url}"], {}) if option else ([], {"GITOPS_BOT_URL": url})
        done = runner.run([*COMMAND, *more], runner.environment(**changes))
        assert (done.returncode, runner.written()) == (1, "") or OUTPUTS.fullmatch(runner.written()), text
    assert runner.issuer.asked.get("/idtoken", 0) <= 3, "no token is asked for what is no address"


@pytest.mark.slow  # as above
@pytest.mark.parametrize("name", ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_EVENT_PATH"])
def test_a_file_is_the_one_that_is_named_whatever_its_name(runner: Runner, name: str) -> None:
    for text in NASTY:
        path = runner.folder / text.replace("/", "_")
        if path.is_dir():
            continue  # the folder itself, and the one above
        environment = runner.environment()
        path.write_bytes(event(5, 7, LINE) if name == "GITHUB_EVENT_PATH" else b"")
        done = runner.run(COMMAND, {**environment, name: str(path)})
        assert (done.returncode, done.stdout) == (0, b"decision=pending reason=no_broker ask=\n"), text
        if name != "GITHUB_EVENT_PATH":
            assert path.stat().st_size > 0
            assert (runner.folder / {"GITHUB_OUTPUT": "output"}.get(name, "summary")).stat().st_size == 0


@pytest.mark.slow  # as above
def test_the_action_s_shell_line_runs_nothing_of_what_it_is_given(runner: Runner, tmp_path: Path) -> None:
    """The line itself, in the shell that the runner takes (GitHub, workflow syntax: `shell: bash`), with the input, the
    runner's folder and the action's own folder named as badly as can be."""
    steps = yaml.safe_load((ACTION / "action.yml").read_text("utf-8"))["runs"]["steps"]
    step = next(step for step in steps if step.get("id") == "handle")
    assert step["env"] == {"GITOPS_BOT_URL": "${{ inputs.broker }}"}
    # The program that this test runs with is the one that the line finds as `python`.
    found = tmp_path / "bin"
    found.mkdir()
    (found / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (found / "python").chmod(0o755)
    (tmp_path / "step.sh").write_text(step["run"])
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(tmp_path / "step.sh")]
    for text in ("", *NASTY):
        folder = tmp_path / f"a {text.replace('/', '_')}"
        folder.symlink_to(ACTION)
        environment = runner.environment(
            GITOPS_BOT_URL=text,
            GITHUB_ACTION_PATH=str(folder),
            RUNNER_TEMP=str(tmp_path / f"t {text.replace('/', '_')}"),
            PATH=f"{found}:{os.environ['PATH']}",
        )
        done = runner.run(shell, environment)
        assert done.returncode == (1 if text else 0), (text, done.stderr)
        assert runner.written() == "" if text else OUTPUTS.fullmatch(runner.written())
