"""`approval sign` with real gpg, ssh-keygen and git against a broker's own channel: what it signs counts, what it does
not sign leaves nothing behind, and nothing but a person at the terminal can type the code."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gitops_bot import process
from gitops_bot.core.asks import AskState
from gitops_bot.core.errors import Refusal
from gitops_bot.core.words import words_of
from gitops_bot.store import asks
from tests.approver_stage import TYPED, YES, Machine, Seat
from tests.signed_host import SignedHost

NewMachine = Callable[..., Machine]


def asked(host: SignedHost, **changes: object) -> str:
    """Open an ask and publish it."""
    ask = host.ask(**changes)
    host.announce()
    return ask


def answering(host: SignedHost) -> Callable[[str], bool]:
    """Let the broker look and publish its receipt, once something was pushed."""

    def answer(screen: str) -> bool:
        if "waiting for the broker" not in screen:
            return False
        host.look()
        host.announce()
        return True

    return answer


def answered(host: SignedHost, machine: Machine, ask: str, decision: str = "approve") -> tuple[int, str]:
    """Sign, let the broker look, and look again; give the status and what was said."""
    pushed = machine.run(ask, decision)
    assert pushed.status == 3
    host.look()
    host.announce()
    done = machine.run(ask, decision)
    assert done.document["commit"] == pushed.document["commit"]
    return done.status, done.document["outcome"]


@pytest.mark.parametrize("kind", ["ssh", "openpgp"])
def test_what_is_signed_at_a_terminal_counts(host: SignedHost, machine: NewMachine, kind: str) -> None:
    """From nothing: the words confirmed, the code typed, root and vote pushed, the broker's receipt printed."""
    ask = asked(host)
    ran = machine("alice", kind).bot(
        *("approval", "sign", ask, "--remote", host.stage.url, "--person", "alice", "--wait", "60s"),
        typed=(YES, TYPED),
        meanwhile=answering(host),
    )
    assert ran.status == 0, ran.screen
    assert "counted, 1 of 2, waiting for bob" in ran.screen
    assert "amount_minor  125000  =  1,250.00 EUR" in ran.screen


def test_a_pipe_cannot_type_the_code(host: SignedHost, machine: NewMachine) -> None:
    """Standard input holds every answer, and the terminal none: nothing is pinned and nothing signed. Its twin types
    the same at the terminal."""
    ask = asked(host)
    alice = machine()
    code = alice.run(ask, dry_run=True).document["short_code"]
    command = ("approval", "sign", ask, "--remote", host.stage.url, "--person", "alice", "--wait", "1s")
    piped = alice.bot(*command, stdin=f"yes\n{code}\n{code}\n{code}\n".encode())
    assert piped.status == 130
    alone = alice.without_terminal(*command, stdin=f"yes\n{code}\n".encode())
    assert (alone.returncode, b"there is no terminal" in alone.stderr) == (1, True)
    assert host.stage.tip("alice") is None
    assert not (alice.folder / ".config").exists()
    assert alice.bot(*command, typed=(YES, code)).status == 3
    assert host.stage.tip("alice") is not None


def test_another_code_signs_nothing(host: SignedHost, machine: NewMachine) -> None:
    ask = asked(host)
    alice = machine()
    seat = Seat(types="AAAAAAAA")
    refused = alice.run(ask, seat=seat)
    assert (refused.status, refused.document["outcome"]) == (1, "nothing was signed")
    assert seat.asked.count("code") == 3
    assert host.stage.tip("alice") is None
    assert alice.run(ask).status == 3


def test_the_same_command_again_looks_and_signs_nothing_anew(host: SignedHost, machine: NewMachine) -> None:
    ask = asked(host)
    alice = machine()
    first = alice.run(ask)
    seat = Seat()
    again = alice.run(ask, seat=seat)
    assert (first.status, again.status) == (3, 3)
    assert again.document["commit"] == first.document["commit"] == host.stage.tip("alice")
    assert seat.asked == []


