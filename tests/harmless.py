"""Reads a page as a browser would and says what in it could act without being ours: elements, attributes, addresses."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final

_SUB_RESOURCES: Final = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "form": "action",
}
_NEVER: Final = {"iframe", "object", "embed", "base", "applet", "math", "style", "video", "audio", "portal"}
_LINKS: Final = ("https://", "http://", "mailto:", "/", "#", "?")
HX_OURS: Final = {"hx-get", "hx-target", "hx-swap", "hx-push-url", "hx-trigger", "hx-select", "hx-disable"}


@dataclass
class Page(HTMLParser):
    """A page that was read. `wrong` lists what must not be in it; `text` is what a reader sees of it."""

    wrong: list[str] = field(default_factory=list)
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        if tag in _NEVER:
            self.wrong.append(f"<{tag}>")
        if tag == "script" and not (given.get("src", "").startswith("/static/") and given.get("nonce")):
            self.wrong.append(f"script {given}")
        for name, value in given.items():
            self._judge(tag, name, value)

    def _judge(self, tag: str, name: str, value: str) -> None:
        if name.startswith("on") or name in ("style", "srcdoc", "formaction", "ping", "background"):
            self.wrong.append(f"{tag} {name}={value}")
        if name.startswith(("hx-", "data-hx-")) and (name not in HX_OURS or value.startswith(("http", "//", "js:"))):
            self.wrong.append(f"{tag} {name}={value}")
        if _SUB_RESOURCES.get(tag) == name and (not value.startswith("/") or value.startswith("//")):
            self.wrong.append(f"{tag} {name}={value}")
        if name in ("href", "xlink:href") and (not value.startswith(_LINKS) or value.startswith(("//", "/\\"))):
            self.wrong.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        self.pieces.append(data)

    @property
    def text(self) -> str:
        """What a reader sees, white space folded."""
        return " ".join(" ".join(self.pieces).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        """Give the attributes of every element of a name."""
        return [given for name, given in self.elements if name == tag]


def read_page(html: str) -> Page:
    """Read a page or a piece of one."""
    page = Page()
    page.feed(html)
    page.close()
    return page


def assert_harmless(html: str) -> Page:
    """Insist that nothing in a page acts but what is ours; give what was read."""
    page = read_page(html)
    assert not page.wrong, page.wrong
    return page
