"""The capture program against real HTTP: an endpoint that computes, and endpoints that fail."""

import http.server
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.capture.local import LocalCapturer
from gitops_bot.core.captures import Regime
from gitops_bot.demo.engine import Settings
from gitops_bot.demo.inference import Server
from gitops_bot.measure.plan import OWN_WORDS
from gitops_bot.ports import CaptureFailed
from gitops_bot.process import Limits
from tests.scripted_endpoint import Script, serving

REGIME = Regime("Qwen/Qwen3-0.6B", 4, 2, 4, 0, "0.0000")
KNOBS = [
    "MOCK_TTFT_MS", "MOCK_TTFT_STDDEV_MS", "MOCK_PREFILL_OVERHEAD_MS", "MOCK_PREFILL_TIME_PER_TOKEN_MS", "MOCK_ITL_MS",
    "MOCK_ITL_STDDEV_MS", "MOCK_TIME_FACTOR_UNDER_LOAD", "MOCK_MAX_NUM_SEQS",
]  # fmt: skip
CHUNK = b'data: {"choices":[{"text":"a"}]}\n\n'


def measure(url: str, out: Path, *more: str, regime: Regime = REGIME) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "gitops_bot.measure", "--endpoint", url, "--out", str(out), *more],
        input=json.dumps(regime.params()),
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def endpoint() -> Iterator[str]:
    with Server(0, Settings(running=2, layers=2)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


@pytest.fixture
def scripted() -> Iterator[Callable[[Callable[[int], tuple[int, bytes]]], str]]:
    """An endpoint whose n-th answer (status, body) a test decides."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def build(answer: Callable[[int], tuple[int, bytes]]) -> str:
        lock, count = threading.Lock(), [0]

        class Scripted(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None: ...

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    count[0] += 1
                    status, body = answer(count[0])
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield build
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_a_trace_and_knobs_come_from_a_real_endpoint(endpoint: str, tmp_path: Path, api: str) -> None:
    """Meta line first, a record a request, knobs with errors and counts, plots, one JSON line at the end."""
    done = measure(endpoint, tmp_path, "--api", api)
    assert done.returncode == 0, done.stderr
    places = json.loads(done.stdout)
    assert (places["trace"], places["knobs"]) == (str(tmp_path / "trace.jsonl"), str(tmp_path / "knobs.json"))
    assert places["plots"] == [str(tmp_path / "plot.png"), str(tmp_path / "plot.svg")]
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "between tokens" in (tmp_path / "plot.svg").read_text()
    first, *records = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert first["meta"]["model"] == REGIME.model
    assert first["meta"]["regime"] == REGIME.params()
    assert first["meta"]["endpoint"].startswith(endpoint)
    assert first["meta"]["config_hash"].startswith("sha256:")
    assert first["meta"]["tool_version"]
    assert first["meta"]["started"] > 1_600_000_000_000
    rounds = [(one["kind"], one["concurrency"], one["requests"]) for one in first["meta"]["rounds"]]
    assert rounds == [("prefill", 1, 24), ("load", 1, 24), ("load", 2, 24), ("load", 4, 24)]
    assert [record["concurrency"] for record in records] == [1] * 48 + [2] * 24 + [4] * 24
    for record in records:
        assert set(record) == {
            "prompt_tokens", "cached_tokens", "output_tokens", "ttft_ms", "itl_ms", "concurrency", "arrival_ms",
        }  # fmt: skip
        assert record["ttft_ms"] > 0
    for record in records[24:]:
        assert (record["prompt_tokens"], record["cached_tokens"], record["output_tokens"]) == (32, 24, 4)
        assert len(record["itl_ms"]) == 3
    found = json.loads((tmp_path / "knobs.json").read_text())
    assert list(found["knobs"]) == list(found["samples"]) == KNOBS
    assert set(found["errors"]) == set(KNOBS)
    assert all(float(one["low"]) <= float(one["high"]) for one in found["errors"].values())
    assert float(found["knobs"]["MOCK_TTFT_MS"]) > 0
    assert not list(tmp_path.glob("*.partial"))


def test_known_knobs_of_an_endpoint_come_back_within_a_tenth(tmp_path: Path) -> None:
    """The whole way over HTTP: an endpoint that keeps known knobs to the millisecond, with a queue in front of it.

    What a busy machine adds to each time is the machine's and no error of the fit: where it was too much, all is done
    again with times that are longer beside it. A fit that is wrong is wrong at every scale.
    """
    regime = Regime(REGIME.model, 8, 4, 5, 0, "0.0000")
    for times in (1.0, 1.5, 3.0, 6.0):
        script = Script().slowed(times)
        with serving(script) as url:
            done = measure(url, tmp_path, regime=regime)
        assert done.returncode == 0, done.stderr
        wrong = wrong_knobs(script, tmp_path)
        if wrong == {}:
            return
    raise AssertionError(wrong)


def wrong_knobs(script: Script, folder: Path) -> dict[str, float]:
    """Compare what was fitted with what the endpoint kept; give what is more than a tenth off."""
    known = {
        "MOCK_TTFT_MS": script.overhead + script.per_token * OWN_WORDS,
        "MOCK_TTFT_STDDEV_MS": script.first_deviation,
        "MOCK_PREFILL_OVERHEAD_MS": script.overhead,
        "MOCK_PREFILL_TIME_PER_TOKEN_MS": script.per_token,
        "MOCK_ITL_MS": script.gap,
        "MOCK_ITL_STDDEV_MS": script.gap_deviation,
        "MOCK_TIME_FACTOR_UNDER_LOAD": script.factor,
        "MOCK_MAX_NUM_SEQS": script.places,
    }
    found = {name: float(value) for name, value in json.loads((folder / "knobs.json").read_text())["knobs"].items()}
    assert found.keys() == known.keys()
    return {name: value for name, value in found.items() if abs(value / known[name] - 1) > 0.1}


def test_progress_is_for_people_or_for_programs(endpoint: str, tmp_path: Path) -> None:
    """Every round's end is reported; as JSON each line is one object."""
    shown = measure(endpoint, tmp_path).stderr.splitlines()
    assert "measure: 2/5 prefill at concurrency 1: 24 of 24 requests" in shown
    assert shown[-1] == "measure: 5/5 load at concurrency 4: 24 of 24 requests"
    lines = [json.loads(line) for line in measure(endpoint, tmp_path, "--progress", "json").stderr.splitlines()]
    assert lines[-1] == {
        "v": 1, "kind": "load", "concurrency": 4, "done": 24, "requests": 24, "round": 5, "rounds": 5,
    }  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_measurement_leaves_nothing_that_looks_finished(tmp_path: Path, number: int) -> None:
    """Told to stop in the middle of a request, it ends at once with the signal's status; an earlier record is gone."""
    (tmp_path / "trace.jsonl").write_text("earlier")
    (tmp_path / "knobs.json").write_text("earlier")
    with serving(Script(overhead=120_000.0, first_deviation=0.0)) as url:
        child = subprocess.Popen(
            [sys.executable, "-m", "gitops_bot.measure", "--endpoint", url, "--out", str(tmp_path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert child.stdin is not None
        child.stdin.write(json.dumps(REGIME.params()))
        child.stdin.close()
        child.stdin = None
        while not (tmp_path / "trace.jsonl.partial").exists():
            assert child.poll() is None
            time.sleep(0.02)
        time.sleep(0.2)
        told = time.monotonic()
        child.send_signal(number)
        out, err = child.communicate(timeout=110)
        assert time.monotonic() - told < 100, "it waited for its requests, which take two minutes"
    assert child.returncode == 128 + number
    assert (out, err.splitlines()[-1]) == ("", "measure: it was told to stop")
    assert list(tmp_path.iterdir()) == []


def test_more_load_is_slower(endpoint: str, tmp_path: Path) -> None:
    """What the endpoint answers depends on how it is driven: that is what a capture is for. Of a machine that was too
    busy to show it, it is asked again."""
    regime = Regime(REGIME.model, 24, 2, 8, 0, "0.0000")
    for _ in range(4):
        assert measure(endpoint, tmp_path, regime=regime).returncode == 0
        slower, places = shown(tmp_path)
        if slower > 2 and places in (2, 3):
            return
    raise AssertionError(f"{slower} times slower with 24 than alone, {places} places: two run at once there")


def shown(folder: Path) -> tuple[float, int]:
    """Read how much slower many are than one, and how many places were found."""
    records = [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()[1:]]
    few, many = ([record["ttft_ms"] for record in records if record["concurrency"] == level] for level in (1, 24))
    places = json.loads((folder / "knobs.json").read_text())["knobs"]["MOCK_MAX_NUM_SEQS"]
    return (sum(many) / len(many)) / (sum(few) / len(few)), int(places)


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (500, b"", "HTTP 500"),
        (200, CHUNK, "the stream ended before [DONE]"),
        (200, b"data: [DONE]\n\n", "the stream held no text"),
        (200, b'data: {"error":{"message":"overloaded"}}\n\n', "overloaded"),
        (200, b"data: nonsense\n\n", "no JSON object"),
        (200, b"data: " + b"x" * 100_000, "longer than"),
    ],
)
def test_an_endpoint_that_fails_is_refused(
    scripted: Callable[[Callable[[int], tuple[int, bytes]]], str], tmp_path: Path, status: int, body: bytes, reason: str
) -> None:
    """Exit 1 with the reason, and no record that could be taken for one, not even an earlier one."""
    (tmp_path / "trace.jsonl").write_text("earlier")
    (tmp_path / "knobs.json").write_text("earlier")
    done = measure(scripted(lambda _count: (status, body)), tmp_path)
    assert done.returncode == 1
    assert reason in done.stderr.splitlines()[-1]
    assert done.stdout == ""
    assert not (tmp_path / "trace.jsonl").exists()
    assert not (tmp_path / "knobs.json").exists()


@pytest.mark.parametrize(("good", "status"), [(2, 1), (4, 0)])
def test_most_requests_must_succeed(
    scripted: Callable[[Callable[[int], tuple[int, bytes]]], str], tmp_path: Path, good: int, status: int
) -> None:
    """Two in six fail: measured, the failures recorded as such. Four in six fail: refused."""

    def answer(count: int) -> tuple[int, bytes]:
        return (200, CHUNK * 2 + b"data: [DONE]\n\n") if count % 6 < good else (503, b"")

    done = measure(scripted(answer), tmp_path)
    assert done.returncode == status, done.stderr
    if status == 0:
        records = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()[1:]]
        failed = [record["error"] for record in records if "error" in record]
        assert len(records) == 96
        assert failed == ["HTTP 503"] * 32
        assert json.loads((tmp_path / "knobs.json").read_text())["samples"]["MOCK_TTFT_MS"] == 16


def test_nobody_listening_is_a_refusal(tmp_path: Path) -> None:
    """Port 9 of loopback answers nobody."""
    done = measure("http://127.0.0.1:9", tmp_path)
    assert done.returncode == 1
    assert "Connection refused" in done.stderr


@pytest.mark.parametrize("given", [b"", b"{}", b'{"model":"../x"}'])
def test_a_bad_regime_is_a_usage_error(tmp_path: Path, given: bytes) -> None:
    """Nothing is driven for it."""
    done = subprocess.run(
        [sys.executable, "-m", "gitops_bot.measure", "--endpoint", "http://127.0.0.1:9", "--out", str(tmp_path)],
        input=given,
        capture_output=True,
    )
    assert done.returncode == 64
    assert list(tmp_path.iterdir()) == []


def test_the_capturer_runs_the_program(endpoint: str, tmp_path: Path) -> None:
    """Both halves together, as the broker has them: knobs and digest on success, the reason on failure."""
    program = [sys.executable, "-I", "-m", "gitops_bot.measure", "--endpoint"]
    good = LocalCapturer(tmp_path / "good", [*program, endpoint], Limits(), 60)
    bad = LocalCapturer(tmp_path / "bad", [*program, "http://127.0.0.1:9"], Limits(), 60)
    for capturer in (good, bad):
        capturer.submit("a-1", REGIME)
    while (found := good.poll("a-1")) is None:
        time.sleep(0.02)
    assert set(found.knobs) == set(KNOBS)
    assert good.rehash(found.artefact) == found.digest
    with pytest.raises(CaptureFailed, match="Connection refused"):
        while bad.poll("a-1") is None:
            pass


def test_the_inference_server_says_where_it_is() -> None:
    """The command prints its address once it listens, and ends when told to."""
    child = subprocess.Popen([sys.executable, "-m", "gitops_bot.demo.inference", "--port", "0"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        assert json.loads(child.stdout.readline())["url"].startswith("http://127.0.0.1:")
        child.terminate()
        child.wait(60)
