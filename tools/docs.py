"""Check the documents: every link resolves, every command they show exists with its options, every decision is listed.

Prints one line for each fault and exits 1, or one line of counts. Addresses outside the repository are not asked for.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
INDENTED = re.compile(r"^(?: {4}|\t).*$", re.MULTILINE)
COMMAND = re.compile(r"^\s*(?:\$ )?((?:\.venv/bin/)?gitops-bot[ \t].*)$", re.MULTILINE)
SHELL_END = {"|", ">", ">>", "<", "&&", "||", ";", "&", "#", "2>&1"}
# Commands of later releases may be named in this section and nowhere else.
PLANNED = re.compile(r"^## Planned\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def documents() -> list[Path]:
    """List the repository's Markdown files."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.md")])


def anchors(text: str) -> set[str]:
    """Give the anchors that a forge makes from a document's headings."""
    titles = re.findall(r"^#+\s+(.+?)\s*$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).replace(" ", "-") for title in titles}


def broken_links(path: Path) -> Iterator[str]:
    """Name links to files or headings that are not there."""
    for match in LINK.finditer(FENCE.sub("", path.read_text(encoding="utf-8"))):
        target = match[1] or match[2]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = (path.parent / name).resolve() if name else path
        if not place.exists():
            yield f"{path.relative_to(ROOT)}: no {target}"
        elif anchor and place.suffix == ".md" and anchor not in anchors(place.read_text(encoding="utf-8")):
            yield f"{path.relative_to(ROOT)}: no heading for {target}"


def shown_commands(text: str) -> Iterator[list[str]]:
    """Give the arguments of each `gitops-bot` command that a document shows."""
    text = PLANNED.sub("", text)
    prose = FENCE.sub("", text)
    spans = [" ".join(span.split()) for span in SPAN.findall(prose)]
    code = "\n".join([*(fence[0] for fence in FENCE.finditer(text)), *INDENTED.findall(prose), *spans])
    for shown in COMMAND.findall(code):
        try:
            words = shlex.split(shown.rstrip("\\"), comments=True)[1:]
        except ValueError:
            words = shown.split()[1:]
        end = next((n for n, word in enumerate(words) if word in SHELL_END or word == "--"), len(words))
        yield [word.rstrip(".,:;)") for word in words[:end]]


def unknown_part(root: click.Command, words: list[str]) -> str | None:
    """Name the first word of a command that the command line does not know; None when it knows all."""
    command, context = root, click.Context(root, info_name="gitops-bot")
    rest = list(words)
    while isinstance(command, click.Group) and rest and re.fullmatch(r"[a-z][a-z-]*", rest[0]):
        found = command.get_command(context, rest[0])
        if found is None:
            return rest[0]
        command, context = found, click.Context(found, parent=context, info_name=rest.pop(0))
    options = {
        name for parameter in command.get_params(context) for name in [*parameter.opts, *parameter.secondary_opts]
    }
    for word in rest:
        if word.startswith("-") and word != "-" and word.split("=")[0] not in options:
            return word
    return None


def unknown_commands(path: Path, root: click.Command) -> Iterator[str]:
    """Name the commands of a document that the command line does not have."""
    for words in shown_commands(path.read_text(encoding="utf-8")):
        unknown = unknown_part(root, words)
        if unknown is not None:
            yield f"{path.relative_to(ROOT)}: `gitops-bot {' '.join(words)}`: no {unknown}"


def unlisted_decisions() -> Iterator[str]:
    """Name faults of the decision records: numbering, index, and a paragraph on security in each."""
    folder = ROOT / "docs" / "adr"
    records = sorted(folder.glob("[0-9][0-9][0-9][0-9]-*.md"))
    index = (folder / "README.md").read_text(encoding="utf-8")
    for number, record in enumerate(records, start=1):
        text = record.read_text(encoding="utf-8")
        if int(record.name[:4]) != number:
            yield f"{record.name}: number {number:04} is missing before it"
        if f"({record.name})" not in index:
            yield f"{record.name}: not in docs/adr/README.md"
        if not re.search(r"^(?:## |\*\*)Security", text, re.MULTILINE):
            yield f"{record.name}: has no paragraph on security"


def main() -> int:
    """Check everything; the exit status."""
    from gitops_bot.cli import gitops_bot as root

    faults = list(unlisted_decisions())
    for path in documents():
        faults += broken_links(path)
        faults += unknown_commands(path, root)
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print(f"{len(documents())} documents: links, commands and decisions are right")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
