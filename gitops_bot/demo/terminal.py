"""Somebody sits at a terminal and signs with `approval sign`: the same command, questions and short code as anybody's.

What is typed depends on what is shown: yes to the words of the policy only when the host prints the same, and the code
that stands under the file. Whatever else is asked is answered with an interrupt.
"""

import os
import re
import select
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gitops_bot.core.errors import Unavailable
from gitops_bot.demo.people import Signer
from gitops_bot.demo.stage import COMMAND
from gitops_bot.process import Child, end_group, start_at_terminal

_CODE: Final = re.compile(r"short code: ([A-Z2-7]{8})\s")
_QUESTION: Final = re.compile(r"Type yes: |to sign: ")
_MOST_SHOWN: Final = 1 << 20
_INTERRUPT: Final = b"\x03"
_LOOK: Final = 0.1


def sign(signer: Signer, arguments: Sequence[str], words: str, *, seconds: float, alive: Callable[[], None]) -> str:
    """Sign as somebody does: `approval sign` with these arguments, at a terminal. `words` are those that the host
    prints of its policy; `alive` is called again and again, and raises when there is no sense in going on. Gives what
    was shown.

    Raises:
        Unavailable: it ended without a receipt that counts, or not in time; the last lines are named.
    """
    argv = (*COMMAND, "approval", "sign", *arguments)
    child, terminal = start_at_terminal(argv, cwd=signer.home, env=signer.environment)
    try:
        screen = _attend(child, terminal, words, seconds, alive)
    finally:
        end_group(child)
        os.close(terminal)
    if child.returncode != 0:
        last = " / ".join(screen.strip().splitlines()[-3:])
        raise Unavailable(f"{signer.name}'s approval sign ended with {child.returncode}: {last[-400:]}")
    return screen


def answer(question: str, screen: str, words: str) -> bytes:
    """Give what is typed to a question, by what stands on the screen."""
    if question.startswith("Type yes"):
        same = words in " ".join(screen.split())
        return b"yes\n" if same else b"no\n"
    shown = _CODE.findall(screen)
    return f"{shown[-1]}\n".encode() if shown else _INTERRUPT


def _attend(child: Child, terminal: int, words: str, seconds: float, alive: Callable[[], None]) -> str:
    screen, answered = "", 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        alive()
        more = _read(terminal)
        if not more and child.poll() is not None:
            return screen
        screen = (screen + more.replace("\r\n", "\n"))[-_MOST_SHOWN:]
        questions = _QUESTION.findall(screen)
        while answered < len(questions):
            os.write(terminal, answer(questions[answered], screen, words))
            answered += 1
    raise Unavailable(f"not signed in {seconds:g} s")


def _read(terminal: int) -> str:
    """Read what is shown now; '' after a short while without anything, and when the other side is closed."""
    if not select.select([terminal], [], [], _LOOK)[0]:
        return ""
    try:
        return os.read(terminal, 65_536).decode("utf-8", "replace")
    except OSError:  # how Linux says that the other side is closed
        time.sleep(_LOOK)
        return ""


def command_line(signer: Signer, arguments: Sequence[str]) -> str:
    """Write the command that somebody types in a terminal of their own to do the same."""
    # The settings of who sits there must not be found in place of the demo's.
    shell = ["env", "-u", "XDG_CONFIG_HOME", "-u", "XDG_STATE_HOME", f"HOME={signer.home}"]
    shell.append(f"GNUPGHOME={signer.home / 'gnupg'}")
    return shlex.join([*shell, *program(), "approval", "sign", *arguments])


def program() -> tuple[str, ...]:
    """Give the command as somebody types it: the installed program, else as this process found it."""
    script = Path(COMMAND[0]).parent / "gitops-bot"
    return (str(script),) if script.is_file() else COMMAND
