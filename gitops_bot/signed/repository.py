"""The bot's own bare repository, and the one way in which git is run on it.

After `create` it is there: ours alone (0700), with a configuration of exactly our bytes. `check` refuses it when
anything in it could change what objects mean: grafts, a shallow boundary, alternates, replace refs, foreign settings.
Git runs with an environment built from scratch, without hooks, helpers, prompts or redirects, and may speak the one
protocol of the configured address. What may be fetched is `signed.fetching`'s; what objects mean, `signed.objects`'.

Refs of the repository: `refs/gated/<environment>/<person>/seen` is the tip that was fetched last, `…/stored` the tip
that the broker's database holds, kept so that no clean-up loses what a rewritten branch left behind.
"""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_IMODE
from typing import Final

from gitops_bot import process
from gitops_bot.core.errors import ConfigError, Malformed, Reason, Refused, Unavailable, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.process import Child, Completed, Limits
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.grammar import read_address

TIMEOUT: Final = 60.0
READING: Final = Limits(memory_bytes=2 * 1024**3)
"""For commands that read or write our own objects; packs are mapped into memory and count."""

_CONFIGURATIONS: Final[Mapping[str, bytes]] = {
    "sha1": b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n",
    "sha256": b"[core]\n\trepositoryformatversion = 1\n\tfilemode = true\n\tbare = true\n"
    b"[extensions]\n\tobjectformat = sha256\n",
}
_ENVIRONMENT: Final[Mapping[str, str]] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": "/nonexistent",
}
_SETTINGS: Final = (
    "protocol.allow=never",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.commitGraph=false",
    "core.bigFileThreshold=1m",
    "core.packedGitWindowSize=16m",
    "core.packedGitLimit=256m",
    "core.deltaBaseCacheLimit=32m",
    "core.fsync=all",
    "transfer.bundleURI=false",
    "transfer.credentialsInUrl=die",
    "transfer.fsckObjects=true",
    "safe.bareRepository=explicit",
    "gc.auto=0",
    "maintenance.auto=false",
    "pack.threads=1",
    "pack.windowMemory=64m",
    "submodule.recurse=false",
    "credential.helper=",
)
_NETWORK: Final = ("http.followRedirects=false", "http.lowSpeedLimit=1000", "http.lowSpeedTime=20")
_ASKPASS: Final = """#!/bin/sh
case "$1" in
Username*) printf '%s\\n' {user} ;;
*) IFS= read -r token < {token} || [ -n "$token" ] || exit 1; printf '%s\\n' "$token" ;;
esac
"""
# What a file in the repository can change about the meaning of objects (gitrepository-layout).
_FORBIDDEN: Final[Mapping[str, str]] = {
    "info/grafts": "grafts",
    "shallow": "a shallow boundary",
    "objects/info/alternates": "alternates",
    "objects/info/http-alternates": "alternates",
    "refs/replace": "replace refs",
    "commondir": "a common folder elsewhere",
    "config.worktree": "a second configuration",
    "modules": "submodules",
}


@dataclass(frozen=True, slots=True)
class Remote:
    """Where approvals are fetched from. The token file (https) and the key file (ssh) are 0600 and named in
    configuration; their content never gets into argv, environment or log."""

    url: str
    token_file: Path | None = None
    user: str = "x-access-token"
    ssh_key: Path | None = None
    known_hosts: Path | None = None
    agent: Path | None = None
    """The socket of a person's ssh-agent, whose keys may then be offered; the bot has none."""


