"""An agent runs where it cannot read the loop's tokens: as another user, or in bubblewrap; or, said plainly, it shares.

Each way is an argument vector put before the agent's own. What the agent may reach over the network is not limited:
it must reach its model and its broker, and without a token the control bridge serves `status` and `tail` alone.
"""

import os
import pwd
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import gitops_bot
from gitops_bot import process
from gitops_bot.core.errors import ConfigError, Unavailable

PROBE_SECONDS: Final = 10.0
_ROOTS: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC: Final = (
    "alternatives", "ca-certificates", "group", "host.conf", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
    "localtime", "mime.types", "nsswitch.conf", "passwd", "pki", "protocols", "resolv.conf", "services", "ssl",
)  # fmt: skip
"""What programs need of /etc; the rest may hold what only some may read."""
_PRIVATE: Final = ("/etc/ssl/private", "/etc/pki/tls/private")


@dataclass(frozen=True, slots=True)
class Isolation:
    """How an agent is started: what comes before its command, what it finds in its environment, and what is said about
    it. `owner` is the (user, group) of its files where that is not the loop's; `shares_user` when nothing keeps it from
    the loop's own files."""

    before: tuple[str, ...]
    said: str
    shares_user: bool
    env: tuple[tuple[str, str], ...] = ()
    owner: tuple[int, int] | None = None

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """Give the command that starts `argv` so."""
        return [*self.before, *argv]


def shared() -> Isolation:
    """Isolate nothing. Where the machine can, the agent at least ends with its loop."""
    setpriv = shutil.which("setpriv", path=process.SYSTEM_PATH)
    before = (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()
    said = "the agent runs as this user and can read the bridge's tokens; --run-as or --bubblewrap keeps them from it"
    return Isolation(before, said, shares_user=True)


def as_user(name: str, workspace: Path) -> Isolation:
    """Run the agent as another user, without any way back: no capability, no set-user-id program has an effect.

    The workspace belongs to the loop's user and is sticky, so that the agent cannot put a folder of its own in the
    place of `state/`.

    Raises:
        ConfigError: there is no such user, the loop may not change users, or the workspace is not laid out so.
    """
    setpriv, home = dropped(name, said="--run-as")
    user = pwd.getpwnam(name)
    about = workspace.stat()
    writable = about.st_mode & stat.S_IWOTH or (about.st_mode & stat.S_IWGRP and about.st_gid == user.pw_gid)
    if about.st_uid != 0 or not about.st_mode & stat.S_ISVTX or not writable:
        raise ConfigError(
            f"--run-as: {workspace} must be root's, sticky, and writable for the group of {name}",
            fix=f"chown -R {name}: {workspace} && chown root:{user.pw_gid} {workspace} && chmod 1770 {workspace}",
        )
    env = (("HOME", home), ("USER", name))
    said = (
        f"the agent runs as {name}; judge and rig run as root: what the agent wrote they must not run with its rights"
    )
    return Isolation(setpriv, said, shares_user=False, env=env, owner=(user.pw_uid, user.pw_gid))


def dropped(name: str, *, said: str) -> tuple[tuple[str, ...], str]:
    """Give the words that start a program as another user without any way back, and that user's home; `said` is what
    the person wrote who wants it.

    Raises:
        ConfigError: there is no such user, or this process may not change to it.
    """
    try:
        user = pwd.getpwnam(name)
    except KeyError as error:
        raise ConfigError(f"{said}: no user {name!r}", fix=f"useradd --create-home {name}") from error
    if os.geteuid() != 0:
        raise ConfigError(f"{said}: only root may start another user's programs", fix="use bubblewrap, or be root")
    if user.pw_uid == 0:
        raise ConfigError(f"{said}: root is no other user", fix="name a user for the agent alone")
    setpriv = shutil.which("setpriv", path=process.SYSTEM_PATH)
    if setpriv is None:
        raise ConfigError(f"{said} needs setpriv", fix="apt install util-linux")
    words = (
        setpriv, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups", "--no-new-privs",
        "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--pdeathsig", "KILL", "--",
    )  # fmt: skip
    return words, user.pw_dir


def in_bubblewrap(
    workspace: Path, state: Path, argv: Sequence[str], *, reads: Sequence[Path], writes: Sequence[Path]
) -> Isolation:
    """Run the agent in namespaces of its own that hold the system's programs, its command's files, this product, the
    workspace without `state/`, and what is named; no other file, no other process.

    Raises:
        ConfigError: there is no bubblewrap, or the kernel does not let it work here.
    """
    before = (*bubblewrapped(workspace, argv, reads=reads, writes=writes), "--tmpfs", str(state), "--")
    try:
        probe = process.run([*before, "/bin/true"], cwd=workspace, timeout=PROBE_SECONDS)
    except Unavailable as error:
        raise ConfigError(f"--bubblewrap: {error}", fix="see whether `bwrap --ro-bind / / true` works") from error
    if probe.returncode != 0:
        why = probe.stderr.decode("utf-8", "replace").strip()[:300]
        raise ConfigError(f"--bubblewrap does not work here: {why}", fix="allow user namespaces, or use --run-as")
    said = "the agent runs in bubblewrap, without a path to the bridge's tokens"
    return Isolation(before, said, shares_user=False, env=(("HOME", str(workspace)),))


def bubblewrapped(
    folder: Path, argv: Sequence[str], *, reads: Sequence[Path], writes: Sequence[Path]
) -> tuple[str, ...]:
    """Give bubblewrap's words that show the system's programs, the files of a command, this product, what is named, and
    one folder to write in, where the command starts; "--" and the command follow.

    Raises:
        ConfigError: there is no bubblewrap.
    """
    bwrap = shutil.which("bwrap", path=process.SYSTEM_PATH)
    if bwrap is None:
        raise ConfigError("there is no bwrap", fix="apt install bubblewrap")
    return (
        bwrap, "--die-with-parent", "--new-session", "--unshare-user", "--unshare-pid", "--unshare-ipc",
        "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL", *_system(), "--proc", "/proc", "--dev", "/dev",
        "--tmpfs", "/tmp",  # noqa: S108 # the agent's own, in memory
        *_readable([*own_files(argv), *reads]), *_bound("--bind", writes),
        "--bind", str(folder), str(folder), "--chdir", str(folder),
    )  # fmt: skip


def _system() -> list[str]:
    words = ["--ro-bind", "/usr", "/usr"]
    for root in _ROOTS:
        if Path(root).is_symlink():
            words += ["--symlink", str(Path(root).readlink()), root]
        else:
            words += ["--ro-bind-try", root, root]
    for name in _ETC:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for path in _PRIVATE:
        # Root owns these, and its agent's files are root's too, without any capability.
        words += ["--tmpfs", path] if Path(path).is_dir() and not Path(path).is_symlink() else []
    return [*words, "--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve"]


def own_files(argv: Sequence[str]) -> list[Path]:
    """List the files of the agent's command line, and this product, by whose command it asks."""
    files = [Path(word) for word in argv if word.startswith("/") and len(word) < 4096 and Path(word).is_file()]
    return [Path(sys.prefix), Path(sys.base_prefix), Path(gitops_bot.__file__).parent, *files]


def _readable(paths: Sequence[Path]) -> list[str]:
    """Show paths once: what lies in a folder that is shown already cannot be put there again."""
    shown: list[Path] = []
    for path in sorted(paths, key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(folder) for folder in (Path("/usr"), *shown)):
            shown.append(path)
    return _bound("--ro-bind", shown)


def _bound(how: str, paths: Sequence[Path]) -> list[str]:
    return [word for path in paths for word in (how, str(path), str(path))]
