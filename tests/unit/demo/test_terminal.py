"""Who plays a person types by what is shown and by nothing else; the sentences of the transfer read as such."""

from pathlib import Path

from gitops_bot.demo import transfer_telling
from gitops_bot.demo.people import SSH, Signer
from gitops_bot.demo.terminal import answer, command_line

WORDS = "aardvark adroitness absurd"


def test_yes_is_typed_to_the_hosts_own_words_alone() -> None:
    """A policy of another digest has other words; the demo's people do not wave it through."""
    shown = "  in words\n    aardvark adroitness\n    absurd\n"
    assert answer("Type yes: ", shown, WORDS) == b"yes\n"
    assert answer("Type yes: ", shown.replace("absurd", "accrue"), WORDS) == b"no\n"


def test_the_code_that_is_shown_last_is_typed_and_without_one_nothing_is_signed() -> None:
    shown = "short code: AAAAAAAA\nthe file\nshort code: BBBBBBBB\n"
    assert answer("to sign: ", shown, WORDS) == b"BBBBBBBB\n"
    assert answer("to sign: ", "no code here", WORDS) == b"\x03"


def test_the_printed_command_finds_nothing_of_who_types_it() -> None:
    """Their own configuration and state of approvals stay out of it, and a path with a space is one word."""
    alice = Signer("alice", SSH, Path("/tmp/a b/alice"), "", "")
    line = command_line(alice, ["01jd", "--person", "alice"])
    assert line.startswith("env -u XDG_CONFIG_HOME -u XDG_STATE_HOME 'HOME=/tmp/a b/alice' 'GNUPGHOME=/tmp/a b/alice")
    assert line.endswith("approval sign 01jd --person alice")


def test_a_refusal_is_told_with_its_code_and_its_sentence() -> None:
    entry = {"kind": "vote.refused", "principal": "alice", "reason": "service_identity", "facts": {"commit": "c" * 40}}
    said = transfer_telling.sentence(entry)
    assert said is not None
    assert "alice's branch" in said
    assert "service_identity: A service never approves." in said
    assert transfer_telling.sentence({"kind": "effect.done", "facts": {}}) is not None
    assert transfer_telling.sentence({"kind": "token.issued", "facts": {}}) is None
    assert transfer_telling.reason("something_newer") == "something_newer"


def test_the_table_has_a_line_for_each_thing_that_was_tried() -> None:
    head, row = transfer_telling.table([("a transfer", "alice", "done")])
    assert head.split() == ["what", "who", "how", "it", "ended"]
    assert row.split() == ["a", "transfer", "alice", "done"]
