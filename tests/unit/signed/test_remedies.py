"""Every refusal of the signed channel has its sentence on what to do, and the page has all of them."""

import ast
import re
from pathlib import Path

import gitops_bot.signed
from gitops_bot.core.errors import SENTENCES, Reason
from gitops_bot.signed.remedies import REMEDIES, remedy

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "approvals.md").read_text(encoding="utf-8")
OTHERS = {Reason.BAD_PARAMS, Reason.UNPRINTABLE}
"""Refused when the ask's request is built, before anybody signs."""


def test_the_page_has_each_code_with_its_two_sentences() -> None:
    rows = [f"| `{reason.value}` | {SENTENCES[reason]} | {text} |" for reason, text in REMEDIES.items()]
    shown = [line for line in PAGE.partition("## Codes")[2].splitlines() if line.startswith("| `")]
    assert shown == rows


def test_every_reason_that_the_channel_names_has_a_remedy() -> None:
    folder = Path(str(gitops_bot.signed.__file__)).parent
    named = set()
    for source in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason":
                named.add(Reason[node.attr])
    assert named - OTHERS <= REMEDIES.keys()


def test_what_refuses_nothing_needs_nothing() -> None:
    assert [remedy(code) for code in ("counted", "root", "revocation", "")] == [""] * 4
    assert remedy("frozen") == REMEDIES[Reason.FROZEN]


def test_the_attacks_of_the_shared_list_are_all_explained() -> None:
    listed = (ROOT / "tests" / "vectors" / "signed.toml").read_text(encoding="utf-8")
    codes = {code for code in re.findall(r'= "([a-z_]+)"', listed) if code in tuple(Reason)}
    assert codes
    assert {Reason(code) for code in codes} <= REMEDIES.keys()
