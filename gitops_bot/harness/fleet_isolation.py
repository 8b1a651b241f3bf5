"""How bodies of the fleet are kept from the database, keys, tokens and processes that are not theirs.

`isolate` looks once, at start-up, whether a way works on this machine, and gives what starts each order so. What cannot
be shown to hold is refused, there or at the order; only `none` keeps nothing apart, and says so. The network is not
limited in any way: a body must reach its model and its broker.
"""

import os
import pwd
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from gitops_bot import process
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.harness import isolation
from gitops_bot.harness.bodies import Isolate, Start
from gitops_bot.ports import BodyOrder

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN_PROC: Final = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
_PROC_SINCE: Final = (5, 8)
"""The Linux from which a mount of /proc has options of its own; before, this would change everybody's (proc(5))."""
_READABLE: Final = 'for path; do if [ -r "$path" ] || [ -w "$path" ]; then printf "%s\\n" "$path"; fi; done'
_THERE: Final = (
    'while IFS= read -r line && [ -n "$line" ]; do export "$line"; done; '
    'cd -- "$1" || exit 126; limit=$2; shift 2; '
    'if command -v timeout >/dev/null; then exec timeout -k 5 "$limit" "$@"; fi; exec "$@"'
)
"""What a remote body is started by: its environment comes as lines of standard input up to an empty one, then the
capsule; nothing of either is in an argument. `read` takes no byte beyond its line (POSIX, read)."""


class Kind(StrEnum):
    """The ways, as `[fleet] isolation` names them."""

    NONE = "none"
    UID = "uid"
    BWRAP = "bwrap"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True)
class Apart:
    """One way, ready: what starts an order, a sentence about it for people, and whether bodies share this user."""

    kind: Kind
    start: Isolate
    said: str
    shares_user: bool


def isolate(
    kind: Kind,
    *,
    hidden: Sequence[Path] = (),
    user: str = "",
    reads: Sequence[Path] = (),
    writes: Sequence[Path] = (),
    prefix: Sequence[str] = (),
) -> Apart:
    """Make one way ready. `hidden` names what no body may reach (database, state folder, keys, tokens); `user` belongs
    to `uid`, `reads` and `writes` (shown beside the agent's folder) to `bwrap`, `prefix` to `remote`.

    A prefix takes one more word, a command line for a POSIX shell: `ssh -T host --`, `docker exec -i box sh -c`.

    Raises:
        ConfigError: it does not work on this machine, or would not hide what is hidden.
    """
    absolute = [Path(os.path.realpath(path)) for path in hidden]
    match kind:
        case Kind.NONE:
            return _none()
        case Kind.UID:
            return _as_user(user, absolute)
        case Kind.BWRAP:
            return _in_bubblewrap(absolute, reads, writes)
        case Kind.REMOTE:
            return _elsewhere(tuple(prefix))


def _none() -> Apart:
    before, home = isolation.shared().before, _home()

    def start(order: BodyOrder) -> Start:
        return Start((*before, *order.argv), order.folder, {"HOME": home, **order.env}, program=order.argv[0])

    said = (
        "bodies run as this user and can read the database, the keys and every token; "
        'isolation = "uid", "bwrap" or "remote" keeps them from it'
    )
    return Apart(Kind.NONE, start, said, shares_user=True)


def _home() -> str:
    return pwd.getpwuid(os.geteuid()).pw_dir


def _as_user(name: str, hidden: Sequence[Path]) -> Apart:
    """Run bodies as one other user without a way back, who sees no process but its own where the system can do that."""
    drop, home = isolation.dropped(name, said="[fleet] isolation = uid")
    for found in _asked([*drop, "/bin/sh", "-c", _READABLE, "sh", *map(str, hidden)]).splitlines():
        raise ConfigError(f"{name} can read or write {found}", fix=f"chmod -R go= {found}")
    proc = _own_proc(drop)
    uid = pwd.getpwnam(name).pw_uid

    def start(order: BodyOrder) -> Start:
        about = order.folder.lstat() if order.folder.is_dir() and not order.folder.is_symlink() else None
        if about is None or about.st_uid != uid:
            raise Unavailable(f"{order.folder} is no folder of {name}: chown -R {name}: it")
        env = {"HOME": home, "USER": name, **order.env}
        return Start((*proc, *drop, *order.argv), order.folder, env, program=order.argv[0])

    sees = "" if proc else ", but can list this machine's processes and their arguments (no secret is among them)"
    return Apart(Kind.UID, start, f"bodies run as {name}, without a path to the database, keys and tokens{sees}", False)


