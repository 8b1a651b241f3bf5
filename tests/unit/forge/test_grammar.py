"""Each refusing form stands beside the accepting form that it differs from."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.core.captures import TraceId
from gitops_bot.core.errors import Malformed
from gitops_bot.forge.grammar import (
    MAX_BODY,
    Approve,
    Command,
    Deny,
    Help,
    NearMiss,
    Outcome,
    Silent,
    Status,
    Why,
    judge,
    meant,
    parse,
)

CASES = tomllib.loads((Path(__file__).parents[2] / "vectors" / "forge-comments.toml").read_text(encoding="utf-8"))
T = TraceId(CASES["T"])
LONGEST = TraceId("model=" + "/".join(["a" * 64] * 4) + ";c=1000000;p=1000000;mt=1000000;lt=1000000;lf=999.9999")


def body_of(case: dict[str, Any]) -> str:
    if "body_repeat" in case:
        text, times = case["body_repeat"]
        return str(text) * int(times)
    return str(case["body"]).replace("{T}", T)


@pytest.mark.parametrize("case", CASES["case"], ids=[case["name"] for case in CASES["case"]])
def test_each_form_does_what_the_cases_say(case: dict[str, Any]) -> None:
    judgement = judge(parse(body_of(case)), T)
    assert judgement.outcome.value == case["outcome"]
    assert judge(parse(body_of(case).encode()), T) == judgement


@pytest.mark.parametrize(
    ("body", "parsed"),
    [
        (f"/approve-capture {T}", Approve(T, "")),
        (f"/approve-capture {T}  \r\n\r\nquota until Friday\r\n", Approve(T, "quota until Friday")),
        (f"/approve-capture {T}\r", Approve(T, "")),
        (f"/approve-capture {LONGEST}", Approve(LONGEST, "")),
        (f"/deny-capture {T}", Deny(T, "")),
        (f"/deny-capture {T} too dear\nthis week", Deny(T, "too dear\nthis week")),
        (f"/deny-capture {T} zu teuer – λ \u202e", Deny(T, "zu teuer – λ \u202e")),
        (f"/deny-capture {T} a\x00b\ud800", Deny(T, "a\ufffdb\ufffd")),
        (f"/deny-capture {T} see\n> /approve-capture {T}", Deny(T, f"see\n> /approve-capture {T}")),
        (f"/deny-capture {T} a\r/approve-capture {T}", Deny(T, f"a\r/approve-capture {T}")),
        ("/capture-status  ", Status()),
        ("/capture-help\r\nthanks", Help()),
    ],
)
def test_exact_commands_are_read_with_their_reason(body: str, parsed: object) -> None:
    assert parse(body) == parsed


@pytest.mark.parametrize(
    ("body", "command", "why"),
    [
        # the argument
        ("/deny-capture", Command.DENY, Why.ARGUMENT),
        (f"/approve-capture  {T}", Command.APPROVE, Why.ARGUMENT),
        (f"/approve-capture {T}\t", Command.APPROVE, Why.ARGUMENT),
        (f"/approve-capture {T}\x0b", Command.APPROVE, Why.ARGUMENT),
        (f"/approve-capture {T}\x85", Command.APPROVE, Why.ARGUMENT),
        (f"/approve-capture {T}\r\r\n", Command.APPROVE, Why.ARGUMENT),
        (f"/approve-capture {T}\rplease", Command.APPROVE, Why.ARGUMENT),
        (f"/approve-capture {T}\u2028later", Command.APPROVE, Why.ARGUMENT),
        (f"/approve-capture\u00a0{T}", Command.APPROVE, Why.ARGUMENT),
        (f"/deny-capture {T}\ttoo dear", Command.DENY, Why.ARGUMENT),
        (f"/approve-capture {T.replace('48', '４８')}", Command.APPROVE, Why.ARGUMENT),
        (f"/approve-capture {T.replace('48', '٤٨')}", Command.APPROVE, Why.ARGUMENT),
        (f"/approve-capture {T.replace('Qwen/', '../')}", Command.APPROVE, Why.ARGUMENT),
        (f"/approve-capture {T.replace('Qwen/', '-Qwen/')}", Command.APPROVE, Why.ARGUMENT),
        (f"/approve-capture {T.replace('model=', 'model=a/b/c/')}", Command.APPROVE, Why.ARGUMENT),
        (f"/approve-capture {LONGEST}0", Command.APPROVE, Why.ARGUMENT),
        ("/capture-status now", Command.STATUS, Why.ARGUMENT),
        ("/capture-help?", Command.HELP, Why.SPELLING),
        # the spelling
        (f"approve-capture {T}", Command.APPROVE, Why.SPELLING),
        (f"/DENY-CAPTURE {T}", Command.DENY, Why.SPELLING),
        ("/capture-ſtatus", Command.STATUS, Why.SPELLING),
        (f"**/approve-capture {T}**", Command.APPROVE, Why.SPELLING),
        (f"/apporve-capture {T}", Command.APPROVE, Why.SPELLING),
        # the place
        (f"   /approve-capture {T}", Command.APPROVE, Why.PLACE),
        (f"- /approve-capture {T}", Command.APPROVE, Why.PLACE),
        (f" *  /deny-capture {T}", Command.DENY, Why.PLACE),
        (f"+ /aprove-capture {T}", Command.APPROVE, Why.PLACE),
        (f"\u3000/approve-capture {T}", Command.APPROVE, Why.PLACE),
        # a second command
        (f"/approve-capture {T}\nno:\n/capture-status", Command.APPROVE, Why.SECOND_COMMAND),
        (f"/deny-capture {T}\n/approve-capture\t{T}", Command.DENY, Why.SECOND_COMMAND),
        (f"/capture-help\r\n/approve-capture {T}\r\n", Command.HELP, Why.SECOND_COMMAND),
    ],
)
def test_near_misses_never_act(body: str, command: Command, why: Why) -> None:
    assert parse(body) == NearMiss(command, why)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (f" \t/approve-capture {T}", Why.CODE_OR_QUOTE),
        (f"\t/approve-capture {T}", Why.CODE_OR_QUOTE),
        (f"   > /approve-capture {T}", Why.CODE_OR_QUOTE),
        (f"  ~~~\n/approve-capture {T}\n~~~", Why.CODE_OR_QUOTE),
        (f"-     /approve-capture {T}", Why.CODE_OR_QUOTE),
        (f"- `/approve-capture {T}`", Why.CODE_OR_QUOTE),
        (f"*`/approve-capture {T}`*", Why.CODE_OR_QUOTE),
        ("![/capture-help", Why.CODE_OR_QUOTE),
        (f"\n/approve-capture {T}", Why.NO_COMMAND),
        (f"Done.\x0b/approve-capture {T}", Why.NO_COMMAND),
        (f"Done.\u2028/approve-capture {T}", Why.NO_COMMAND),
        (f"- - /approve-capture {T}", Why.NO_COMMAND),
        (f"1. /approve-capture {T}", Why.NO_COMMAND),
        ("/approve-captures-all", Why.NO_COMMAND),
        ("-", Why.NO_COMMAND),
        ("   ", Why.NO_COMMAND),
    ],
)
def test_code_quotes_and_the_middle_of_text_are_silent(body: str, why: Why) -> None:
    """I16: what a reader does not see acting neither acts nor is answered."""
    assert parse(body) == Silent(why)


@pytest.mark.parametrize(
    "later", ["\n> /deny-capture x", "\n /capture-help", "\n/capture-helper", "\nsee /capture-help"]
)
def test_a_later_line_that_is_no_command_leaves_the_first_one_standing(later: str) -> None:
    assert isinstance(parse(f"/approve-capture {T}{later}"), Approve)


def test_the_cap_counts_characters_and_includes_its_last() -> None:
    head = f"/approve-capture {T}\n"
    fits = head + "λ" * (MAX_BODY - len(head))
    assert isinstance(parse(fits), Approve)
    assert isinstance(parse(fits.encode()), Approve)
    assert parse(fits + "λ") == Silent(Why.OVER_CAP)
    assert parse((fits + "λ").encode()) == Silent(Why.OVER_CAP)
    assert parse(b"\xff" * (4 * MAX_BODY + 1)) == Silent(Why.OVER_CAP)


def test_bytes_that_are_no_utf_8_are_malformed() -> None:
    with pytest.raises(Malformed):
        parse(f"/approve-capture {T}".encode() + b"\xff")
    assert isinstance(parse(f"/approve-capture {T}".encode()), Approve)


def test_another_trace_id_is_told_as_not_found_with_the_open_line() -> None:
    other = TraceId(T.replace("c=48", "c=64"))
    judgement = judge(parse(f"/deny-capture {other}"), T)
    assert (judgement.outcome, judgement.reason) == (Outcome.NEAR_MISS, "not_found")
    assert judgement.reply_line == f"/deny-capture {T}"
    assert judge(parse(f"/deny-capture {T}"), T).outcome is Outcome.DENY


def test_the_open_id_is_compared_byte_for_byte() -> None:
    """A spelling that differs in case or in a leading zero is another id."""
    assert judge(parse(f"/approve-capture {T.lower()}"), T).reason == "not_found"
    assert judge(parse(f"/approve-capture {T.replace('lf=0.', 'lf=00.')}"), T).reason == "not_found"


def test_the_command_that_a_text_is_or_almost_is() -> None:
    for command in Command:
        argument = f" {T}" if command in (Command.APPROVE, Command.DENY) else ""
        for body in (command.value + argument, command.value + " x", f" {command.value}", command.value.upper()):
            assert meant(parse(body)) is command
    for body in ("", "text", f"`{Command.APPROVE}`", f"> {Command.APPROVE}"):
        assert meant(parse(body)) is None
