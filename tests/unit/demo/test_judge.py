"""The judge is a function of weights, regime and calibration; without a calibration there is no score."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gitops_bot.core.captures import parse_trace_id, slug
from gitops_bot.core.errors import ConfigError, Malformed
from gitops_bot.demo import judge
from gitops_bot.demo.grammar import Weights
from gitops_bot.demo.picker import DEFAULT_KNOBS, DEFAULT_REGIME, ROUND_ROBIN, Knobs, knobs, p99

TRACE = "model=Qwen/Qwen3-0.6B;c=48;p=8;mt=8;lt=0;lf=0.0000"
REGIME = parse_trace_id(TRACE)
CAPTURED = {
    "MOCK_TTFT_MS": "8.1",
    "MOCK_TTFT_STDDEV_MS": "2.5",
    "MOCK_PREFILL_OVERHEAD_MS": "5.5",
    "MOCK_PREFILL_TIME_PER_TOKEN_MS": "0.32",
    "MOCK_ITL_MS": "3.1",
    "MOCK_ITL_STDDEV_MS": "2.4",
    "MOCK_TIME_FACTOR_UNDER_LOAD": "7.5",
    "MOCK_MAX_NUM_SEQS": "16",
}
GOOD = Weights(1.0, 0.2)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "picker.json").write_text('{"load": 1.0, "prefix": 0.2}')
    return folder


@pytest.fixture
def calibrate(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    def write(values: dict[str, str]) -> Path:
        folder = tmp_path / "calibrations" / slug(REGIME.trace_id)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "knobs.json").write_text(json.dumps({"v": 1, "knobs": values}))
        return folder.parent

    return write


def test_the_same_weights_and_knobs_always_score_the_same() -> None:
    """A fixed seed: what differs between two scores is what the agent did."""
    assert p99(GOOD, DEFAULT_KNOBS, DEFAULT_REGIME) == p99(GOOD, DEFAULT_KNOBS, DEFAULT_REGIME)
    assert p99(GOOD, DEFAULT_KNOBS, DEFAULT_REGIME, seed=1) != p99(GOOD, DEFAULT_KNOBS, DEFAULT_REGIME)


def test_good_weights_beat_round_robin_under_both_regimes() -> None:
    """There is something to improve, before and after the capture, and both weights have a part in it."""
    captured = knobs(CAPTURED, REGIME)
    for known, regime in ((DEFAULT_KNOBS, DEFAULT_REGIME), (captured, REGIME)):
        assert p99(GOOD, known, regime) < 0.5 * p99(ROUND_ROBIN, known, regime)
    assert p99(GOOD, captured, REGIME) < 0.9 * p99(Weights(1.0, 0.0), captured, REGIME)


@pytest.mark.parametrize("name", ["MOCK_TTFT_MS", "MOCK_ITL_MS", "MOCK_TIME_FACTOR_UNDER_LOAD", "MOCK_MAX_NUM_SEQS"])
def test_every_knob_moves_the_score(name: str) -> None:
    """A segment's scores differ from another's because the knobs do: each of them counts."""
    changed = {**CAPTURED, name: str(float(CAPTURED[name]) * 2)}
    assert p99(GOOD, knobs(changed, REGIME), REGIME) != p99(GOOD, knobs(CAPTURED, REGIME), REGIME)


def test_scores_differ_because_knobs_differ(workspace: Path, calibrate: Callable[[dict[str, str]], Path]) -> None:
    """One workspace, one regime, two captures: two scores."""
    first = judge.score(workspace, calibrate(CAPTURED), TRACE)
    slower = judge.score(workspace, calibrate({**CAPTURED, "MOCK_ITL_MS": "6.2"}), TRACE)
    assert slower > 1.3 * first
    assert judge.score(workspace, calibrate(CAPTURED), TRACE) == first
    assert judge.score(workspace, calibrate(CAPTURED), "default") not in (first, slower)


def test_the_command_prints_one_score(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the loop reads; under the default regime no calibration is needed."""
    monkeypatch.setenv("LOOP_REGIME", "default")
    assert judge.main(["--workspace", str(workspace), "--calibration-dir", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == {"score": p99(GOOD, DEFAULT_KNOBS, DEFAULT_REGIME)}


@pytest.mark.parametrize(
    ("regime", "reason"),
    [(TRACE, "no calibration"), ("", "LOOP_REGIME"), ("rescoped", "trace id"), ("../../x", "trace id")],
)
def test_an_uncalibrated_regime_has_no_score(
    workspace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    regime: str,
    reason: str,
) -> None:
    """No built-in knobs stand in for a capture that is missing."""
    monkeypatch.setenv("LOOP_REGIME", regime)
    assert judge.main(["--workspace", str(workspace), "--calibration-dir", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert reason in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("lacking", ["MOCK_TTFT_MS", "MOCK_ITL_MS", "MOCK_TIME_FACTOR_UNDER_LOAD", "MOCK_MAX_NUM_SEQS"])
def test_a_calibration_without_a_needed_knob_is_refused(
    workspace: Path, calibrate: Callable[[dict[str, str]], Path], lacking: str
) -> None:
    """A knob is measured or missing, never guessed; deviations may be missing."""
    with pytest.raises(ConfigError, match=lacking):
        judge.score(workspace, calibrate({k: v for k, v in CAPTURED.items() if k != lacking}), TRACE)
    few = {k: v for k, v in CAPTURED.items() if "STDDEV" not in k and "PREFILL" not in k}
    assert judge.score(workspace, calibrate(few), TRACE) > 0


@pytest.mark.parametrize(
    "change",
    [{"MOCK_TTFT_MS": "0"}, {"MOCK_ITL_MS": "-1"}, {"MOCK_MAX_NUM_SEQS": "99999999"},
     {"MOCK_TIME_FACTOR_UNDER_LOAD": "0.5"}, {"MOCK_TIME_FACTOR_UNDER_LOAD": "9999"}],
)  # fmt: skip
def test_impossible_knobs_are_refused(change: dict[str, str]) -> None:
    """The simulation's cost and sense are bounded by its knobs."""
    with pytest.raises(ConfigError, match="knobs"):
        knobs({**CAPTURED, **change}, REGIME)
    assert knobs(CAPTURED, REGIME) == Knobs(8.1, 2.5, 3.1, 2.4, 16, 7.5, 0.32)


def test_a_linked_piped_or_missing_picker_has_no_score(workspace: Path, tmp_path: Path) -> None:
    """The workspace is the agent's: the judge reads one plain file there and waits for nothing."""
    picker = workspace / "picker.json"
    assert judge.score(workspace, tmp_path, "default") > 0
    picker.rename(workspace / "other")
    for make in (lambda: None, lambda: picker.symlink_to(workspace / "other"), lambda: os.mkfifo(picker)):
        picker.unlink(missing_ok=True)
        make()
        with pytest.raises(ConfigError, match="picker"):
            judge.score(workspace, tmp_path, "default")
    picker.unlink()
    picker.write_text("{" * 100_000)
    with pytest.raises(Malformed, match="picker"):
        judge.score(workspace, tmp_path, "default")
