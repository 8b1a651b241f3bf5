"""The files of the repository as git knows them, parsed once, for the tests of the house's rules."""

import ast
import gc
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("gitops_bot", "workspace")
MIGRATIONS: Final = "gitops_bot/store/migrations/versions/"


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file: its path from the root, text and syntax tree."""

    path: str
    text: str
    tree: ast.Module


@cache
def tracked() -> tuple[str, ...]:
    """List every file that is committed or would be, by its path from the root."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    paths = sorted({path for path in listing.stdout.decode().split("\0") if path})
    return tuple(path for path in paths if (ROOT / path).is_file())


@cache
def sources(*folders: str) -> tuple[Source, ...]:
    """Parse the Python files below some top folders, generated migrations left out."""
    found = tuple(
        parsed(path)
        for path in tracked()
        if path.endswith(".py") and path.split("/")[0] in folders and not path.startswith(MIGRATIONS)
    )
    # Millions of nodes that live as long as this process: the collector need not look at them at every test.
    gc.freeze()
    return found


@cache
def parsed(path: str) -> Source:
    """Parse one file, once for all who ask."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return Source(path, text, ast.parse(text))


def product() -> tuple[Source, ...]:
    """Parse the Python files of the product."""
    return sources(*PRODUCT)


def imported(tree: ast.Module) -> set[str]:
    """Name every module that a file imports, wherever in it, except for type checking only."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names
