"""The import contracts of `.importlinter` hold, and they see every room."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import ROOT, product

# Every folder and file of the design, whether it is built yet or not.
ROOMS = {
    "api", "authority", "bootstrap", "bridge", "broker", "capture", "cli", "config", "core", "demo", "fleet",
    "forge", "harness", "inturn", "loop", "measure", "notify", "policy", "ports", "process", "sandbox", "settings",
    "signed", "slots", "store", "tui", "verbs",
}  # fmt: skip


def contracts() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter", encoding="utf-8")
    return parser


def lint(where: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "lint-imports"
    return subprocess.run([str(program), "--no-cache", "--no-logo"], cwd=where, capture_output=True, text=True)


def test_the_contracts_hold() -> None:
    linted = lint(ROOT)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_every_room_of_the_design_has_its_place() -> None:
    layers = contracts()["importlinter:contract:layers"]
    assert layers.getboolean("exhaustive")
    assert set(re.findall(r"[a-z]+", layers["layers"])) == ROOMS


def test_no_room_stands_outside_the_design() -> None:
    present = {
        source.path.split("/")[1].removesuffix(".py") for source in product() if source.path.startswith("gitops_bot/")
    }
    assert present - ROOMS <= {"__init__", "__main__"}


def test_contracts_name_what_exists() -> None:
    """A contract about a module that is not there holds for ever; only an expression with a star may wait."""
    names = {source.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for source in product()}
    missing = set()
    for section in contracts().sections()[2:]:
        for key in ("source_modules", "forbidden_modules", "protected_modules", "allowed_importers"):
            expressions = contracts()[section].get(key, "").split()
            missing |= {name for name in expressions if "*" not in name and name not in names}
    assert missing == set()


# (importing module, imported module): what no contract may let through.
VIOLATIONS = [
    ("gitops_bot.core.asks", "gitops_bot.policy.rules"),
    ("gitops_bot.store.asks", "gitops_bot.forge.drafts"),
    ("gitops_bot.authority.asking", "gitops_bot.broker.daemon"),
    ("gitops_bot.ports", "gitops_bot.process"),
    ("gitops_bot.bootstrap.broker", "workspace.edge"),
    ("gitops_bot.broker.daemon", "gitops_bot.forge.client"),
    ("gitops_bot.cli.main", "gitops_bot.capture.local"),
    ("gitops_bot.fleet.tick", "gitops_bot.harness.acp"),
    ("gitops_bot.fleet.tick", "gitops_bot.verbs.http"),
    ("workspace.edge", "gitops_bot.bridge.client"),
    ("gitops_bot.authority.settling", "gitops_bot.store.grants"),
    ("gitops_bot.signed.votes", "gitops_bot.store.grants"),
    ("workspace.edge", "gitops_bot.signed.mint"),
    ("gitops_bot.bootstrap.workspace", "gitops_bot.signed.mint"),
    ("gitops_bot.bootstrap.approver", "gitops_bot.signed.mint"),
    ("gitops_bot.fleet.tick", "gitops_bot.signed.mint"),
    ("gitops_bot.tui.app", "gitops_bot.signed.mint"),
    ("gitops_bot.cli.ask", "gitops_bot.signed.mint"),
    ("gitops_bot.cli.approval", "gitops_bot.bootstrap.broker"),
    ("gitops_bot.loop.driver", "gitops_bot.store.asks"),
    ("gitops_bot.loop.driver", "gitops_bot.authority.asking"),
    ("gitops_bot.measure.endpoint", "gitops_bot.policy.rules"),
]
ALLOWED = [
    ("gitops_bot.bootstrap.broker", "gitops_bot.forge.client"),
    ("gitops_bot.bootstrap.broker", "gitops_bot.signed.mint"),
    ("gitops_bot.signed.mint", "gitops_bot.store.grants"),
    ("gitops_bot.authority.settling", "gitops_bot.store.grants_read"),
    ("gitops_bot.loop.driver", "gitops_bot.bridge.grammar"),
    ("workspace.edge", "gitops_bot.bootstrap.workspace"),
]


LEAF = "grammar"


def _lint_skeleton(where: Path, imports: list[tuple[str, str]]) -> subprocess.CompletedProcess[str]:
    """Lay out empty rooms, all of the design, with some imports in them, and lint that."""
    lines: dict[str, list[str]] = {module: [] for pair in VIOLATIONS + ALLOWED for module in pair}
    sources = contracts()["importlinter:contract:mint"]["source_modules"].split()
    lines |= {f"{source}.{LEAF}": [] for source in sources if "*" not in source and source.count(".") < 2}
    lines |= {source: [] for source in sources if "*" not in source and source.count(".") == 2}
    lines |= {f"gitops_bot.{room}.grammar": [] for room in sorted(ROOMS - {"config", "ports", "process"})}
    lines |= {"gitops_bot.config": [], "gitops_bot.process": [], "gitops_bot.bootstrap.loop": [], "workspace.inbox": []}
    for importer, target in imports:
        lines.setdefault(importer, []).append(f"import {target}")
    for module, body in lines.items():
        path = where / (module.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in path.relative_to(where).parents:
            if folder.name:
                (where / folder / "__init__.py").touch()
        path.write_text("\n".join(body), encoding="utf-8")
    shutil.copy(ROOT / ".importlinter", where)
    return lint(where)


def test_the_design_itself_passes(tmp_path: Path) -> None:
    linted = _lint_skeleton(tmp_path, ALLOWED)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_every_forbidden_import_is_named(tmp_path: Path) -> None:
    linted = _lint_skeleton(tmp_path, [*VIOLATIONS, ("gitops_bot.unplanned", "gitops_bot.core.asks")])
    assert linted.returncode == 1
    named = set(re.findall(r"([\w.]+) -> ([\w.]+)", linted.stdout))
    assert [pair for pair in VIOLATIONS if pair not in named] == []
    assert "gitops_bot.unplanned" in linted.stdout
    # All but the settings and the contract on cycles, which has its own test.
    assert linted.stdout.count(" BROKEN") == len(contracts().sections()) - 2, linted.stdout


def test_a_cycle_inside_a_room_is_named(tmp_path: Path) -> None:
    cycle = [("gitops_bot.store.asks", "gitops_bot.store.due"), ("gitops_bot.store.due", "gitops_bot.store.asks")]
    linted = _lint_skeleton(tmp_path, cycle)
    assert linted.returncode == 1
    assert "No cycles inside a room BROKEN" in linted.stdout, linted.stdout
