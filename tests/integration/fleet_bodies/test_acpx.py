"""The real acpx with a scripted agent behind it: sessions, text, denied tools, every way of ending, nothing left."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.core.errors import Unavailable
from gitops_bot.harness.acpx import EXITS, AcpxBodies, Tools, session
from gitops_bot.harness.bodies import Start
from gitops_bot.harness.fleet_isolation import Kind, isolate
from gitops_bot.ports import BodyEnd, BodyOrder, BodyStop, Harness

pytestmark = pytest.mark.xdist_group("acpx")
MODULES = Path(__file__).parents[2] / "node" / "node_modules"
NODE = next(iter(MODULES.glob("node-linux-*/bin/node")), Path(shutil.which("node") or "node"))
ACPX = (str(NODE), str(MODULES / "acpx" / "dist" / "cli.js"))
AGENT = Path(__file__).parents[2] / "acp_agent.py"
NO_TOOLS = Tools()
PYTHON = os.path.realpath(sys.executable)


@dataclass
class Place:
    """A folder in which an agent works, and the bodies that run it."""

    folder: Path
    bodies: AcpxBodies

    def order(self, *steps: str, limit: float = 60.0, env: Mapping[str, str] | None = None) -> BodyOrder:
        argv = (PYTHON, str(AGENT), str(self.folder))
        env = {"HOME": str(self.folder), **(env or {})}
        return BodyOrder("linter", "01RUN", 1, argv, self.folder, None, "\n".join(steps).encode(), env, limit)

    def turn(self, *steps: str, limit: float = 60.0) -> tuple[BodyEnd, str]:
        text: list[bytes] = []
        end = self.bodies.run(self.order(*steps, limit=limit), text.append, lambda: False)
        return end, b"".join(text).decode()

    def log(self) -> list[str]:
        return (self.folder / "agent.log").read_text().splitlines()

    def running(self) -> list[int]:
        """List processes of the agent and of its session's owner that live."""
        named = str(self.folder).encode()
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                told = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
            except OSError:
                continue
            if named in told and int(path.name) != os.getpid():
                found.append(int(path.name))
        return found