def test_deny_and_revoke_are_the_same_command(host: SignedHost, machine: NewMachine) -> None:
    """An approval is taken back once; nothing of one's own follows, and there must be one to take back."""
    ask, other = asked(host), asked(host, amount_minor=7)
    alice = machine()
    with pytest.raises(Refusal, match="not_found"):
        alice.run(ask, "revoke")
    assert answered(host, alice, ask) == (0, "counted, 1 of 2, waiting for bob")
    assert answered(host, alice, ask, "revoke")[0] == 0
    for decision in ("approve", "deny"):
        with pytest.raises(Refusal, match="withdrawn_vote"):
            alice.run(ask, decision)
    assert answered(host, alice, other, "deny")[0] == 0
    with host.database.read() as tx:
        assert [asks.get(tx, one).state for one in (ask, other)] == [AskState.OPEN, AskState.DENIED]  # type: ignore[union-attr] # both were opened above


def test_the_asker_s_owner_may_deny_and_not_approve(host: SignedHost, machine: NewMachine) -> None:
    ask = asked(host)
    carol = machine("carol")
    with pytest.raises(Refusal, match="self_approval"):
        carol.run(ask)
    assert host.stage.tip("carol") is None
    assert answered(host, carol, ask, "deny")[0] == 0


def test_a_refusal_of_the_broker_is_told_with_what_to_do(host: SignedHost, machine: NewMachine) -> None:
    """The ask was withdrawn at the broker, which nobody can see on the branch before."""
    ask, open_one = asked(host), asked(host, amount_minor=9)
    with host.database.write() as tx:
        assert asks.end(tx, ask, AskState.WITHDRAWN, "test", None)
    alice = machine()
    ran = alice.bot(
        *("approval", "sign", ask, "--remote", host.stage.url, "--person", "alice", "--wait", "60s"),
        typed=(YES, TYPED),
        meanwhile=answering(host),
    )
    assert ran.status == 4, ran.screen
    assert "gitops-bot: withdrawn: The ask was withdrawn" in ran.screen
    assert "fix: " in ran.screen
    assert answered(host, alice, open_one)[0] == 0


def test_a_lost_race_is_signed_again_on_the_new_tip(host: SignedHost, machine: NewMachine) -> None:
    """Another machine of the same person pushes while the code is typed."""
    ask, other = asked(host), asked(host, amount_minor=11)
    alice = machine()
    assert alice.run(other).status == 3
    first = host.stage.tip("alice")
    third = asked(host, amount_minor=12)
    seat = Seat(typing=lambda: host.vote("alice", third))
    assert alice.run(ask, seat=seat).status == 3
    assert "your branch moved meanwhile" in seat.text
    host.look()
    host.announce()
    assert [alice.run(one).status for one in (other, third, ask)] == [0, 0, 0]
    assert first != host.stage.tip("alice")


def test_a_dry_run_shows_all_and_leaves_nothing(host: SignedHost, machine: NewMachine) -> None:
    """Without a terminal, a key or a pin: file, message and commands, and no trace of a decision."""
    ask = asked(host)
    alice = machine()
    alice.set("user.signingKey", "/nonexistent/key")
    done = alice.without_terminal("approval", "sign", ask, "--dry-run", "--remote", host.stage.url, "--person", "alice")
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    for part in ("# I approve exactly this action, once.", "Approval-SHA256:", "git commit-tree -S", "short code: "):
        assert part in text
    assert not (alice.state / "trust.json").exists()
    assert not (alice.folder / ".config").exists()
    assert host.stage.tip("alice") is None


