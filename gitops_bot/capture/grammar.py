"""What a capture program and its keeper leave on disk becomes values: knobs, the job as it was handed over, its end.

Whatever the bytes, only `Malformed` leaves here, at a cost linear in their length. Knobs are a measured program's
output and trusted no further than their shape; job and end are our own files, read again after any crash.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gitops_bot.core.errors import Malformed
from gitops_bot.core.strictjson import load_object

MAX_KNOBS: Final = 64 * 1024
MAX_JOB: Final = 256 * 1024
MAX_END: Final = 4096
_KNOB: Final = re.compile(r"MOCK_[A-Z0-9_]{1,60}", re.ASCII)
_DECIMAL: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,9})?", re.ASCII)
_JOB: Final = re.compile(r"[a-z0-9-]{1,80}", re.ASCII)
_TOKEN: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it was handed over: what to run, for how many seconds, and the token that marks its processes."""

    token: str
    program: tuple[str, ...]
    timeout: float
    cpu_seconds: int | None
    memory_bytes: int | None
    file_bytes: int | None


@dataclass(frozen=True, slots=True)
class End:
    """How a program ended: its exit status (negative = signal), or `reason` when it was ended or could not start."""

    returncode: int | None
    reason: str | None


def read_job_name(name: str) -> str:
    """Check a job's name, which becomes the name of a folder.

    Raises:
        Malformed: anything but 1 to 80 of `a`-`z`, `0`-`9` and `-`.
    """
    if _JOB.fullmatch(name) is None:
        raise Malformed("1 to 80 of a-z, 0-9 and -", where="job")
    return name


def read_knobs(data: bytes) -> Mapping[str, str]:
    """Read `knobs.json`: the member `knobs` maps names `MOCK_…` to decimal strings; other members are left alone.

    Raises:
        Malformed: no such object, none or more than 64 knobs, a version that is not 1.
    """
    value = load_object(data, limit=MAX_KNOBS, floats=True, where="knobs.json")
    if value.get("v") != 1 or isinstance(value["v"], bool):
        raise Malformed("v must be 1", where="knobs.json")
    found = value.get("knobs")
    if not isinstance(found, dict) or not 1 <= len(found) <= 64:
        raise Malformed("knobs must be an object of 1 to 64 members", where="knobs.json")
    for name, text in found.items():
        if _KNOB.fullmatch(name) is None:
            raise Malformed("a knob's name must look like MOCK_TTFT_MS", where="knobs.json")
        if not isinstance(text, str) or _DECIMAL.fullmatch(text) is None:
            raise Malformed(f"{name} must be a decimal string", where="knobs.json")
    return MappingProxyType({name: str(text) for name, text in found.items()})


def read_job(data: bytes) -> Job:
    """Read `job.json`.

    Raises:
        Malformed: no such object.
    """
    value = load_object(data, limit=MAX_JOB, floats=True, where="job.json")
    token, program, timeout = value.get("token"), value.get("program"), value.get("timeout")
    if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        raise Malformed("token must be 32 hex digits", where="job.json")
    if not isinstance(program, list) or not program or not all(isinstance(word, str) for word in program):
        raise Malformed("program must be a list of strings", where="job.json")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 10**6:
        raise Malformed("timeout must be seconds", where="job.json")
    limits = [_limit(value.get(name)) for name in ("cpu_seconds", "memory_bytes", "file_bytes")]
    return Job(token, tuple(program), float(timeout), *limits)


def read_end(data: bytes) -> End:
    """Read `end.json`.

    Raises:
        Malformed: no such object.
    """
    value = load_object(data, limit=MAX_END, floats=True, where="end.json")
    returncode, reason = value.get("returncode"), value.get("reason")
    if isinstance(returncode, bool) or not isinstance(returncode, int | None):
        raise Malformed("returncode must be an integer or null", where="end.json")
    if not isinstance(reason, str | None):
        raise Malformed("reason must be a string or null", where="end.json")
    return End(returncode, reason)


def last_line(output: bytes) -> str:
    """Give the last line of error output that says something: at most 300 characters, escaped for showing."""
    lines = [line for line in output.decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    return printable(lines[-1].strip()[:300]) if lines else ""


def printable(text: str) -> str:
    """Escape what does not print, control and direction characters among it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _limit(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | None):
        raise Malformed("a limit must be an integer or null", where="job.json")
    return value
