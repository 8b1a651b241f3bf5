"""A look of the channel in a process of its own, so that what it takes of memory and processor can be told.

Run as a program it looks at every branch that a court's stage has, under the bundle that was written beside it.
"""

import json
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitops_bot.process import run
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from tests.signed_bundle import write_bundle
from tests.signed_court import Court
from tests.store_fixtures import FreshDatabase

ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Spent:
    """What a look took: the most memory at a time of the process and of the largest that it started, in MiB; seconds
    of processor of all; commits that it judged."""

    own: int
    largest_child: int
    cpu: float
    judged: int


def looked(court: Court, database: FreshDatabase, files: Mapping[str, bytes]) -> Spent:
    """Let a process look at the court's branches until nothing is left."""
    write_bundle(files, court.folder / "bundle")
    options = json.dumps(database.options)
    argv = [sys.executable, "-m", "tests.signed_bounded", str(court.folder), database.url(Role.BROKER), options]
    done = run([*argv, str(court.homes)], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, timeout=1_200)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return Spent(**json.loads(done.stdout))


def main(folder: Path, url: str, options: str, homes: Path) -> Spent:
    """Look."""
    database = Database.open(url, Role.BROKER, **json.loads(options))
    court = Court(folder, database, homes=homes)
    bundle = folder / "bundle"
    court._load({str(path.relative_to(bundle)): path.read_bytes() for path in bundle.rglob("*") if path.is_file()})
    looker, judged, more = court.looker(), 0, True
    while more:
        told = looker.look()
        judged, more = judged + told.judged, told.more
    looker.close()
    database.close()
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return Spent(_highest() // 1024, children.ru_maxrss // 1024, round(cpu, 2), judged)


def _highest() -> int:
    """Give the most memory that this program held, in KiB; `ru_maxrss` counts what the parent held when it started us
    (getrusage(2), exec)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))


if __name__ == "__main__":
    spent = main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    print(json.dumps({name: getattr(spent, name) for name in spent.__slots__}))
