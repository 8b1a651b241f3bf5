"""A page as a browser would take it in: its elements with their attributes, and what stands in scripts and styles."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final

FIELDS: Final = frozenset({"input", "select", "textarea"})


@dataclass
class Element:
    """An opening tag; `inside` are the tags that were open around it."""

    tag: str
    attributes: dict[str, str]
    inside: tuple["Element", ...] = ()


@dataclass
class Read(HTMLParser):
    """All elements of a page in order, and all text of scripts and styles."""

    elements: list[Element] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    _open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, tuple(self._open))
        self.elements.append(element)
        if tag not in ("meta", "link", "input", "img", "br", "hr"):
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        while any(one.tag == tag for one in self._open):
            if self._open.pop().tag == tag:
                break

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1].tag in ("script", "style") and data.strip():
            self.code.append(data)

    def every(self, *tags: str) -> Iterator[Element]:
        """Give the elements of some tags."""
        return (one for one in self.elements if one.tag in tags)


def read(page: str) -> Read:
    """Read a page."""
    reader = Read()
    reader.feed(page)
    reader.close()
    return reader


def acting(page: Read) -> list[str]:
    """List what of a page could act or load beside the product's own: code in it, handlers, styles, foreign sources,
    addresses that run something, and what htmx would obey on a link that is no page of ours."""
    found = [f"code: {one[:60]}" for one in page.code]
    for one in page.elements:
        for name, value in one.attributes.items():
            if name.startswith("on") or name == "style" or (name.startswith("hx-") and "x>" in value):
                found.append(f"{one.tag} {name}={value[:60]}")
            if name in ("href", "src", "action") and value.strip().lower().startswith(("javascript:", "data:", "//")):
                found.append(f"{one.tag} {name}={value[:60]}")
        source = one.attributes.get("src")
        if source is not None and not source.startswith("/static/"):
            found.append(f"{one.tag} src={source[:60]}")
        if one.tag == "script" and not one.attributes.get("nonce"):
            found.append("script without the nonce")
        if one.tag in ("iframe", "object", "embed", "base"):
            found.append(one.tag)
    return found


def unlabelled(page: Read) -> list[str]:
    """List the fields of a page that nothing names."""
    named = {one.attributes["for"] for one in page.every("label") if "for" in one.attributes}
    return [
        str(one.attributes)
        for one in page.every(*FIELDS)
        if one.attributes.get("type") != "hidden"
        and one.attributes.get("id") not in named
        and "aria-label" not in one.attributes
        and not any(around.tag == "label" for around in one.inside)
    ]
