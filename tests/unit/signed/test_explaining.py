"""Who is told that bytes differ is told where, in words that are bounded, harmless to terminals, and decide nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gitops_bot.core.errors import Malformed
from gitops_bot.signed.explaining import MAX_MESSAGE, explain_file, explain_message, read_flat
from gitops_bot.signed.rendering import MAX_FILE

FIRST, DENY, _, NOTE = json.loads((Path(__file__).parents[2] / "vectors" / "approval.json").read_bytes())["approvals"]
FILE: bytes = FIRST["file"].encode()
MESSAGE: bytes = FIRST["message"].encode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.replace(b"125000", b"125001"), "amount_minor is 125001, the request says 125000."),
        (lambda f: f.replace(b"\n", b"\r\n"), "It has CRLF line ends; they must be LF"),
        (lambda f: f[:-1], "It has no final newline."),
        (lambda f: b"\xef\xbb\xbf" + f, "It begins with a BOM"),
        (lambda f: f.decode().encode("utf-16"), "It is in UTF-16"),
        (lambda f: f + b"\n", "It has blank lines at its end."),
        (lambda f: f.replace(b" = ", b"  = ", 1), "Only blanks differ, first in line 2."),
        (lambda f: f.replace(b"4e5f", b"4e5g"), "It is an approval file of another ask: ask is "),
        (lambda f: f.replace(b"acme/ops", b"acme/oops"), "It is an approval file of another repository: "),
        (lambda f: f.replace(b"7001", b"7002"), "another repository_id: repository_id is 7002"),
        (lambda f: f.replace(b'"production"', b'"staging"'), "It is an approval file of another environment: "),
        (lambda f: f.replace(b"epoch = 1", b"epoch = 2"), "It is an approval file of another epoch: epoch is 2"),
        (lambda f: f.replace(b"run_version = 1", b"run_version = 0"), "file of another version of the run"),
        (lambda f: f.replace(b"abab", b"acac", 1), "It is an approval file of another policy: "),
        (lambda f: f.replace(b'"approve"', b'"deny"'), 'decision is "deny", the request says "approve".'),
        (lambda f: f.replace(b'"alice"', b'"bob"'), 'person is "bob", the request says "alice".'),
        (lambda f: f.replace(b"epoch = 1\n", b""), "epoch is missing, the request says 1."),
        (lambda f: f.replace(b"epoch = 1\n", b"epoch = true\n"), "another epoch: epoch is true, the request says 1."),
        (lambda f: f + b"more = [1, 2.5, 'x']\n", 'more is [1, 2.5, "x"], the request has none.'),
        (lambda f: f.replace(b"# I approve", b"# I have seen"), 'Line 1 is `# I have seen exactly this action, once.`'),
        (lambda f: f.replace(b"summary = ", b"summary == "), 'Line 11 is `summary == '),
        (lambda f: f[:200], 'Line 7 is `ask = "01jdxm2r7q8v9w0a1b2c3d4e5`, it must be'),
        (lambda f: f[: f.index(b"[params]")], "amount_minor is missing"),
        (lambda f: b"", "It is empty."),
        (lambda f: b"x" * (MAX_FILE + 1), "It has 8193 bytes; a vote has at most 8192."),
        (lambda f: f, "The bytes are equal."),
    ],
)  # fmt: skip
def test_a_file_that_differs_is_explained(change: Callable[[bytes], bytes], said: str) -> None:
    told = explain_file(FILE, change(FILE))
    assert said in told
    assert told.endswith(".")


def test_several_differences_are_named_up_to_three() -> None:
    other = FILE.replace(b"payments.transfer", b"payments.refund").replace(b"125000", b"1").replace(b"EUR", b"USD")
    other = other.replace(b"DE8", b"DE9")
    told = explain_file(FILE, other)
    assert told.startswith('verb is "payments.refund", the request says "payments.transfer"; amount_minor is 1,')
    assert told.endswith("; and 2 more.")


def test_an_answer_of_another_kind_is_said_first() -> None:
    """The file of one's deny under the path of an approve says another decision, whatever else differs."""
    assert explain_file(FILE, DENY["file"].encode()).startswith('decision is "deny", the request says "approve"')


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.replace(b"approve", b"accept", 1), "The subject is `accept payments.transfer 01jd"),
        (lambda m: b"Fix the build\n\n" + m, "The subject is `Fix the build`, it must be `approve payments.transfer"),
        (lambda m: m[: m.index(b"Approval-")], "The trailer is missing: Approval-SHA256: 596c91df"),
        (lambda m: m.replace(b"596c", b"596d"), "The trailer is that of another file: Approval-SHA256: 596d91df"),
        (lambda m: m.replace(b"1,250", b"1,251"), "Line 3 is `Transfer 1,251.00 EUR to"),
        (lambda m: m + b"Signed-off-by: Alice\n", "It goes on after its end, with `Signed-off-by: Alice`."),
        (lambda m: m.replace(b"\n", b"\r\n"), "It has CRLF line ends"),
        (lambda m: m[:-1], "It has no final newline."),
        (lambda m: m.replace(b"\n\n", b"\n", 1), "Only blanks differ, first in line 2."),
        (lambda m: b"", "It is empty."),
        (lambda m: b"x" * (MAX_MESSAGE + 1), "It has 65537 bytes"),
        (lambda m: m, "The messages are equal."),
    ],
)
def test_a_message_that_differs_is_explained(change: Callable[[bytes], bytes], said: str) -> None:
    told = explain_message(MESSAGE, change(MESSAGE))
    assert said in told
    assert told.endswith(".")


def test_no_terminal_obeys_what_is_quoted() -> None:
    hostile = "\\u001b]0;x\\u0007\\u202e"
    told = explain_file(FILE, FILE.replace(b'"EUR"', f'"{hostile}"'.encode()))
    assert 'currency is "\\u001B]0;x\\u0007\\u202E", the request says "EUR".' in told
    assert explain_message(MESSAGE, "\x1b[2J\u202e".encode() + MESSAGE).isprintable()
    assert "é" not in explain_file(NOTE["file"].encode(), NOTE["file"].replace("a, b", "é").encode())


@pytest.mark.parametrize(
    "hostile",
    [
        b"a = " + b"[" * 4_000,
        b"a = " + b"{a=" * 2_000,
        b"a" + b".a" * 4_000 + b" = 1",
        b"a = " + b"9" * 8_000,
        b"a = " + b"0x" + b"f" * 8_000,
        b"a = 1e" + b"9" * 8_000,
        b'a = "' + b"x" * 8_000 + b'"',
        b"\n".join(b"[a%d]" % one for one in range(1_000)),
        b"[params.x]\ny = 1",
        b"params = 1",
        b"\xff" * 8_000,
        b"\n" * 8_000,
    ],
    ids=lambda raw: raw[:12].decode("latin-1"),
)
def test_hostile_toml_costs_one_short_sentence(hostile: bytes) -> None:
    """Deep nesting, huge numbers and long texts are cut, not followed."""
    told = explain_file(FILE, hostile)
    assert len(told) < 700
    assert told.isascii()
    assert told.isprintable()


def test_a_key_twice_is_no_toml() -> None:
    """A reader that took the last of two would explain a file that says something else to others."""
    assert read_flat(b"a = 1\n[params]\na = 2\n") == {"a": 1, "params.a": 2}
    with pytest.raises(Malformed):
        read_flat(b"a = 1\na = 1\n")
