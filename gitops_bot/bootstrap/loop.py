"""The composition root of a loop: one folder, one lock, one bridge, one driver; nothing of the database.

It prepares `state/`, decides between a fresh run and a resume, starts the bridge, registers with the broker over HTTP
where one is named, and hands everything to the driver. The agent's environment holds the broker's address and the
run's own token, and no other secret.
"""

import fcntl
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Final

from gitops_bot.bootstrap.clock import SystemClock, wall_seconds
from gitops_bot.bootstrap.joining import Register, join, loop_token, register_over_http
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.harness.command import CommandHarness
from gitops_bot.harness.isolation import Isolation, as_user, in_bubblewrap, shared
from gitops_bot.loop.budget import Budget
from gitops_bot.loop.control.admissions import AdmissionLedger
from gitops_bot.loop.control.server import ControlServer
from gitops_bot.loop.control.steering import GATED, NO_OPERATOR, OPEN_BRIDGE, Steering
from gitops_bot.loop.control.tokens import Tokens, make_tokens
from gitops_bot.loop.driver import Driver
from gitops_bot.loop.grammar import Escalation
from gitops_bot.loop.measuring import Tool, stamp
from gitops_bot.loop.recovery import Death, Past, read_past
from gitops_bot.loop.session import SessionLog, read_session
from gitops_bot.loop.setting import Memory, Setting
from gitops_bot.loop.snapshots import Snapshots
from gitops_bot.loop.vocabulary import Direction, Ending, State
from gitops_bot.process import SYSTEM_PATH

LINGER_SECONDS: Final = 5.0
_PATH: Final = {"PATH": f"{SYSTEM_PATH}:{Path(sys.executable).parent}"}
"""Programs of the system first; then this product's own, for `gitops-bot capture request`."""
LOOP_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """What `loop run` was given; times in seconds, 0 or None without a limit."""

    workspace: Path
    goal: str
    judge: str
    agent: tuple[str, ...]
    rig: str | None = None
    control_host: str = "127.0.0.1"
    control_port: int | None = None
    insecure: bool = False
    max_iterations: int = 10
    max_seconds: float | None = None
    max_usd: float = 0.0
    max_park: float | None = None
    turn_timeout: float | None = None
    direction: Direction = Direction.MIN
    broker: bool = False
    degraded: bool = False
    resume: bool = False
    loop_id: str | None = None
    broker_url: str | None = None
    loop_token_file: Path | None = None
    run_as: str | None = None
    bubblewrap: bool = False
    agent_reads: tuple[Path, ...] = ()
    agent_writes: tuple[Path, ...] = ()


def run_loop(
    options: LoopOptions, *, register: Register = register_over_http, say: Callable[[str], None] | None = None
) -> int:
    """Run a loop to its end and give its exit status: 0 improved or solved, 1 not, 2 escalated.

    `say` is told, at start, what keeps the agent from the bridge and what does not.

    Raises:
        ConfigError: the options do not fit together.
        Unavailable: the folder, the port or the broker cannot be had.
    """
    workspace = options.workspace.resolve()
    _check(options, workspace)
    judge = stamp("judge", options.judge, workspace=workspace, here=Path.cwd())
    rig = stamp("rig", options.rig, workspace=workspace, here=Path.cwd()) if options.rig else None
    home = workspace / "state"
    home.mkdir(mode=0o700, exist_ok=True)
    home.chmod(0o700)
    lock = _lock(home)
    try:
        records = read_session(home / "session.jsonl") if options.resume else []
        past = read_past(records) if records else None
        if past is None:
            _set_aside(home)
        isolation = _isolation(options, workspace, home)
        return _Run(options, workspace, home, judge, rig, past, register, isolation, say).run()
    finally:
        os.close(lock)


def _check(options: LoopOptions, workspace: Path) -> None:
    if not workspace.is_dir():
        raise ConfigError(f"{options.workspace} is no folder", fix=f"mkdir -p {options.workspace}")
    if options.control_host not in ("127.0.0.1", "::1", "localhost") and options.insecure:
        raise ConfigError("an open bridge listens on loopback only", fix="leave --insecure-bridge out")
    if bool(options.broker_url) != bool(options.loop_token_file):
        raise ConfigError(
            "--broker-url and --loop-token-file go together",
            fix="gitops-bot agent add NAME --loop prints a loop token; put it into a 0600 file",
        )
    if options.broker_url and (options.control_port is None or options.insecure):
        raise ConfigError(
            "a broker wakes a loop over its control bridge, with a token", fix="give --control-port and no open bridge"
        )
    if options.loop_id is not None and LOOP_ID.fullmatch(options.loop_id) is None:
        raise ConfigError("--id is 1 to 64 of a-z 0-9 . _ -, beginning with a letter or digit", fix="--id my-loop")


