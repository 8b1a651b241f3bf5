"""A pattern matches what the standard library would match in full, and nothing makes it slow."""

import re

import pytest

from gitops_bot.core.errors import Malformed
from gitops_bot.policy.patterns import MAX_TEXT, compile_pattern

TEXTS = ["", "a", "b", "ab", "aab", "abab", "aaaa", "a.b", "-", "]", "7", "x7_", " ", "\n", "é", "a\n", "^", "\\"]


@pytest.mark.parametrize(
    "pattern",
    [
        "a", "a*", "a+b?", "(ab)*", "(?:a|b)+", "a{2}", "a{2,}", "a{0,3}", "a{1,2}b", "[a-c]+", "[^a]", "[]a]", "[a-]",
        r"\.", r"a\.b", r"\d", r"\w+", r"\s", r"[\d_x]+", ".", ".*", "a|b|", "(a|)b", r"[\]]", r"\\", r"[\^]", "(a*)*",
        "((a|b){2}){2}", "(a?b?){0,3}", "[^\\d]",
    ],
)  # fmt: skip
def test_it_means_what_fullmatch_means(pattern: str) -> None:
    """The subset is a subset in meaning as well; classes are ASCII."""
    compiled = compile_pattern(pattern)
    for text in TEXTS:
        assert compiled.matches(text) == bool(re.fullmatch(pattern, text, re.ASCII)), text


@pytest.mark.parametrize(
    "pattern",
    [
        "", "a**", "*", "(", ")", "[", "[a", "a{", "a{2", "a{3,2}", "a{99999}", "(?=a)", "(?P<n>a)", r"(a)\1", r"\b",
        r"\A", "^a", "a$", "a*?", "a++", r"\x41", "[b-a]", r"[\d-z]", "a" * 257, "(" * 20 + ")" * 20, "(a{1000}){1000}",
        "(" * 10 + "a{0}" + "){1000}" * 10, "\\",
    ],
)  # fmt: skip
def test_what_is_outside_the_subset_is_refused(pattern: str) -> None:
    """Nothing is silently read as something else, and nothing explodes while it is compiled."""
    with pytest.raises(Malformed):
        compile_pattern(pattern)


def test_a_text_over_the_cap_never_matches() -> None:
    """The cap bounds the cost whatever the pattern."""
    assert compile_pattern(".*").matches("a" * MAX_TEXT)
    assert not compile_pattern(".*").matches("a" * (MAX_TEXT + 1))
