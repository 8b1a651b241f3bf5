"""Bodies behind the Agent Client Protocol, run by the npm program `acpx`: a named session a run, kept until released.

A tool that is not approved by name is denied at once, and nothing waits for a person in a body: acpx's `escalate` is
never used, and its own files and terminals are not offered. acpx leaves the session's owner running for a second after
a turn; a turn that did not end by itself has its session closed, with which owner and agent end. A broker that is
killed leaves both; the session's next turn, or its release, ends them. Under bubblewrap both end with the turn, or with
the broker, in any case, and the next turn loads the session again.
"""

import dataclasses
import json
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.errors import Unavailable
from gitops_bot.harness import attended
from gitops_bot.harness.bodies import Isolate, line, missing, status, told
from gitops_bot.harness.grammar import Events
from gitops_bot.ports import BodyEnd, BodyOrder, BodyStop

EVENTS_CAP: Final = 256 * 1024 * 1024
"""Bytes of events of one turn: tools' output is among them."""
CLOSE_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 1
"""How long acpx keeps the owner of a session after a turn; 0 would be for ever."""
_AGENT: Final = re.compile(r"[a-z][a-z0-9-]*")
_COMMANDS: Final = frozenset(
    {"prompt", "exec", "compare", "cancel", "set-mode", "set", "status", "sessions", "config", "flow", "help"}
)
EXITS: Final[Mapping[int, tuple[BodyStop, str]]] = {
    0: (BodyStop.FAILED, "acpx ended before the turn did"),
    1: (BodyStop.FAILED, "agent, protocol or acpx failed"),
    2: (BodyStop.NOT_STARTED, "acpx does not take these arguments"),
    3: (BodyStop.TIMED_OUT, "acpx's own time was over"),
    4: (BodyStop.NOT_STARTED, "the session is gone"),
    5: (BodyStop.FAILED, "no permission was given"),
    130: (BodyStop.STOPPED, "acpx was interrupted"),
}
"""What acpx's exit statuses mean (its documentation, exit codes) for a turn whose own end was not heard."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Which tools are approved and which denied, by kind, title or name as acpx matches them; every other is denied."""

    approve: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def policy(self) -> str:
        """Give acpx's permission policy."""
        return json.dumps(
            {"autoApprove": list(self.approve), "autoDeny": list(self.deny), "defaultAction": "deny"},
            separators=(",", ":"),
        )


class AcpxBodies:
    """Runs agents of the protocol, each apart as `isolate` says; fulfils `ports.Harness`. `acpx` starts the program:
    Node 22 or newer and its script. An order's command is a name that acpx knows, or the agent's own command."""

    def __init__(self, isolate: Isolate, acpx: Sequence[str], tools: Tools = Tools()) -> None:  # frozen value
        self._isolate, self._acpx, self._tools = isolate, tuple(acpx), tools

    @property
    def keeps_sessions(self) -> bool:
        """A session outlives its turns until it is released."""
        return True

    def run(self, order: BodyOrder, heard: Callable[[bytes], None], stopping: Callable[[], bool]) -> BodyEnd:
        """Ensure the session and run one turn in it. ENDED is a turn that said so itself, whatever it was denied."""
        end = None
        try:
            end = self._turn(order, heard, stopping)
        except Unavailable as error:
            end = BodyEnd(BodyStop.NOT_STARTED, detail=line(str(error)))
        finally:
            # The owner of the session is in no group of ours, and may go on whatever ended its client.
            if end is None or end.stop not in (BodyStop.ENDED, BodyStop.RATE_LIMITED, BodyStop.NOT_STARTED):
                self._close(order)
        return end

    def _turn(self, order: BodyOrder, heard: Callable[[bytes], None], stopping: Callable[[], bool]) -> BodyEnd:
        started = time.monotonic()
        self._end_left(order)
        ran, events = self._acpx_run(order, ("sessions", "ensure", "--name", session(order)), b"", stopping)
        if ran.stop is not BodyStop.ENDED or ran.code != 0:
            return _unstarted(order, ran, events)
        left = dataclasses.replace(order, limit=order.limit - (time.monotonic() - started))
        ran, events = self._acpx_run(left, ("prompt", "--session", session(order)), order.prompt, stopping, heard)
        return _end(order, ran, events)

    def release(self, order: BodyOrder) -> None:
        """Close the session of an order, and end what still runs in it.

        Raises:
            Unavailable: it cannot be closed, or whether it is closed cannot be known.
        """
        detail = self._close(order)
        if not detail:
            return
        ran, events = self._short(order, ("status", "--session", session(order)))
        if ran.code != 0 or events.status != "no-session":
            raise Unavailable(f"the session of {order.agent} cannot be closed: {detail}")

    def _end_left(self, order: BodyOrder) -> None:
        """End a turn that still runs in the session: a broker that was killed leaves its owner and agent, and two
        bodies of one agent would work in one folder. Where that cannot be known, the session is begun anew."""
        ran, events = self._short(order, ("cancel", "--session", session(order)))
        if ran.code != 0 or events.cancelled is not False:
            self._close(order)

    def _close(self, order: BodyOrder) -> str:
        """Close a session; give why it could not be, empty when it is closed."""
        try:
            ran, events = self._short(order, ("sessions", "close", session(order)))
        except Unavailable as error:
            return str(error)
        if ran.stop is BodyStop.ENDED and ran.code == 0:
            return ""
        return events.failure.message if events.failure else f"{ran.stop}, {status(ran.code)}"

    def _short(self, order: BodyOrder, words: Sequence[str]) -> tuple[attended.Attended, Events]:
        return self._acpx_run(dataclasses.replace(order, limit=CLOSE_SECONDS), words, b"", lambda: False)

    def _acpx_run(
        self,
        order: BodyOrder,
        words: Sequence[str],
        stdin: bytes,
        stopping: Callable[[], bool],
        heard: Callable[[bytes], None] = lambda _: None,
    ) -> tuple[attended.Attended, Events]:
        """Run acpx once.

        Raises:
            Unavailable: it cannot be started.
        """
        start = self._isolate(dataclasses.replace(order, argv=(*self._acpx, *self._flags(order), *words)))
        absent = missing(start)
        if absent:
            raise Unavailable(absent)
        events = Events()

        def read(text: bytes) -> None:
            if text:
                heard(text)

        ran = attended.attend(
            start.argv,
            cwd=start.cwd,
            env=start.env,
            stdin=start.before_prompt + stdin,
            limit=order.limit,
            heard=lambda piece: read(events.feed(piece)),
            stopping=stopping,
            cap=EVENTS_CAP,
        )
        read(events.end())
        return ran, events

    def _flags(self, order: BodyOrder) -> tuple[str, ...]:
        name = order.argv[0]
        known = len(order.argv) == 1 and _AGENT.fullmatch(name) and name not in _COMMANDS
        return (
            "--format", "json", "--json-strict", "--cwd", str(order.folder), "--ttl", str(_IDLE_SECONDS),
            "--deny-all", "--non-interactive-permissions", "deny", "--policy", self._tools.policy(),
            "--no-fs", "--no-terminal", *((name,) if known else ("--agent", shlex.join(order.argv))),
        )  # fmt: skip