def _isolation(options: LoopOptions, workspace: Path, home: Path) -> Isolation:
    named = [path.resolve() for path in (*options.agent_reads, *options.agent_writes)]
    if options.run_as is not None and options.bubblewrap:
        raise ConfigError("--run-as and --bubblewrap are two ways of one thing", fix="give one of them")
    if named and not options.bubblewrap:
        raise ConfigError("--agent-reads and --agent-writes say what --bubblewrap shows", fix="add --bubblewrap")
    if options.run_as is not None:
        return as_user(options.run_as, workspace)
    if not options.bubblewrap:
        return shared()
    secrets = [home, *([options.loop_token_file.resolve()] if options.loop_token_file else [])]
    shown = [(path, secret) for path in named for secret in secrets if secret.is_relative_to(path)]
    if shown:
        raise ConfigError(f"--agent-reads {shown[0][0]} would show {shown[0][1]}", fix="name a folder without secrets")
    reads, writes = named[: len(options.agent_reads)], named[len(options.agent_reads) :]
    return in_bubblewrap(workspace, home, _from_here(options.agent), reads=reads, writes=writes)


def _lock(home: Path) -> int:
    try:
        lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Unavailable("another loop runs in this workspace") from error
    except OSError as error:
        raise Unavailable(f"state folder: {error.strerror}") from error
    return lock


def _set_aside(home: Path) -> None:
    """Keep the files of an earlier run under a number, and begin with none."""
    number = 1 + len(list(home.glob("session.jsonl.*")))
    for name in ("session.jsonl", "admissions.jsonl"):
        if (home / name).exists():
            (home / name).rename(home / f"{name}.{number}")
    shutil.rmtree(home / "snapshots", ignore_errors=True)
    (home / "broker-attached").unlink(missing_ok=True)


