"""A body looks for the database, keys, tokens and the broker's process: with nothing between them it finds all of it.

The Agents line of the attacks: reading `/proc`, the database, tokens and keys from a body under each isolation. The
broker here is a process of its own, for what a body can learn of it is in its /proc.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.core.errors import ConfigError
from gitops_bot.harness.bodies import CommandBodies
from gitops_bot.harness.fleet_isolation import Kind, isolate
from gitops_bot.ports import BodyEnd, BodyOrder, BodyStop

PYTHON = os.path.realpath(sys.executable)
ROW, KEY, TOKEN, ENVIRONED, NAMED = "row-3f9a", "key-77b1", "token-c0de", "environ-51ab", "cmdline-9e2d"
SECRETS = (ROW, KEY, TOKEN, ENVIRONED, NAMED)

SPY = r"""
import json, os, pathlib, signal, sys
broker, state, secrets = int(sys.argv[1]), sys.argv[2], sys.argv[3].split(",")
found = {"uid": os.getuid(), "cwd": os.getcwd(), "env": dict(os.environ), "prompt": sys.stdin.read(), "got": {}}
def read(path):
    try:
        with open(path, "rb") as file:
            data = file.read(1 << 20).decode("utf-8", "replace")
    except OSError:
        return
    for secret in secrets:
        if secret in data:
            found["got"].setdefault(secret, []).append(str(path))
names = ("broker.db", "keys/signing.key", "workspace.token")
roots = [""] + [f"/proc/{pid}/root" for pid in os.listdir("/proc") if pid.isdigit()]
for root in roots:
    for name in names:
        read(f"{root}{state}/{name}")
