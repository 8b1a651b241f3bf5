"""Text of others is safe to print: what a terminal would obey or reorder is shown as an escape."""

import unicodedata


def escaped(text: str) -> str:
    """Escape control, format (direction marks among them), surrogate, private and unassigned characters, and every
    line or paragraph separator; the rest is kept."""
    return "".join(character if _plain(character) else _escape(character) for character in text)


def _plain(character: str) -> bool:
    return character == " " or unicodedata.category(character)[0] not in "CZ"


def _escape(character: str) -> str:
    if unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")
