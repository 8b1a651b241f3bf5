"""Carry out what the loop's machine orders, and feed it what happened: turns, measurements, levers, waits.

After `Driver.run` the session log ends in its one `shutdown` line and the exit status is given. Nothing is decided
here: the order of the head, modes and outcomes are `loop/machine`. The clock only paces and counts active time.
"""

from typing import Final, assert_never

from gitops_bot.core.errors import Malformed, Unavailable
from gitops_bot.loop.budget import MAX_GAP, Budget
from gitops_bot.loop.control.admissions import Outcome
from gitops_bot.loop.control.steering import Steering
from gitops_bot.loop.grammar import (
    CANDIDATE_FILE,
    ESCALATION_FILE,
    MARKER_FILE,
    Escalation,
    Marker,
    parse_escalation,
    parse_marker,
    parse_measurement,
)
from gitops_bot.loop.machine import advance, exit_code
from gitops_bot.loop.markers import Taken, peek, take, write_escalation
from gitops_bot.loop.measuring import Tool
from gitops_bot.loop.prompt import prompt
from gitops_bot.loop.session import SessionLog
from gitops_bot.loop.setting import Body, Memory, Setting
from gitops_bot.loop.snapshots import Snapshots
from gitops_bot.loop.vocabulary import (
    Baselined,
    Command,
    DropDenial,
    Escalate,
    Event,
    Finish,
    Head,
    Hold,
    Judged,
    Measure,
    Note,
    OpenSegment,
    Park,
    Rebaseline,
    Rescope,
    Resolve,
    Row,
    RunTurn,
    Settle,
    State,
    Tampered,
    TurnEnded,
    Wait,
)
from gitops_bot.ports import Clock

LOOK_SECONDS: Final = 0.25
BUDGET_LINE_SECONDS: Final = 10.0
PARKED_LINE_SECONDS: Final = 60.0