def until(true: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def made(folder: Path, kind: Kind = Kind.NONE, tools: Tools = NO_TOOLS) -> Place:
    reads = (MODULES, AGENT)
    apart = isolate(kind, reads=reads) if kind is Kind.BWRAP else isolate(kind)
    return Place(folder, AcpxBodies(apart.start, ACPX, tools))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = made(tmp_path)
    yield found
    found.bodies.release(found.order())
    until(lambda: not found.running())


def say(text: str) -> str:
    return f"!say {json.dumps(text)}"


def test_a_turn_s_text_is_the_agent_s_messages(place: Place) -> None:
    steps = (
        say("REPORT: begun\n"),
        "!think " + json.dumps("ASK: shall I?\n"),
        '!pieces "REPORT: of pieces"',
        "!tool ASK: is this a marker?",
        say("OUTCOME: WORK_DONE"),
    )
    end, text = place.turn(*steps)
    assert end == BodyEnd(BodyStop.ENDED, 0)
    assert text == "REPORT: begun\nREPORT: of pieces\nOUTCOME: WORK_DONE"
    bodies: Harness = place.bodies
    assert bodies.keeps_sessions


def test_text_is_heard_while_the_turn_still_runs(place: Place) -> None:
    gate = place.folder / "gate"
    heard: list[bytes] = []

    def hear(piece: bytes) -> None:
        heard.append(piece)
        gate.touch()

    order = place.order(say("REPORT: first\n"), f"!wait {gate}", say("REPORT: second\n"))
    assert place.bodies.run(order, hear, lambda: False).stop is BodyStop.ENDED
    assert b"".join(heard) == b"REPORT: first\nREPORT: second\n"


def test_the_next_turn_goes_on_in_the_session_and_hears_no_earlier_one_again(place: Place) -> None:
    """Also when owner and agent are gone meanwhile: the agent tells its history, which is not heard."""
    assert place.turn(say("one"))[1] == "one"
    until(lambda: not place.running())
    assert place.turn(say("two")) == (BodyEnd(BodyStop.ENDED, 0), "two")
    log = place.log()
    assert (log.count("session/new"), log.count("session/prompt")) == (1, 2)
    assert log.count("session/load") >= 2


def test_a_released_session_is_closed_and_nothing_runs(place: Place) -> None:
    place.turn(say("one"))
    place.bodies.release(place.order())
    assert not place.running()
    place.bodies.release(place.order())
    place.turn(say("two"))
    assert place.log().count("session/new") == 2


def test_a_session_that_never_was_is_released_without_an_error(place: Place) -> None:
    place.bodies.release(place.order())


def test_two_agents_have_two_sessions_in_one_folder(place: Place) -> None:
    order = place.order()
    assert session(order) == "linter-01RUN"
    named = BodyOrder("linter", "01RUN", 1, order.argv, order.folder, "kept", b"", {}, 1.0)
    assert session(named) == "kept"


def test_every_tool_is_denied_that_is_not_approved_and_the_turn_ends_all_the_same(place: Place) -> None:
    """Fail closed, and at once: a permission is no way to ask a person."""
    end, text = place.turn("!permission execute", "!permission read", say("OUTCOME: BLOCKED\n"))
    assert text == "execute: no\nread: no\nOUTCOME: BLOCKED\n"
    assert end == BodyEnd(BodyStop.ENDED, 5, "2 of 2 permission requests denied")


def test_what_is_approved_by_name_is_allowed_and_a_denial_is_stronger(tmp_path: Path) -> None:
    place = made(tmp_path, tools=Tools(approve=("read", "edit"), deny=("edit",)))
    end, text = place.turn("!permission read", "!permission edit", "!permission delete")
    assert text.splitlines() == ["read: yes", "edit: no", "delete: no"]
    assert end == BodyEnd(BodyStop.ENDED, 0, "2 of 3 permission requests denied")
    place.bodies.release(place.order())
    assert json.loads(Tools(("read",), ("edit",)).policy()) == {
        "autoApprove": ["read"],
        "autoDeny": ["edit"],
        "defaultAction": "deny",
    }


def test_no_file_and_no_terminal_of_acpx_s_is_offered_and_the_agent_s_own_settings_change_nothing(
    place: Place,
) -> None:
    """An agent can write `.acpxrc.json` into its folder for its next turn."""
    (place.folder / ".acpxrc.json").write_text('{"defaultPermissions": "approve-all", "format": "text"}')
    end, text = place.turn("!permission execute")
    assert (end.stop, text) == (BodyStop.ENDED, "execute: no\n")


@pytest.mark.parametrize(
    ("step", "stop", "code", "said"),
    [
        ('!error {"code": -32603, "message": "broken"}', BodyStop.FAILED, 1, "broken"),
        ('!error {"code": -32603, "message": "429", "data": {"retryAfter": 9}}', BodyStop.FAILED, 1, "429"),
        ("!exit 3", BodyStop.FAILED, 1, "disconnected"),
        ("!stop refusal", BodyStop.FAILED, 0, "refusal"),
        ("!stop max_tokens", BodyStop.FAILED, 0, "max_tokens"),
    ],
)
def test_a_turn_that_failed_says_so(step: str, stop: BodyStop, code: int, said: str, place: Place) -> None:
    end, text = place.turn(say("so far"), step)
    assert (end.stop, end.exit_code, text) == (stop, code, "so far")
    assert said in end.detail


def test_a_reached_limit_names_its_seconds(place: Place) -> None:
    end, _ = place.turn('!error {"code": -32603, "message": "slow down", "data": {"status": 429, "retryAfter": 90}}')
    assert end == BodyEnd(BodyStop.RATE_LIMITED, 1, "slow down", 90.0)


def test_a_time_limit_ends_agent_and_owner(place: Place) -> None:
    end, text = place.turn(say("working"), "!sleep 60", limit=4.0)
    assert (end.stop, end.detail, text) == (BodyStop.TIMED_OUT, "took longer than 4 s", "working")
    assert not place.running()


def test_a_stop_ends_agent_and_owner(place: Place) -> None:
    heard: list[bytes] = []
    order = place.order(say("working"), "!sleep 60")
    end = place.bodies.run(order, heard.append, lambda: bool(heard))
    assert (end.stop, b"".join(heard)) == (BodyStop.STOPPED, b"working")
    assert not place.running()


def test_what_the_hearer_raises_ends_agent_and_owner(place: Place) -> None:
    def hear(_: bytes) -> None:
        raise RuntimeError("away")

    with pytest.raises(RuntimeError, match="away"):
        place.bodies.run(place.order(say("working"), "!sleep 60"), hear, lambda: False)
    assert not place.running()


def test_a_release_ends_a_turn_that_a_killed_broker_left(place: Place) -> None:
    """The owner is in no group of the broker's: whoever finds the body lost releases its session."""
    order = place.order(say("working"), "!sleep 60")
    left: list[BodyEnd] = []
    heard = threading.Event()
    thread = threading.Thread(target=lambda: left.append(place.bodies.run(order, lambda _: heard.set(), lambda: False)))
    thread.start()
    assert heard.wait(30)
    assert place.running()
    place.bodies.release(order)
    thread.join(30)
    assert left and left[0].stop is not BodyStop.ENDED
    until(lambda: not place.running())


BROKER = """
import json, sys
from pathlib import Path
from gitops_bot.harness.acpx import AcpxBodies
from gitops_bot.harness.fleet_isolation import Kind, isolate
from gitops_bot.ports import BodyOrder
acpx, argv, folder, prompt = json.loads(sys.argv[1])
env = {"HOME": folder}
order = BodyOrder("linter", "01RUN", 1, tuple(argv), Path(folder), None, prompt.encode(), env, 60.0)
AcpxBodies(isolate(Kind.NONE).start, acpx).run(order, lambda _: None, lambda: False)
"""


def test_the_next_turn_ends_one_that_a_killed_broker_left(place: Place) -> None:
    """Never two bodies of one agent in one folder: the turn is dispatched again, the lost one is gone before."""
    order = place.order(say("working"), "!sleep 60")
    plan = json.dumps([ACPX, order.argv, str(order.folder), order.prompt.decode()])
    broker = subprocess.Popen([sys.executable, "-c", BROKER, plan])
    until(lambda: (place.folder / "agent.log").exists() and "session/prompt" in place.log())
    broker.kill()
    broker.wait()
    (lost,) = [int(line.split()[1]) for line in place.log() if line.startswith("pid")][-1:]
    assert Path(f"/proc/{lost}").exists()
    assert place.turn(say("again")) == (BodyEnd(BodyStop.ENDED, 0), "again")
    assert not Path(f"/proc/{lost}").exists()


def test_an_agent_that_cannot_start_is_told_from_one_that_failed(place: Place) -> None:
    order = place.order()
    absent = BodyOrder("linter", "01RUN", 1, ("./absent",), order.folder, None, b"x", order.env, 60.0)
    end = place.bodies.run(absent, print, lambda: False)
    assert (end.stop, end.exit_code) == (BodyStop.NOT_STARTED, 1)
    assert "absent" in end.detail
    nothing = AcpxBodies(isolate(Kind.NONE).start, ("no-such-node", ACPX[1]))
    assert nothing.run(order, print, lambda: False) == BodyEnd(
        BodyStop.NOT_STARTED, detail="there is no program no-such-node"
    )
    with pytest.raises(Unavailable):
        nothing.release(order)


def test_arguments_that_acpx_does_not_take_start_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, AcpxBodies(isolate(Kind.NONE).start, (*ACPX, "--no-such-option")))
    end, _ = place.turn(say("x"))
    assert (end.stop, end.exit_code) == (BodyStop.NOT_STARTED, 2)


