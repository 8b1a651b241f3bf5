"""Record a command's terminal session: an asciinema cast (version 2), and an SVG of its last screen.

`python tools/record_demo.py` runs the demo in a pseudo-terminal and writes docs/demo.cast and docs/demo.svg; what
follows `--` is run instead. The output must be plain lines, as ours is: nothing here emulates a terminal.
"""

import argparse
import codecs
import html
import json
import os
import pty
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 150, 46
DEMO = (str(ROOT / ".venv" / "bin" / "gitops-bot"), "demo", "--auto")

Event = tuple[float, str]


def record(argv: Sequence[str], tell: Callable[[str], None]) -> tuple[list[Event], int]:
    """Run a command in a pseudo-terminal; give what it wrote and when (s), and its exit status."""
    began = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(argv[0], list(argv))  # noqa: S606 # no shell is wanted; the words are ours
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    events: list[Event] = []
    while True:
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # the child has closed its side (Linux says EIO)
            break
        if not data:
            break
        text = decoder.decode(data)
        events.append((time.monotonic() - began, text))
        tell(text)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return events, os.waitstatus_to_exitcode(status)


def cast(events: Sequence[Event], title: str) -> str:
    """Write a session as asciinema's file format version 2: a header, then a line an event."""
    header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": title, "env": {"TERM": "xterm-256color"}}
    lines: list[object] = [header, *([round(at, 3), "o", text] for at, text in events)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def screen(events: Sequence[Event]) -> list[str]:
    """Give the lines of the last screen."""
    lines = "".join(text for _, text in events).replace("\r", "").rstrip("\n").split("\n")
    folded = [line[at : at + WIDTH] for line in lines for at in range(0, max(len(line), 1), WIDTH)]
    return folded[-HEIGHT:]


def svg(lines: Sequence[str], title: str) -> str:
    """Draw lines as a terminal shows them."""
    across, down = 7.3, 17
    width, height = int(WIDTH * across + 32), (len(lines) + 2) * down + 16
    rows = "\n".join(
        f'<text x="16" y="{(number + 2) * down + 8}" xml:space="preserve">{html.escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">
<title>{html.escape(title)}</title>
<rect width="100%" height="100%" rx="8" fill="#14161b"/>
<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="12" fill="#d7dae0">
{rows}
</g>
</svg>
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Record. Gives the exit status of what was recorded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "demo", help="path without an ending")
    parser.add_argument("--title", default="gitops-bot demo --auto")
    parser.add_argument("command", nargs="*", default=DEMO)
    flags = parser.parse_args(arguments)
    events, status = record(flags.command, lambda text: print(text, end="", flush=True))
    if status == 0:
        flags.into.with_suffix(".cast").write_text(cast(events, flags.title), encoding="utf-8")
        flags.into.with_suffix(".svg").write_text(svg(screen(events), flags.title), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
