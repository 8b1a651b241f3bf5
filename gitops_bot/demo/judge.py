"""The demo's judge as a command: scores the workspace's `picker.json` under the regime that the loop names.

`LOOP_REGIME` is `default`, with built-in knobs, or a trace id, with the knobs that its capture left in
`CALIBRATION/<slug>/knobs.json`. Prints `{"score": …}`, the p99 in ms, lower is better. Exit 1, with the reason on
standard error, where there is nothing to score or nothing to score it by: an uncalibrated regime has no score.
"""

import argparse
import json
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from gitops_bot.capture.grammar import MAX_KNOBS, read_knobs
from gitops_bot.config import agent_environment
from gitops_bot.core.captures import parse_trace_id, slug
from gitops_bot.core.errors import ConfigError, Malformed
from gitops_bot.demo.grammar import MAX_FILE, Weights, read_weights
from gitops_bot.demo.picker import DEFAULT_KNOBS, DEFAULT_REGIME, knobs, p99


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge once. Gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m gitops_bot.demo.judge", description=__doc__)
    parser.add_argument("--workspace", type=Path, required=True, help="folder with picker.json")
    parser.add_argument("--calibration-dir", type=Path, required=True, help="folder of captures, one a slug")
    flags = parser.parse_args(arguments)
    try:
        found = score(flags.workspace, flags.calibration_dir, agent_environment()["LOOP_REGIME"])
    except (Malformed, ConfigError) as error:
        sys.stderr.write(f"judge: {error}\n")
        return 1
    sys.stdout.write(json.dumps({"score": found}) + "\n")
    return 0


def score(workspace: Path, calibrations: Path, regime: str) -> float:
    """Score a workspace under a regime, in ms.

    Raises:
        Malformed: `picker.json`, the calibration or the regime's name does not parse.
        ConfigError: there is no `picker.json`, or no calibration for this regime.
    """
    picker = _read(workspace / "picker.json", MAX_FILE)
    if picker is None:
        raise ConfigError("the workspace has no picker.json", fix='write {"load": 0, "prefix": 0} to it')
    return judged(read_weights(picker), calibrations, regime)


def judged(weights: Weights, calibrations: Path, regime: str) -> float:
    """Score weights under a regime, in ms.

    Raises:
        Malformed: the calibration or the regime's name does not parse.
        ConfigError: no calibration for this regime.
    """
    if regime == "default":
        return p99(weights, DEFAULT_KNOBS, DEFAULT_REGIME)
    if not regime:
        raise ConfigError("LOOP_REGIME is not set", fix="set it to default or to a trace id")
    wanted = parse_trace_id(regime)
    calibration = _read(calibrations / slug(wanted.trace_id) / "knobs.json", MAX_KNOBS)
    if calibration is None:
        raise ConfigError(f"no calibration for {regime}", fix="request a capture of it and wait for the rescope")
    return p99(weights, knobs(read_knobs(calibration), wanted), wanted)


def _read(path: Path, cap: int) -> bytes | None:
    # The workspace is an agent's: no link is followed, no pipe waited for, no more than the cap read.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb", closefd=True) as file:
        return file.read(cap + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


if __name__ == "__main__":
    sys.exit(main())
