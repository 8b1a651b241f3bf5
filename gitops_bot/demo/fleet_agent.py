"""The fleet demo's agents as one command: a turn of the one that is named, in the folder it is started in.

Each reads its capsule from standard input, works with real tools on its clone, leaves commits, and speaks by markers
(docs/agent-protocol.md). They keep nothing between turns but their commits, and have no way in that others lack. What
a model would think is written down here; what they run, what it says, and what is committed is real.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gitops_bot.config import agent_environment
from gitops_bot.core.errors import Unavailable
from gitops_bot.demo.fleet_files import MAIN, branch
from gitops_bot.demo.fleet_tools import Capsule, Clone, read_capsule, say
from gitops_bot.process import run

MAX_CAPSULE: Final = 1024 * 1024
FORMATTED: Final = ("data/limits.json", "data/stations.json", "README.md", "docs/scales.md")
LINTED: Final = "thermo/scales.py"
ACCEPTED: Final = "LINT.md"
CHOICES: Final = ("compare by value", "leave it as it is")
TESTS: Final = "tests/test_points.py"
BROKEN: Final = "thermo/convert.py"
NOTES: Final = "CHANGELOG.md"
SECONDS: Final = 60.0
_POINTS: Final = """\
import unittest

from thermo.convert import to_fahrenheit


class FixedPoints(unittest.TestCase):
    def test_water_boils(self):
        self.assertEqual(to_fahrenheit(100), 212)

    def test_the_scales_meet(self):
        self.assertEqual(to_fahrenheit(-40), -40)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Take one turn. Gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gitops_bot.demo.fleet_agent", description=__doc__)
    parser.add_argument("slug", choices=sorted(_TURNS))
    parser.add_argument("--pace", type=float, default=0.0, metavar="S", help="seconds that each step takes at least")
    parser.add_argument("--life", default="1h", metavar="TIME", help="how long the releaser's question may wait")
    flags = parser.parse_args(arguments)
    capsule = read_capsule(sys.stdin.buffer.read(MAX_CAPSULE).decode("utf-8", "replace"))
    try:
        clone = Clone(Path(), flags.slug)
        say(f"OUTCOME: {_TURNS[flags.slug](clone, capsule, flags)}")
    except Unavailable as error:
        sys.stderr.write(f"{flags.slug}: {error}\n")
        return 1
    return 0


def _format(clone: Clone, _capsule: Capsule, flags: argparse.Namespace) -> str:
    """Format file by file, a commit and a report each; what an earlier body of this turn did is reported again."""
    done = 0
    for name in FORMATTED:
        message = f"Format {name}"
        text = clone.formatted(name)
        if text != clone.read(name):
            time.sleep(flags.pace)
            clone.commit(name, text, message)
            clone.push()
        elif not clone.committed(message):
            continue
        done += 1
        say(f"REPORT: formatted {name}")
    clone.push()
    say(f"{done} files formatted on {branch('formatter')}.")
    return "WORK_DONE" if done else "NO_WORK"


def _lint(clone: Clone, capsule: Capsule, _flags: argparse.Namespace) -> str:
    """Ask a person what to do about a complaint, and do what they decided."""
    complaint = clone.complaint(LINTED)
    if not complaint or clone.has(ACCEPTED):
        return "NO_WORK"
    decided = next((one for one in capsule.decisions if one.label in CHOICES), None)
    if decided is None:
        say(f"The compiler complains, and both ways change what the program means to its callers.\n{complaint}")
        say(f"ASK: {complaint} What shall I do?")
        say(f"OPTIONS: {' | '.join(CHOICES)}")
        return "BLOCKED"
    if decided.label == CHOICES[0]:
        fixed = clone.read(LINTED).replace(' is "K"', ' == "K"')
        made = clone.commit(LINTED, fixed, f"Compare scales by value, as {decided.by} decided")
    else:
        made = clone.commit(ACCEPTED, f"- {complaint}\n", f"Accept a complaint, as {decided.by} decided")
    clone.push()
    left = clone.complaint(LINTED)
    say(f"REPORT: {made}: {decided.label}, as {decided.by} decided; the compiler says: {left or 'nothing'}")
    return "WORK_DONE"