class _Run:
    """One run while it is put together; `run` takes it to its end."""

    def __init__(
        self,
        options: LoopOptions,
        workspace: Path,
        home: Path,
        judge: Tool,
        rig: Tool | None,
        past: Past | None,
        register: Register,
        isolation: Isolation,
        say: Callable[[str], None] | None,
    ) -> None:
        self._options, self._workspace, self._home = options, workspace, home
        self._judge, self._rig, self._past = judge, rig, past
        self._isolation = isolation
        self._say = say or (lambda _said: None)
        self._register = register
        self._clock = SystemClock()
        self._log = SessionLog(home / "session.jsonl")
        self._ledger = AdmissionLedger(home / "admissions.jsonl", wall_seconds)
        attached = home / "broker-attached"
        self._steering = Steering(
            self._ledger,
            self._write,
            max_usd=options.max_usd,
            on_broker=lambda: attached.touch(mode=0o600),
        )
        if options.broker or options.broker_url or attached.exists():
            self._steering.attach_broker()
        if options.insecure:
            self._steering.refuse_claims(OPEN_BRIDGE)

    def _write(self, kind: str, members: Mapping[str, object]) -> None:
        self._log.append(kind, **members)

    def run(self) -> int:
        tokens = make_tokens(self._home, keep=self._past is not None)
        server = self._serve(tokens)
        try:
            self._say_start(server)
            state, memory = self._begin()
            if server is not None:
                server.start()  # only now: what the last run left is armed before anything new is admitted
            setting = Setting(
                workspace=self._workspace,
                state=self._home,
                agent=_from_here(self._options.agent),
                agent_env={**_PATH, **dict(self._isolation.env), **self._join(server, tokens)},
                judge=self._judge,
                rig=self._rig,
                max_park=self._options.max_park,
                turn_timeout=self._options.turn_timeout,
                owner=self._isolation.owner,
            )
            driver = Driver(
                setting,
                state,
                self._budget(),
                log=self._log,
                steering=self._steering,
                body=CommandHarness(),
                clock=self._clock,
                memory=memory,
                agent_body=CommandHarness(self._isolation.wrap),
            )
            self._listen_to_signals()
            return driver.run()
        finally:
            if server is not None:
                server.stop(LINGER_SECONDS)

    def _serve(self, tokens: Tokens) -> ControlServer | None:
        options = self._options
        if options.control_port is None:
            return None
        server = ControlServer(
            options.control_host,
            options.control_port,
            steering=self._steering,
            log=self._log,
            tokens=tokens,
            trusting=options.insecure,
        )
        partial = self._home / "control-address.partial"
        partial.write_text(server.address + "\n", encoding="ascii")
        partial.replace(self._home / "control-address")
        return server

    def _say_start(self, server: ControlServer | None) -> None:
        options, past = self._options, self._past
        if past is None:
            self._log.append(
                "start",
                goal=options.goal,
                gate="bench",
                model=Path(options.agent[0]).name,
                namespace="",
                iters_total=options.max_iterations,
                max_cost=options.max_usd,
                max_secs=int(options.max_seconds or 0),
                direction=options.direction.value,
                insecure_bridge=options.insecure,
            )
        else:
            died = {"class": past.death.value, "iter": past.turn, "detail": "", "insecure_bridge": options.insecure}
            self._log.append("recovery", **died)
        self._log.append("identity", identity=self._identity())
        for note in self._ledger.notes:
            self._log.append("note", msg=note)
        warnings = [self._isolation.said]
        if server is not None and options.insecure:
            warnings.append("the bridge is open: every local process can steer, and no claim is taken")
        for said in warnings:
            self._log.append("note", msg=said)
            self._say(said)

    def _identity(self) -> dict[str, object]:
        rig = self._rig.digest if self._rig else None
        return {"judge": self._judge.digest, "rig": rig, "direction": self._options.direction.value}

    def _begin(self) -> tuple[State, Memory]:
        options, past = self._options, self._past
        state = State(
            goal=options.goal,
            direction=options.direction,
            max_iterations=options.max_iterations,
            surface=options.control_port is not None and not options.degraded,
        )
        if past is None:
            return state, Memory()
        state = replace(
            state,
            iteration=past.iteration,
            regime=past.regime,
            baseline=past.baseline,
            best=past.best,
            improved=past.improved,
            asks=tuple(past.asks.values()),
            owed=past.owed,
        )
        if past.judged_by and past.judged_by != self._identity():
            state = replace(state, owed=Escalation("tampered", "judge, rig or direction is not that of the run"))
        self._steering.restore(past.asks, frozenset(past.applied), frozenset(past.announced))
        for ask, key in past.ungranted:
            said = {"outcome": Ending.GRANTED.value, "reason": past.regime, "trace_id": ask.trace_id}
            self._log.append("approval_resolved", **said, **({"key": key} if key else {}))
            self._steering.close(ask.trace_id, Ending.GRANTED)
        if past.kept is not None and past.death is not Death.CLEAN_EXIT:
            Snapshots(self._workspace, self._home / "snapshots", self._isolation.owner).restore(past.kept)
        return state, Memory(rows=past.rows, waited=dict(past.waited), kept=past.kept)

    def _budget(self) -> Budget:
        past = self._past or Past()
        return Budget(self._options.max_seconds or 0.0, self._steering.max_usd, past.spent, past.elapsed)

    def _join(self, server: ControlServer | None, tokens: Tokens) -> dict[str, str]:
        """Register with the broker; give what the agent may know."""
        options = self._options
        if options.broker_url is None or options.loop_token_file is None or server is None:
            return {}
        body: dict[str, object] = {
            "id": options.loop_id or _default_id(self._workspace),
            "address": server.address,
            "broker_token": tokens.broker(),
            "resume": self._past is not None,
            "shares_user": self._isolation.shares_user,
        }
        token = loop_token(options.loop_token_file)
        registration = join(self._register, options.broker_url, token, body, self._clock)
        self._log.append("note", msg=f"registered as run {registration.run}, version {registration.run_version}")
        if registration.claims is not None:
            self._steering.refuse_claims(GATED if registration.claims == "gated" else NO_OPERATOR)
        return {"GITOPS_BOT_URL": options.broker_url, "GITOPS_BOT_TOKEN": registration.agent_token}

    def _listen_to_signals(self) -> None:
        def told(number: int, _frame: FrameType | None) -> None:
            self._steering.halt(signal.Signals(number).name)

        signal.signal(signal.SIGTERM, told)
        signal.signal(signal.SIGINT, told)


def _from_here(agent: tuple[str, ...]) -> tuple[str, ...]:
    """Make a program that is given by its path independent of the workspace, where it is started."""
    program = Path(agent[0])
    return (str(Path.cwd() / program), *agent[1:]) if "/" in agent[0] else agent


def _default_id(workspace: Path) -> str:
    name = re.sub(r"[^a-z0-9._-]+", "-", workspace.name.lower()).strip("-._")
    return (name or "loop")[:64]