def test_an_empty_capsule_starts_nothing(place: Place) -> None:
    assert place.turn("")[0].stop is BodyStop.NOT_STARTED


@pytest.mark.parametrize("code", [*EXITS, 7, 143])
def test_every_exit_status_without_the_end_of_a_turn_has_its_meaning(code: int, tmp_path: Path) -> None:
    """acpx's own table, and what it does not name: only a turn that said so itself has ended."""
    stand_in = tmp_path / "acpx"
    stand_in.write_text(f'#!/bin/sh\ncase "$*" in *ensure*|*close*) exit 0;; esac\nexit {code}\n')
    stand_in.chmod(0o755)
    end, _ = Place(tmp_path, AcpxBodies(isolate(Kind.NONE).start, (str(stand_in),))).turn("x")
    wanted = {0: "failed", 1: "failed", 2: "not_started", 3: "timed_out", 4: "not_started", 5: "failed", 130: "stopped"}
    assert (end.stop, end.exit_code) == (wanted.get(code, "failed"), code)
    assert end.detail


@pytest.mark.parametrize("code", [0, 5])
def test_a_turn_that_said_its_end_has_ended(code: int, tmp_path: Path) -> None:
    """The accepting twin; 5 speaks of the whole session."""
    messages = ({"id": 2, "method": "session/prompt"}, {"id": 2, "result": {"stopReason": "end_turn"}})
    (tmp_path / "events").write_text("".join(json.dumps(message) + "\n" for message in messages))
    stand_in = tmp_path / "acpx"
    stand_in.write_text(f'#!/bin/sh\ncase "$*" in *ensure*|*close*) exit 0;; esac\ncat events\nexit {code}\n')
    stand_in.chmod(0o755)
    end, _ = Place(tmp_path, AcpxBodies(isolate(Kind.NONE).start, (str(stand_in),))).turn("x")
    assert end == BodyEnd(BodyStop.ENDED, code)