def test_the_machine_remembers_what_was_confirmed(host: SignedHost, machine: NewMachine) -> None:
    """From the second time on neither flags nor words are asked for; `approval trust` says the host's words."""
    ask, other = asked(host), asked(host, amount_minor=13)
    alice = machine()
    first = alice.bot(
        *("approval", "sign", ask, "--remote", host.stage.url, "--person", "alice", "--wait", "1s"), typed=(YES, TYPED)
    )
    assert first.status == 3, first.screen
    second = alice.bot("approval", "sign", other, "--wait", "1s", "--json", typed=(TYPED,))
    assert second.status == 3, second.screen
    assert json.loads(second.screen.splitlines()[-1])["ask"] == other
    mine = json.loads(alice.bot("approval", "trust", "--json").screen)
    status, printed, _ = host.bot("trust", "show", "--json")
    assert (status, json.loads(printed)["words"]) == (0, mine["words"])
    assert mine["words"].split() == list(words_of(mine["policy"]["digest"]))
    assert (alice.folder / ".config/gitops-bot/approver.toml").stat().st_mode & 0o777 == 0o600
    assert alice.state.stat().st_mode & 0o777 == 0o700


def test_words_that_differ_pin_nothing(host: SignedHost, machine: NewMachine) -> None:
    ask = asked(host)
    ran = machine().bot(
        *("approval", "sign", ask, "--remote", host.stage.url, "--person", "alice", "--wait", "1s"), typed=("no",)
    )
    assert ran.status == 1
    assert "nothing was pinned, and nothing signed" in ran.screen
    assert host.stage.tip("alice") is None


def test_the_page_s_address_is_as_good_as_the_id(host: SignedHost, machine: NewMachine) -> None:
    ask = asked(host)
    done = machine().without_terminal(
        *("approval", "sign", f"http://localhost:1/asks/{ask}?x=1", "--dry-run"),
        *("--remote", host.stage.url, "--person", "alice"),
    )
    assert done.returncode == 0, done.stderr
    wrong = machine().without_terminal("approval", "sign", "http://localhost:1/asks/", "--dry-run")
    assert wrong.returncode == 64


def test_no_repository_s_configuration_chooses_what_signs(host: SignedHost, machine: NewMachine) -> None:
    """A repository around the person, and hooks that are theirs for other work, run nothing here."""
    ask = asked(host)
    alice = machine()
    program = alice.folder / "evil"
    program.write_text(f"#!/bin/sh\ntouch {alice.folder}/ran\nexit 1\n")
    program.chmod(0o700)
    hooks = alice.folder / "hooks"
    hooks.mkdir()
    for name in ("pre-push", "reference-transaction", "post-commit"):
        (hooks / name).symlink_to(program)
    alice.set("core.hooksPath", str(hooks))
    (alice.folder / ".git").mkdir()
    (alice.folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for folder in ("objects", "refs"):
        (alice.folder / ".git" / folder).mkdir()
    (alice.folder / ".git" / "config").write_text(
        f'[gpg]\n\tprogram = {program}\n[gpg "ssh"]\n\tprogram = {program}\n[user]\n\tsigningKey = /nonexistent\n'
    )
    ran = alice.sign(ask)
    assert ran.status == 3, ran.screen
    assert not (alice.folder / "ran").exists()
    host.look()
    host.announce()
    assert alice.run(ask).status == 0
    assert Path(alice.folder, ".git", "config").exists()


def test_one_vote_costs_few_programs(host: SignedHost, machine: NewMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program takes a few milliseconds, so that signing stays well under three seconds; however many asks and
    receipts the branch holds, their number is the same."""
    started: list[str] = []
    kept = {name: getattr(process, name) for name in ("run_attended", "start")}

    def counted(name: str) -> Callable[..., Any]:
        def call(argv: Sequence[str], **options: Any) -> Any:
            started.append(argv[0])
            return kept[name](argv, **options)

        return call

    alice = machine("alice", "openpgp")
    asks_ = [asked(host, amount_minor=100 + number) for number in range(3)]
    for name in ("run_attended", "start"):
        monkeypatch.setattr(process, name, counted(name))
    counts = []
    for ask in asks_:
        started.clear()
        assert alice.run(ask).status == 3
        counts.append(len(started))
    assert counts[1] == counts[2] < 60
    assert counts[0] < 60
