"""Ask, answer, go on: a whole cycle beside LangGraph, DBOS and OpenAI Agents, in one process, on one file system.

Each side keeps its state in a SQLite file of its own with `synchronous=FULL`, and none starts a process. The others do
what their documents show: LangGraph interrupts a node and resumes it by a command (SQLite saver); DBOS runs a workflow
that receives a message and then a step; OpenAI Agents interrupts a tool that needs approval, the state of its run is
kept as a row of JSON, read back, approved and run on, over its SQLite session and with a model that is a function here.
Ours is the broker's own tick, body threads and settle, with a body that is a function: a run is opened with its capsule
and token, its question is an ask with options, a person of the policy answers, the answer wakes the agent, and the next
run has the verdict in its capsule. There is no bound; ratios are printed.

They run in `.venv-fleet`, which `tools/bench-fleet.sh` makes.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import median, timed

ROUNDS: Final = 60
WARM: Final = 5
HERE: Final = Path(__file__).parents[1]
PYTHON: Final = HERE / ".venv-fleet" / "bin" / "python"
Cycle = Callable[[int], None]
WHY: Final = {
    "LangGraph": "writes a checkpoint a step: no person, policy, vote, ledger or wake; the caller resumes it by hand",
    "DBOS": "on SQLite a receiver looks for messages at intervals of its own, so most of its cycle is waiting",
    "OpenAI Agents": "its session commits items; the state of the run is for the caller to keep, here one row",
}


@contextmanager
def ours(folder: Path) -> Iterator[Cycle]:
    """The fleet of a broker, with a body that is a function."""
    import threading

    from gitops_bot.broker.daemon import Bell, Daemon
    from gitops_bot.fleet.bodies import Bodies, Ground
    from gitops_bot.fleet.tick import Tick
    from gitops_bot.ports import BodyEnd, BodyOrder, BodyStop
    from gitops_bot.store import asks, schema
    from gitops_bot.store.roles import Role
    from gitops_bot.store.states import HarnessKind
    from tests.due_stage import LEASE, DueStage
    from tests.store_fixtures import FreshDatabase

    class Function:
        keeps_sessions = False

        def run(self, order: BodyOrder, heard: Callable[[bytes], None], _stopping: Callable[[], bool]) -> BodyEnd:
            is_told = b"state: ANSWERED" in order.prompt
            heard(b"OUTCOME: WORK_DONE\n" if is_told else b"ASK: Go on?\nOPTIONS: yes | no\n")
            return BodyEnd(BodyStop.ENDED, 0)

        def release(self, order: BodyOrder) -> None:
            """Keep nothing."""

    fresh = FreshDatabase("sqlite", f"sqlite:///{folder / 'ours.db'}")
    schema.upgrade(fresh.open(Role.OWNER).engine)
    stage = DueStage(fresh.open(Role.BROKER))
    bell, ended = Bell(), threading.Semaphore(0)

    def freed() -> None:
        ended.release()
        bell.notify()

    stage.database.on_due = bell.notify
    bodies = Bodies(Ground(stage.database, stage.rules, {HarnessKind.COMMAND: Function()}, "", "bench", LEASE), freed)
    daemon = Daemon([Tick(stage.database, bodies, holder="bench", slots=4, lease=LEASE)], bell)
    agent = stage.member("agent-1")
    daemon.start()

    def cycle(_number: int) -> None:
        stage.wake(agent)
        ended.acquire()
        (ask,) = stage.read(lambda tx: asks.page(tx, "", 1, only_open=True, agent=agent.id))
        stage.answer(stage.get(ask.id), "alice", "o1")
        ended.acquire()

    yield cycle
    daemon.stop()
    daemon.join()
    bodies.drain(1)
    fresh.close()


@contextmanager
def langgraph(folder: Path) -> Iterator[Cycle]:
    """A graph of two nodes, of which the first interrupts."""
    import sqlite3
    from typing import TypedDict

    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command, interrupt

    class State(TypedDict, total=False):
        question: str
        answer: str
        done: str

    connection = sqlite3.connect(folder / "langgraph.db", check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute("PRAGMA synchronous=FULL")
    graph: Any = StateGraph(State)
    graph.add_node(
        "ask", lambda state: {"answer": interrupt({"question": state["question"], "options": ["yes", "no"]})}
    )
    graph.add_node("go", lambda state: {"done": state["answer"]})
    for begin, end in ((START, "ask"), ("ask", "go"), ("go", END)):
        graph.add_edge(begin, end)
    app = graph.compile(checkpointer=saver)

    def cycle(number: int) -> None:
        config = {"configurable": {"thread_id": str(number)}}
        app.invoke({"question": "Go on?"}, config)
        assert app.invoke(Command(resume="yes"), config)["done"] == "yes"

    yield cycle
    connection.close()


@contextmanager
def dbos(folder: Path) -> Iterator[Cycle]:
    """A workflow that receives the answer and then takes one step."""
    from dbos import DBOS

    url = f"sqlite:///{folder / 'dbos.db'}"
    DBOS(config={"name": "cycle", "system_database_url": url, "run_admin_server": False, "log_level": "ERROR"})

    @DBOS.step()
    def go(answer: str) -> str:
        return answer

    @DBOS.workflow()
    def ask() -> str:
        return go(DBOS.recv("answer", timeout_seconds=60))

    DBOS.launch()

    def cycle(_number: int) -> None:
        handle = DBOS.start_workflow(ask)
        DBOS.send(handle.workflow_id, "yes", "answer")
        assert handle.get_result() == "yes"

    yield cycle
    DBOS.destroy()


@contextmanager
def agents(folder: Path) -> Iterator[Cycle]:
    """An agent whose tool needs approval, with a model that is a function."""
    import sqlite3

    from agents import Agent, Model, ModelResponse, Runner, RunState, SQLiteSession, Usage, function_tool
    from agents import set_tracing_disabled as disable
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    disable(True)

    class Function(Model):
        async def get_response(
            self,
            system_instructions: Any,  # noqa: ARG002 # named by the library
            input: Any,
            *_rest: Any,
            **_more: Any,
        ) -> ModelResponse:
            items = input if isinstance(input, list) else []
            is_told = any(item.get("type") == "function_call_output" for item in items)
            said: Any = ResponseFunctionToolCall(
                arguments="{}", call_id="call-1", name="go", type="function_call", id="fc-1", status="completed"
            )
            if is_told:
                text = ResponseOutputText(annotations=[], text="done", type="output_text")
                said = ResponseOutputMessage(
                    id="m-1", content=[text], role="assistant", status="completed", type="message"
                )
            return ModelResponse(output=[said], usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    @function_tool(needs_approval=True)
    def go() -> str:
        """Go on."""
        return "went"

    agent = Agent(name="cycle", instructions="Go on.", model=Function(), tools=[go])
    path = folder / "agents.db"
    kept = sqlite3.connect(path, isolation_level=None)
    kept.execute("PRAGMA journal_mode=WAL")
    kept.execute("PRAGMA synchronous=FULL")
    kept.execute("CREATE TABLE states (id TEXT PRIMARY KEY, state TEXT NOT NULL)")
    import asyncio

    loop = asyncio.new_event_loop()

    async def whole(number: int) -> None:
        session = SQLiteSession(str(number), path)
        first = await Runner.run(agent, "Go on?", session=session)
        state = first.to_state()
        kept.execute("INSERT INTO states VALUES (?, ?)", (str(number), state.to_string()))
        (row,) = kept.execute("SELECT state FROM states WHERE id = ?", (str(number),))
        state = await RunState.from_string(agent, row[0])
        for item in state.get_interruptions():
            state.approve(item)
        last = await Runner.run(agent, state, session=session)
        assert last.final_output == "done"
        session.close()

    yield lambda number: loop.run_until_complete(whole(number))
    loop.close()
    kept.close()


def compare() -> None:
    """Run all sides in turn, round by round, and print medians and ratios."""
    sides: dict[str, Callable[[Path], Any]] = {
        "gitops-bot": ours,
        "LangGraph": langgraph,
        "DBOS": dbos,
        "OpenAI Agents": agents,
    }
    with tempfile.TemporaryDirectory(prefix="gitops-bot-cycle-") as name, ExitStack() as stack:
        cycles = {side: stack.enter_context(make(Path(name))) for side, make in sides.items()}
        took: dict[str, list[float]] = {side: [] for side in sides}
        for number in range(ROUNDS + WARM):
            for side, cycle in cycles.items():
                took[side].append(timed(lambda cycle=cycle, number=number: cycle(number)))  # type: ignore[misc] # bound now
    own = median(took["gitops-bot"][WARM:])
    print(f"  {'gitops-bot':14} {own:7.1f} ms a cycle")
    for side in list(sides)[1:]:
        found = median(took[side][WARM:])
        print(f"  {side:14} {found:7.1f} ms a cycle; ours takes {own / found:.2f} times as long ({WHY[side]})")


def main() -> bool:
    """Make the environment where it is missing, and compare in it."""
    subprocess.run(["/bin/sh", "tools/bench-fleet.sh"], cwd=HERE, check=True)
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run([PYTHON, "-m", "benchmarks.bench_cycle"], cwd=HERE, env=environment, check=False)
    return done.returncode == 0


if __name__ == "__main__":
    compare()
    sys.exit(0)
