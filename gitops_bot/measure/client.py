"""One streamed request against an OpenAI-compatible endpoint becomes one `Sample`, failed or not.

A failure is a sample with `error`; nothing here decides whether an endpoint is fit to be measured (`measure.drive`).
"""

import http.client
import itertools
import json
import time
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.errors import Malformed
from gitops_bot.measure.grammar import MAX_LINE, PATHS, Endpoint, Usage, read_line

MAX_STREAM: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sample:
    """What one request did: times in milliseconds, `arrival_ms` since the measurement's start."""

    arrival_ms: float
    usage: Usage
    ttft_ms: float | None = None
    itl_ms: tuple[float, ...] = ()
    error: str | None = None


def request(endpoint: Endpoint, model: str, prompt: str, max_tokens: int, *, origin: float, timeout: float) -> Sample:
    """Send one streamed request and time it; `origin` is the measurement's start, `timeout` bounds the whole in s."""
    kind = http.client.HTTPSConnection if endpoint.scheme == "https" else http.client.HTTPConnection
    connection = kind(endpoint.host, endpoint.port, timeout=timeout)
    sent = time.perf_counter()
    arrival = (sent - origin) * 1000
    try:
        connection.request(
            "POST",
            endpoint.prefix + PATHS[endpoint.api],
            body=_body(endpoint.api, model, prompt, max_tokens),
            headers={"Content-Type": "application/json", "Accept": "text/event-stream"},
        )
        response = connection.getresponse()
        if response.status != 200:
            return Sample(arrival, Usage(), error=f"HTTP {response.status}")
        return _read(response, sent, arrival, sent + timeout)
    except TimeoutError:
        return Sample(arrival, Usage(), error=f"no answer within {timeout:g} s")
    except OSError as error:
        return Sample(arrival, Usage(), error=error.strerror or type(error).__name__)
    except http.client.HTTPException as error:
        return Sample(arrival, Usage(), error=f"no HTTP answer ({type(error).__name__})")
    except Malformed as error:
        return Sample(arrival, Usage(), error=str(error))
    finally:
        connection.close()


def _body(api: str, model: str, prompt: str, max_tokens: int) -> bytes:
    ask = {"messages": [{"role": "user", "content": prompt}]} if api == "chat" else {"prompt": prompt}
    settings = {"model": model, "max_tokens": max_tokens, "temperature": 0, "stream": True}
    return json.dumps({**settings, **ask, "stream_options": {"include_usage": True}}).encode("utf-8")


def _read(response: http.client.HTTPResponse, sent: float, arrival: float, deadline: float) -> Sample:
    instants: list[float] = []
    usage = Usage()
    size = 0
    while True:
        line = response.readline(MAX_LINE + 1)
        now = time.perf_counter()
        size += len(line)
        if not line:
            return Sample(arrival, usage, error="the stream ended before [DONE]")
        if now > deadline or size > MAX_STREAM:
            return Sample(arrival, usage, error="the stream does not end")
        event = read_line(line)
        if event is None:
            continue
        if event.error is not None:
            return Sample(arrival, usage, error=event.error)
        if event.text:
            instants.append(now)
        usage = event.usage or usage
        if event.done:
            break
    if not instants:
        return Sample(arrival, usage, error="the stream held no text")
    if usage.output_tokens is None:
        usage = Usage(usage.prompt_tokens, usage.cached_tokens, len(instants))
    gaps = tuple((later - earlier) * 1000 for earlier, later in itertools.pairwise(instants))
    return Sample(arrival, usage, (instants[0] - sent) * 1000, gaps)
