"""Agent text that the bot repeats cannot act: nobody is mentioned, nothing is linked, closed or hidden by it.

After `field` every line of it begins with `│ `, every character that shows as nothing or turns the reading direction is
written out, and what a forge or another bot would act on is broken by a zero-width space: the bot is nobody's deputy
(forge-commands). How often and where the bot writes is its callers' business.
"""

import re
import unicodedata
from typing import Final

MAX_FIELD: Final = 2_000
"""Characters of agent text in one field, before anything is written out."""

_BREAK: Final = "\u200b"
# `/` breaks commands and every URL, `<` breaks HTML and its comments, `GH-` and `www.` are linked by GitHub as well.
_ACTIVE: Final = re.compile(r"[@#/<]|gh-|www\.|!(?=\[)", re.IGNORECASE)
# Letters and marks by category that every font shows as nothing.
_FILLERS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_UNSHOWN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    """Write out control, direction, invisible and unassigned characters as `\\uXXXX`; LF stays, a tab is 4 spaces."""
    return "".join(map(_shown, text.replace("\r\n", "\n").replace("\t", "    ")))


def _shown(char: str) -> str:
    if char == "\n" or not (unicodedata.category(char) in _UNSHOWN or char in _FILLERS):
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def capped(text: str) -> str:
    """Cut a text at `MAX_FIELD` characters; a cut one ends in `…`."""
    return text if len(text) <= MAX_FIELD else text[: MAX_FIELD - 1] + "…"


def harmless(text: str) -> str:
    """Break what a forge or another bot would act on, in a text that is already `visible`."""
    return _ACTIVE.sub(lambda found: f"{found[0]}{_BREAK}", text)


def field(text: str) -> str:
    """Write agent text as one fenced field: at most `MAX_FIELD` characters of it, each line prefixed `│ `.

    No line of the text can end the fence, since none begins with a back-tick.
    """
    lines = harmless(visible(capped(text))).split("\n")
    return "\n".join(["```text", *(f"│ {line}" for line in lines), "```"])


def phrase(text: str, limit: int = 100) -> str:
    """Write a name or short text inside a sentence: one line, at most `limit` characters, in code, nothing active."""
    line = visible(text.replace("\n", " "))[:limit].replace("`", "'").strip(" ")
    return f"`{harmless(line) or '?'}`"