class Driver:
    """One run of the loop, from its state to its end."""

    def __init__(
        self,
        setting: Setting,
        state: State,
        budget: Budget,
        *,
        log: SessionLog,
        steering: Steering,
        body: Body,
        clock: Clock,
        memory: Memory,
        agent_body: Body | None = None,
    ) -> None:
        self._set, self._state, self._budget = setting, state, budget
        self._log, self._steering, self._body, self._clock = log, steering, body, clock
        self._memory = memory
        self._agent_body = agent_body or body
        self._snapshots = Snapshots(setting.workspace, setting.state / "snapshots", setting.owner)
        self._phase = ""
        self._parked: str | None = None
        self._budget_line = self._parked_line = self._waits_seen = clock.monotonic()

    def run(self) -> int:
        """Run to the end and give the exit status: 0 improved or solved, 1 no improvement, 2 escalated."""
        try:
            outcome, reason = self._run()
        except Unavailable as error:
            outcome, reason = "error", str(error)
        self._active(False)
        self._enter("escalated" if outcome == "escalated" else "finished")
        self._write_budget()
        self._log.append("shutdown", outcome=outcome, reason=reason)
        return exit_code(self._state, outcome)

    def _run(self) -> tuple[str, str]:
        event: Event | None = self._baseline(None) if self._state.baseline is None else None
        while True:
            self._state, commands = advance(self._state, event or self._look())
            event = None
            for command in commands:
                if isinstance(command, Finish):
                    return command.outcome, command.reason
                event = self._carry_out(command)

    # ---- what is seen

    def _look(self) -> Head:
        now = self._clock.monotonic()
        self._count_waits(now)
        paused, rescope, denial, stop = self._steering.levers()
        if self._budget.max_usd != self._steering.max_usd:
            self._budget = self._budget.limited(self._steering.max_usd)
        self._budget = self._budget.looked(now)
        limit = self._set.max_park
        late = () if limit is None else tuple(t for t, waited in self._memory.waited.items() if waited >= limit)
        return Head(paused, rescope, denial, stop, late, self._budget.exceeded())

    def _count_waits(self, now: float) -> None:
        """Add to how long each ask was waited for; as with the budget, a suspended machine waited for nobody."""
        gap, self._waits_seen = now - self._waits_seen, now
        for ask in self._state.asks if 0 <= gap <= MAX_GAP else ():
            self._memory.waited[ask.trace_id] = self._memory.waited.get(ask.trace_id, 0.0) + gap

    def _tick(self) -> bool:
        now = self._clock.monotonic()
        self._count_waits(now)
        self._budget = self._budget.looked(now)
        self._publish()
        if now - self._budget_line >= BUDGET_LINE_SECONDS:
            self._write_budget()
        over_time = bool(self._budget.max_seconds) and self._budget.elapsed >= self._budget.max_seconds
        return self._steering.aborted or over_time

    # ---- what is done

    def _carry_out(self, command: Command) -> Event | None:
        if not isinstance(command, Park):
            self._parked = None
        match command:
            case Park():
                self._park(command)
            case Hold():
                self._hold()
            case Note():
                self._log.append("note", msg=command.msg)
                self._memory.why = command.msg
            case Rebaseline():
                return self._rebaseline(command.rescope)
            case DropDenial():
                self._steering.take(command.key)
            case Wait():
                ask = command.ask
                self._log.append("approval_wait", handle=ask.handle, trace_id=ask.trace_id, mode=ask.mode.value)
                self._memory.waited.setdefault(ask.trace_id, 0.0)
                self._steering.open(ask)
            case Resolve():
                self._resolve(command)
            case Settle():
                outcome = Outcome.APPLIED if command.applied else Outcome.REJECTED
                self._steering.settle(command.key, outcome, command.note)
            case OpenSegment():
                self._open_segment(command)
            case Escalate():
                self._escalate(command.escalation)
            case RunTurn():
                return self._turn(command.iteration)
            case Measure():
                return self._judge()
            case Row():
                self._row(command)
            case Finish():
                pass
            case _:
                assert_never(command)
        return None

    def _park(self, command: Park) -> None:
        self._active(False)
        self._enter("parked")
        ask, now = command.ask, self._clock.monotonic()
        if self._parked != ask.trace_id or now - self._parked_line >= PARKED_LINE_SECONDS:
            if self._parked is None:
                self._write_budget()
            waited = round(self._memory.waited.get(ask.trace_id, 0.0), 3)
            self._log.append("parked", trace_id=ask.trace_id, handle=ask.handle, waited_secs=waited)
            self._parked, self._parked_line = ask.trace_id, now
        self._steering.wait(LOOK_SECONDS)

    def _hold(self) -> None:
        self._active(False)
        self._enter("paused")
        self._steering.wait(LOOK_SECONDS)

    def _resolve(self, command: Resolve) -> None:
        ask, ending = command.ask, command.ending
        keyed = {"key": command.key} if command.key else {}
        said = {"outcome": ending.value, "reason": command.reason, "trace_id": ask.trace_id}
        self._log.append("approval_resolved", **said, **keyed)
        self._memory.waited.pop(ask.trace_id, None)
        self._memory.why = f"{ask.trace_id} was {ending.value}: {command.reason}"
        self._steering.close(ask.trace_id, ending)

    def _rebaseline(self, rescope: Rescope) -> Event:
        self._steering.take(rescope.key)
        if self._memory.kept:
            self._snapshots.restore(self._memory.kept)
        return self._baseline(rescope)

    def _baseline(self, rescope: Rescope | None) -> Event:
        self._active(True)
        self._enter("baseline")
        regime = rescope.regime if rescope else self._state.regime
        if self._set.rig is not None:
            if not self._set.rig.unchanged():
                return Tampered("the rig")
            try:
                self._measured(self._set.rig, regime)
            except (Unavailable, Malformed) as error:
                return Baselined(None, rescope, f"the rig failed: {error}")
        judged = self._judge(regime)
        if isinstance(judged, Tampered):
            return judged
        if self._memory.kept is None and judged.measurement is not None:
            self._keep("baseline")
        return Baselined(judged.measurement, rescope, judged.detail)

    def _open_segment(self, command: OpenSegment) -> None:
        keyed = {"key": command.key, "resolves": list(command.resolves)} if command.key else {}
        self._log.append(
            "segment",
            fingerprint=command.fingerprint,
            baseline_score=command.baseline_score,
            regime=command.regime,
            kept_snap=self._memory.kept,
            **keyed,
        )
        self._memory.rows = []

    def _turn(self, iteration: int) -> Event:
        self._active(True)
        self._enter("iteration")
        workspace = self._set.workspace
        for name in (MARKER_FILE, ESCALATION_FILE):
            if take(workspace, name) != Taken():
                self._log.append("note", msg=f"a stale {name} was deleted before the turn")
        before = peek(workspace, CANDIDATE_FILE)
        steers = self._steering.steers()
        text = prompt(self._state, self._memory.rows, [said for _, said in steers], self._memory.why)
        self._memory.why = ""
        env = {**self._set.agent_env, "LOOP_REGIME": self._state.regime, "LOOP_ITERATION": str(iteration)}
        self._log.append("agent_start", iter=iteration)
        failed = None
        try:
            done = self._agent_body.run(
                self._set.agent,
                cwd=workspace,
                env=env,
                stdin=text.encode("utf-8", "replace"),
                timeout=self._set.turn_timeout,
                tick=self._tick,
            )
            failed = None if done.returncode == 0 else f"the agent exited with {done.returncode}"
        except Unavailable as error:
            failed = str(error)
        for key, _ in steers:
            self._steering.settle(key, Outcome.APPLIED)
        self._log.append("agent_done")
        self._write_budget()
        if failed is not None:
            return TurnEnded(failed=failed)
        after = peek(workspace, CANDIDATE_FILE)
        candidate = bool(after and after.strip()) and after != before
        return TurnEnded(None, self._take_escalation(), self._take_marker(), candidate)

    def _take_marker(self) -> Marker | None:
        raw = self._take(MARKER_FILE)
        try:
            return None if raw is None else parse_marker(raw)
        except Malformed as error:
            self._log.append("note", msg=f"malformed marker deleted: {error}")
            return None

    def _take_escalation(self) -> Escalation | None:
        raw = self._take(ESCALATION_FILE)
        try:
            return None if raw is None else parse_escalation(raw)
        except Malformed as error:
            self._log.append("note", msg=f"malformed escalation deleted: {error}")
            return None

    def _take(self, name: str) -> bytes | None:
        taken = take(self._set.workspace, name)
        if taken.note is not None:
            self._log.append("note", msg=taken.note)
        return taken.raw

    def _judge(self, regime: str | None = None) -> Judged | Tampered:
        if not self._set.judge.unchanged():
            return Tampered("the judge")
        try:
            return Judged(parse_measurement(self._measured(self._set.judge, regime or self._state.regime)))
        except (Unavailable, Malformed) as error:
            return Judged(None, f"not measured: {error}")

    def _measured(self, tool: Tool, regime: str) -> bytes:
        folder = self._set.state / "measuring"
        folder.mkdir(mode=0o700, exist_ok=True)
        done = self._body.run(
            tool.argv,
            cwd=folder,
            env={"LOOP_REGIME": regime, "LOOP_WORKSPACE": str(self._set.workspace)},
            stdin=b"",
            timeout=self._set.judge_timeout,
            tick=self._tick,
        )
        if done.returncode != 0:
            last = done.stderr[-400:].decode("utf-8", "replace").strip()
            raise Unavailable(f"{tool.name} exited with {done.returncode}: {last}")
        return done.stdout

    def _row(self, command: Row) -> None:
        row: dict[str, object] = {"iter": command.iteration, "decision": command.decision, "note": command.note}
        row |= {"detail": "", "score": command.score}
        if command.keep:
            self._keep(f"{command.iteration:06d}")
            row["kept_snap"] = self._memory.kept
        elif self._memory.kept is not None:
            self._snapshots.restore(self._memory.kept)
        self._log.append("row", row=row, solved=command.solved)
        self._memory.rows.append((command.iteration, command.decision, command.score))
        if command.keep and self._memory.kept is not None:
            self._snapshots.prune(self._memory.kept)

    def _keep(self, name: str) -> None:
        self._snapshots.keep(name)
        self._memory.kept = name

    def _escalate(self, escalation: Escalation) -> None:
        category, reason, evidence = escalation.category, escalation.reason, escalation.evidence
        self._log.append("escalation", category=category, reason=reason, evidence=evidence)
        write_escalation(self._set.workspace, escalation)

    # ---- bookkeeping

    def _active(self, active: bool) -> None:
        now = self._clock.monotonic()
        self._budget = self._budget.started(now) if active else self._budget.stopped(now)

    def _enter(self, phase: str) -> None:
        if phase != self._phase:
            self._phase = phase
            self._log.append("phase", phase=phase, iter=self._state.iteration)
        self._publish()

    def _publish(self) -> None:
        self._steering.publish(self._phase, self._state.iteration, self._state.best, self._budget.spent)

    def _write_budget(self) -> None:
        self._budget_line = self._clock.monotonic()
        waited = {trace_id: round(seconds, 3) for trace_id, seconds in self._memory.waited.items()}
        known = {"waited": waited} if waited else {}
        self._log.append("budget", spent=self._budget.spent, elapsed_secs=round(self._budget.elapsed, 3), **known)
