"""A person at their own machine: a home with keys and a global git configuration, and a real terminal to type at.

`Machine.sign` runs the command line in a process with a terminal of its own (a pty), types the answers that a test
gives when it is asked, and gives what was printed and the exit status. Nothing of it is told to the process otherwise.
"""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gitops_bot.bootstrap.approver import Approver, Outcome, Wish, opened
from gitops_bot.bootstrap.approver_profile import read_profile
from gitops_bot.core.asks import AskId
from gitops_bot.core.verdicts import Decision
from gitops_bot.process import run
from tests import signed_keys as keys
from tests.signed_stage import Recipe, SignedStage

CODE: Final = re.compile(r"short code: ([A-Z2-7]{8})")
PATIENCE: Final = 60.0
YES: Final = "yes"
TYPED: Final = "typed"
"""Stands for the short code that was shown."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that ended: its status, and all that the terminal showed."""

    status: int
    screen: str


@dataclass
class Seat:
    """A person who reads what they are shown and types its code; implements `Desk`. `yes` answers the words, `typing`
    happens before the code is typed, `types` is what is typed in its place."""

    yes: bool = True
    types: str | None = None
    typing: Callable[[], object] = lambda: None
    shown: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def show(self, lines: Sequence[str]) -> None:
        """Read."""
        self.shown += lines

    def confirm(self, question: str) -> bool:
        """Answer."""
        self.asked.append(question)
        return self.yes

    def code(self) -> str:
        """Type the code."""
        self.asked.append("code")
        self.typing()
        return CODE.findall(self.text)[-1] if self.types is None else self.types

    @property
    def text(self) -> str:
        """Everything that was shown."""
        return "\n".join(self.shown)


