"""Whatever clients send, and however they die, the bridge answers all others, in order, and admits each key once."""

import contextlib
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.bridge.grammar import MAX_LINE
from gitops_bot.loop.control.admissions import AdmissionLedger
from gitops_bot.loop.control.server import ControlServer
from gitops_bot.loop.control.steering import Steering
from gitops_bot.loop.control.tokens import make_tokens
from gitops_bot.loop.session import SessionLog

PATIENCE = 30.0
"""Seconds; half of what an idle stranger is given, so nobody was answered only because others were dropped."""


class Served:
    """A bridge with a log of some length."""

    def __init__(self, home: Path) -> None:
        self.log = SessionLog(home / "session.jsonl")
        self.ledger = AdmissionLedger(home / "admissions.jsonl", lambda: 1_700_000_000)
        self.steering = Steering(self.ledger, lambda kind, members: None, max_usd=0)
        tokens = make_tokens(home, keep=False)
        self.token = tokens.broker()
        self.server = ControlServer("127.0.0.1", 0, steering=self.steering, log=self.log, tokens=tokens, trusting=False)
        for number in range(300):
            self.log.append("note", msg=f"line {number}")
        self.server.start()
        host, port = self.server.address.rsplit(":", 1)
        self.where = (host, int(port))

    def open(self) -> socket.socket:
        line = socket.create_connection(self.where, PATIENCE)
        line.settimeout(PATIENCE)
        return line

    def close(self) -> None:
        self.server.stop(0)
        self.log.close()
        self.ledger.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.close()


def a_line(dice: random.Random, token: str) -> bytes:
    """Draw one line, sound or not, from half a character to more than is taken."""
    noise = bytes(dice.randrange(256) for _ in range(dice.randrange(40))).replace(b"\n", b"")
    return dice.choice(
        [
            b'{"cmd":"status"}',
            b'"status"',
            b'{"cmd":"tail","from_seq":%d}' % dice.randrange(400),
            b'{"cmd":"approve"}',
            b'{"cmd":"rescope","regime":"R"}',
            json.dumps({"auth": dice.choice([token, "wrong", token[:-1]])}).encode(),
            b"",
            b"{}",
            b"[1]",
            b"null",
            noise,
            b"[" * dice.randrange(3000),
            b'{"cmd":"steer","text":"' + b"x" * dice.choice([10, MAX_LINE - 30, MAX_LINE]) + b'"}',
            b'{"a":' * dice.randrange(500),
            b'{"cmd":"set-budget","usd":1e999}',
            b'{"cmd":"status","cmd":"stop"}',
        ]
    )


def misbehave(served: Served, dice: random.Random) -> None:
    """Be one client: send a stream cut at random places, read some of the answers or none, end somehow."""
    with contextlib.suppress(OSError):
        line = served.open()
        line.settimeout(0.5)  # an answer that does not come is not waited for
        try:
            stream = b"\n".join(a_line(dice, served.token) for _ in range(dice.randrange(1, 12)))
            stream += dice.choice([b"\n", b"", b'{"cmd":"sta'])
            while stream:
                cut = dice.choice([1, 7, 100, 70_000])
                line.sendall(stream[:cut])
                stream = stream[cut:]
                if dice.random() < 0.2:
                    line.recv(dice.choice([1, 4096]))
            match dice.randrange(4):
                case 0:
                    line.shutdown(socket.SHUT_WR)
                    while line.recv(65536):
                        continue
                case 1:
                    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # ends in a reset
                case 2:
                    time.sleep(0.02)
        finally:
            line.close()


@pytest.mark.parametrize("seed", range(6))
def test_a_crowd_of_bad_clients_does_not_delay_a_good_one(served: Served, seed: int) -> None:
    ends = threading.Event()

    def crowd(number: int) -> None:
        dice = random.Random(f"{seed}-{number}")
        while not ends.is_set():
            misbehave(served, dice)

    threads = [threading.Thread(target=crowd, args=(number,), daemon=True) for number in range(6)]
    for thread in threads:
        thread.start()
    try:
        slowest = 0.0
        line = served.open()
        file = line.makefile("rb")
        line.sendall(json.dumps({"auth": served.token}).encode() + b"\n")
        assert json.loads(file.readline()) == {"ok": True}
        for number in range(60):
            begun = time.monotonic()
            line.sendall(json.dumps({"cmd": "set-budget", "usd": number, "id": f"k{number}"}).encode() + b"\n")
            reply: dict[str, Any] = json.loads(file.readline())
            assert (reply["ok"], reply["key"]) == (True, f"k{number}")
            slowest = max(slowest, time.monotonic() - begun)
        assert slowest < PATIENCE
    finally:
        ends.set()
        for thread in threads:
            thread.join(120)
        file.close()
        line.close()
    assert served.steering.max_usd == 59
    ours = [item for item in served.ledger.all() if item.key.startswith("k")]
    assert [item.key for item in ours] == [f"k{number}" for number in range(60)]


@pytest.mark.parametrize("step", [1, 3, 61])
def test_a_slow_writer_is_answered_when_its_line_is_whole(served: Served, step: int) -> None:
    with served.open() as line, line.makefile("rb") as file:
        message = b'{"cmd":"status"}\n' * 3
        for start in range(0, len(message), step):
            line.sendall(message[start : start + step])
        assert [json.loads(file.readline())["cmd"] for _ in range(3)] == ["status"] * 3


def test_lines_up_to_the_limit_are_answered_one_for_one(served: Served) -> None:
    """64 KiB is a line; one byte more is not, and costs the connection."""
    frame = b'{"cmd":"status","pad":"%s"}'
    for size, answered in ((MAX_LINE, True), (MAX_LINE + 1, False)):
        with served.open() as line, line.makefile("rb") as file:
            line.sendall(frame % (b"x" * (size - len(frame) + 2)) + b"\n")
            reply = json.loads(file.readline())
            assert reply["ok"] is answered, reply
            if not answered:
                assert (reply["error"], file.readline()) == ("line too long", b"")


def test_clients_that_die_in_the_middle_of_a_replay_leave_nothing_behind(served: Served) -> None:
    for _ in range(40):
        line = served.open()
        line.sendall(b'{"cmd":"tail"}\n')
        line.recv(10)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        line.close()
    end = time.monotonic() + PATIENCE
    while served.server._clients and time.monotonic() < end:
        time.sleep(0.02)
    assert served.server._clients == {}