def given(argv: tuple[str, ...], tools: Tools = NO_TOOLS) -> tuple[str, ...]:
    seen: list[BodyOrder] = []

    def apart(order: BodyOrder) -> Start:
        seen.append(order)
        raise Unavailable("looked at only")

    AcpxBodies(apart, ("acpx",), tools).run(
        BodyOrder("linter", "01RUN", 1, argv, Path("/"), None, b"", {}, 1.0), print, lambda: False
    )
    return seen[0].argv


def test_a_command_is_one_word_of_acpx_s_and_a_known_agent_is_its_name() -> None:
    assert given(("claude",))[-4:] == ("claude", "cancel", "--session", "linter-01RUN")
    assert given(("python3", "a b.py", "it's"))[-5:-3] == ("--agent", "python3 'a b.py' 'it'\"'\"'s'")
    # A word of acpx's own would be a command of it.
    assert given(("exec",))[-5:-3] == ("--agent", "exec")
    words = given(("claude",), Tools(approve=("read",)))
    assert "escalate" not in " ".join(words)
    assert {"--deny-all", "--no-fs", "--no-terminal", "--json-strict"} <= set(words)


def test_the_environment_is_built_from_scratch(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITOPS_BOT_DATABASE_PASSWORD", "secret")
    _, text = place.turn("!environ")
    names: list[Any] = json.loads(text)
    assert "GITOPS_BOT_DATABASE_PASSWORD" not in names
    assert {"HOME", "PATH"} <= set(names)


def test_in_bubblewrap_nothing_outlives_a_turn_and_the_session_goes_on(tmp_path: Path) -> None:
    place = made(tmp_path, Kind.BWRAP)
    assert place.turn(say("one")) == (BodyEnd(BodyStop.ENDED, 0), "one")
    until(lambda: not place.running(), 5)
    assert place.turn(say("two")) == (BodyEnd(BodyStop.ENDED, 0), "two")
    assert place.log().count("session/new") == 1
    place.bodies.release(place.order())
    end, _ = place.turn("!sleep 60", limit=5.0)
    assert end.stop is BodyStop.TIMED_OUT
    until(lambda: not place.running(), 5)
