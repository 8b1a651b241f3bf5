"""Workflows and the action: what actionlint says of them, and what must hold whatever it says.

Nothing from outside stands in a shell's line, everything that is used is pinned by its full commit, and a job has the
permissions that it names and no others.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.tree import ROOT

LINTER = ROOT / "tests" / "node" / "actionlint.cjs"
ACTION = ROOT / ".github" / "actions" / "handle-event" / "action.yml"
EXAMPLE = ROOT / "docs" / "examples" / "gitops-bot.yml"
TEMPLATE = ROOT / "gitops_bot" / "bootstrap" / "templates" / "workflow.yml"
PINNED = "OWNER/gitops-bot/.github/actions/handle-event@" + "0" * 40
OWN = [EXAMPLE, TEMPLATE]
WORKFLOWS = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), EXAMPLE, TEMPLATE]
# The linter that npm has is older than this image and this context (GitHub, contexts: `vars`).
TOO_NEW = ('label "ubuntu-24.04" is unknown', 'undefined variable "vars"')


def text(path: Path) -> str:
    """Read a workflow."""
    return path.read_text("utf-8")


def lint(*files: Path) -> list[dict[str, Any]]:
    node = shutil.which("node")
    assert node is not None
    command = [node, str(LINTER), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=LINTER.parent)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return [one for one in found if not one["message"].startswith(TOO_NEW)]


def load(path: Path) -> dict[Any, Any]:
    # YAML 1.1 reads the key `on` as true.
    found: dict[Any, Any] = yaml.safe_load(text(path))
    return {"on" if name is True else name: value for name, value in found.items()}


def steps_of(path: Path) -> list[dict[str, Any]]:
    found = load(path)
    jobs = [found["runs"]] if "runs" in found else list(found["jobs"].values())
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.slow  # `make test` installs the linter, `make check` does without
def test_the_linter_finds_nothing(tmp_path: Path) -> None:
    files = []
    for path in WORKFLOWS:
        copy = tmp_path / f"{path.parent.name}-{path.name}"
        copy.write_text(text(path), "utf-8")
        files.append(copy)
    assert lint(*files) == []


def as_workflow(action: dict[str, Any]) -> str:
    """Put an action's steps into a workflow that is called with its inputs: the linter reads no action by itself."""
    inputs = {name: {"type": "string"} for name in action["inputs"]}
    values = {name: one["value"] for name, one in action["outputs"].items()}
    job = {"runs-on": "ubuntu-22.04", "outputs": values, "steps": action["runs"]["steps"]}
    return yaml.safe_dump({"on": {"workflow_call": {"inputs": inputs}}, "permissions": {}, "jobs": {"handle": job}})


@pytest.mark.slow  # as above
@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("", "", None),
        ("inputs.broker", "inputs.brooker", "expression"),
        ("steps.handle.outputs.decision", "steps.handled.outputs.decision", "expression"),
        ("shell: bash", "shell: bush", "shell-name"),
        ("python -I -m pip", "echo ${{ github.event.comment.body }}; python -I -m pip", "expression"),
        ("id: handle\n", "id: handle\n      with: {}\n", "syntax-check"),
    ],
)
def test_the_linter_finds_nothing_in_the_action_but_what_is_put_in(
    tmp_path: Path, old: str, new: str, kind: str | None
) -> None:
    action = text(ACTION)
    assert old in action
    changed = tmp_path / "workflow.yml"
    changed.write_text(as_workflow(yaml.safe_load(action.replace(old, new, 1))), "utf-8")
    found = {one["kind"] for one in lint(changed)}
    assert found == set() if kind is None else kind in found


@pytest.mark.slow  # as above
@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("- uses:", "- run: echo ${{ github.event.comment.body }}\n      - uses:", "expression"),
        ("timeout-minutes: 5", "timeout-minute: 5", "syntax-check"),
        ("id-token: write", "id-token: always", "permissions"),
        ("types: [created]", "types: [made]", "events"),
        ("github.event.comment.id", "github.evnt.comment.id", "expression"),
    ],
)
def test_the_linter_blames_what_is_wrong(tmp_path: Path, old: str, new: str, kind: str) -> None:
    changed = tmp_path / "workflow.yml"
    changed.write_text(text(EXAMPLE).replace(old, new, 1), "utf-8")
    assert kind in {one["kind"] for one in lint(changed)}
    changed.write_text(text(EXAMPLE), "utf-8")
    assert lint(changed) == []


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: f"{path.parent.name}-{path.name}")
def test_nothing_is_interpolated_into_a_shell_and_all_is_pinned(path: Path) -> None:
    for step in steps_of(path):
        assert "${{" not in step.get("run", "")
        assert "uses" not in step or re.fullmatch(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}", step["uses"])
        assert "github.event" not in json.dumps(step.get("env", {})), "what others wrote is read from the event's file"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_job_has_a_limit_and_names_its_permissions(path: Path) -> None:
    found = load(path)
    assert found["permissions"] == {}
    for job in found["jobs"].values():
        assert 0 < job["timeout-minutes"] <= 60
        assert isinstance(job["permissions"], dict)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_the_workflow_to_copy_may_do_nothing_but_say_who_it_is(path: Path) -> None:
    """No permission on the repository, so nothing can be checked out with it or written; one comment, one run."""
    found = load(path)
    assert found["on"] == {"issue_comment": {"types": ["created"]}}
    (job,) = found["jobs"].values()
    assert job["permissions"] == {"id-token": "write"}
    assert "github.event.issue.pull_request" in job["if"]
    assert [step["uses"].partition("@")[0] for step in job["steps"]] == [PINNED.partition("@")[0]]
    group = (job.get("concurrency") or found["concurrency"])["group"]
    assert "github.event.comment.id" in group, "a run that waits in a group is dropped when another joins it"


def test_init_writes_the_workflow_that_is_offered_for_copying() -> None:
    assert TEMPLATE.read_bytes() == EXAMPLE.read_bytes()


def test_the_action_checks_nothing_out_and_installs_by_hash() -> None:
    steps = steps_of(ACTION)
    assert [step["uses"].partition("@")[0] for step in steps if "uses" in step] == ["actions/setup-python"]
    install = next(step["run"] for step in steps if "pip install" in step.get("run", ""))
    for flag in ("--require-hashes", "--no-deps", "--only-binary :all:"):
        assert flag in install
    locked = (ROOT / "requirements" / "runtime.txt").read_text("utf-8")
    wanted = [line for line in (ACTION.parent / "requirements.txt").read_text("utf-8").splitlines() if line[:1] != "#"]
    assert "\n".join(wanted) in locked
    outputs = load(ACTION)["outputs"]
    assert set(outputs) == {"decision", "reason", "ask"}
