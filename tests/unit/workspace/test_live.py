"""The hub: sealed order without a gap for every watch, nothing done for nobody, no stream that outlives its session."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

import pytest

from gitops_bot.core.errors import Unavailable
from workspace.live import MOST_OF_SESSION, RING, Full, Hub, Told, Watch, told_of

PATIENCE = 30.0


@dataclass
class Book:
    """A source in memory; `down`: it does not answer."""

    sealed: int = 0
    gone: set[str] = field(default_factory=set)
    down: bool = False
    looks: int = 0

    def _look(self) -> None:
        self.looks += 1
        if self.down:
            raise Unavailable("down")

    def head(self) -> int:
        self._look()
        return self.sealed

    def after(self, seq: int, limit: int) -> list[Told]:
        self._look()
        return [Told(place, "k", None, None, None) for place in range(seq + 1, min(self.sealed, seq + limit) + 1)]

    def still(self, sessions: Collection[str]) -> Collection[str]:
        self._look()
        return [one for one in sessions if one not in self.gone]


def run(work: Callable[[Hub, Book], Awaitable[None]], book: Book | None = None) -> None:
    """Do something with a hub in a loop of its own."""
    known = book or Book()

    async def whole() -> None:
        hub = Hub(known, look=0.01, recheck=0.02)
        try:
            await work(hub, known)
        finally:
            hub.close()

    asyncio.run(whole())


async def places(watch: Watch, until: int) -> list[int]:
    """Read a watch up to a place."""
    found: list[int] = []
    while not found or found[-1] < until:
        text = await watch.next(PATIENCE)
        assert text, watch.ended
        found += [json.loads(line[6:])["seq"] for line in text.decode().splitlines() if line.startswith("data: ")]
    return found


async def end_of(watch: Watch) -> str | None:
    """Read a watch to its end."""
    deadline = time.monotonic() + PATIENCE
    while await watch.next(0.05) is not None:
        assert time.monotonic() < deadline
    return watch.ended


def test_every_watch_sees_every_place_once_wherever_it_begins() -> None:
    """From the newest on, from a place in the ring, and from one long before it, while more is sealed."""

    async def work(hub: Hub, book: Book) -> None:
        book.sealed = 3 * RING
        new = await hub.watch("a", None)
        old = await hub.watch("b", 0)
        reading = [asyncio.create_task(places(one, 4 * RING)) for one in (new, old)]
        while book.sealed < 4 * RING:
            book.sealed += 64
            await asyncio.sleep(0)
        late = await hub.watch("c", 4 * RING - 5)
        assert await reading[0] == list(range(3 * RING + 1, 4 * RING + 1))
        assert await reading[1] == list(range(1, 4 * RING + 1))
        assert await places(late, 4 * RING) == list(range(4 * RING - 4, 4 * RING + 1))

    run(work)


def test_nobody_watches_and_nothing_is_read() -> None:
    """The last one leaves: the reader stops; another comes: it goes on from what is newest then."""

    async def work(hub: Hub, book: Book) -> None:
        watch = await hub.watch("a", None)
        hub.leave(watch)
        await asyncio.sleep(0.2)
        before = book.looks
        await asyncio.sleep(0.2)
        assert book.looks == before
        book.sealed = 7
        again = await hub.watch("a", None)
        assert again.begun == 7
        book.sealed = 9
        assert await places(again, 9) == [8, 9]

    run(work)


def test_a_watch_ends_with_its_session_and_another_goes_on() -> None:
    async def work(hub: Hub, book: Book) -> None:
        ended, kept = await hub.watch("a", None), await hub.watch("b", None)
        book.gone.add("a")
        assert await end_of(ended) == "signed_out"
        book.sealed = 1
        assert await places(kept, 1) == [1]

    run(work)


def test_what_is_not_known_is_not_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database does not answer: streams stay for a moment and no longer."""
    monkeypatch.setattr("workspace.live.UNKNOWN_SECONDS", 0.2)

    async def work(hub: Hub, book: Book) -> None:
        watch = await hub.watch("a", None)
        book.down = True
        assert await end_of(watch) == "unknown"
        hub.leave(watch)
        await asyncio.sleep(0.2)
        with pytest.raises(Unavailable):
            await hub.watch("a", None)
        book.down = False
        again = await hub.watch("a", None)
        book.sealed = 2
        assert await places(again, 2) == [1, 2]

    run(work)


def test_a_bug_ends_the_streams_and_is_not_silent(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Book):
        def after(self, seq: int, limit: int) -> list[Told]:
            raise ZeroDivisionError

    async def work(hub: Hub, book: Book) -> None:
        watch = await hub.watch("a", None)
        assert await end_of(watch) == "failed"

    run(work, Broken())
    assert "the reader of the ledger ended" in caplog.text


def test_watches_are_bounded_and_those_who_left_are_not_counted() -> None:
    async def work(hub: Hub, _book: Book) -> None:
        watches = [await hub.watch("a", None) for _ in range(MOST_OF_SESSION)]
        with pytest.raises(Full):
            await hub.watch("a", None)
        hub.leave(watches[0])
        hub.leave(watches[0])
        await hub.watch("a", None)
        with pytest.raises(Full):
            await hub.watch("a", None)
        await hub.watch("b", None)

    run(work)


def test_a_place_that_is_not_there_yet_begins_anew() -> None:
    async def work(hub: Hub, book: Book) -> None:
        book.sealed = 5
        ahead, exact = await hub.watch("a", 6), await hub.watch("a", 5)
        assert (ahead.reset, ahead.begun, exact.reset, exact.begun) == (True, 5, False, 5)

    run(work)


def test_the_end_of_the_process_ends_every_watch() -> None:
    async def work(hub: Hub, _book: Book) -> None:
        watch = await hub.watch("a", None)
        hub.close()
        assert await end_of(watch) == "stopping"

    run(work)


def test_only_ids_are_told() -> None:
    document = {"kind": "ask.answered", "ask": "i", "agent": None, "capture": None, "facts": {"secret": 1}, "run": "r"}
    message = told_of(3, document).message()
    assert message == b'id: 3\ndata: {"seq":3,"kind":"ask.answered","ask":"i","agent":null,"capture":null}\n\n'