def _own_proc(drop: Sequence[str]) -> tuple[str, ...]:
    """Give the words that mount a /proc without other users' processes, none where that does not work here."""
    numbers = re.match(r"(\d+)\.(\d+)", os.uname().release)
    unshare = shutil.which("unshare", path=process.SYSTEM_PATH)
    if unshare is None or numbers is None or (int(numbers[1]), int(numbers[2])) < _PROC_SINCE:
        return ()
    words = (unshare, "--mount", "--propagation", "private", "--", "/bin/sh", "-c", _OWN_PROC, "sh")
    try:
        _asked([*words, *drop, "/bin/true"])
    except ConfigError:
        return ()
    return words


def _in_bubblewrap(hidden: Sequence[Path], reads: Sequence[Path], writes: Sequence[Path]) -> Apart:
    """Run bodies in namespaces of their own that hold the system's programs, what is named, and the agent's folder."""
    for path in (Path("/usr"), *reads, *writes, *isolation.own_files(())):
        inside = _meets(path, hidden)
        if inside:
            raise ConfigError(f"isolation = bwrap would show {inside} with {path}", fix="show a narrower folder")

    def start(order: BodyOrder) -> Start:
        if order.folder.is_symlink() or not order.folder.is_dir():
            raise Unavailable(f"{order.folder} is no folder")
        # What lies in its folder is shown with it, and may by now be a link of the agent's own.
        named = [word for word in order.argv if not Path(word).is_relative_to(order.folder)]
        for path in (order.folder, *isolation.own_files(named)):
            if _meets(path, hidden):
                raise Unavailable(f"{path} would show a body what is hidden from it")
        try:
            before = isolation.bubblewrapped(order.folder, named, reads=reads, writes=writes)
        except ConfigError as error:
            raise Unavailable(str(error)) from error
        return Start((*before, "--", *order.argv), order.folder, {"HOME": str(order.folder), **order.env})

    with tempfile.TemporaryDirectory() as empty:
        try:
            probe = start(BodyOrder("", "", 0, ("/bin/true",), Path(empty), None, b"", {}, isolation.PROBE_SECONDS))
        except Unavailable as error:
            raise ConfigError(f"isolation = bwrap: {error}", fix="set TMPDIR to another folder") from error
        _asked(probe.argv)
    said = "bodies run in bubblewrap, which shows no path to the database, keys and tokens, and no other process"
    return Apart(Kind.BWRAP, start, said, shares_user=False)


def _meets(path: Path, hidden: Sequence[Path]) -> Path | None:
    """Give what is hidden and lies in a path, or holds it."""
    real = Path(os.path.realpath(path))
    return next((one for one in hidden if one.is_relative_to(real) or real.is_relative_to(one)), None)


def _elsewhere(prefix: tuple[str, ...]) -> Apart:
    """Run bodies where a prefix leads. What keeps them from this machine is that machine and the prefix."""
    if not prefix or shutil.which(prefix[0], path=process.SYSTEM_PATH) is None:
        what = f"there is no program {prefix[0]}" if prefix else "it needs a prefix"
        raise ConfigError(f"isolation = remote: {what}", fix='prefix = ["ssh", "-T", "host", "--"]')
    before, home = isolation.shared().before, _home()

    def start(order: BodyOrder) -> Start:
        words = ("/bin/sh", "-c", _THERE, "sh", str(order.folder), f"{order.limit + 10:.0f}", *order.argv)
        argv = (*before, *prefix, f"exec {shlex.join(words)}")
        return Start(argv, Path("/"), {"HOME": home}, before_prompt=_lines(order.env), program=prefix[0])

    said = f"bodies run where {prefix[0]} leads; what they can reach there is that machine's to say"
    return Apart(Kind.REMOTE, start, said, shares_user=False)


def _lines(env: Mapping[str, str]) -> bytes:
    for name, value in env.items():
        if not _NAME.fullmatch(name) or "\n" in value or "\0" in value:
            raise Unavailable(f"the variable {name!r} cannot be passed to another machine")
    return "".join(f"{name}={value}\n" for name, value in env.items()).encode("utf-8", "surrogateescape") + b"\n"


def _asked(argv: Sequence[str]) -> str:
    """Give what a probe prints.

    Raises:
        ConfigError: it does not end well.
    """
    try:
        probe = process.run(argv, cwd=Path("/"), timeout=isolation.PROBE_SECONDS)
    except Unavailable as error:
        raise ConfigError(str(error), fix="choose another isolation") from error
    if probe.returncode != 0:
        why = probe.stderr.decode("utf-8", "replace").strip()[:300]
        raise ConfigError(f"{Path(argv[0]).name} does not work here: {why}", fix="choose another isolation")
    return probe.stdout.decode("utf-8", "replace")
