"""Some verifying processes, one a core, that are given tasks and answer them in their order.

`prove` gives the signatures that stand by the word of these processes. It gives nothing when one of them dies, hangs,
fails or answers in another form: then all are ended, and nothing is known of any commit (I14). Nothing secret goes to
them: no environment, no open file, public keys and the place of the repository alone.
"""

import os
import select
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import Final, Self

from gitops_bot import process
from gitops_bot.core.errors import Malformed, Unavailable
from gitops_bot.core.principals import PrincipalName
from gitops_bot.process import Child, Limits
from gitops_bot.signed.evidence import ObjectId, Signed
from gitops_bot.signed.proving import grammar
from gitops_bot.signed.proving.grammar import Answer, Failed, Order, Ring, Task
from gitops_bot.signed.repository import READING, Repository

PATIENCE: Final = 60.0
"""Seconds without any answer from a process that has something to do."""
MOST: Final = 8
"""Processes, however many cores there are."""
LIMITS: Final = Limits(cpu_seconds=900, memory_bytes=READING.memory_bytes, file_bytes=0)
"""Of one process, and of the processes of git that it starts; it has no file to write."""
_PROGRAM: Final = (sys.executable, "-I", "-m", "gitops_bot.signed.proving.worker")
_CHUNK: Final = 256 * 1024
_AHEAD: Final = 2
"""Tasks that a process has at a time, so that it never waits for the next."""


class Hand:
    """One process, what it was asked, and what it has not said yet."""

    def __init__(self, child: Child, order: bytes) -> None:
        assert child.stdin is not None and child.stdout is not None
        self.child = child
        self.reading, self.writing = child.stdout.fileno(), child.stdin.fileno()
        os.set_blocking(self.reading, False)
        os.set_blocking(self.writing, False)
        self.tasks: deque[Task] = deque()
        self._given = self._done = 0
        self.unsent = bytearray(order)
        self.heard_at = time.monotonic()
        self._got = bytearray()

    def give(self, task: Task) -> None:
        """Give it one more task; it leaves when there is room."""
        if not self.tasks:
            self.heard_at = time.monotonic()
        self.tasks.append(task)
        self._given += 1
        self.unsent += grammar.write_task(self._given, task)

    def send(self) -> None:
        """Send what there is room for.

        Raises:
            Unavailable: it is gone.
        """
        try:
            del self.unsent[: os.write(self.writing, self.unsent[:_CHUNK])]
        except BlockingIOError:
            return
        except OSError as error:
            raise Unavailable(f"a verifying process ended ({error.strerror})") from error

    def hear(self) -> Iterator[tuple[Task, tuple[Answer, ...]]]:
        """Read what it says and give the tasks that are done.

        Raises:
            Unavailable: it is gone, failed, or says what it was not asked.
        """
        chunk = os.read(self.reading, _CHUNK)
        if not chunk:
            raise Unavailable("a verifying process ended before it had answered")
        self._got += chunk
        self.heard_at = time.monotonic()
        try:
            while (body := self._body()) is not None:
                yield self._answered(body)
        except Malformed as error:
            raise Unavailable(f"a verifying process answered strangely: {error.message}") from error

    def _body(self) -> bytes | None:
        if len(self._got) < grammar.HEADER:
            return None
        end = grammar.HEADER + grammar.frame_size(bytes(self._got[: grammar.HEADER]), grammar.MAX_ANSWER)
        if len(self._got) < end:
            return None
        body = bytes(self._got[grammar.HEADER : end])
        del self._got[:end]
        return body

    def _answered(self, body: bytes) -> tuple[Task, tuple[Answer, ...]]:
        if not self.tasks:
            raise Malformed("nothing was asked", where="verifying process")
        task = self.tasks.popleft()
        self._done += 1
        said = grammar.read_answers(body, self._done, len(task.commits))
        if isinstance(said, Failed):
            raise Unavailable(said.why)
        return task, said

    def end(self) -> None:
        """End it."""
        process.end_group(self.child, grace=0)
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                pipe.close()


