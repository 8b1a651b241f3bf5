"""What is installed is what was reviewed: every dependency is locked, every locked file has its hash."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.architecture.tree import ROOT

LOCKS = ("build.txt", "runtime.txt", "dev.txt")
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^ ;\\]+)(?P<rest>.*)$")


def pins(lock: str) -> dict[str, tuple[Version, bool]]:
    """Read a lock: name to version and whether at least one SHA-256 follows."""
    found: dict[str, tuple[Version, bool]] = {}
    name: str | None = None
    for line in (ROOT / "requirements" / lock).read_text(encoding="utf-8").splitlines():
        pin = PIN.match(line)
        if pin is not None:
            name = canonicalize_name(pin["name"])
            found[name] = (Version(pin["version"]), False)
        elif name is not None and re.match(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$", line):
            found[name] = (found[name][0], True)
        else:
            assert line.lstrip().startswith("#"), f"{lock}: neither a pin, a hash nor a comment: {line}"
    return found


def declared(extra: str | None) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(r) for r in (project["optional-dependencies"][extra] if extra else project["dependencies"])]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_a_hash(lock: str) -> None:
    locked = pins(lock)
    assert locked
    assert [name for name, (_, hashed) in locked.items() if not hashed] == []


@pytest.mark.parametrize(
    ("lock", "extra"),
    [("runtime.txt", None), ("runtime.txt", "measure"), ("dev.txt", None), ("dev.txt", "measure"), ("dev.txt", "dev")],
)
def test_every_dependency_is_locked_within_its_range(lock: str, extra: str | None) -> None:
    locked = pins(lock)
    for requirement in declared(extra):
        name = canonicalize_name(requirement.name)
        assert name in locked, f"{requirement} is not in {lock}: run `make lock`"
        assert locked[name][0] in requirement.specifier, f"{requirement} against {locked[name][0]}: run `make lock`"


def test_tests_run_against_what_users_get() -> None:
    runtime, dev = pins("runtime.txt"), pins("dev.txt")
    assert {name: dev.get(name) for name in runtime} == runtime


def test_the_build_takes_its_setuptools_from_the_lock() -> None:
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert [canonicalize_name(Requirement(r).name) for r in asked] == ["setuptools"]
    assert pins("build.txt")["setuptools"][0] in Requirement(asked[0]).specifier


def test_actions_are_pinned_by_commit_and_nothing_is_permitted_by_default() -> None:
    """A tag can be moved by whoever owns the action; a commit cannot."""
    for workflow in sorted(Path(ROOT / ".github" / "workflows").glob("*.y*ml")):
        text = workflow.read_text(encoding="utf-8")
        uses = re.findall(r"uses:\s*(\S+)(.*)", text)
        assert uses
        for action, comment in uses:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) or action.startswith("./"), action
            assert action.startswith("./") or re.search(r"# v\d", comment), action
        assert re.search(r"^permissions: \{\}$", text, re.MULTILINE)
        assert text.count("actions/checkout@") == text.count("persist-credentials: false")
        assert "${{ github.event" not in text and "${{ github.head_ref" not in text
