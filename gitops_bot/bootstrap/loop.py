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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Final

from gitops_bot.bootstrap.clock import SystemClock, wall_seconds
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.harness.command import CommandHarness
from gitops_bot.loop.budget import Budget
from gitops_bot.loop.control.admissions import AdmissionLedger
from gitops_bot.loop.control.server import ControlServer
from gitops_bot.loop.control.steering import Steering
from gitops_bot.loop.control.tokens import Tokens, make_tokens
from gitops_bot.loop.driver import Driver
from gitops_bot.loop.grammar import Escalation
from gitops_bot.loop.measuring import Tool, stamp
from gitops_bot.loop.recovery import Death, Past, read_past
from gitops_bot.loop.session import SessionLog, read_session
from gitops_bot.loop.setting import Memory, Setting
from gitops_bot.loop.snapshots import Snapshots
from gitops_bot.loop.vocabulary import Direction, Ending, State

REGISTER_TRIES: Final = 20
REGISTER_PAUSE: Final = 0.5
LINGER_SECONDS: Final = 5.0
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


@dataclass(frozen=True, slots=True)
class Registration:
    """What the broker answered to a loop that registered."""

    run: str
    run_version: int
    agent_token: str


Register = Callable[[str, str, Mapping[str, object]], Registration]
"""(address of the broker, loop token, body) → registration; raises `Unavailable`."""


def register_over_http(url: str, token: str, body: Mapping[str, object]) -> Registration:
    """Register a loop: `POST {url}/api/v1/loops`.

    Raises:
        Unavailable: no connection, another status than 200 or 201, or an answer without the three members.
    """
    import requests  # heavy; only a loop with a broker needs it

    try:
        answer = requests.post(
            f"{url.rstrip('/')}/api/v1/loops",
            json=dict(body),
            headers={"Authorization": f"Bearer {token}"},
            timeout=10,
            allow_redirects=False,
        )
        value = answer.json() if answer.status_code in (200, 201) else {}
    except (requests.RequestException, ValueError) as error:
        raise Unavailable(f"the broker does not answer ({type(error).__name__})") from error
    if not isinstance(value, dict):
        value = {}
    run, version, agent = (value.get(name) for name in ("run", "run_version", "agent_token"))
    if not isinstance(run, str | int) or not isinstance(version, int) or not isinstance(agent, str):
        raise Unavailable(f"the broker did not register this loop (status {answer.status_code})")
    return Registration(str(run), version, agent)


def run_loop(options: LoopOptions, *, register: Register = register_over_http) -> int:
    """Run a loop to its end and give its exit status: 0 improved or solved, 1 not, 2 escalated.

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
        return _Run(options, workspace, home, judge, rig, past, register).run()
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
    ) -> None:
        self._options, self._workspace, self._home = options, workspace, home
        self._judge, self._rig, self._past = judge, rig, past
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
                agent_env=self._join(server, tokens),
                judge=self._judge,
                rig=self._rig,
                max_park=self._options.max_park,
                turn_timeout=self._options.turn_timeout,
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
            self._log.append("recovery", **{"class": past.death.value, "iter": past.turn, "detail": ""})
        self._log.append("identity", identity=self._identity())
        for note in self._ledger.notes:
            self._log.append("note", msg=note)
        self._log.append("note", msg="the agent runs as this user and can read the bridge's tokens")
        if server is not None and options.insecure:
            self._log.append("note", msg="the bridge is open: every local process can steer, and no claim is taken")

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
            Snapshots(self._workspace, self._home / "snapshots").restore(past.kept)
        return state, Memory(rows=past.rows, waited=dict(past.waited), kept=past.kept)

    def _budget(self) -> Budget:
        past = self._past or Past()
        return Budget(self._options.max_seconds or 0.0, self._steering.max_usd, past.spent, past.elapsed)

    def _join(self, server: ControlServer | None, tokens: Tokens) -> dict[str, str]:
        """Register with the broker; give what the agent may know."""
        options = self._options
        if options.broker_url is None or options.loop_token_file is None or server is None:
            return {}
        token = _secret(options.loop_token_file)
        body: dict[str, object] = {
            "id": options.loop_id or _default_id(self._workspace),
            "address": server.address,
            "broker_token": tokens.broker(),
            "resume": self._past is not None,
        }
        tries = 0
        while True:
            try:
                registration = self._register(options.broker_url, token, body)
                break
            except Unavailable:
                tries += 1
                if tries >= REGISTER_TRIES:
                    raise
                self._clock.sleep(REGISTER_PAUSE)
        self._log.append("note", msg=f"registered as run {registration.run}, version {registration.run_version}")
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


def _secret(path: Path) -> str:
    try:
        facts = path.stat()
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the loop token cannot be read from {path}", fix="give a file with the token") from error
    if facts.st_mode & 0o077:
        raise ConfigError(f"{path} is open to others", fix=f"chmod 600 {path}")
    if not token or not token.isprintable() or " " in token:
        raise ConfigError(f"{path} holds no token", fix="put the token there, and nothing else")
    return token
