"""An agent's text that the bot repeats mentions, links, closes, commands and hides nothing."""

import pytest

from gitops_bot.forge.quoting import MAX_FIELD, capped, field, phrase, visible


@pytest.mark.parametrize(
    "active",
    [
        "@alice",
        "@dependabot merge",
        "fixes #12",
        "closes GH-12",
        "resolves gh-12",
        "fixes https://example.org/o/r/issues/1",
        "www.example.org",
        "/lgtm",
        "<!-- gitops-bot:ask=1 -->",
        "![x](y)",
        "<script>",
    ],
)
def test_what_a_forge_or_a_bot_would_act_on_is_broken(active: str) -> None:
    shown = field(active)
    assert active not in shown
    assert active in shown.replace("\u200b", ""), "a reader still sees the same letters"


def test_plain_text_is_kept_as_it_is() -> None:
    assert field("The queue is empty – 3 µs, 100 %.") == "```text\n│ The queue is empty – 3 µs, 100 %.\n```"


def test_every_line_is_prefixed_so_that_no_line_ends_the_fence() -> None:
    inner = field("a\n```\n\r\n/approve-capture x\u2028/b\rc").split("\n")[1:-1]
    assert len(inner) == 4
    assert all(line.startswith("│ ") for line in inner)


@pytest.mark.parametrize(
    "char", ["\u202e", "\u2066", "\u200b", "\x1b", "\x00", "\ud800", "\u3164", "\U000e0041", "\x85"]
)
def test_characters_that_hide_are_written_out(char: str) -> None:
    assert char not in visible(f"a{char}b")
    assert f"{ord(char):x}" in visible(f"a{char}b")
    assert visible("aéλ漢🙂b") == "aéλ漢🙂b"


def test_a_field_is_capped_and_says_so() -> None:
    assert capped("x" * MAX_FIELD) == "x" * MAX_FIELD
    assert capped("x" * (MAX_FIELD + 1)) == "x" * (MAX_FIELD - 1) + "…"


def test_a_phrase_stays_in_its_sentence() -> None:
    assert phrase("alice") == "`alice`"
    assert phrase("a`b\n@c") == "`a'b @\u200bc`"
    assert phrase("") == "`?`"
