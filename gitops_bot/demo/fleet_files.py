"""The files of the fleet demo: its policy, its settings, a small project in a bare repository, a clone for each agent.

Each agent's folder is all that its bodies may write; they push over loopback to a git daemon, as to any forge.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gitops_bot.demo.files import private
from gitops_bot.demo.people import do

PRINCIPAL: Final = "demo-agent"
OWNER: Final = "alice"
PROJECT: Final = "thermo.git"
MAIN: Final = "main"
SLUGS: Final = ("formatter", "linter", "tester", "fixer", "releaser")
GIT_ALONE: Final = MappingProxyType({"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/"})
"""What git finds in its environment here: no settings of whoever runs the demo."""

_POLICY: Final = """\
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
channels = ["workspace"]
voters = { owner = true }
expires = "1h"             # an ask may have less time than this, and never more
"""

FILES: Final = MappingProxyType(
    {
        ".gitignore": "__pycache__/\n",
        "README.md": (
            "# thermo   \n\n\n\nTemperatures, from one scale to another.  \n\nRun `python -m unittest`.\t\n\n\n"
        ),
        "VERSION": "1.1.0\n",
        "data/limits.json": '{"water":{"boils":100,"freezes":0},"iron":{"melts":1538,"boils":2862}}\n',
        "data/stations.json": '[{"name":"north","celsius":[-4,-2.5,0]},\n   {"name":"south","celsius":[11,12.5,19]}]\n',
        "docs/scales.md": "# Scales\n\n- Celsius \t\n- Kelvin\n\n\n\n- Fahrenheit  \n",
        "tests/__init__.py": "",
        "tests/test_convert.py": """\
import unittest

from thermo.convert import to_kelvin


class Kelvin(unittest.TestCase):
    def test_water_freezes(self):
        self.assertEqual(to_kelvin(0), 273.15)
""",
        "thermo/__init__.py": "",
        "thermo/convert.py": """\
def to_kelvin(celsius):
    return celsius + 273.15


def to_fahrenheit(celsius):
    return celsius * 9 / 5 + 30
""",
        "thermo/scales.py": """\
from thermo import convert


def shown(celsius, scale):
    if scale is "K":
        return f"{convert.to_kelvin(celsius):.2f} K"
    return f"{celsius:.2f} °C"
""",
    }
)
"""A project as one finds it: data on one line, blanks at the ends of lines, a comparison that is true by luck, and a
conversion that is wrong by two degrees and has no test."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where everything of one fleet demo lies."""

    root: Path

    @property
    def config(self) -> Path:
        """The settings of broker and workspace."""
        return self.root / "gitops-bot.toml"

    @property
    def policies(self) -> Path:
        """The bundle."""
        return self.root / "policies"

    @property
    def state(self) -> Path:
        """The state of broker and workspace."""
        return self.root / ".gitops-bot"

    @property
    def served(self) -> Path:
        """The folder that the git daemon serves."""
        return self.root / "git"

    @property
    def project(self) -> Path:
        """The bare repository that everybody pushes to."""
        return self.served / PROJECT

    def folder(self, slug: str) -> Path:
        """The folder of an agent: its home, with its clone in it."""
        return self.root / "agents" / slug


def begin(place: Place) -> None:
    """Write the policy, and the project with its first commit.

    Raises:
        Unavailable: git fails.
    """
    place.state.mkdir(mode=0o700)
    place.served.mkdir(mode=0o700)
    private(place.policies / "policy.toml", _POLICY)
    seed = place.root / "seed"
    for name, text in FILES.items():
        (seed / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (seed / name).write_text(text, "utf-8")
    _git(place.root, "init", "--quiet", f"--initial-branch={MAIN}", str(seed))
    _name(seed, OWNER)
    _git(seed, "add", "--all")
    _git(seed, "commit", "--quiet", "--message", "Convert temperatures")
    _git(place.root, "clone", "--quiet", "--bare", str(seed), str(place.project))


def clones(place: Place, remote: str) -> None:
    """Clone the project for each agent, on a branch of its own.

    Raises:
        Unavailable: git fails, or the daemon does not serve it.
    """
    for slug in SLUGS:
        clone = place.folder(slug) / "thermo"
        clone.parent.mkdir(mode=0o700, parents=True)
        _git(place.root, "clone", "--quiet", remote, str(clone))
        _name(clone, slug)
        _git(clone, "switch", "--quiet", "--no-track", "--create", branch(slug))


def branch(slug: str) -> str:
    """Give the branch that an agent pushes to."""
    return f"agents/{slug}"


def commits(place: Place, slug: str) -> list[str]:
    """List what an agent pushed beyond the main branch, newest first, as `git log --oneline` does; merges of others'
    work and their commits are not its own."""
    wanted = f"refs/heads/{branch(slug)}"
    if not _git(place.project, "for-each-ref", wanted):
        return []
    return _git(place.project, "log", "--oneline", f"--author=^{slug} ", f"{MAIN}..{wanted}").splitlines()


def write_settings(place: Place, port: int, isolation: str) -> None:
    """Write the settings of broker and workspace."""
    text = f"""\
policies = "policies"
repository = "github.com/acme/thermo"

[signed]
environment = "demo"

[workspace]
bind = "127.0.0.1:{port}"
name = "demo"
passkey_rest = "0"         # nobody else can come in here; elsewhere a new passkey rests for a day

[fleet]
isolation = {json.dumps(isolation)}
"""
    private(place.config, text)


def _name(clone: Path, slug: str) -> None:
    _git(clone, "config", "user.name", slug)
    _git(clone, "config", "user.email", f"{slug}@example.org")


def _git(folder: Path, *words: str) -> str:
    return do(("git", *words), folder, GIT_ALONE)
