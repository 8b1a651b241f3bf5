"""What agents and people wrote becomes HTML that shows it and does nothing: no script, no form, no remote content.

Markdown by markdown-it-py without raw HTML, then nh3 with a list of the tags and attributes that may stay, so that a
fault in one is caught by the other. No `hx-*`, `data-*`, `class`, `id` or `style` survives; the container carries
`hx-disable`, so that htmx acts on nothing inside. An image is shown as its words and address, never fetched. Control
and direction characters are shown as what they are. `said` is the only source of markup in the templates.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

MOST: Final = 20_000
"""Characters of one text that are rendered; what the product stores of an ask is shorter."""
MOST_MARKS: Final = 1_000
"""Characters that may mean something to Markdown; with more of them a text is shown as it is, for each costs a look."""
_MARKS: Final = re.compile(r"[\[\]!*_~`<&\\>#]")
_TAGS: Final = frozenset(
    ("p", "br", "hr", "h3", "h4", "h5", "h6", "blockquote", "pre", "ul", "ol", "li", "strong", "em", "s", "code", "a")
)
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_LINK: Final = re.compile(r"(?:https?://[^\s/?#@\\]+(?:[/?#]|$)|mailto:[^\s@]+@)", re.ASCII | re.IGNORECASE)
"""A link names a host, without a user before it, or is an address to write to; nothing relative, for that is here."""
_REL: Final = "nofollow noopener noreferrer"
_KEPT: Final = frozenset("\n\t")
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
_JOINERS: Final = frozenset("\u200c\u200d")
_DEEPEST: Final = 20


def visible(text: str) -> str:
    """Write control, format and direction characters as `⟨U+202E⟩`, so that what is read is what is there.

    Newlines and tabs stay. Joiners stay between two letters or symbols, where scripts and emoji need them.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if not _hides(text, place, char) else f"⟨U+{ord(char):04X}⟩" for place, char in enumerate(text))


def _hides(text: str, place: int, char: str) -> bool:
    if char in _KEPT or unicodedata.category(char) not in _HIDDEN_CATEGORIES:
        return False
    if char in _JOINERS and 0 < place < len(text) - 1:
        return not (_visible_sign(text[place - 1]) and _visible_sign(text[place + 1]))
    return True


def _visible_sign(char: str) -> bool:
    return not char.isascii() and unicodedata.category(char)[0] in "LMS"


def _image(renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    token = tokens[place]
    words = renderer.renderInlineAsText(token.children or [], options, env)
    address = str(token.attrGet("src") or "")
    return f"[image: {escape(words)}] {escape(address)}" if words else f"[image] {escape(address)}"


def _open_link(renderer: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    env.setdefault("links", []).append(str(tokens[place].attrGet("href") or ""))
    return renderer.renderToken(tokens, place, options, env)


def _close_link(_renderer: RendererHTML, tokens: Sequence[Token], place: int, _options: Any, env: Any) -> str:
    # Words can name one place and the link go to another; where it goes stands beside it.
    address = env["links"].pop()
    words = tokens[place - 1].content if place else ""
    return "</a>" if words == address else f"</a> ({escape(_goes_to(address))})"


def _goes_to(address: str) -> str:
    kind, _, rest = address.partition(":")
    return rest.partition("?")[0] if kind.lower() == "mailto" else re.split("[/?#]", rest[2:], maxsplit=1)[0]


def _demote(_renderer: RendererHTML, tokens: Sequence[Token], place: int, _options: Any, _env: Any) -> str:
    token = tokens[place]
    level = min(6, int(token.tag[1]) + 2)
    return f"<h{level}>" if token.nesting == 1 else f"</h{level}>\n"


@lru_cache(maxsize=1)
def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False, "maxNesting": _DEEPEST})
    parser.disable(["html_block", "html_inline", "entity"])
    parser.enable("strikethrough")
    renderer = parser.renderer
    assert isinstance(renderer, RendererHTML)
    parser.validateLink = lambda url: _LINK.match(url) is not None  # type: ignore[method-assign] # how markdown-it is told
    renderer.rules["link_open"] = _bound(renderer, _open_link)
    renderer.rules["link_close"] = _bound(renderer, _close_link)
    renderer.rules["image"] = _bound(renderer, _image)
    renderer.rules["heading_open"] = _bound(renderer, _demote)
    renderer.rules["heading_close"] = _bound(renderer, _demote)
    return parser


def _bound(renderer: RendererHTML, rule: Any) -> Any:
    def call(tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
        return str(rule(renderer, tokens, place, options, env))

    return call


@lru_cache(maxsize=256)
def render(text: str) -> str:
    """Turn Markdown into HTML that acts on nothing: at most `MOST` characters; that more were left out is said."""
    shown = visible(text[:MOST].replace("\r\n", "\n").replace("\r", "\n"))
    clean = nh3.clean(
        _markdown().render(shown) if len(_MARKS.findall(shown)) <= MOST_MARKS else f"<pre>{escape(shown)}</pre>",
        tags=set(_TAGS),
        attributes={name: set(kept) for name, kept in _ATTRIBUTES.items()},
        attribute_filter=_keep,
        url_schemes=set(_SCHEMES),
        link_rel=_REL,
        strip_comments=True,
    )
    return clean if len(text) <= MOST else f"{clean}<p>[{len(text) - MOST} more characters are not shown]</p>"


def _keep(_tag: str, name: str, value: str) -> str | None:
    return value if name != "href" or _LINK.match(value) else None


def said(text: str | None) -> Markup:
    """Show what somebody wrote, in its container. The words beside it that name who wrote it are the caller's."""
    shown = Markup(render(text or ""))  # noqa: S704 # nh3 made it, from the lists above
    return Markup('<div class="text" hx-disable dir="auto">{}</div>').format(shown)
