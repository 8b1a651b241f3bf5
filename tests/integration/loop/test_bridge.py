"""The control bridge over real sockets: the page's transcripts member by member, and clients that misbehave."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.bridge.client import BridgeLink
from gitops_bot.core.errors import Unavailable
from gitops_bot.loop.control import server as serving
from gitops_bot.loop.control.admissions import AdmissionLedger, Outcome
from gitops_bot.loop.control.server import ControlServer
from gitops_bot.loop.control.steering import Steering
from gitops_bot.loop.control.tokens import Tokens, make_tokens
from gitops_bot.loop.grammar import Mode
from gitops_bot.loop.session import SessionLog
from gitops_bot.loop.vocabulary import Ending, OpenAsk


class Scene:
    """A bridge with nothing behind it but levers."""

    def __init__(self, home: Path, *, trusting: bool = False) -> None:
        self.home = home
        self.log = SessionLog(home / "session.jsonl")
        self.ledger = AdmissionLedger(home / "admissions.jsonl", lambda: 1_700_000_000)
        self.steering = Steering(self.ledger, self.note, max_usd=0)
        self.tokens = make_tokens(home, keep=False)
        self.server = ControlServer(
            "127.0.0.1", 0, steering=self.steering, log=self.log, tokens=self.tokens, trusting=trusting
        )
        self.server.start()
        self.sockets: list[Any] = []

    def note(self, kind: str, members: Any) -> None:
        self.log.append(kind, **members)

    def shown(self, name: str) -> str:
        return (self.home / f"{name}.token").read_text().strip()

    def connect(self, token: str | None = None) -> "Line":
        line = Line(self.server.address)
        self.sockets.append(line)
        if token:
            assert line.ask({"auth": self.shown(token)}) == {"ok": True}
        return line

    def close(self) -> None:
        for line in self.sockets:
            line.close()
        self.server.stop(0)
        self.log.close()
        self.ledger.close()


class Line:
    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), 60)
        self.file = self.socket.makefile("rb")

    def ask(self, message: Any) -> Any:
        self.socket.sendall(json.dumps(message).encode() + b"\n")
        return self.read()

    def read(self) -> Any:
        line = self.file.readline()
        return json.loads(line) if line else None

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


@pytest.fixture
def open_scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path, trusting=True)
    yield made
    made.close()


# ---- the page's transcript


def test_rescope_then_again_then_another_payload(scene: Scene) -> None:
    broker = scene.connect("broker")
    message = {"cmd": "rescope", "regime": "R", "id": "k"}
    assert broker.ask(message) == {"ok": True, "cmd": "rescope", "regime": "R", "key": "k"}
    assert broker.ask(message) == {"ok": True, "cmd": "rescope", "key": "k", "dup": True}
    reply = broker.ask({**message, "regime": "S"})
    assert reply.pop("error").startswith("idempotency conflict: ")
    assert reply == {"ok": False, "cmd": "rescope", "key": "k"}
    scene.steering.settle("k", Outcome.APPLIED)
    assert broker.ask(message) == {"ok": True, "cmd": "rescope", "key": "k", "dup": True, "outcome": "applied"}


def test_approve_stand_alone_grants_the_pending_regime_under_the_derived_key(scene: Scene) -> None:
    scene.steering.open(OpenAsk("R", "h", Mode.BLOCK))
    operator = scene.connect("operator")
    assert operator.ask({"cmd": "approve"}) == {"ok": True, "cmd": "approve", "regime": "R", "key": "approve:R"}
    assert operator.ask({"cmd": "approve", "trace_id": "R"})["dup"] is True
    rescope = scene.steering.levers()[1]
    assert rescope is not None
    assert (rescope.regime, rescope.key) == ("R", "rescope-from:approve:R")
    kinds = [json.loads(line) for line in (scene.home / "admissions.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["key"]) for line in kinds] == [
        ("admitted", "approve:R"),
        ("admitted", "rescope-from:approve:R"),
        ("settled", "approve:R"),
    ]


def test_approve_with_nothing_pending_is_refused_and_refused_again(scene: Scene) -> None:
    operator = scene.connect("operator")
    message = {"cmd": "approve", "id": "a"}
    refused = {"ok": False, "cmd": "approve", "error": "no pending approval", "key": "a"}
    assert operator.ask(message) == refused
    scene.steering.open(OpenAsk("R", "h", Mode.BLOCK))
    assert operator.ask(message) == refused
    assert scene.steering.levers()[1] is None


def test_approve_of_one_of_several_asks_needs_its_name(scene: Scene) -> None:
    scene.steering.open(OpenAsk("R", "h", Mode.CONTINUE))
    scene.steering.open(OpenAsk("S", "h", Mode.CONTINUE))
    operator = scene.connect("operator")
    assert operator.ask({"cmd": "approve"})["error"] == "several asks are open: name trace_id"
    assert operator.ask({"cmd": "approve", "trace_id": "S"})["regime"] == "S"


def test_deny_clears_the_pending_regime_so_a_later_approve_grants_nothing(scene: Scene) -> None:
    scene.steering.open(OpenAsk("R", "h", Mode.BLOCK))
    operator = scene.connect("operator")
    reply = operator.ask({"cmd": "deny", "reason": "no"})
    assert reply.pop("key").startswith("deny:")
    assert reply == {"ok": True, "cmd": "deny", "reason": "no"}
    assert operator.ask({"cmd": "approve"})["error"] == "no pending approval"


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_with_a_broker_attached_an_operator_only_claims(scene: Scene, decision: str) -> None:
    """I10, I19: the loop stays as it is until the broker answers."""
    scene.steering.open(OpenAsk("R", "h", Mode.BLOCK))
    assert scene.connect("broker").ask({"cmd": "tail", "role": "broker"}) == {"ok": True, "cmd": "tail", "from_seq": 0}
    operator = scene.connect("operator")
    reply = operator.ask({"cmd": decision, "id": "c"})
    assert reply.pop("reason", "rejected") == "rejected"
    assert reply == {"ok": True, "cmd": decision, "claimed": True, "key": "c"}
    assert operator.ask({"cmd": decision, "id": "c"}) == {"ok": True, "cmd": decision, "key": "c", "dup": True}
    assert scene.steering.levers() == (False, None, None, None)
    lines = [json.loads(line) for line in (scene.home / "session.jsonl").read_text().splitlines()]
    assert [(x["kind"], x["trace_id"], x["decision"], x["key"]) for x in lines] == [
        ("approval_claimed", "R", decision, "c")
    ]
    scene.steering.close("R", Ending.GRANTED)
    outcome = "applied" if decision == "approve" else "superseded"
    assert operator.ask({"cmd": decision, "id": "c"}).get("outcome", "superseded") == outcome


def test_a_broker_s_own_deny_is_no_claim(scene: Scene) -> None:
    scene.steering.open(OpenAsk("R", "h", Mode.BLOCK))
    broker = scene.connect("broker")
    scene.steering.attach_broker()
    assert broker.ask({"cmd": "deny", "reason": "no", "id": "deny:1", "trace_id": "R"})["ok"] is True
    denial = scene.steering.levers()[2]
    assert denial is not None
    assert (denial.key, denial.trace_id) == ("deny:1", "R")


def test_levels_budget_and_steers(scene: Scene) -> None:
    operator = scene.connect("operator")
    assert operator.ask({"cmd": "set-budget", "usd": 3, "id": "b"}) == {
        "ok": True,
        "cmd": "set-budget",
        "usd": 3.0,
        "key": "b",
    }
    assert operator.ask({"cmd": "pause", "id": "p"}) == {"ok": True, "cmd": "pause", "key": "p"}
    status = operator.ask({"cmd": "status"})
    assert status == {
        "ok": True,
        "cmd": "status",
        "status": {"phase": "starting", "iter": 0, "spend": 0.0, "paused": True, "max_cost": 3.0},
    }
    operator.ask("resume")
    assert operator.ask("status")["status"]["paused"] is False
    operator.ask({"cmd": "steer", "text": "try left", "id": "s"})
    assert scene.steering.steers() == [("s", "try left")]
    assert operator.ask({"cmd": "stop", "id": "x"}) == {"ok": True, "cmd": "stop", "key": "x"}
    assert scene.steering.levers()[3] == "stop on the bridge"
    assert not scene.steering.aborted
    operator.ask("abort")
    assert scene.steering.aborted


def test_lines_that_are_no_command(scene: Scene) -> None:
    line = scene.connect()
    assert line.ask({"cmd": "x"}) == {"ok": False, "error": 'unknown control command "x"'}
    assert line.ask({}) == {"ok": False, "error": "command object needs cmd"}
    assert line.ask([1]) == {"ok": False, "error": "command must be a JSON object or string"}
    assert line.ask("status")["ok"] is True


def test_an_admission_that_cannot_be_recorded_has_no_effect_but_stop_stops(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gitops_bot.loop.control.admissions.os.fsync", full)
    broker = scene.connect("broker")
    reply = broker.ask({"cmd": "rescope", "regime": "R", "id": "k"})
    assert reply.pop("error").startswith("admission not recorded: ")
    assert reply == {"ok": False, "cmd": "rescope", "key": "k"}
    assert scene.steering.levers()[1] is None
    assert broker.ask("stop") == {"ok": True, "cmd": "stop", "unrecorded": True}
    assert scene.steering.levers()[3] is not None
    monkeypatch.undo()
    assert broker.ask({"cmd": "rescope", "regime": "R", "id": "k"})["ok"] is True
    assert "rescope" in (scene.home / "admissions.jsonl").read_text()


# ---- who


DENIED = [
    (None, ["approve", "deny", "pause", "resume", "stop", "abort", "rescope"]),
    ("viewer", ["approve", "deny", "pause", "resume", "stop", "abort", "rescope"]),
    ("operator", ["rescope"]),
]


@pytest.mark.parametrize(("token", "cmd"), [(token, cmd) for token, cmds in DENIED for cmd in cmds])
def test_a_lesser_token_is_not_permitted_and_changes_nothing(scene: Scene, token: str | None, cmd: str) -> None:
    line = scene.connect(token)
    assert line.ask({"cmd": cmd, "id": "k"}) == {"ok": False, "cmd": cmd, "error": "not permitted"}
    assert scene.steering.levers() == (False, None, None, None)
    assert scene.ledger.all() == []
    assert line.ask("status")["ok"] is True


@pytest.mark.parametrize("token", [None, "viewer", "operator"])
def test_only_the_broker_s_token_tails_as_broker(scene: Scene, token: str | None) -> None:
    line = scene.connect(token)
    assert line.ask({"cmd": "tail", "role": "broker"}) == {"ok": False, "cmd": "tail", "error": "not permitted"}
    assert not scene.steering.broker_attached
    assert line.ask({"cmd": "tail"})["ok"] is True


def test_a_wrong_token_closes_the_connection(scene: Scene) -> None:
    line = scene.connect()
    assert line.ask({"auth": "guess"}) == {"ok": False, "error": "wrong token"}
    assert line.read() is None


def test_a_token_after_the_first_line_is_refused(scene: Scene) -> None:
    line = scene.connect()
    line.ask("status")
    assert line.ask({"auth": scene.shown("broker")})["error"] == "auth must be the first line"
    assert line.read() is None


def test_an_open_bridge_serves_everybody(open_scene: Scene) -> None:
    line = open_scene.connect()
    assert line.ask({"cmd": "rescope", "regime": "R", "id": "k"})["ok"] is True


def test_tokens_are_files_of_this_user_only_and_differ(tmp_path: Path) -> None:
    made = make_tokens(tmp_path, keep=False)
    files = sorted(tmp_path.glob("*.token"))
    assert [file.name for file in files] == ["broker.token", "operator.token", "viewer.token"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert len({file.read_text() for file in files}) == 3
    assert make_tokens(tmp_path, keep=True).broker() == made.broker()
    assert make_tokens(tmp_path, keep=False).broker() != made.broker()
    assert made.broker() not in repr(made)
    assert isinstance(made, Tokens)


# ---- tail


def test_a_tail_replays_then_answers_then_follows_each_line_once(scene: Scene) -> None:
    for number in range(1, 1001):
        scene.log.append("note", msg=str(number))
    line = scene.connect()
    line.socket.sendall(b'{"cmd":"tail","from_seq":700}\n')
    replayed = [line.read() for _ in range(300)]
    assert [(x["seq"], x["msg"]) for x in replayed] == [(n, str(n)) for n in range(701, 1001)]
    assert line.read() == {"ok": True, "cmd": "tail", "from_seq": 700}
    scene.log.append("note", msg="live")
    assert line.read() == {"v": 1, "kind": "note", "msg": "live", "seq": 1001}


def test_twenty_tails_started_while_lines_are_written_get_each_line_once(scene: Scene) -> None:
    total = 600
    got: list[list[int]] = []

    def follow() -> None:
        line = scene.connect()
        line.socket.sendall(b'"tail"\n')
        seqs: list[int] = []
        while len(seqs) < total:
            message = line.read()
            if "seq" in message:
                seqs.append(message["seq"])
        got.append(seqs)

    threads = [threading.Thread(target=follow) for _ in range(20)]
    for number in range(total):
        scene.log.append("note", msg=str(number))
        if number % 30 == 0:
            threads[number // 30].start()
    for thread in threads:
        thread.join(120)
    assert len(got) == 20
    assert all(seqs == list(range(1, total + 1)) for seqs in got)


def test_another_command_on_a_tailing_connection_is_answered_after_the_replay(scene: Scene) -> None:
    scene.log.append("note", msg="one")
    line = scene.connect()
    line.socket.sendall(b'"tail"\n"status"\n"tail"\n')
    assert [line.read().get("cmd", "line") for _ in range(4)] == ["line", "tail", "status", "tail"]


# ---- misbehaving clients


def test_a_line_over_64_kib_is_refused_and_closed(scene: Scene) -> None:
    line = scene.connect()
    with contextlib.suppress(OSError):
        line.socket.sendall(b"x" * (64 * 1024 + 2))
    assert line.read() == {"ok": False, "error": "line too long"}
    assert line.read() is None


def test_the_longest_line_is_answered(scene: Scene) -> None:
    line = scene.connect()
    message = b'{"cmd":"status","pad":"'
    line.socket.sendall(message + b"x" * (64 * 1024 - len(message) - 2) + b'"}\n')
    assert line.read()["ok"] is True


def test_half_lines_are_joined(scene: Scene) -> None:
    line = scene.connect()
    for byte in b'{"cmd":"status"}\n':
        line.socket.sendall(bytes([byte]))
    assert line.read()["ok"] is True


def test_a_client_that_closes_its_half_still_gets_its_answer(scene: Scene) -> None:
    line = scene.connect()
    line.socket.sendall(b'"status"\n')
    line.socket.shutdown(socket.SHUT_WR)
    assert line.read()["ok"] is True
    assert line.read() is None


def test_a_client_that_never_reads_does_not_stop_the_others(scene: Scene) -> None:
    for number in range(100):
        scene.log.append("note", msg=str(number) * 3000)
    deaf = scene.connect()
    deaf.socket.sendall(b'"tail"\n' + b'"status"\n' * 5000)
    # It stays deaf for as long as the test lasts: whoever waited for it would wait for ever.
    assert scene.connect().ask("status")["ok"] is True


def test_strangers_cannot_keep_the_broker_out(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CLIENTS", 8)
    held = scene.connect("broker")
    for _ in range(30):
        scene.connect()
    late = scene.connect("broker")
    assert late.ask("status")["ok"] is True
    assert held.ask("status")["ok"] is True


def test_an_idle_stranger_is_closed_after_a_limit(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = scene.connect("broker")  # before the limit shrinks: a slow machine may take longer over this
    monkeypatch.setattr(serving, "IDLE_SECONDS", 0.2)
    idle = scene.connect()
    assert idle.read() is None
    assert broker.ask("status")["ok"] is True


# ---- the broker's client


def test_the_client_sends_and_reads_an_acknowledgement_then_a_duplicate(scene: Scene) -> None:
    link, token = BridgeLink(), scene.tokens.broker()
    message = {"cmd": "rescope", "regime": "R", "id": "rescope:1"}
    first = link.send(scene.server.address, token, message)
    assert (first.acknowledged, first.dup, first.error) == (True, False, None)
    again = link.send(scene.server.address, token, message)
    assert (again.acknowledged, again.dup, again.error) == (True, True, None)
    other = link.send(scene.server.address, token, {**message, "regime": "S"})
    assert not other.acknowledged
    assert other.error is not None


def test_the_client_reads_the_log_after_a_number_and_attaches(scene: Scene) -> None:
    for number in range(5):
        scene.log.append("note", msg=str(number))
    link, token = BridgeLink(), scene.tokens.broker()
    read = link.read_log(scene.server.address, token, 3)
    assert [(seq, record["msg"]) for seq, record in read] == [(4, "3"), (5, "4")]
    assert link.read_log(scene.server.address, token, 5) == ()
    assert scene.steering.broker_attached


def test_a_wrong_token_and_a_lesser_token_are_unavailable_to_the_client(scene: Scene) -> None:
    link = BridgeLink()
    with pytest.raises(Unavailable, match="token"):
        link.send(scene.server.address, "guess", {"cmd": "status"})
    with pytest.raises(Unavailable, match="not permitted"):
        link.read_log(scene.server.address, scene.shown("viewer"), 0)


Behaviour = Callable[[socket.socket], None]


@pytest.fixture
def other_side() -> Iterator[Callable[[Behaviour], str]]:
    """A bridge that behaves as told."""
    listeners: list[socket.socket] = []

    def build(behaviour: Behaviour) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    behaviour(connection)

        threading.Thread(target=serve, daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield build
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(
    "behaviour",
    [
        lambda peer: None,
        lambda peer: peer.sendall(b"nonsense\n"),
        lambda peer: peer.sendall(b'{"seq":1,"kind":"note"}\n'),
        lambda peer: peer.sendall(b"x" * 200_000),
        lambda peer: peer.sendall(b'{"ok":tr'),
        lambda peer: time.sleep(1.5),
        lambda peer: [peer.sendall(b" ") or time.sleep(0.2) for _ in range(8)],
    ],
    ids=["closes", "nonsense", "session line", "endless", "half", "silent", "dripping"],
)
def test_whatever_the_other_side_does_is_unavailable(
    other_side: Callable[[Behaviour], str], behaviour: Behaviour
) -> None:
    with pytest.raises(Unavailable):
        BridgeLink(timeout=0.8).send(other_side(behaviour), "", {"cmd": "status"})


@pytest.mark.parametrize("address", ["", "nowhere", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:1"])
def test_an_address_where_nobody_listens_is_unavailable(address: str) -> None:
    with pytest.raises(Unavailable):
        BridgeLink(timeout=1).send(address, "t", {"cmd": "status"})


def test_a_broker_that_polls_learns_how_the_run_ended(scene: Scene) -> None:
    """The bridge stays until its broker has read the last line, and no longer."""
    link, token = BridgeLink(), scene.tokens.broker()
    link.read_log(scene.server.address, token, 0)
    scene.log.append("shutdown", outcome="finished", reason="")
    stopping = threading.Thread(target=scene.server.stop, args=(600.0,))
    started = time.monotonic()
    stopping.start()
    time.sleep(0.3)
    assert link.read_log(scene.server.address, token, 0)[-1][1]["kind"] == "shutdown"
    stopping.join(60)
    assert not stopping.is_alive()
    assert time.monotonic() - started < 60
