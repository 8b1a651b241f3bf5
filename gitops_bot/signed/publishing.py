"""The requests branch holds what the broker rendered, in commits of the bot's key, whatever others push to it.

Publication only adds and replaces files; it goes out as a plain fast-forward, never by force. A commit of somebody else
is built upon and its content dropped, except for `spent` markers: those only refuse, so one that was ever seen stays.
What was found on the branch is kept until the caller says that it is reported. Nothing else on the branch is read.

A crash at any point loses nothing that was returned: a commit is ours (`own`) before it is pushed, pushed before it is
`acknowledged`; whatever was not returned as published is to be handed in again, and is then found to be there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gitops_bot.core.asks import AskId
from gitops_bot.core.errors import Malformed, Unavailable
from gitops_bot.process import Limits
from gitops_bot.signed.bot_key import BotKey
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.grammar import MAX_LISTING, read_listing
from gitops_bot.signed.publication import check_path, spent_path
from gitops_bot.signed.repository import Repository, words
from gitops_bot.signed.requests_store import RequestsStore

ATTEMPTS: Final = 3
NETWORK_TIMEOUT: Final = 300.0
MAX_FILE: Final = 4 << 20
LISTING: Final = Limits(memory_bytes=2 << 30, file_bytes=2 * MAX_LISTING)
FETCHING: Final = Limits(memory_bytes=2 << 30, file_bytes=1 << 30)


class Finding(StrEnum):
    """What somebody did to the branch: added a commit, took it back or elsewhere, or deleted it."""

    ADDED = "added"
    REWRITTEN = "rewritten"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Foreign:
    """Something on the branch that the bot did not do; `commit` is the tip found, or the one that was deleted."""

    finding: Finding
    commit: ObjectId


@dataclass(frozen=True, slots=True)
class Published:
    """The branch as it is now: `commit` is its tip (None: nothing was ever published), `changed` whether a commit was
    made. `foreign` stays until `reported`; `kept` are markers that were there with other bytes and were left so."""

    commit: ObjectId | None
    changed: bool
    foreign: tuple[Foreign, ...] = ()
    kept: tuple[str, ...] = ()


class Publisher:
    """Writes the requests branch of one environment. One at a time in a repository; not for several threads."""

    def __init__(
        self,
        repository: Repository,
        key: BotKey,
        environment: str,
        *,
        recognise: Callable[[ObjectId, bytes], bool] = lambda _id, _raw: False,
    ) -> None:
        """Remember where; nothing is touched. `recognise` tells whether a raw commit bears a signature of a service
        for requests: another broker's or an earlier self's, which is then built upon as our own."""
        self._repository = repository
        self._store = RequestsStore(repository, key, environment)
        self._recognise = recognise
        self._branch = f"refs/heads/gated/{environment}/requests"
        self._looked = False

    def publish(self, files: Mapping[str, bytes], at: int) -> Published:
        """Bring files onto the branch: commit what differs, push it, and say what is there. `at` dates the commit, ms.

        Raises:
            Malformed: a path that the branch does not have, or a file over 4 MiB.
            Unavailable: git, the remote, or another publisher at work; hand the files in again.
        """
        for path, content in files.items():
            check_path(path)
            if len(content) > MAX_FILE:
                raise Malformed(f"larger than {MAX_FILE} bytes", where=path)
        with self._store.alone():
            tip = self._look()
            for _ in range(ATTEMPTS):
                published = self._once(files, tip, at)
                if isinstance(published, Published):
                    self._store.tidy()
                    return published
                before, tip = tip, self._look()
                if tip == before:
                    break
            raise Unavailable(f"the requests branch cannot be pushed: {published}")

    def look(self) -> ObjectId | None:
        """Fetch the branch as it is now; None when there is none.

        Raises:
            Unavailable: the remote cannot be read.
        """
        with self._store.alone():
            return self._look()

    def spent_marker(self, ask: AskId) -> bytes | None:
        """Give an ask's `spent` marker as of the last look, or else as we wrote it; its presence only refuses.

        Empty bytes stand for a marker that is there and is no file of a readable size.

        Raises:
            Malformed: that is no ask.
            Unavailable: our repository, or a first look, failed: then nothing is known.
        """
        path = spent_path(ask)
        check_path(path)
        if not self._looked:
            self.look()
        refs = self._store.read()
        for name in ("seen", "own"):
            marker = self._store.marker(refs[name], path) if name in refs else None
            if marker is not None:
                return self._store.blob(marker.oid) if marker.readable else b""
        return None

    def reported(self, foreign: Foreign) -> None:
        """Forget a finding that the caller has written down.

        Raises:
            Unavailable: git refuses.
        """
        self._store.move({f"foreign/{foreign.finding.value}/{foreign.commit}": None})

    def _look(self) -> ObjectId | None:
        """Give the tip, fetched, and remember it as `seen`."""
        url = self._repository.address.url
        listed = self._repository.run(
            *("ls-remote", "--refs", "--end-of-options", url, self._branch),
            network=True,
            limits=LISTING,
            timeout=NETWORK_TIMEOUT,
        )
        if listed.returncode != 0:
            raise Unavailable(f"the requests branch cannot be listed: {words(listed)}")
        try:
            tips = read_listing(listed.stdout, (self._branch,))
        except Malformed as error:
            raise Unavailable(f"the requests branch cannot be listed: {error}") from error
        if tips.get(self._branch, "") is None:
            raise Unavailable("the remote lists the requests branch twice")
        tip = tips.get(self._branch)
        if self._store.read().get("seen") != tip:
            if tip is None:
                self._store.move({"seen": None})
            else:
                self._fetch(url)
                tip = self._store.read()["seen"]  # newer than what was listed, perhaps
        self._looked = True
        return tip

    def _fetch(self, url: str) -> None:
        done = self._repository.run(
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"),
            *("--end-of-options", url, f"+{self._branch}:{self._store.refs}seen"),
            network=True,
            limits=FETCHING,
            timeout=NETWORK_TIMEOUT,
        )
        if done.returncode != 0:
            raise Unavailable(f"the requests branch cannot be fetched: {words(done)}")

    def _once(self, files: Mapping[str, bytes], tip: ObjectId | None, at: int) -> Published | str:
        """Commit and push once on the tip that was seen; a text is why the push was refused."""
        refs = self._store.read()
        own, acknowledged = refs.get("own"), refs.get("acknowledged")
        continued = tip is None or (own is not None and self._store.descends(own, tip))
        adopted = not continued and tip is not None and self._recognise(tip, self._store.raw(tip))
        self._note(tip, acknowledged, strange=not continued and not adopted)
        parent = own if continued else tip
        base = tip if adopted else own
        there = {} if continued or tip is None else self._both(tip, own)
        kept = frozenset(path for path, content in files.items() if self._differs(path, content, there, base))
        fresh = {path: content for path, content in files.items() if path not in kept}
        tree = self._store.tree(base, there, fresh)
        # A foreign tip is never left on top, whatever it holds: who reads the branch verifies the bot's signature.
        before = self._store.tree_of(parent) if parent is not None and (continued or adopted) else None
        same = tree == before or (parent is None and not files)
        commit = parent if same else self._store.commit(tree, parent, at)
        if commit is not None:
            if commit != own:
                self._store.move({"own": commit})
            if commit != tip:
                refused = self._push(commit)
                if refused is not None:
                    return refused
            if not tip == commit == acknowledged:
                self._store.move({"seen": commit, "acknowledged": commit})
        return Published(commit, not same, self._findings(), tuple(sorted(kept)))

    def _note(self, tip: ObjectId | None, acknowledged: ObjectId | None, *, strange: bool) -> None:
        """Write down what happened to the branch since we last published, before anything is put on top of it."""
        if acknowledged is not None and tip is None:
            found = Foreign(Finding.DELETED, acknowledged)
        elif acknowledged is not None and tip is not None and not self._store.descends(tip, acknowledged):
            found = Foreign(Finding.REWRITTEN, tip)
        elif strange and tip is not None:
            found = Foreign(Finding.ADDED, tip)
        else:
            return
        self._store.move({f"foreign/{found.finding.value}/{found.commit}": found.commit})

    def _both(self, tip: ObjectId, own: ObjectId | None) -> dict[str, ObjectId]:
        """Find the markers in which the two differ: none is ever lost, and the tip's stand before ours."""
        ours = self._store.markers(own, tip) if own is not None else {}
        theirs = self._store.markers(tip, own)
        return ours | theirs

    def _differs(self, path: str, content: bytes, there: Mapping[str, ObjectId], base: ObjectId | None) -> bool:
        """Tell whether a path is a marker that is there already with other bytes."""
        if not path.startswith("spent/"):
            return False
        if path in there:
            return self._store.blob(there[path]) != content
        found = self._store.marker(base, path) if base is not None else None
        return found is not None and not (found.readable and self._store.blob(found.oid) == content)

    def _push(self, commit: ObjectId) -> str | None:
        """Push as a fast-forward; None when it went through, else what git said."""
        done = self._repository.run(
            *("push", "--quiet", "--no-verify", "--no-follow-tags", "--end-of-options"),
            *(self._repository.address.url, f"{commit}:{self._branch}"),
            network=True,
            timeout=NETWORK_TIMEOUT,
        )
        return None if done.returncode == 0 else (words(done) or f"git push ended with {done.returncode}")

    def _findings(self) -> tuple[Foreign, ...]:
        parts = (name.split("/") for name in sorted(self._store.read()) if name.startswith("foreign/"))
        return tuple(Foreign(Finding(finding), ObjectId(commit)) for _, finding, commit in parts)
