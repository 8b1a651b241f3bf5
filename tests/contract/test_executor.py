"""One suite for everything that carries actions out: a program, an address, and the fake that other tests use."""

import hashlib
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from gitops_bot.core.errors import Unavailable
from gitops_bot.core.executions import Done, ExecutionKey, Failed, NothingDone, Unknown
from gitops_bot.policy.model import HttpExecutor, ProcessExecutor
from gitops_bot.ports import Executor
from gitops_bot.verbs.conformance import check_executor
from gitops_bot.verbs.http import AddressExecutor
from gitops_bot.verbs.process import ProgramExecutor
from tests.fake_executor import FakeExecutor, Turn
from tests.payee import Payee, listening, said

KEY, OTHER = ExecutionKey("01jd-a"), ExecutionKey("01jd-b")


def body(key: ExecutionKey) -> bytes:
    return json.dumps({"key": key}).encode("ascii")


class Receiver(Protocol):
    """A receiver under test: its executor, what it is to do next, and the keys under which it really did something."""

    executor: Executor

    def turn(self, turn: Turn) -> None: ...

    def effects(self) -> list[str]: ...


class Fake:
    def __init__(self, idempotent: bool) -> None:
        self.fake = FakeExecutor(idempotent)
        self.executor: Executor = self.fake

    def turn(self, turn: Turn) -> None:
        self.fake.turns = [turn] * 100

    def effects(self) -> list[str]:
        return [key for key, _ in self.fake.effects]


PROGRAM = """
import json, os, pathlib, signal, sys
folder, dedupes = pathlib.Path(sys.argv[1]), sys.argv[2] == "True"
turn, key, effects = (folder / "turn").read_text(), json.load(sys.stdin)["key"], folder / "effects"
if turn == "REFUSES":
    sys.exit("no")
dup = dedupes and effects.exists() and key in effects.read_text().split()
if not dup:
    with effects.open("a") as file:
        print(key, file=file)
if turn == "LOSES_ANSWER":
    os.kill(os.getpid(), signal.SIGKILL)
print("dup" if dup else "done")
"""


class Program:
    def __init__(self, idempotent: bool, folder: Path) -> None:
        self.folder, self.path = folder, folder / "pay"
        self.path.write_text(f"#!{os.path.realpath(sys.executable)} -I\n{PROGRAM}", encoding="ascii")
        sha256 = hashlib.sha256(self.path.read_bytes()).hexdigest()
        pinned = ProcessExecutor((str(self.path), str(folder), str(idempotent)), sha256, idempotent)
        self.executor: Executor = ProgramExecutor(pinned, folder, timeout=120)
        self.turn(Turn.WORKS)

    def turn(self, turn: Turn) -> None:
        (self.folder / "turn").write_text(turn.name, encoding="ascii")
        if turn is Turn.IS_AWAY:
            self.path.rename(self.folder / "away")

    def effects(self) -> list[str]:
        file = self.folder / "effects"
        return file.read_text(encoding="ascii").split() if file.exists() else []


class Address:
    def __init__(self, idempotent: bool, payee: Payee, keys: Path) -> None:
        payee.script = self.play
        self.now, self.done, self.dedupes = Turn.WORKS, list[str](), idempotent
        self.payee, self.keys = payee, keys
        self.executor: Executor = self.at(payee.port)

    def at(self, port: int) -> AddressExecutor:
        url = f"http://127.0.0.1:{port}/transfers"
        return AddressExecutor(HttpExecutor(url, self.dedupes, None), self.keys, timeout=120)

    def play(self, connection: socket.socket, request: bytes) -> None:
        key = json.loads(request.partition(b"\r\n\r\n")[2])["key"]
        if self.now is Turn.REFUSES:
            connection.sendall(said("403 Forbidden"))
            return
        dup = self.dedupes and key in self.done
        if not dup:
            self.done.append(key)
        if self.now is not Turn.LOSES_ANSWER:
            connection.sendall(said("200 OK", json.dumps({"dup": dup}).encode("ascii")))

    def turn(self, turn: Turn) -> None:
        self.now = turn
        if turn is Turn.IS_AWAY:
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                self.executor = self.at(taken.getsockname()[1])

    def effects(self) -> list[str]:
        return self.done


@pytest.fixture(params=["fake", "program", "address"])
def receiver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[bool], Receiver]]:
    with listening(lambda connection, asked: None) as payee:
        kinds: dict[str, Callable[[bool], Receiver]] = {
            "fake": Fake,
            "program": lambda idempotent: Program(idempotent, tmp_path),
            "address": lambda idempotent: Address(idempotent, payee, tmp_path),
        }
        yield kinds[request.param]


@pytest.mark.parametrize("idempotent", [True, False])
def test_it_says_what_the_bundle_declares_and_nothing_is_wrong(
    receiver: Callable[[bool], Receiver], idempotent: bool
) -> None:
    made = receiver(idempotent)
    assert made.executor.idempotent is idempotent
    assert made.executor.check() is None


def test_what_dedupes_does_a_key_once_and_says_dup(receiver: Callable[[bool], Receiver]) -> None:
    made = receiver(True)
    results = [made.executor.execute(key, body(key)) for key in (KEY, KEY, OTHER)]
    assert [result.dup for result in results if isinstance(result, Done)] == [False, True, False]
    assert made.effects() == [KEY, OTHER]


def test_what_does_not_dedupe_does_it_each_time(receiver: Callable[[bool], Receiver]) -> None:
    made = receiver(False)
    results = [made.executor.execute(KEY, body(KEY)) for _ in range(2)]
    assert [result.dup for result in results if isinstance(result, Done)] == [False, False]
    assert made.effects() == [KEY, KEY]


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_refusal_is_a_failure(receiver: Callable[[bool], Receiver], idempotent: bool) -> None:
    made = receiver(idempotent)
    made.turn(Turn.REFUSES)
    assert isinstance(made.executor.execute(KEY, body(KEY)), Failed)
    assert made.effects() == []


def test_i12_a_lost_answer_is_asked_for_again_where_it_dedupes(receiver: Callable[[bool], Receiver]) -> None:
    made = receiver(True)
    made.turn(Turn.LOSES_ANSWER)
    with pytest.raises(Unavailable) as caught:
        made.executor.execute(KEY, body(KEY))
    assert not isinstance(caught.value, NothingDone)
    made.turn(Turn.WORKS)
    result = made.executor.execute(KEY, body(KEY))
    assert isinstance(result, Done)
    assert result.dup
    assert made.effects() == [KEY]


def test_i12_a_lost_answer_is_unknown_where_it_does_not(receiver: Callable[[bool], Receiver]) -> None:
    made = receiver(False)
    made.turn(Turn.LOSES_ANSWER)
    assert isinstance(made.executor.execute(KEY, body(KEY)), Unknown)
    assert made.effects() == [KEY]


@pytest.mark.parametrize("idempotent", [True, False])
def test_i12_who_is_not_there_has_done_nothing(receiver: Callable[[bool], Receiver], idempotent: bool) -> None:
    made = receiver(idempotent)
    made.turn(Turn.IS_AWAY)
    with pytest.raises(NothingDone):
        made.executor.execute(KEY, body(KEY))
    assert made.effects() == []


def test_what_dedupes_passes_the_check(receiver: Callable[[bool], Receiver]) -> None:
    assert check_executor(receiver(True).executor, KEY).holds