def _test(clone: Clone, capsule: Capsule, _flags: argparse.Namespace) -> str:
    """Write tests that are missing; let the fixer know what fails, and look at what it did."""
    if any(author == "fixer" for author, _ in capsule.inbox):
        clone.git("merge", "--quiet", "--ff-only", f"origin/{branch('fixer')}")
        ran, failed = clone.failures()
        clone.push()
        say(f"REPORT: {ran} tests with the fixer's commit: {failed or 'all pass'}")
        return "WORK_DONE"
    if clone.has(TESTS):
        return "NO_WORK"
    made = clone.commit(TESTS, _POINTS, "Test conversions at fixed points")
    ran, failed = clone.failures()
    clone.push()
    say(f"REPORT: {made}: {ran} tests ran; {failed or 'all pass'}")
    if failed:
        say(f"SEND: @fixer {branch('tester')} has a test that fails. {failed}")
    return "WORK_DONE"


def _fix(clone: Clone, capsule: Capsule, _flags: argparse.Namespace) -> str:
    """Take the tester's branch, mend what its test shows, and say so."""
    if not any(author == "tester" for author, _ in capsule.inbox):
        return "NO_WORK"
    clone.git("merge", "--quiet", "--ff-only", f"origin/{branch('tester')}")
    _, before = clone.failures()
    if before:
        fixed = clone.read(BROKEN).replace("* 9 / 5 + 30", "* 9 / 5 + 32")
        clone.commit(BROKEN, fixed, "Let water boil at 212 degrees Fahrenheit")
    ran, failed = clone.failures()
    clone.push()
    say(f"REPORT: before: {before or 'all pass'}; now {ran} tests: {failed or 'all pass'}")
    say(f"SEND: @tester mended on {branch('fixer')}; look again")
    return "WORK_DONE" if not failed else "BLOCKED"


def _release(clone: Clone, capsule: Capsule, flags: argparse.Namespace) -> str:
    """Draft the notes, and ask whether the version is to be tagged; without a verdict nothing is."""
    tag = f"v{clone.read('VERSION').strip()}"
    decided = next((one for one in reversed(capsule.decisions)), None)
    if decided is not None:
        if decided.state == "ANSWERED" and decided.label == "tag it":
            clone.git("tag", "--force", "--annotate", "--message", f"Decided by {decided.by}", tag, "HEAD")
            clone.git("push", "--quiet", "--force", "origin", f"refs/tags/{tag}")
            say(f"REPORT: tagged {tag}, as {decided.by} decided")
            return "WORK_DONE"
        say(f"REPORT: {tag} is not tagged: the question ended as {decided.state}")
        return "NO_WORK"
    if not clone.has(NOTES):
        lines = clone.git("log", "--format=- %s", f"origin/{MAIN}")
        made = clone.commit(NOTES, f"# {tag}\n\n{lines}", f"Draft the notes of {tag}")
        say(f"REPORT: {made}: the notes of {tag} are drafted")
    clone.push()
    known = agent_environment()
    here = {name: known[name] for name in ("GITOPS_BOT_URL", "GITOPS_BOT_TOKEN")}
    ask = ("ask", "open", f"Is {tag} to be tagged?", "--option", "tag it", "--option", "not yet")
    words = (sys.executable, "-m", "gitops_bot.cli", *ask, "--expires-in", flags.life, "--key", tag)
    done = run(words, cwd=Path(), env=here, timeout=SECONDS)
    if done.returncode != 0:
        raise Unavailable(f"gitops-bot ask open: {done.stderr.decode('utf-8', 'replace').strip()[-300:]}")
    say(f"Asked by `gitops-bot ask open`: {done.stdout.decode('utf-8').strip()}, which waits for {flags.life} at most.")
    return "WORK_DONE"


_TURNS: Final[Mapping[str, Callable[[Clone, Capsule, argparse.Namespace], str]]] = MappingProxyType(
    {"formatter": _format, "linter": _lint, "tester": _test, "fixer": _fix, "releaser": _release}
)


if __name__ == "__main__":
    sys.exit(main())
