"""An OpenAI-compatible endpoint that keeps known knobs to the millisecond, for what measures it to be measured by.

It computes nothing: each token leaves at an instant that was fixed when its request got a place, so that what a busy
machine adds to one gap it takes from the next. Deviations are drawn from a short list with exactly the wanted standard
deviation, each value followed by its opposite half a list later, so that few requests show what many would.
"""

import http.server
import itertools
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import NormalDist, stdev
from typing import Any

CACHED = 24
_HALF = [NormalDist().inv_cdf((place + 0.5) / 12) for place in (7, 10, 6, 11, 8, 9)]
_WHOLE = [*_HALF, *(-value for value in _HALF)]
DRAWS = [value / stdev(_WHOLE * 2) for value in _WHOLE]


@dataclass(frozen=True)
class Script:
    """The knobs; times in ms."""

    overhead: float = 60.0
    per_token: float = 0.5
    first_deviation: float = 16.0
    gap: float = 50.0
    gap_deviation: float = 15.0
    factor: float = 2.0
    places: int = 4

    def slowed(self, times: float) -> "Script":
        """Give the same endpoint with every time so many times as long, for a machine with long delays of its own."""
        return replace(
            self,
            overhead=self.overhead * times,
            per_token=self.per_token * times,
            first_deviation=self.first_deviation * times,
            gap=self.gap * times,
            gap_deviation=self.gap_deviation * times,
        )


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.places = threading.BoundedSemaphore(script.places)
        self.lock = threading.Lock()
        self.running = 0
        self.first, self.gaps = itertools.cycle(DRAWS), itertools.cycle(DRAWS)

    def enter(self, tokens: int) -> tuple[float, float, list[float]]:
        """Take a place; give the draw of the first token and those of the gaps."""
        self.places.acquire()
        with self.lock:
            self.running += 1
            return time.perf_counter(), next(self.first), [next(self.gaps) for _ in range(tokens - 1)]

    def leave(self) -> None:
        """Give the place back."""
        with self.lock:
            self.running -= 1
        self.places.release()

    def slower(self) -> float:
        """Say how much slower a token is now than alone."""
        places = self.script.places
        return 1 + (self.script.factor - 1) * (self.running - 1) / (places - 1)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, *args: Any) -> None: ...

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words, tokens = asked["prompt"].split(), int(asked["max_tokens"])
        cached = CACHED if words[0].startswith("p") and words[0].endswith("w0") and words[0][1:2].isdigit() else 0
        script = self.server.script
        at, first, gaps = self.server.enter(tokens)
        try:
            self.send_response(200)
            self.end_headers()
            alone = script.overhead + script.per_token * (len(words) - cached) + script.first_deviation * first
            for wait in (alone, *(script.gap + script.gap_deviation * draw for draw in gaps)):
                at += wait * self.server.slower() / 1000
                time.sleep(max(at - time.perf_counter(), 0))
                self.wfile.write(b'data: {"choices":[{"text":"a"}]}\n\n')
        finally:
            self.server.leave()
        usage = {"prompt_tokens": len(words), "completion_tokens": tokens}
        usage_line = json.dumps({"choices": [], "usage": {**usage, "prompt_tokens_details": {"cached_tokens": cached}}})
        self.wfile.write(f"data: {usage_line}\n\ndata: [DONE]\n\n".encode())


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """Serve on loopback; give the address."""
    with _Server(script) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
