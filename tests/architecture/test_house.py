"""The house's rules of size, naming and style, where no linter knows them."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.tree import PRODUCT, ROOT, Source, product, sources, tracked

MODULE_LINES = 400
FUNCTION_LINES = 60
DRAWERS = {"utils", "util", "helpers", "helper", "common", "base", "misc", "manager", "managers", "shared"}
# Modules and functions over their budget, each with its reason. There are none.
MODULES_OVER_BUDGET: dict[str, str] = {}
FUNCTIONS_OVER_BUDGET: dict[str, str] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(source: Source) -> Iterator[Function]:
    return (node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def public(source: Source) -> Iterator[ast.ClassDef | Function]:
    """The public functions, classes and methods of a module."""
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node
            for part in node.body:
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and not part.name.startswith("_"):
                    yield part


def test_the_walk_sees_the_product() -> None:
    """The other tests here mean something only when there is something to look at."""
    assert len(product()) > 10
    assert {source.path.split("/")[0] for source in product()} == set(PRODUCT)


def test_modules_stay_within_their_budget() -> None:
    over = {s.path: n for s in product() if (n := s.text.count("\n")) > MODULE_LINES}
    assert over.keys() == MODULES_OVER_BUDGET.keys(), over


def test_functions_stay_within_their_budget() -> None:
    over = {
        f"{source.path}:{node.name}": length
        for source in product()
        for node in functions(source)
        if (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES
    }
    assert over.keys() == FUNCTIONS_OVER_BUDGET.keys(), over


def test_every_module_says_what_it_establishes() -> None:
    silent = [s.path for s in sources(*PRODUCT, "tests") if s.text.strip() and not ast.get_docstring(s.tree)]
    assert silent == []


def test_every_public_name_is_documented() -> None:
    silent = [
        f"{source.path}:{node.name}"
        for source in product()
        for node in public(source)
        if not ast.get_docstring(node) and "overload" not in {ast.unparse(d) for d in node.decorator_list}
    ]
    assert silent == []


def test_no_module_is_a_drawer() -> None:
    parts = {part for s in product() for part in s.path.removesuffix(".py").split("/")}
    assert parts & DRAWERS == set()


def test_nothing_is_caught_blindly() -> None:
    """Anything but the four typed errors is our bug and reaches the top."""
    blind = [
        f"{source.path}:{node.lineno}"
        for source in product()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"})
    ]
    assert blind == []


def test_package_files_hold_nothing_but_their_docstring() -> None:
    """Importing a room must not import what is in it: commands start in under 300 ms, and nothing happens at import."""
    allowed = {"gitops_bot/__init__.py", "gitops_bot/cli/__init__.py", "workspace/__init__.py"}
    busy = [
        source.path
        for source in product()
        if source.path.endswith("/__init__.py") and source.path not in allowed and len(source.tree.body) > 1
    ]
    assert busy == []


IGNORE = re.compile(r"#\s*(?:noqa|type:\s*ignore|pragma:)[^#\n]*(?P<rest>#.*)?$", re.MULTILINE)
BARE = re.compile(r"#\s*noqa(?!:)|#\s*type:\s*ignore(?!\[)")


def test_every_ignore_names_its_rule_and_its_reason() -> None:
    faults = []
    for source in sources(*PRODUCT, "tests", "tools", "benchmarks"):
        for line in source.text.splitlines():
            found = IGNORE.search(line) if "#" in line else None
            if found is None or "re.compile" in line:
                continue
            if BARE.search(line) or len((found["rest"] or "").strip("# ")) < 8:
                faults.append(f"{source.path}: {line.strip()}")
    assert faults == []


FORBIDDEN_WORDS = {
    # A path of the machine that something was written on.
    "machine path": re.compile(r"/(?:work|home|Users)/(?!\.\.\.)[A-Za-z.]"),
    "package index": re.compile(r"(?:pypi\.org|pythonhosted|npmjs\.(?:org|com)|index-url|find-links)"),
    "unfinished work": re.compile(r"\b(?:TO" + "DO|FIX" + r"ME|XX" + r"X)\b"),
}
WORDS_ALLOWED = {
    ("tools/lock.sh", "package index"),  # tells uv to leave index addresses out of the lock
    ("requirements/build.txt", "package index"),  # uv writes its command line into the lock's first lines
    ("requirements/runtime.txt", "package index"),
    ("requirements/dev.txt", "package index"),
    ("tools/bench-fleet.sh", "package index"),  # as tools/lock.sh
    ("benchmarks/requirements-fleet.txt", "package index"),
    ("tests/architecture/test_house.py", "machine path"),
    ("tests/architecture/test_house.py", "package index"),
}
BINARY = (".png", ".gz", ".gpg", ".sqlite", ".ico", ".woff2")


@pytest.mark.parametrize("name", sorted(FORBIDDEN_WORDS))
def test_nothing_tells_of_the_place_it_was_written_in(name: str) -> None:
    pattern = FORBIDDEN_WORDS[name]
    found = []
    for path in tracked():
        if path.endswith(BINARY) or (path, name) in WORDS_ALLOWED:
            continue
        text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
        found += [f"{path}: {hit[0]!r}" for hit in pattern.finditer(text)]
    assert found == []


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    """A test that does not run protects nothing; what cannot run here is left out by its marker, in the open."""
    excuse = re.compile(r"pytest[.]ski" + r"p|mark[.]ski" + r"p|mark[.]xfai" + r"l|importorski" + "p")
    assert [s.path for s in sources("tests") if excuse.search(s.text)] == []


def test_printing_is_for_commands() -> None:
    printing = [
        f"{source.path}:{node.lineno}"
        for source in product()
        if not source.path.startswith("gitops_bot/cli/")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"print", "input"}
    ]
    assert printing == []
