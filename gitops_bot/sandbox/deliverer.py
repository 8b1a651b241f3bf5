"""Sends webhook deliveries from a thread of its own, in the order in which they were posted, once each.

Where a state is kept, nothing is sent that is not on record. When `wait` returns, everything that was posted before has
been sent and its answer stands in the log.
"""

import queue
import threading
import time
from dataclasses import replace
from typing import Final

from gitops_bot.sandbox.hooks import Delivery
from gitops_bot.sandbox.world import World

TIMEOUT: Final = 10.0
"""Seconds in which a receiver must answer (GitHub, webhooks)."""
ANSWER_LIMIT: Final = 65_536


class Deliverer:
    """The thread that sends. `close` lets it finish what it is at and drops the rest."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._queue: queue.Queue[Delivery | None] = queue.Queue()
        self._idle = threading.Condition()
        self._unsent = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="sandbox-webhooks", daemon=True)
        self._thread.start()

    def post(self, delivery: Delivery) -> None:
        """Send one later."""
        with self._idle:
            self._unsent += 1
        self._queue.put(delivery)

    def wait(self, seconds: float) -> bool:
        """Wait until nothing is left to be sent; whether that came about in time."""
        with self._idle:
            return self._idle.wait_for(lambda: self._unsent == 0, seconds)

    def close(self) -> None:
        """End the thread."""
        self._closing = True
        self._queue.put(None)
        self._thread.join(TIMEOUT + 5)

    def _run(self) -> None:
        import requests

        with requests.Session() as session:
            session.trust_env = False  # no proxy and no .netrc stands between two programs of one machine
            while (delivery := self._queue.get()) is not None and not self._closing:
                self._world.wait_until_kept()
                sent = self._send(session, delivery)
                with self._world.lock:
                    self._world.model.hooks.answered(sent)
                with self._idle:
                    self._unsent -= 1
                    self._idle.notify_all()

    def _send(self, session: "requests.Session", delivery: Delivery) -> Delivery:  # type: ignore[name-defined] # noqa: F821 # imported where used
        import requests

        begun = time.monotonic()
        try:
            with session.post(
                delivery.hook.url,
                data=delivery.payload,
                headers=dict(delivery.headers),
                timeout=TIMEOUT,
                allow_redirects=False,
                stream=True,
            ) as answer:
                text = answer.raw.read(ANSWER_LIMIT).decode("utf-8", "replace")
                code, words, told = answer.status_code, answer.reason or "", dict(answer.headers)
        except requests.RequestException as error:
            code, words, told, text = 0, type(error).__name__, {}, ""
        status = "OK" if 200 <= code < 300 else words or "failed"
        spent = round(time.monotonic() - begun, 2)
        return replace(delivery, status_code=code, status=status, duration=spent, answered=(told, text))
