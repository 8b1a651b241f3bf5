"""What somebody wrote is shown and does nothing, whatever it is."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harmless import assert_harmless
from tests.linear import assert_linear
from workspace import texts

ATTACKS = (
    "<script>alert(1)</script>",
    "<ScRiPt src=//evil.example/x.js></sCrIpT>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<a href='javascript:alert(1)'>x</a>",
    "<form action='/api/v1/auth/sign-out' method=post><button>x</button></form>",
    "<style>body{display:none}</style>",
    "<base href='https://evil.example/'>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<math><mtext><style><img src=x onerror=alert(1)></style></mtext></math>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<template><script>alert(1)</script></template>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<div hx-get='/api/v1/x' hx-trigger='load'></div>",
    "<div data-hx-post='/api/v1/asks/x/answer' data-hx-trigger='load'></div>",
    "<form data-act action='/api/v1/asks/x/answer'></form>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[x](vbscript:msgbox(1))",
    "[x](//evil.example/x)",
    "[x](/api/v1/auth/sign-out)",
    "[x](https://good.example@evil.example/)",
    "[x](https:\\\\evil.example)",
    "<javascript:alert(1)>",
    "<data:text/html,x>",
    "[x]: javascript:alert(1)\n\n[x]",
    "![x](https://evil.example/p.png)",
    "![x](javascript:alert(1))",
    "![x](https://evil.example/p.png \"a' onerror='alert(1)\")",
    '[x](https://a.example "\\" onmouseover=\\"alert(1)")',
    "[![x](https://evil.example/p.png)](https://a.example)",
    "`<script>alert(1)</script>`",
    "```\n<script>alert(1)</script>\n```",
    "```html onload=alert(1)\nx\n```",
    "    <script>alert(1)</script>",
    "> <script>alert(1)</script>",
    "<a\x00href=x>",
    "\x00<script>alert(1)</script>",
    "\ufeff<script>alert(1)</script>",
    "<scr\u200bipt>alert(1)</scr\u200bipt>",
    "</div></figure><script>alert(1)</script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "|<script>|\n|-|\n|alert(1)|",
    "<x/style='x' onclick=alert(1)>",
    "](https://x) [<img src=x onerror=alert(1)>](https://a.example)",
)
KEPT = {"p", "br", "hr", "h3", "h4", "h5", "h6", "blockquote", "pre", "ul", "ol", "li", "strong", "em", "s", "code"}


def assert_inert(text: str) -> None:
    page = assert_harmless(str(texts.said(text)))
    outer, *inner = page.elements
    assert outer == ("div", {"class": "text", "hx-disable": "", "dir": "auto"})
    for tag, attributes in inner:
        if tag == "a":
            assert set(attributes) <= {"href", "title", "rel"}
            assert attributes["href"].lower().startswith(("https://", "http://", "mailto:"))
            assert attributes["rel"] == "nofollow noopener noreferrer"
        else:
            assert tag in KEPT
            assert set(attributes) <= {"start"}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_becomes_text(attack: str) -> None:
    assert_inert(attack)


def test_attacks_in_one_text_do_not_help_each_other() -> None:
    assert_inert("\n".join(ATTACKS))
    assert_inert(" ".join(ATTACKS))


@given(st.text(max_size=300))
def test_no_text_acts(text: str) -> None:
    assert_inert(text)


@given(st.lists(st.sampled_from((*ATTACKS, "**", "`", "[", "](", ")", "\n\n", "> ", "- ", "<", ">")), max_size=8))
def test_no_mixture_of_attacks_acts(parts: list[str]) -> None:
    assert_inert("".join(parts))


def test_markdown_is_shown_as_it_was_meant() -> None:
    """The accepting twin: what people use of Markdown stays."""
    html = texts.render("# Title\n\n**bold** *soft* ~~gone~~ `code`\n\n1. one\n2. two\n\n> quote\n\n```\nblock\n```")
    for part in ("<h3>Title</h3>", "<strong>bold</strong>", "<em>soft</em>", "<s>gone</s>", "<code>code</code>"):
        assert part in html
    assert "<li>one</li>" in html
    assert "<blockquote>" in html
    assert "<pre><code>block\n</code></pre>" in html


def test_a_link_says_where_it_goes() -> None:
    html = texts.render("[my bank](https://evil.example/path) and [write](mailto:bob@example.org?subject=x)")
    assert '<a href="https://evil.example/path" rel="nofollow noopener noreferrer">my bank</a> (evil.example)' in html
    assert "write</a> (bob@example.org)" in html
    assert texts.render("<https://a.example>").count("a.example") == 2, (
        "an address that is its own words is not repeated"
    )


def test_an_image_is_its_words_and_address() -> None:
    html = texts.render("![a **plot**](https://x.example/p.png)")
    assert "<img" not in html
    assert "[image: a plot] https://x.example/p.png" in html


def test_headings_stay_below_those_of_the_page() -> None:
    html = texts.render("\n\n".join(f"{'#' * level} h" for level in range(1, 7)))
    assert "<h1" not in html
    assert "<h2" not in html
    assert html.count("<h6>") == 3


@pytest.mark.parametrize("char", "\u202e\u2066\u200b\u00ad\ufeff\x1b\x07\u2028\u061c\U000e0041")
def test_what_reorders_or_hides_is_shown_as_its_number(char: str) -> None:
    shown = texts.visible(f"pay {char}alice")
    assert char not in shown
    assert f"⟨U+{ord(char):04X}⟩" in shown
    assert char not in texts.render(f"pay {char}alice")


@pytest.mark.parametrize("text", ["plain", "größer", "日本語", "a\tb\nc", "👩\u200d💻", "می\u200cخواهم"])
def test_what_people_write_stays(text: str) -> None:
    assert texts.visible(text) == text


def test_a_long_text_is_cut_and_says_so() -> None:
    html = texts.render("a" * (texts.MOST + 7))
    assert "[7 more characters are not shown]" in html
    assert "more characters" not in texts.render("a" * texts.MOST)


def test_a_text_full_of_marks_is_shown_as_it_is() -> None:
    html = texts.render("*" * (texts.MOST_MARKS + 1))
    assert html == f"<pre>{'*' * (texts.MOST_MARKS + 1)}</pre>"
    assert "<em>" in texts.render("*a* " * (texts.MOST_MARKS // 2))


@pytest.mark.parametrize(
    "piece", ["[", "![", "*a", "`a", "<", "> ", "- a\n  ", "a\n", "\u202e", "\\[", "[a]: b\n", "[a]("]
)
def test_the_cost_is_linear(piece: str) -> None:
    def build(size: int) -> Callable[[], object]:
        text = (piece * size)[:size]
        return lambda: texts.render.__wrapped__(text)

    assert_linear(build, texts.MOST)