class Repository:
    """A bare repository under `folder`, and how git is run on it."""

    def __init__(self, folder: Path, remote: Remote, *, algorithm: str = "sha1") -> None:
        """Remember place and address; nothing is touched.

        Raises:
            ConfigError: the address, or who may read a secret, is wrong.
        """
        try:
            self.address = read_address(remote.url)
        except Malformed as error:
            raise ConfigError(str(error), fix='[signed] remote = "https://…", "ssh://…" or "file:///…"') from error
        for secret in (remote.token_file, remote.ssh_key):
            if secret is not None:
                _require_private(secret)
        self.folder = folder.absolute()
        self.algorithm = algorithm
        self._remote = remote

    @property
    def digits(self) -> int:
        """How many hex digits an object id has here."""
        return 40 if self.algorithm == "sha1" else 64

    def create(self) -> None:
        """Make the repository where there is none; complete one that a crash left unfinished.

        Raises:
            ConfigError: the folder belongs to somebody else, or others may enter it.
            Unavailable: it cannot be written.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _require_ours(self.folder)
            for name in ("objects/pack", "objects/info", "refs/heads", "quarantine", "info"):
                (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._remote.token_file is not None:
                text = _ASKPASS.format(
                    user=shlex.quote(self._remote.user), token=shlex.quote(str(self._remote.token_file.absolute()))
                )
                _place(self.folder / "askpass", text.encode(), 0o700)
            if not (self.folder / "config").exists():
                _place(self.folder / "config", _CONFIGURATIONS[self.algorithm], 0o600)
            # Last: git takes a folder for a repository from here on.
            if not (self.folder / "HEAD").exists():
                _place(self.folder / "HEAD", b"ref: refs/heads/none\n", 0o600)
        except OSError as error:
            raise Unavailable(f"cannot make the repository of approvals: {error.strerror}") from error

    def check(self) -> Refused | None:
        """Refuse (`fetch_refused`) a repository in which something could change what objects mean.

        Raises:
            Unavailable: it cannot be read.
        """
        try:
            for name, what in _FORBIDDEN.items():
                if os.path.lexists(self.folder / name):
                    return _unsound(f"it has {what} ({name})")
            if (self.folder / "config").read_bytes() != _CONFIGURATIONS[self.algorithm]:
                return _unsound("its configuration was changed (config)")
            if (self.folder / "HEAD").read_bytes() != b"ref: refs/heads/none\n":
                return _unsound("its HEAD was changed")
            found = self.folder.lstat()
            if found.st_uid != os.getuid() or S_IMODE(found.st_mode) & 0o077:
                return _unsound("others than its owner may enter it")
        except OSError as error:
            return _unsound(f"it cannot be read: {error.strerror}")
        if not self._opens():
            return _unsound("another reader of git does not take it for a bare repository of its own")
        if any(name.startswith("refs/replace/") for name in self.refs()):
            return _unsound("it has replace refs (packed-refs)")
        return None

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        network: bool = False,
        environment: Mapping[str, str] | None = None,
        settings: tuple[str, ...] = (),
        limits: Limits = READING,
        timeout: float = TIMEOUT,
    ) -> Completed:
        """Run git to its end, whatever its exit status. With `network` it may speak to the configured address.

        Raises:
            Unavailable: git cannot be started or outlasts `timeout` seconds.
        """
        return process.run(
            self._argv(arguments, settings, network),
            cwd=self.folder,
            env=self._environment(network) | (dict(environment) if environment is not None else {}),
            stdin=stdin,
            timeout=timeout,
            limits=limits,
        )

    def attended(
        self,
        *arguments: str,
        stdin: bytes,
        environment: Mapping[str, str],
        settings: tuple[str, ...],
        timeout: float,
    ) -> Completed:
        """Run git on our own objects at a person's terminal, where what signs for it may ask for a PIN.

        Raises:
            Unavailable: git cannot be started or outlasts `timeout` seconds.
        """
        return process.run_attended(
            self._argv(arguments, settings, network=False),
            cwd=self.folder,
            env=self._environment(network=False) | dict(environment),
            stdin=stdin,
            timeout=timeout,
        )

    def output(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run git on our own objects and give what it wrote.

        Raises:
            Unavailable: it failed, or wrote more than is read of one program.
        """
        done = self.run(*arguments, stdin=stdin)
        if done.returncode != 0 or len(done.stdout) >= process.OUTPUT_CAP:
            raise Unavailable(f"git {arguments[0]} ended with {done.returncode}: {words(done)}")
        return done.stdout

    def start(self, *arguments: str, limits: Limits = READING) -> Child:
        """Start git with pipes to its input and output; the caller ends it with `process.end_group`.

        Raises:
            Unavailable: git cannot be started.
        """
        return process.start(
            self._argv(arguments, (), network=False),
            cwd=self.folder,
            env=self._environment(network=False),
            stdin=process.PIPE,
            stdout=process.PIPE,
            limits=limits,
        )

    def refs(self) -> Mapping[str, ObjectId]:
        """List our refs by full name.

        Raises:
            Unavailable: one of them is damaged.
        """
        done = self.run("for-each-ref", "--format=%(objectname) %(refname)")
        # Git leaves out a damaged ref with a warning; here nothing may be left out.
        if done.returncode != 0 or done.stderr or len(done.stdout) >= process.OUTPUT_CAP:
            raise Unavailable(f"the repository of approvals has a damaged ref: {words(done)}")
        pairs = (line.partition(" ") for line in done.stdout.decode("ascii", "replace").splitlines())
        return {name: ObjectId(oid) for oid, _, name in pairs}

    def set_ref(self, name: str, oid: ObjectId) -> None:
        """Let a ref of ours name an object, whatever it named before.

        Raises:
            Unavailable: git refuses.
        """
        self.output("update-ref", "--no-deref", "--end-of-options", name, oid)

    def keep(self, environment: str, person: PrincipalName, tip: ObjectId) -> None:
        """Keep the tip that the database stores for a person, so that no clean-up takes it.

        Raises:
            Unavailable: git refuses, for instance an object that is not there.
        """
        self.set_ref(stored_ref(environment, person), tip)

    def kind(self, oid: ObjectId) -> str | None:
        """Tell the type of an object; None where we do not have it.

        Raises:
            Unavailable: git failed.
        """
        found = self.output("cat-file", "--batch-check=%(objecttype)", stdin=oid.encode() + b"\n")
        kind = found.decode("ascii", "replace").strip()
        return kind if kind in {"commit", "tree", "blob", "tag"} else None

    def _opens(self) -> bool:
        """Ask GitPython, which only reads here, whether it sees what we made: bare, and objects from nowhere else."""
        import git  # costs a tenth of a second

        try:
            with git.Repo(self.folder, search_parent_directories=False) as repository:
                return bool(repository.bare) and not repository.alternates
        except (git.GitError, OSError, ValueError):
            return False

    def _argv(self, arguments: tuple[str, ...], settings: tuple[str, ...], network: bool) -> list[str]:
        chosen = (*_SETTINGS, *settings)
        if network:
            chosen = (*chosen, f"protocol.{self.address.scheme}.allow=always", *_NETWORK)
        return [
            "git",
            "--no-pager",
            "--no-replace-objects",
            f"--git-dir={self.folder}",
            *(part for setting in chosen for part in ("-c", setting)),
            *arguments,
        ]

    def _environment(self, network: bool) -> dict[str, str]:
        environment = dict(_ENVIRONMENT)
        if not network:
            return environment
        # Without a token nothing may ask for one.
        token = self._remote.token_file
        environment["GIT_ASKPASS"] = str(self.folder / "askpass") if token is not None else "/bin/false"
        if self.address.scheme == "ssh":
            environment["GIT_SSH_VARIANT"] = "ssh"
            environment["GIT_SSH_COMMAND"] = shlex.join(self._ssh())
        return environment

    def _ssh(self) -> list[str]:
        options = [
            "BatchMode=yes",
            "StrictHostKeyChecking=yes",
            f"IdentitiesOnly={'yes' if self._remote.agent is None else 'no'}",
            "IdentityAgent=none" if self._remote.agent is None else f'IdentityAgent="{self._remote.agent}"',
            "PermitLocalCommand=no",
            "ClearAllForwardings=yes",
            "ConnectTimeout=20",
            "ServerAliveInterval=15",
        ]
        if self._remote.known_hosts is not None:
            options += [f'UserKnownHostsFile="{self._remote.known_hosts.absolute()}"', "GlobalKnownHostsFile=/dev/null"]
        if self._remote.ssh_key is not None:
            options.append(f'IdentityFile="{self._remote.ssh_key.absolute()}"')
        return ["ssh", "-F", "/dev/null", "-T", *(part for option in options for part in ("-o", option))]


