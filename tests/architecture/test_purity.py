"""Who audits the product reads `core/`, `policy/` and every `grammar.py` and `machine.py`, and has seen every decision.

That holds only while those files compute and do nothing else: no I/O, clock, randomness, logging, third-party library.
"""

import ast
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

import pytest

from tests.architecture.tree import Source, imported, product

# The parts of the standard library that only compute. `datetime` and `time` are here for their types and arithmetic;
# reading the clock is a banned call everywhere.
PURE_LIBRARY: Final = frozenset(
    {
        "__future__",
        "abc",
        "base64",
        "binascii",
        "bisect",
        "collections",
        "collections.abc",
        "contextlib",
        "dataclasses",
        "datetime",
        "decimal",
        "difflib",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "hmac",
        "heapq",
        "html",
        "itertools",
        "json",
        "math",
        "numbers",
        "operator",
        "re",
        "string",
        "struct",
        "textwrap",
        "tomllib",
        "types",
        "typing",
        "unicodedata",
        "urllib.parse",
    }
)
IMPURE_CALLS: Final = frozenset({
    "open", "print", "input", "exec", "eval", "compile", "__import__",
})  # fmt: skip
CLOCKS: Final = frozenset({"now", "utcnow", "today"})
# Pure files that are named for what they make, not for what they read.
NAMED: Final = frozenset({
    "gitops_bot/fleet/capsule.py",
    "gitops_bot/tui/view.py",
    "gitops_bot/signed/barrier.py",
    "gitops_bot/signed/explaining.py",
    "gitops_bot/signed/publication.py",
    "gitops_bot/signed/rendering.py",
})  # fmt: skip


def is_pure(path: str) -> bool:
    """Whether a file's place or name promises purity."""
    name = PurePosixPath(path)
    return (
        path.startswith(("gitops_bot/core/", "gitops_bot/policy/"))
        or name.name in {"grammar.py", "machine.py"}
        or path in NAMED
    )


def module_of(source: Source) -> str:
    """Name a file as it is imported."""
    return source.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


MODULES: Final = {module_of(source): source for source in product()}


def closure(sources: Iterable[Source]) -> tuple[Source, ...]:
    """Add the product's modules that some files import, and those that these import."""
    found: dict[str, Source] = {}
    todo = list(sources)
    while todo:
        source = todo.pop()
        if source.path not in found:
            found[source.path] = source
            todo += [MODULES[name] for name in imported(source.tree) if name in MODULES]
    return tuple(found[path] for path in sorted(found))


def outside(source: Source) -> set[str]:
    """Name what a file imports beside the product and the part of the library that only computes."""
    return {
        name
        for name in imported(source.tree)
        if name.split(".")[0] != "gitops_bot"
        and not any(name == allowed or name.startswith(allowed + ".") for allowed in PURE_LIBRARY)
    }


# What a pure file imports of ours must be as pure as it is.
PURE: Final = closure(source for source in product() if is_pure(source.path))
by_path = pytest.mark.parametrize("source", PURE, ids=lambda s: s.path)


def test_there_are_pure_files() -> None:
    assert any(source.path.startswith("gitops_bot/core/") for source in PURE)


@by_path
def test_pure_files_import_only_what_computes(source: Source) -> None:
    assert outside(source) == set()


@by_path
def test_values_of_pure_files_are_frozen(source: Source) -> None:
    """A value that can change after it was checked is not the value that was checked."""
    mutable = [
        node.name
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
        for mark in map(ast.unparse, node.decorator_list)
        if mark.startswith("dataclass") and ("frozen=True" not in mark or "slots=True" not in mark)
    ]
    assert mutable == []


@by_path
def test_pure_files_call_nothing_that_acts(source: Source) -> None:
    acting = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            acting.append(f"{node.func.id} in line {node.lineno}")
        if isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS:
            acting.append(f".{node.func.attr} in line {node.lineno}")
    assert acting == []


@by_path
def test_pure_files_keep_no_state_between_calls(source: Source) -> None:
    """`global` is how a pure function would remember."""
    kept = [node.lineno for node in ast.walk(source.tree) if isinstance(node, ast.Global | ast.Nonlocal)]
    assert kept == []


def test_an_impure_import_is_seen() -> None:
    """The tests above would also pass if the walk saw nothing."""
    body = "import os\nimport re\nfrom gitops_bot import process\ndef f():\n    import time"
    source = Source("gitops_bot/core/x.py", body, ast.parse(body))
    assert outside(source) == {"os", "time"}
    assert "subprocess" in {name for pure in closure([source]) for name in outside(pure)}


def test_the_sandbox_knows_nothing_of_the_product() -> None:
    """A local forge that shared our code would share our faults, and agree with them."""
    allowed = ("gitops_bot.sandbox", "gitops_bot.process", "gitops_bot.core.errors")
    stray = {
        f"{source.path}: {name}"
        for source in product()
        if source.path.startswith("gitops_bot/sandbox/")
        for name in imported(source.tree)
        if name.startswith("gitops_bot.") and not name.startswith(allowed) and name != "gitops_bot.core"
    }
    assert stray == set()