for pid in [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]:
    # Its own command and what started it name what it looks for.
    for name in ("environ", "cmdline"):
        text = pathlib.Path(f"/proc/{pid}/{name}")
        try:
            if sys.argv[3].encode() not in text.read_bytes():
                read(text)
        except OSError:
            pass
    try:
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            if os.path.realpath(f"/proc/{pid}/fd/{descriptor}").startswith(state):
                read(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        pass
for descriptor in range(3, 64):
    read(f"/proc/self/fd/{descriptor}")
try:
    os.kill(broker, 0)
    found["signals"] = True
except OSError:
    found["signals"] = False
found["wrote"] = []
for path in (f"{state}/planted", f"{state}/../other/planted", "/usr/planted", "mine"):
    try:
        pathlib.Path(path).write_text("x")
        found["wrote"].append(path.rpartition("/")[0])
    except OSError:
        pass
print(json.dumps(found))
"""

BROKER = r"""
import json, os, sys
from pathlib import Path
from gitops_bot.core.errors import ConfigError
from gitops_bot.harness.bodies import CommandBodies
from gitops_bot.harness.fleet_isolation import Kind, isolate
from gitops_bot.ports import BodyOrder
plan = json.load(sys.stdin)
state = Path(plan["state"])
held = open(state / "broker.db", "rb")
options = {name: plan[name] for name in ("user", "prefix") if name in plan}
apart = isolate(Kind(plan["kind"]), hidden=[state], **options)
argv = (*plan["argv"], str(os.getpid()), str(state), ",".join(plan["secrets"]))
order = BodyOrder("linter", "01RUN", 1, argv, Path(plan["folder"]), None, b"capsule", plan["env"], 60.0)
text = []
end = CommandBodies(apart.start).run(order, text.append, lambda: False)
said = {"said": apart.said, "shares": apart.shares_user, "stop": end.stop, "detail": end.detail}
print(json.dumps({**said, "text": b"".join(text).decode()}))
"""


@dataclass
class Machine:
    """A broker's state and two agents' folders, where another user can reach the folders."""

    home: Path

    @property
    def state(self) -> Path:
        return self.home / "state"

    @property
    def folder(self) -> Path:
        return self.home / "agent"

    def spied(self, kind: str, **options: Any) -> dict[str, Any]:
        """Let a body look around; give what it found and what its broker said."""
        spy = self.home / "spy.py"
        spy.write_text(SPY)
        spy.chmod(0o644)
        argv = options.pop("argv", [PYTHON, str(spy)])
        env = {"GITOPS_BOT_RUN_TOKEN": "the run's own"}
        plan = {"kind": kind, "state": str(self.state), "folder": str(self.folder), "argv": argv, "secrets": SECRETS}
        ran = subprocess.run(
            [sys.executable, "-c", BROKER, NAMED],
            input=json.dumps({**plan, "env": env, **options}),
            env={"PATH": os.environ["PATH"], "GITOPS_BOT_DATABASE_PASSWORD": ENVIRONED},
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        told: dict[str, Any] = json.loads(ran.stdout)
        assert told["stop"] == "ended", told
        return {**told, **json.loads(told["text"])}


@pytest.fixture
def machine() -> Iterator[Machine]:
    home = Path(tempfile.mkdtemp(prefix="gitops-bot-bodies-", dir="/var/tmp"))
    home.chmod(0o755)
    made = Machine(home)
    for folder in (made.state, made.state / "keys"):
        folder.mkdir(mode=0o700)
    for folder in (made.folder, home / "other"):
        folder.mkdir(mode=0o755)
    with sqlite3.connect(made.state / "broker.db") as database:
        database.execute("CREATE TABLE asks (question TEXT)")
        database.execute("INSERT INTO asks VALUES (?)", (ROW,))
    database.close()
    (made.state / "keys" / "signing.key").write_text(KEY)
    (made.state / "workspace.token").write_text(TOKEN)
    yield made
    shutil.rmtree(home)


def owned_by_nobody(machine: Machine) -> None:
    shutil.chown(machine.folder, "nobody", "nogroup")


def its_own(found: dict[str, Any]) -> None:
    """What holds in every way: the capsule and the run's own environment arrive, and nothing of the broker's."""
    assert found["prompt"] == "capsule"
    assert found["env"]["GITOPS_BOT_RUN_TOKEN"] == "the run's own"
    assert "GITOPS_BOT_DATABASE_PASSWORD" not in found["env"]
    assert "" in found["wrote"]


def root_only(test: Callable[..., None]) -> Callable[..., None] | None:
    """Leave a test out where it cannot run: changing the user is root's alone."""
    return test if os.geteuid() == 0 else None


def test_with_none_a_body_reads_all_and_that_is_said(machine: Machine) -> None:
    """The accepting twin of the others, and why a gated verb asks for more."""
    found = machine.spied("none")
    its_own(found)
    assert set(found["got"]) == set(SECRETS)
    assert found["signals"] is True
    assert found["shares"] is True
    assert "can read the database, the keys and every token" in found["said"]


def test_in_bubblewrap_a_body_finds_nothing_and_writes_in_its_folder_alone(machine: Machine) -> None:
    found = machine.spied("bwrap")
    its_own(found)
    assert (found["got"], found["signals"], found["wrote"]) == ({}, False, [""])
    assert found["cwd"] == found["env"]["HOME"] == str(machine.folder)
    assert (machine.folder / "mine").read_text() == "x"
    assert not (machine.state / "planted").exists()
    assert (found["shares"], "bubblewrap" in found["said"]) == (False, True)


@root_only
def test_as_another_user_a_body_finds_nothing_and_sees_no_process_of_the_broker_s(machine: Machine) -> None:
    owned_by_nobody(machine)
    found = machine.spied("uid", user="nobody")
    its_own(found)
    assert (found["got"], found["signals"], found["wrote"]) == ({}, False, [""])
    assert found["uid"] == 65534
    assert (machine.folder / "mine").stat().st_uid == 65534
    assert found["shares"] is False


@root_only
def test_where_processes_cannot_be_hidden_that_is_said_and_no_secret_is_in_reach(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the broker's process only its arguments can be seen then, in which it never has a secret."""
    owned_by_nobody(machine)
    monkeypatch.setattr("gitops_bot.harness.fleet_isolation._PROC_SINCE", (999, 0))
    apart = isolate(Kind.UID, hidden=[machine.state], user="nobody")
    assert "can list this machine's processes and their arguments" in apart.said
    looks = (PYTHON, "-c", f"print(open('/proc/{os.getpid()}/cmdline').read())")
    assert CommandBodies(apart.start).run(order(machine, *looks), lambda _: None, lambda: False).stop is BodyStop.ENDED
    looks = (PYTHON, "-c", f"print(open('/proc/{os.getpid()}/environ').read())")
    assert CommandBodies(apart.start).run(order(machine, *looks), lambda _: None, lambda: False).stop is BodyStop.FAILED


ELSEWHERE = (
    "bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib",
    "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin", "--proc", "/proc", "--dev", "/dev",
    *([] if Path(sys.base_prefix).is_relative_to("/usr") else ["--ro-bind", sys.base_prefix, sys.base_prefix]),
)  # fmt: skip
"""Stands for a machine of its own: another root, other processes, no network."""


def test_elsewhere_a_body_finds_nothing_and_its_secrets_are_in_no_argument(machine: Machine) -> None:
    there = f"/srv/{machine.folder.name}"
    prefix = [*ELSEWHERE, "--tmpfs", there, "--ro-bind", str(machine.home / "spy.py"), "/srv/spy.py", "/bin/sh", "-c"]
    found = machine.spied("remote", prefix=prefix, folder=there, argv=[PYTHON, "/srv/spy.py"])
    its_own(found)
    assert (found["got"], found["signals"]) == ({}, False)
    assert (found["cwd"], found["shares"]) == (there, False)


def order(machine: Machine, *argv: str, env: dict[str, str] | None = None, folder: Path | None = None) -> BodyOrder:
    return BodyOrder("linter", "01RUN", 1, argv, folder or machine.folder, None, b"in", env or {}, 60.0)


def test_what_goes_elsewhere_is_quoted_and_what_is_secret_goes_by_standard_input(machine: Machine) -> None:
    """Words of a command stay words, whatever is in them; an environment is in no process list."""
    apart = isolate(Kind.REMOTE, prefix=("/bin/sh", "-c"))
    text: list[bytes] = []
    words = ("printf", "%s|", "a b", "$(id)", "'q'", ";exit 3", "ü\n", "")
    given = order(machine, *words)
    assert CommandBodies(apart.start).run(given, text.append, lambda: False).stop is BodyStop.ENDED
    assert b"".join(text).decode() == "a b|$(id)|'q'|;exit 3|ü\n||"
    secret = order(machine, "sh", "-c", 'printf %s "$RUN_TOKEN"; pwd; cat', env={"RUN_TOKEN": "s3cret = 'x' $(y) \\n"})
    assert not any("s3cret" in word for word in apart.start(secret).argv)
    assert not any("s3cret" in value for value in apart.start(secret).env.values())
    text.clear()
    assert CommandBodies(apart.start).run(secret, text.append, lambda: False).stop is BodyStop.ENDED
    assert b"".join(text).decode() == f"s3cret = 'x' $(y) \\n{machine.folder}\nin"


@pytest.mark.parametrize("env", [{"A-B": "x"}, {"A": "x\ny"}, {"A; id": "x"}, {"": "x"}, {"A": "\0"}])
def test_what_cannot_be_passed_elsewhere_is_refused(env: dict[str, str], machine: Machine) -> None:
    apart = isolate(Kind.REMOTE, prefix=("/bin/sh", "-c"))
    end = CommandBodies(apart.start).run(order(machine, "true", env=env), lambda _: None, lambda: False)
    assert end.stop is BodyStop.NOT_STARTED


def test_how_a_body_elsewhere_failed_is_told_by_its_prefix(machine: Machine) -> None:
    """A prefix that does not get there (ssh: 255) has failed, as has a folder that is not there."""
    lost = isolate(Kind.REMOTE, prefix=("sh", "-c", "echo no route >&2; exit 255", "sh"))
    end = CommandBodies(lost.start).run(order(machine, "true"), lambda _: None, lambda: False)
    assert end == BodyEnd(BodyStop.FAILED, 255, "exit status 255: no route")
    there = isolate(Kind.REMOTE, prefix=("sh", "-c"))
    absent = order(machine, "true", folder=machine.home / "absent")
    assert CommandBodies(there.start).run(absent, lambda _: None, lambda: False).exit_code == 126


def test_a_body_in_bubblewrap_ends_whole_also_when_it_escapes_its_group(machine: Machine) -> None:
    """bubblewrap tells the body's exit status a moment before its namespace, and all in it, is gone."""
    apart = isolate(Kind.BWRAP, hidden=[machine.state])
    marker = f"sleep-{os.getpid()}".encode()
    script = f"setsid bash -c 'exec -a {marker.decode()} sleep 60' & sleep 0.3; cat /proc/[0-9]*/cmdline"
    text: list[bytes] = []
    end = CommandBodies(apart.start).run(order(machine, "bash", "-c", script), text.append, lambda: False)
    assert (end.stop, marker in b"".join(text)) == (BodyStop.ENDED, True)
    deadline = time.monotonic() + 10
    while any(marker in told for told in commands()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def commands() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()


def test_exit_statuses_come_through_each_isolation(machine: Machine) -> None:
    ways = [isolate(Kind.NONE), isolate(Kind.BWRAP), isolate(Kind.REMOTE, prefix=("sh", "-c"))]
    if os.geteuid() == 0:
        owned_by_nobody(machine)
        ways.append(isolate(Kind.UID, user="nobody"))
    for apart in ways:
        ends = [
            CommandBodies(apart.start).run(order(machine, "sh", "-c", f"exit {code}"), print, lambda: False)
            for code in (0, 75)
        ]
        assert [(end.stop, end.exit_code) for end in ends] == [(BodyStop.ENDED, 0), (BodyStop.FAILED, 75)], apart.kind


def test_bubblewrap_that_would_show_what_is_hidden_is_refused(machine: Machine) -> None:
    with pytest.raises(ConfigError, match="would show"):
        isolate(Kind.BWRAP, hidden=[machine.state], reads=[machine.home])
    with pytest.raises(ConfigError, match="would show"):
        isolate(Kind.BWRAP, hidden=[machine.state], writes=[machine.state / "keys"])
    link = machine.home / "link"
    link.symlink_to(machine.state)
    with pytest.raises(ConfigError, match="would show"):
        isolate(Kind.BWRAP, hidden=[machine.state], reads=[link])
    apart = isolate(Kind.BWRAP, hidden=[machine.state])
    run = CommandBodies(apart.start).run
    for given in (
        order(machine, "true", folder=machine.home),
        order(machine, "true", folder=machine.state),
        order(machine, "true", folder=link),
        order(machine, "cat", str(machine.state / "workspace.token")),
        order(machine, "true", folder=machine.home / "absent"),
    ):
        assert run(given, print, lambda: False).stop is BodyStop.NOT_STARTED, given
    assert run(order(machine, "true"), print, lambda: False).stop is BodyStop.ENDED


def test_a_link_that_the_agent_put_into_its_folder_shows_nothing(machine: Machine) -> None:
    """Its own program may be a file of its folder, which it can replace by a link to a key for its next turn."""
    program = machine.folder / "run"
    program.symlink_to(machine.state / "keys" / "signing.key")
    apart = isolate(Kind.BWRAP, hidden=[machine.state])
    text: list[bytes] = []
    end = CommandBodies(apart.start).run(order(machine, "cat", str(program)), text.append, lambda: False)
    assert (end.stop, text) == (BodyStop.FAILED, [])
    program.unlink()
    program.write_text("its own")
    CommandBodies(apart.start).run(order(machine, "cat", str(program)), text.append, lambda: False)
    assert text == [b"its own"]


@root_only
def test_another_user_who_could_read_what_is_hidden_is_refused(machine: Machine) -> None:
    machine.state.chmod(0o755)
    token = machine.state / "workspace.token"
    token.chmod(0o604)
    with pytest.raises(ConfigError, match=r"nobody can read or write .*workspace\.token"):
        isolate(Kind.UID, hidden=[token], user="nobody")
    token.chmod(0o600)
    apart = isolate(Kind.UID, hidden=[token], user="nobody")
    end = CommandBodies(apart.start).run(order(machine, "true"), print, lambda: False)
    assert (end.stop, "is no folder of nobody" in end.detail) == (BodyStop.NOT_STARTED, True)
    owned_by_nobody(machine)
    assert CommandBodies(apart.start).run(order(machine, "true"), print, lambda: False).stop is BodyStop.ENDED
    absent = CommandBodies(apart.start).run(order(machine, "no-such-program"), print, lambda: False)
    assert absent.stop is BodyStop.NOT_STARTED


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (Kind.UID, {"user": "no-such-user-here"}, "no user"),
        (Kind.UID, {"user": "root"}, "root" if os.geteuid() == 0 else "only root"),
        (Kind.REMOTE, {}, "needs a prefix"),
        (Kind.REMOTE, {"prefix": ["no-such-program-here"]}, "no program"),
    ],
)
def test_what_cannot_isolate_is_refused_at_start(kind: Kind, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        isolate(kind, **options)
