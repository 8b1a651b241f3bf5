"""A remote, the bot's own repository and its key, for tests of the requests branch; git is run plainly here."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gitops_bot.process import run
from gitops_bot.signed.bot_key import BotKey, open_key
from gitops_bot.signed.publishing import Publisher
from gitops_bot.signed.repository import Remote, Repository
from tests import signed_keys as keys

BRANCH: Final = "refs/heads/gated/production/requests"
AT: Final = 1_717_243_200_000
PLAIN: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "HOME": "/nonexistent",
    **{f"GIT_{role}_{what}": f"x@{role.lower()}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def key_file(folder: Path, content: bytes, name: str = "key") -> Path:
    """Write a key as its owner alone may read it."""
    file = folder / name
    file.write_bytes(content)
    file.chmod(0o600)
    return file


@contextmanager
def opened_key(kind: str, name: str = "bot") -> Iterator[BotKey]:
    """Open one of the test keys as the bot's."""
    folder = Path(tempfile.mkdtemp())
    content = keys.ssh_path(name).read_bytes() if kind == "ssh" else keys.secret_file(name)
    key = open_key(key_file(folder, content), folder / "home")
    try:
        yield key
    finally:
        key.close()
        shutil.rmtree(folder)


def git(folder: Path, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] = {}, status: int = 0) -> bytes:
    """Run git plainly and give its output."""
    done = run(["git", *arguments], cwd=folder, env={**PLAIN, **env}, stdin=stdin, timeout=60)
    assert done.returncode == status, (arguments, done.stderr.decode(errors="replace"))
    return done.stdout


class Stage:
    """A remote repository under `folder`, with any number of publishers to it."""

    def __init__(self, folder: Path) -> None:
        """Make the remote."""
        self.folder = folder
        self.far = folder / "far"
        git(folder, "init", "--quiet", "--bare", str(self.far))

    def repository(self, name: str = "near") -> Repository:
        """Give a bot's own repository, made when it is not there."""
        repository = Repository(self.folder / name, Remote(f"file://{self.far}"))
        repository.create()
        return repository

    def publisher(self, key: BotKey, name: str = "near", **options: object) -> Publisher:
        """Give a publisher as a start of the broker makes it."""
        return Publisher(self.repository(name), key, "production", **options)  # type: ignore[arg-type] # as given

    def tip(self) -> str | None:
        """Name the branch's tip on the remote."""
        found = git(self.far, "for-each-ref", "--format=%(objectname)", BRANCH).decode().strip()
        return found or None

    def count(self) -> int:
        """Count the commits of the branch."""
        return int(git(self.far, "rev-list", "--count", BRANCH))

    def files(self) -> dict[str, bytes]:
        """Read everything that the branch holds now."""
        entries = (
            git(self.far, "ls-tree", "-r", "-z", "--format=%(objectname) %(path)", BRANCH).decode().split("\0")[:-1]
        )
        oids, paths = zip(*(entry.split(" ", 1) for entry in entries), strict=True) if entries else ((), ())
        raw = git(self.far, "cat-file", "--batch=%(objectsize)", stdin="".join(f"{oid}\n" for oid in oids).encode())
        found: dict[str, bytes] = {}
        for path in paths:
            size, _, raw = raw.partition(b"\n")
            found[path], raw = raw[: int(size)], raw[int(size) + 1 :]
        return found

    def push(self, files: Mapping[str, bytes | None], *, on: str | None = None, mode: str = "100644") -> str:
        """Put a commit of somebody else on the branch, over its tip or over `on`; None removes a path."""
        parent = self.tip() if on is None else (on or None)
        index = {"GIT_INDEX_FILE": str(self.folder / "index")}
        (self.folder / "index").unlink(missing_ok=True)
        if parent is not None:
            git(self.far, "read-tree", parent, env=index)
        for path, content in files.items():
            if content is None:
                git(self.far, "update-index", "--index-info", stdin=f"0 {'0' * 40}\t{path}\n".encode(), env=index)
                continue
            blob = git(self.far, "hash-object", "-w", "--stdin", stdin=content).decode().strip()
            git(self.far, "update-index", "--add", "--cacheinfo", f"{mode},{blob},{path}", env=index)
        tree = git(self.far, "write-tree", env=index).decode().strip()
        above = ("-p", parent) if parent is not None else ()
        commit = git(self.far, "commit-tree", *above, "-m", "something else", tree).decode().strip()
        git(self.far, "update-ref", BRANCH, commit)
        return commit

    def descends(self, commit: str | None, ancestor: str) -> bool:
        """Tell whether the remote's history grew from one commit to another."""
        done = run(["git", "merge-base", "--is-ancestor", ancestor, str(commit)], cwd=self.far, env=PLAIN, timeout=60)
        return done.returncode == 0
