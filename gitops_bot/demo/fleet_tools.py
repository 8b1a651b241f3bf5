"""What an agent of the fleet demo has in its hands: its capsule, its clone with real tools, and lines to say.

A body may be killed at any instant and started again with the same capsule: the lock of a body that is gone is free, a
lock file that its git left is taken away, and a file that it was writing is as it was committed.
"""

import fcntl
import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import Unavailable
from gitops_bot.demo.fleet_files import GIT_ALONE, MAIN, branch
from gitops_bot.process import Completed, run

LOCK: Final = "turn.lock"
SECONDS: Final = 60.0
_DECISIONS: Final = re.compile(
    r"(?m)^=== decisions ([0-9a-f]{32,}) ===\n(.*?)\n^=== end of decisions \1 ===$", re.DOTALL
)
_FIELD: Final = re.compile(r"(?m)^(state|option|by): (.+)$")
_LABEL: Final = re.compile(r"(?m)^label:\n\| agent [a-z0-9-]+: (.+)$")
_INBOX: Final = re.compile(r"(?m)^\| agent ([a-z0-9-]+): (.*)$")
_COMPLAINT: Final = re.compile(r'File "([^"]+)", line ([0-9]+)')


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of an ask: its state, and for a verdict the option, its label and who."""

    state: str
    option: str
    label: str
    by: str


@dataclass(frozen=True, slots=True)
class Capsule:
    """What a turn is told, as far as these agents read it."""

    decisions: tuple[Decision, ...]
    inbox: tuple[tuple[str, str], ...]


def read_capsule(text: str) -> Capsule:
    """Read decisions from between the lines with the token alone, and from the inbox who wrote what."""
    found = _DECISIONS.search(text)
    decided = [] if found is None else re.split(r"(?m)^(?=ask: )", found[2])
    inbox = text.partition("\n## Inbox\n")[2].partition("\n## ")[0]
    return Capsule(
        tuple(_decision(one) for one in decided if one.strip()),
        tuple((one[1], one[2]) for one in _INBOX.finditer(inbox)),
    )


def _decision(text: str) -> Decision:
    fields: Mapping[str, str] = {one[1]: one[2] for one in _FIELD.finditer(text)}
    label = _LABEL.search(text)
    state = fields.get("state", "").partition(" ")[0]
    return Decision(state, fields.get("option", ""), "" if label is None else label[1], fields.get("by", ""))


def say(line: str) -> None:
    """Say one line now."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Clone:
    """An agent's clone, on its branch, held by one turn at a time."""

    def __init__(self, folder: Path, slug: str) -> None:
        """Take the clone, and clear away what a body left that was killed.

        Raises:
            Unavailable: another body of this agent works here.
        """
        self.folder, self._slug = folder / "thermo", slug
        self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Unavailable("another body works in this folder") from error
        (self.folder / ".git" / "index.lock").unlink(missing_ok=True)
        self.git("reset", "--quiet", "--hard")
        self.git("fetch", "--quiet", "origin")

    def close(self) -> None:
        """Let the folder go; the end of a process does."""
        os.close(self._lock)

    def git(self, *words: str, given: bytes = b"") -> str:
        """Run git in the clone; give what it printed.

        Raises:
            Unavailable: it fails.
        """
        done = run(("git", *words), cwd=self.folder, env=GIT_ALONE, stdin=given, timeout=SECONDS)
        if done.returncode != 0:
            raise Unavailable(f"git {words[0]}: {done.stderr.decode('utf-8', 'replace').strip()[-300:]}")
        return done.stdout.decode("utf-8", "replace")

    def read(self, name: str) -> str:
        """Read a file of the project."""
        return (self.folder / name).read_text("utf-8")

    def has(self, name: str) -> bool:
        """Tell whether the project has a file."""
        return (self.folder / name).exists()

    def commit(self, name: str, text: str, message: str) -> str:
        """Write a file and commit it; give the commit's short id.

        Raises:
            Unavailable: git fails.
        """
        (self.folder / name).write_text(text, "utf-8")
        self.git("add", "--", name)
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "--short", "HEAD").strip()

    def committed(self, message: str) -> bool:
        """Tell whether this agent committed something under a message already."""
        return (
            message in self.git("log", "--format=%s", f"--author=^{self._slug} ", f"origin/{MAIN}..HEAD").splitlines()
        )

    def push(self) -> None:
        """Push the branch; pushing it again changes nothing.

        Raises:
            Unavailable: git fails.
        """
        self.git("push", "--quiet", "origin", f"HEAD:refs/heads/{branch(self._slug)}")

    def formatted(self, name: str) -> str:
        """Give a file as its formatter has it: `json.tool` of Python, or `git stripspace`.

        Raises:
            Unavailable: the formatter fails.
        """
        text = (self.folder / name).read_bytes()
        if not name.endswith(".json"):
            return self.git("stripspace", given=text)
        done = self.python("-m", "json.tool", "--indent", "2", "--sort-keys", name)
        if done.returncode != 0:
            raise Unavailable(f"json.tool: {done.stderr.decode('utf-8', 'replace').strip()[-300:]}")
        return done.stdout.decode("utf-8")

    def complaint(self, name: str) -> str:
        """Compile a file with every warning an error, as a linter; give the complaint as one line, or ''."""
        done = self.python("-W", "error", "-m", "py_compile", name)
        if done.returncode == 0:
            return ""
        said = done.stderr.decode("utf-8", "replace").strip()
        where = _COMPLAINT.search(said)
        return f"{name}:{'?' if where is None else where[2]}: {said.splitlines()[-1]}"

    def failures(self) -> tuple[int, str]:
        """Run the project's tests; give how many ran, and what the first failed one says, or ''.

        Raises:
            Unavailable: they cannot be run.
        """
        done = self.python("-m", "unittest", "discover", "--start-directory", "tests", "--top-level-directory", ".")
        said = done.stderr.decode("utf-8", "replace")
        ran = re.search(r"(?m)^Ran ([0-9]+) tests?", said)
        if ran is None:
            raise Unavailable(f"unittest: {said.strip()[-300:]}")
        if done.returncode == 0:
            return int(ran[1]), ""
        failed = re.search(r"(?m)^(?:FAIL|ERROR): (\S+)", said)
        why = re.search(r"(?m)^\w*(?:Error|Exception)\b.*$", said)
        return int(ran[1]), f"{'a test' if failed is None else failed[1]}: {'failed' if why is None else why[0]}"

    def python(self, *words: str) -> Completed:
        """Run Python in the clone."""
        return run((sys.executable, "-B", *words), cwd=self.folder, timeout=SECONDS)


def is_held(folder: Path) -> bool:
    """Tell whether a body works in an agent's folder."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def until_free(folder: Path, seconds: float) -> bool:
    """Wait until no body works in an agent's folder; tell whether it is so in time."""
    until = time.monotonic() + seconds
    while is_held(folder):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