class Pool:
    """Processes over one repository and one ring, started when first asked. One thread at a time."""

    def __init__(
        self,
        repository: Repository,
        ring: Ring,
        skew: int,
        *,
        size: int | None = None,
        patience: float = PATIENCE,
        program: Sequence[str] = _PROGRAM,
    ) -> None:
        """Take repository, keys and skew (ms); `size` processes, by default one for each core that this one may use."""
        places = (str(repository.folder), repository.address.url, repository.algorithm)
        self._order = grammar.write_order(Order(ring, *places, skew))
        self._repository = repository
        self._size = size or min(MOST, cores())
        self._patience = patience
        self._program = tuple(program)
        self._hands: list[Hand] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the processes that are not there.

        Raises:
            Unavailable: they cannot be started.
        """
        while len(self._hands) < self._size:
            child = process.start(
                self._program,
                cwd=self._repository.folder,
                stdin=process.PIPE,
                stdout=process.PIPE,
                limits=LIMITS,
            )
            self._hands.append(Hand(child, self._order))

    def close(self) -> None:
        """End the processes; they start again when something is asked."""
        hands, self._hands = self._hands, []
        for hand in hands:
            hand.end()

    def prove(self, tasks: Iterable[Task]) -> dict[ObjectId, Signed]:
        """Have the commits of some tasks verified; give the signatures that stand, by commit.

        Raises:
            Unavailable: a process died, hung, failed or answered strangely; nothing is known of any commit.
        """
        whole = False
        try:
            self.start()
            stood = dict(self._work(iter(tasks)))
            whole = True
            return stood
        finally:
            if not whole:
                self.close()

    def _work(self, tasks: Iterator[Task]) -> Iterator[tuple[ObjectId, Signed]]:
        self._share(tasks)
        while any(hand.tasks for hand in self._hands):
            for hand in self._ready():
                for task, answers in hand.hear():
                    yield from ((oid, answer) for (oid, _), answer in zip(task.commits, answers, strict=True) if answer)
            self._share(tasks)

    def _share(self, tasks: Iterator[Task]) -> None:
        """Give each process as many tasks as it may have, the idlest first."""
        while True:
            hand = min(self._hands, key=lambda hand: len(hand.tasks))
            if len(hand.tasks) >= _AHEAD:
                return
            task = next(tasks, None)
            if task is None:
                return
            hand.give(task)

    def _ready(self) -> list[Hand]:
        """Wait for something to read, writing meanwhile.

        Raises:
            Unavailable: a process that has something to do said nothing for too long, or is gone.
        """
        poll = select.poll()
        for hand in self._hands:
            poll.register(hand.reading, select.POLLIN)
            if hand.unsent:
                poll.register(hand.writing, select.POLLOUT)
        oldest = min(hand.heard_at for hand in self._hands if hand.tasks)
        left = oldest + self._patience - time.monotonic()
        ready = dict(poll.poll(max(0.0, left) * 1_000))
        if not ready and left <= 0:
            raise Unavailable(f"a verifying process said nothing for {self._patience:g} s")
        for hand in self._hands:
            if hand.writing in ready:
                hand.send()
        return [hand for hand in self._hands if hand.reading in ready]


def pool_of(repository: Repository, ring: Ring | None, skew: int) -> Pool | None:
    """Make a pool; None without a ring, or where a second process would only take turns with this one."""
    return None if ring is None or cores() < 2 else Pool(repository, ring, skew)


def cores() -> int:
    """Tell how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def tasks_of(person: PrincipalName, commits: Iterable[tuple[ObjectId, int]], size: int = 256) -> Iterator[Task]:
    """Cut commits on one person's branch, each with the time of its receipt (ms), into tasks."""
    source = iter(commits)
    while batch := tuple(islice(source, size)):
        yield Task(person, batch)
