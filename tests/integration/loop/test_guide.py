"""docs/loop.md does what it says: its files and commands are taken out of the page and run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gitops_bot.loop.grammar import parse_marker
from tests.integration.loop.conftest import Loop

PAGE = (Path(__file__).parents[3] / "docs" / "loop.md").read_text(encoding="utf-8")
BOT = [sys.executable, "-m", "gitops_bot.cli"]


def write_files(folder: Path) -> None:
    """Write each block that is headed by the name of a file."""
    found = re.findall(r"^`([\w./-]+)`:\n\n```\w*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert {name for name, _ in found} == {"work/value", "agent.sh", "judge.sh", "steer.py"}
    for name, text in found:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def commands(kind: str, start: str) -> list[str]:
    """Give the lines of the blocks of a kind that begin so."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith(start)]


def test_the_first_example_runs_as_it_stands(tmp_path: Path) -> None:
    write_files(tmp_path)
    (command,) = commands("console", "gitops-bot")
    words = shlex.split(command.replace("$PWD", str(tmp_path)))
    done = subprocess.run([*BOT, *words[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "work" / "value").read_text().strip() == "7"
    assert (tmp_path / "work" / "state" / "session.jsonl").exists()


def test_the_marker_of_the_page_is_one() -> None:
    (block,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert parse_marker(block.encode()).mode == "block"


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_the_steering_of_the_page_steers(loop: Loop, wanted: str, ask: object, decision: str) -> None:
    write_files(loop.home)
    (block,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    loop.plan(i1={"files": {"PROVISIONING_PENDING.json": block}}, i2={"files": {"value": "9"}})
    loop.start(iterations=2)
    loop.parked()
    (command,) = [line for line in commands("sh", "python3 steer.py") if decision in line]
    words = shlex.split(command)
    done = subprocess.run([sys.executable, *words[1:]], cwd=loop.home, capture_output=True, text=True, timeout=120)
    assert '"ok":true' in done.stdout.splitlines()[-1], done
    assert loop.end() == (0 if decision == "approve" else 2)
