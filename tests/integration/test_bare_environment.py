"""A fresh clone runs the demo where there is nothing but Python, git, gnupg, make and a shell with its base utilities.

Everything else is hidden: the search path holds links to those alone, home is empty, and of the environment only what
tells pip of a package index is kept. What the product starts itself has a search path of its own, the system's.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("git", "gpg", "make", "sh")
# What a shell script of POSIX may count on, as far as `tools/setup.sh` and make do.
BASE = ("cat", "dirname", "env", "grep", "id", "ln", "ls", "mkdir", "mktemp", "mv", "rm", "sed", "uname")
KEPT = ("PIP_", "SSL_", "HTTP_", "HTTPS_", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "REQUESTS_CA_BUNDLE")


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment with a search path of links, and an empty home."""
    programs, home = tmp_path / "bin", tmp_path / "home"
    programs.mkdir()
    home.mkdir()
    for name in (*NEEDED, *BASE):
        found = shutil.which(name)
        assert found is not None, f"{name} is part of the least that there must be"
        (programs / name).symlink_to(found)
    # The interpreter itself, not the virtual environment that runs this test.
    (programs / "python3").symlink_to(Path(sys._base_executable).resolve())  # type: ignore[attr-defined] # CPython's
    kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
    return {**kept, "PATH": str(programs), "HOME": str(home), "LANG": "C.UTF-8"}


@pytest.mark.slow
@pytest.mark.xdist_group("bare")
def test_a_fresh_clone_runs_the_demo_in_a_bare_environment(tmp_path: Path, bare: dict[str, str]) -> None:
    """`make demo AUTO=1`: sets up, plays both asks, ends with scores, and leaves nothing running."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(clone)], check=True, capture_output=True)
    done = subprocess.run(
        ["make", "demo", "AUTO=1"], cwd=clone, env=bare, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "setup: done" in done.stdout
    assert "\nin order, ledger intact\n" in done.stdout
    assert "% lower" in done.stdout
    left = subprocess.run(["pgrep", "-f", str(clone)], capture_output=True, text=True, check=False).stdout
    assert left == "", "processes of the demo are left"
    again = subprocess.run(["make", "setup"], cwd=clone, env=bare, capture_output=True, text=True, check=True)
    assert "installing" not in again.stdout, "a second set-up with nothing changed does nothing"


def test_the_environment_is_bare(bare: dict[str, str]) -> None:
    """The twin: what is hidden there cannot be found, what is needed can."""
    found = {name: shutil.which(name, path=bare["PATH"]) for name in ("git", "python3", "node", "psql", "curl", "pip")}
    assert {name for name, path in found.items() if path} == {"git", "python3"}
