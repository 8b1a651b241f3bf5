"""I16: a comment that acts is one that a reader of the rendered page sees acting, by a CommonMark renderer's word.

The renderer is not the product's: the grammar knows a few rules about openers and indents, and here they are held
against all of CommonMark. GFM's tables are switched on too.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gitops_bot.core.captures import Regime
from gitops_bot.forge.grammar import Approve, Command, Deny, Help, NearMiss, Silent, Status, parse

PLAIN = Regime("Qwen/Qwen3-0.6B", 48, 8, 8, 0, "0.0000").trace_id
MARKED = Regime("_a_/b__c/__d__", 48, 8, 8, 0, "0.0000").trace_id
APPROVE, DENY = f"{Command.APPROVE} {PLAIN}", f"{Command.DENY} {PLAIN}"
RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
ACTS = (Approve, Deny, Status, Help)


def seen_first(body: str) -> str | None:
    """Give the first line of text that a reader sees; None where something else than plain text comes first."""
    tokens = RENDERER.parse(body)
    place = 1 if tokens and tokens[0].type in ("paragraph_open", "heading_open") else 0
    if tokens and tokens[0].type == "table_open":
        place = next(place for place, token in enumerate(tokens) if token.type == "inline")
    if place >= len(tokens) or tokens[place].type != "inline":
        return None
    seen = ""
    for child in tokens[place].children or ():
        if child.type == "text":
            seen += child.content
        elif child.type not in ("em_open", "em_close", "strong_open", "strong_close", "text_special"):
            break
        else:
            seen += child.content if child.type == "text_special" else ""
    return seen


def bare(text: str) -> str:
    """Leave out what marks emphasis: it is shown as slant and weight, not as letters."""
    return re.sub(r"[_*]", "", text).strip()


def assert_visible_if_it_acts(body: str) -> None:
    parsed = parse(body)
    if not isinstance(parsed, ACTS):
        return
    line = body.split("\n", 1)[0].removesuffix("\r").rstrip(" ")
    if isinstance(parsed, Deny):  # the reason may hold anything; the command and what it names must stand there
        line = " ".join(line.split(" ")[:2])
    seen = seen_first(body)
    assert seen is not None, body
    if isinstance(parsed, Deny):
        assert bare(seen).startswith(bare(line)), (body, seen)
    else:
        assert bare(seen) == bare(line), (body, seen)


HIDDEN = {
    "a code span": "`{}`",
    "a long code span": "`` {} ``",
    "a fence": "```\n{}\n```",
    "a fence with a language": "```text\n{}\n```",
    "a fence of tildes": "~~~\n{}\n~~~",
    "struck out": "~~{}~~",
    "an indented block": "    {}",
    "a tab": "\t{}",
    "spaces and a tab": "  \t{}",
    "a quote": "> {}",
    "a quote without a space": ">{}",
    "a nested quote": "> > {}",
    "a quote after spaces": "   > {}",
    "a comment": "<!-- {} -->",
    "a comment over lines": "<!--\n{}\n-->",
    "an unclosed comment": "<!--\n{}",
    "an HTML block": "<div hidden>\n{}\n</div>",
    "a template": "<template>{}</template>",
    "details": "<details>\n\n{}\n\n</details>",
    "a summary": "<details><summary>x</summary>\n{}\n</details>",
    "a processing instruction": "<?\n{}\n?>",
    "CDATA": "<![CDATA[\n{}\n]]>",
    "a link's text": "[{}](http://example.invalid)",
    "a link's title": '[x](/y "{}")',
    "an image": "![{}](x.png)",
    "a link definition": '[x]: /y "{}"',
    "a definition over lines": '[x]: /y\n"{}"',
    "a footnote": "[^1]: {}",
    "an autolink": "<{}>",
    "the middle of a sentence": "please {} now",
    "the end of a sentence": "I would say: {}",
    "the second line": "hello\n{}",
    "the second paragraph": "hello\n\n{}",
    "a heading": "# {}",
    "a table's cell": "| a |\n|---|\n| {} |",
    "a table's row": "| {} |",
    "emphasis": "*{}*",
    "strong": "**{}**",
    "an escape": "\\{}",
    "an entity": "&#47;{}",
    "a rule before it": "---\n{}",
    "front matter": "---\nx: {}\n---",
    "a list's code": "-     {}",
    "a list's quote": "- > {}",
    "a list's code span": "- `{}`",
    "a numbered list": "1. {}",
    "an empty line before it": "\n{}",
    "an empty span before it": "<b></b>{}",
    "a zero-width space": "\u200b{}",
    "a byte order mark": "\ufeff{}",
    "a turned direction": "\u202e{}",
    "a vertical tab": "\x0b{}",
    "a line separator": "x\u2028{}",
    "a lone carriage return": "x\r{}",
}


@pytest.mark.parametrize("command", [APPROVE, DENY, f"{DENY} too dear", "/capture-status", "/capture-help"])
@pytest.mark.parametrize("way", HIDDEN)
def test_hidden_and_quoted_commands_never_act(way: str, command: str) -> None:
    parsed = parse(HIDDEN[way].format(command))
    assert isinstance(parsed, Silent | NearMiss)
    # Who hides or quotes is not answered. What a reader sees as a misplaced command may be.
    if isinstance(parsed, NearMiss):
        assert (seen_first(HIDDEN[way].format(command)) or "x")[0] not in "`~<>["


@pytest.mark.parametrize("trace_id", [PLAIN, MARKED])
@pytest.mark.parametrize(
    "after", ["", " ", "\r", "\nreason", "\r\nreason", "\n===", "\n---", "\n|---|", "\n<!--", "\n```"]
)
def test_the_command_in_the_open_acts_and_is_seen(trace_id: str, after: str) -> None:
    for command in (Command.APPROVE, Command.DENY):
        body = f"{command} {trace_id}{after}"
        assert isinstance(parse(body), Approve | Deny)
        assert_visible_if_it_acts(body)


pieces = st.sampled_from(
    [
        *(
            "`",
            "``",
            "```",
            "~~~",
            "~~",
            ">",
            "> ",
            "<!--",
            "-->",
            "<b>",
            "</b>",
            "<details>",
            "<?",
            "[",
            "]",
            "](x)",
            "![",
            "[x]: /y",
        ),
        *(
            "- ",
            "* ",
            "1. ",
            "# ",
            "\n",
            "\n\n",
            "\r\n",
            "\r",
            "\t",
            " ",
            "    ",
            "|",
            "|---|",
            "===",
            "---",
            "\\",
            "&#47;",
            "*",
            "_",
            "x",
        ),
        *("\u200b", "\u2028", "\x0b", "\ufeff", "\u202e"),
    ]
)
commands = st.sampled_from(
    [APPROVE, DENY, f"{Command.APPROVE} {MARKED}", f"{DENY} <!-- no", "/capture-status", "/capture-help"]
)
around = st.lists(pieces, max_size=4).map("".join)


@given(around, commands, around, st.lists(st.one_of(pieces, commands), max_size=8).map("".join))
def test_whatever_stands_around_a_command_it_is_seen_where_it_acts(
    before: str, command: str, after: str, rest: str
) -> None:
    assert_visible_if_it_acts(before + command + after)
    assert_visible_if_it_acts(f"{before}{command}{after}\n{rest}")
    assert_visible_if_it_acts(f"{command}\n{rest}")