@dataclass
class Machine:
    """One person's machine under `folder`, for a remote. `kind` is how they sign, `key` the name of the test key."""

    folder: Path
    remote: str
    person: str = "alice"
    kind: str = "ssh"
    key: str | None = None
    configured: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the home."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.gnupg = Path(tempfile.mkdtemp(prefix="approver-"))
        settings = {"user.name": self.person.title(), "user.email": f"{self.person}@example.org"}
        name = self.key or self.person
        if self.kind == "ssh":
            file = self.folder / "key"
            file.write_bytes(keys.ssh_path(name).read_bytes())
            file.chmod(0o600)
            settings |= {"gpg.format": "ssh", "user.signingKey": str(file)}
        else:
            keys.run_gpg(self.gnupg, "--import", stdin=keys.secret_file(name))
            settings |= {"user.signingKey": keys.fingerprint(name)}
        for setting, value in {**settings, **self.configured}.items():
            self.set(setting, value)

    def close(self) -> None:
        """End gpg's agent and remove what it had."""
        run(["gpgconf", "--kill", "all"], cwd=Path("/"), env={"GNUPGHOME": str(self.gnupg)}, timeout=30)
        shutil.rmtree(self.gnupg, ignore_errors=True)

    def set(self, setting: str, value: str) -> None:
        """Set something in the global git configuration."""
        done = run(["git", "config", "--global", setting, value], cwd=self.folder, env=self.environment, timeout=30)
        assert done.returncode == 0, done.stderr

    @property
    def environment(self) -> dict[str, str]:
        """What the command line finds in its environment."""
        return {"HOME": str(self.folder), "GNUPGHOME": str(self.gnupg), "TERM": "dumb"}

    @property
    def state(self) -> Path:
        """The one folder that this machine keeps for its remote."""
        (found,) = (self.folder / ".local" / "state" / "gitops-bot" / "approver").iterdir()
        return found

    def run(self, ask: str, decision: str = "approve", seat: Seat | None = None, **options: Any) -> Outcome:
        """Sign in this process, without a wait. `options`: `wait` in seconds, `dry_run`, or flags of the machine."""
        wish = Wish(AskId(ask), Decision(decision), options.pop("wait", 0.0), options.pop("dry_run", False))
        with self.approver(**options) as approver:
            return approver.sign(wish, seat or Seat())

    @contextmanager
    def approver(self, **flags: str) -> Iterator[Approver]:
        """Open the approver's side in this process."""
        environment = {**self.environment, "PATH": os.environ["PATH"]}
        profile = read_profile(environment, {"remote": self.remote, "person": self.person, **flags})
        with opened(profile, environment) as approver:
            yield approver

    def sign(self, *arguments: str, typed: tuple[str, ...] = (YES, TYPED), wait: str = "1s") -> Ran:
        """Run `approval sign`, as for the first time; `typed` answers the questions in their order."""
        of = ("--remote", self.remote, "--person", self.person)
        return self.bot("approval", "sign", *arguments, "--wait", wait, *of, typed=typed)

    def bot(
        self,
        *arguments: str,
        typed: tuple[str, ...] = (),
        stdin: bytes | None = None,
        meanwhile: Callable[[str], bool] | None = None,
    ) -> Ran:
        """Run `gitops-bot …` at a terminal. With `stdin` that is its standard input, while the terminal stays;
        `meanwhile` is called once what was shown satisfies it."""
        argv = [sys.executable, "-m", "gitops_bot.cli", *arguments]
        child, terminal = pty.fork()
        if child == 0:
            try:
                if stdin is not None:
                    reading, writing = os.pipe()
                    os.write(writing, stdin)
                    os.close(writing)
                    os.dup2(reading, 0)
                path = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[1])}
                os.chdir(self.folder)
                os.execve(sys.executable, argv, {**self.environment, **path, "COLUMNS": "400"})
            finally:
                os._exit(127)
        return _attend(child, terminal, list(typed), meanwhile)

    def without_terminal(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run `gitops-bot …` in a session without any terminal."""
        path = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[1])}
        return subprocess.run(
            [sys.executable, "-m", "gitops_bot.cli", *arguments],
            cwd=self.folder,
            env={**self.environment, **path},
            input=stdin,
            capture_output=True,
            start_new_session=True,
            timeout=PATIENCE,
        )


def _attend(child: int, terminal: int, typed: list[str], meanwhile: Callable[[str], bool] | None) -> Ran:
    """Type the answers as they are asked for, until the program ends."""
    screen, answered = "", 0
    end = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            ready, _, _ = select.select([terminal], [], [], 0.1)
            if ready:
                try:
                    more = os.read(terminal, 65536)
                except OSError:  # Linux: the other side is closed
                    break
                if not more:
                    break
                screen += more.decode("utf-8", "replace")
            if meanwhile is not None and meanwhile(screen):
                meanwhile = None
            asked = len(re.findall(r"Type yes: |to sign: ", screen))
            if asked > answered and typed:
                answered += 1
                answer = typed.pop(0)
                shown = CODE.findall(screen)
                os.write(terminal, f"{shown[-1] if answer == TYPED else answer}\n".encode())
            elif asked > answered:
                os.write(terminal, b"\x03")
                answered += 1
        else:
            os.kill(child, signal.SIGKILL)
    finally:
        _, status = os.waitpid(child, 0)
        os.close(terminal)
    return Ran(os.waitstatus_to_exitcode(status), screen.replace("\r\n", "\n"))


def requests_ref(stage: SignedStage) -> str:
    """Name the requests branch."""
    return f"refs/heads/gated/{stage.request.environment}/requests"


def requests_tip(stage: SignedStage) -> str:
    """Give the tip of the requests branch."""
    return str(stage.repository.references[requests_ref(stage)].target)


def plant(
    stage: SignedStage, files: Mapping[str, bytes], *, signer: keys.Signer | None = None, at: int | None = None
) -> str:
    """Put files onto the requests branch in a commit on its tip, signed by the bot unless another signs."""
    above = requests_tip(stage)
    tree = stage.tree_of(above)
    for path, content in files.items():
        tree = stage.grown(tree, path.encode(), stage.blob(content))
    signed = keys.ssh("bot") if signer is None else signer
    when = int(time.time()) if at is None else at
    return stage.point(requests_ref(stage), stage.commit(Recipe(tree, (above,), b"planted\n", "bot", when, signed)))
