"""An OpenAI-compatible streaming endpoint on loopback that really computes (`demo.engine`), for captures to measure.

Serves `POST /v1/completions` and `POST /v1/chat/completions` with `"stream": true`, one event a token, usage in the
last chunk. Prints `{"url": …}` once it listens. A full queue answers 503. For demonstrations: it knows no users.
"""

import argparse
import http.server
import json
import sys
from collections.abc import Sequence as Arguments
from http import HTTPStatus
from typing import Final, cast

from gitops_bot.core.errors import Malformed
from gitops_bot.demo.engine import MAX_CONTEXT, Engine, Sequence, Settings
from gitops_bot.demo.grammar import MAX_REQUEST, Completion, read_completion

CHAT: Final = "/v1/chat/completions"
PATHS: Final = ("/v1/completions", CHAT)
IDLE: Final = 30.0


class Server(http.server.ThreadingHTTPServer):
    """The listener; a thread a connection waits on the engine, which alone computes."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int, settings: Settings) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.engine = Engine(settings)
        self.engine.start()

    @property
    def url(self) -> str:
        """The base address, without `/v1`."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def server_close(self) -> None:
        """Stop listening and computing."""
        super().server_close()
        self.engine.close()


class Handler(http.server.BaseHTTPRequestHandler):
    """One request a connection: read, queue, stream."""

    timeout = IDLE

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """Answer a completion."""
        length = self.headers.get("Content-Length", "")
        if self.path not in PATHS:
            return self._refuse(HTTPStatus.NOT_FOUND, "no such call")
        if not (length.isascii() and length.isdigit() and len(length) < 9 and int(length) <= MAX_REQUEST):
            return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"state a length up to {MAX_REQUEST}")
        try:
            wanted = read_completion(self.rfile.read(int(length)), chat=self.path == CHAT)
        except Malformed as error:
            return self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        if not wanted.prompt or len(wanted.prompt) + wanted.max_tokens > MAX_CONTEXT:
            return self._refuse(HTTPStatus.BAD_REQUEST, f"prompt and output take from 1 to {MAX_CONTEXT} tokens")
        sequence = Sequence(wanted.prompt, wanted.max_tokens)
        if not cast("Server", self.server).engine.submit(sequence):
            return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "the queue is full")
        try:
            self._stream(wanted, sequence)
        except OSError:
            # The client left; the engine drops the sequence at its next step.
            sequence.gone = True
        return None

    def _stream(self, wanted: Completion, sequence: Sequence) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        chat = self.path == CHAT
        made = 0
        while (text := sequence.output.get()) is not None:
            made += 1
            choice = {"index": 0, "delta": {"content": text}} if chat else {"index": 0, "text": text}
            self._event({"model": wanted.model, "choices": [choice]})
        usage = {
            "prompt_tokens": len(wanted.prompt),
            "completion_tokens": made,
            "total_tokens": len(wanted.prompt) + made,
            "prompt_tokens_details": {"cached_tokens": sequence.cached},
        }
        self._event({"model": wanted.model, "choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, chunk: dict[str, object]) -> None:
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        body = json.dumps({"error": {"message": message}}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(arguments: Arguments[str] | None = None) -> int:
    """Serve until ended. Gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gitops_bot.demo.inference", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 = any free one")
    parser.add_argument("--running", type=int, default=Settings().running, help="sequences that run at once")
    parser.add_argument("--layers", type=int, default=Settings().layers, help="layers of the transformer")
    flags = parser.parse_args(arguments)
    sys.setswitchinterval(0.0005)  # a token must leave when it is made, not after the engine's next ones
    with Server(flags.port, Settings(running=flags.running, layers=flags.layers)) as server:
        sys.stdout.write(json.dumps({"url": server.url}) + "\n")
        sys.stdout.flush()
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
