"""How git is run on one bare repository: its own settings and environment, no hooks, input through standard input.

When `serve` returns, one exchange of a git client (git, `gitprotocol-http`) was answered by git itself; refs that a
push moved have moved. Who may push is the caller's question.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gitops_bot import process
from gitops_bot.core.errors import Unavailable

TIMEOUT: Final = 30.0

ENVIRONMENT: Final[Mapping[str, str]] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": "/nonexistent",
}
SETTINGS: Final = (
    "protocol.allow=never",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "transfer.bundleURI=false",
    "safe.bareRepository=explicit",
    "gc.auto=0",
)
# As GitHub serves: partial clones, any object by its id; broken objects and refs that are its own are refused.
SERVING: Final = (
    "uploadpack.allowFilter=true",
    "uploadpack.allowAnySHA1InWant=true",
    "receive.fsckObjects=true",
    "receive.hideRefs=refs/pull",
    "receive.maxInputSize=8388608",
    "receive.autogc=false",
    "receive.advertisePushOptions=false",
)


class GitFolder:
    """A folder that git is run on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        index: Path | None = None,
        more: tuple[str, ...] = (),
        protocol: str = "",
    ) -> process.Completed:
        """Run git to its end, whatever its exit status; `more` are settings, `index` is a file to use as its index."""
        settings = [part for setting in SETTINGS + more for part in ("-c", setting)]
        environment = dict(ENVIRONMENT) | ({"GIT_INDEX_FILE": str(index)} if index is not None else {})
        environment |= {"GIT_PROTOCOL": protocol} if protocol else {}
        return process.run(
            ["git", f"--git-dir={self.folder}", *settings, *arguments],
            cwd=self.folder,
            env=environment,
            stdin=stdin,
            timeout=TIMEOUT,
        )

    def output(self, *arguments: str, stdin: bytes = b"", index: Path | None = None) -> bytes:
        """Run git and give what it wrote.

        Raises:
            Unavailable: it failed.
        """
        done = self.run(*arguments, stdin=stdin, index=index)
        if done.returncode != 0:
            reason = done.stderr.decode("utf-8", "replace").strip()[:200]
            raise Unavailable(f"git {arguments[0]} ended with {done.returncode}: {reason}")
        return done.stdout

    def serve(self, service: str, advertise: bool, protocol: str, sent: bytes) -> bytes:
        """Run one exchange of a git client's (`gitprotocol-http`): the refs, or the answer to what it sent.

        Raises:
            Unavailable: git failed, or more came out than one answer holds.
        """
        program = {"git-upload-pack": "upload-pack", "git-receive-pack": "receive-pack"}[service]
        flags = ("--stateless-rpc", *(("--http-backend-info-refs",) if advertise else ()))
        done = self.run(program, *flags, str(self.folder), stdin=sent, more=SERVING, protocol=protocol)
        if done.returncode != 0 or len(done.stdout) >= process.OUTPUT_CAP:
            raise Unavailable(f"git {program} ended with {done.returncode}")
        return done.stdout