def session(order: BodyOrder) -> str:
    """Name the session of an order: the one that it goes on in, else one of its run's own."""
    return order.session or f"{order.agent}-{order.run}"


def _unstarted(order: BodyOrder, ran: attended.Attended, events: Events) -> BodyEnd:
    """Say why there is no session: whatever failed, the turn has not begun."""
    end = _end(order, ran, events)
    kept = end.stop in (BodyStop.TIMED_OUT, BodyStop.STOPPED, BodyStop.RATE_LIMITED)
    return end if kept else dataclasses.replace(end, stop=BodyStop.NOT_STARTED)


def _end(order: BodyOrder, ran: attended.Attended, events: Events) -> BodyEnd:
    said = told(order, (events.failure.message.encode() if events.failure else b"") or ran.error)
    if ran.stop is BodyStop.TIMED_OUT:
        return BodyEnd(ran.stop, ran.code, f"took longer than {order.limit:g} s")
    if ran.stop is BodyStop.STOPPED:
        return BodyEnd(ran.stop, ran.code, "was stopped")
    if ran.cut or events.unread:
        return BodyEnd(BodyStop.FAILED, ran.code, "acpx said more than is read, or what cannot be read")
    if events.stop_reason is not None and ran.code in (0, 5):
        # 5 says of the whole session that no permission was given in it; the turn may have ended all the same.
        return _ended(ran.code, events)
    if events.failure is not None and events.failure.rate_limited:
        return BodyEnd(BodyStop.RATE_LIMITED, ran.code, said, events.failure.retry_after)
    stop, meaning = EXITS.get(-1 if ran.code is None else ran.code, (BodyStop.FAILED, status(ran.code)))
    return BodyEnd(stop, ran.code, line(f"{meaning}: {said}" if said else meaning))


def _ended(code: int | None, events: Events) -> BodyEnd:
    """Map the reason of a turn's end (Agent Client Protocol, prompt turn, stop reasons)."""
    denied = events.asked - events.allowed
    asked = f"{denied} of {events.asked} permission requests denied" if denied else ""
    match events.stop_reason:
        case "end_turn":
            return BodyEnd(BodyStop.ENDED, code, asked)
        case "cancelled":
            return BodyEnd(BodyStop.STOPPED, code, "the turn was cancelled")
        case reason:
            return BodyEnd(BodyStop.FAILED, code, line(f"the turn ended with {reason}"))