def branch(environment: str, person: PrincipalName) -> str:
    """Name the branch of a person's approvals in the shared repository."""
    return f"refs/heads/gated/{environment}/approvals/{person}"


def seen_ref(environment: str, person: PrincipalName) -> str:
    """Name our ref of the tip that was fetched last."""
    return f"refs/gated/{environment}/{person}/seen"


def stored_ref(environment: str, person: PrincipalName) -> str:
    """Name our ref of the tip that the database stores."""
    return f"refs/gated/{environment}/{person}/stored"


def words(done: Completed) -> str:
    """Give what git complained of in one short line; untrusted text, for a detail."""
    lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("error:", "fatal:", "ERROR:"))] or lines
    return ascii(told[0])[1:-1][:200] if told else ""


def _unsound(what: str) -> Refused:
    return refuse(
        Reason.FETCH_REFUSED, f"The bot's own repository is not sound: {what}. The host's operator repairs it."
    )


def _require_private(path: Path) -> None:
    try:
        mode = S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", fix="[signed] keys_dir") from error
    if mode & 0o077:
        raise ConfigError(f"others may read {path}", fix=f"chmod 600 {path}")


def _require_ours(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid != os.getuid():
        raise ConfigError(f"{folder} belongs to somebody else", fix="run as its owner, or move it away")
    if S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(f"others may enter {folder}", fix=f"chmod 700 {folder}")


def _place(path: Path, content: bytes, mode: int) -> None:
    """Write a file whole or not at all."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
