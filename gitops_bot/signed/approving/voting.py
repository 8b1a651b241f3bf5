"""A vote is made of git's plumbing in this machine's copy, signed by its person's own git, and pushed as one commit.

No checkout, no index, no hooks, no force. What is made is taken through the channel's own steps before it is pushed, so
that what the broker would refuse never leaves. A push that lost a race changes nothing; whoever called makes the vote
again on the new tip.
"""

import re
import secrets
from dataclasses import dataclass
from typing import Final

from gitops_bot.core.errors import ConfigError, Reason, Refusal, Unavailable, refuse
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.signed.approving.judging import Judge
from gitops_bot.signed.approving.signer import Signer
from gitops_bot.signed.channel import Examined
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.grammar import read_id, root_message
from gitops_bot.signed.publication import shard
from gitops_bot.signed.remedies import remedy
from gitops_bot.signed.rendering import Request, render_file, render_message
from gitops_bot.signed.repository import Repository, branch, words

SIGNING_SECONDS: Final = 180.0
"""How long a person may take for a PIN and a touch."""
PUSHING_SECONDS: Final = 300.0
_SUFFIX: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_TREE: Final = re.compile(r"([0-7]{6}) (blob|tree|commit) ([0-9a-f]{40}|[0-9a-f]{64})\t([^\x00]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Made:
    """A vote that was pushed, and whether its branch was begun with it."""

    commit: ObjectId
    begun: bool


@dataclass(frozen=True, slots=True)
class Booth:
    """Where a person's votes are made: this machine's copy, the view of the pinned policy, and how they sign."""

    repository: Repository
    judge: Judge
    person: PrincipalName
    signer: Signer

    def make(self, request: Request, decision: Decision, tip: ObjectId | None) -> Made:
        """Make the vote on top of the person's branch, beginning it with its signed root where there is none.

        Raises:
            Refusal: what was signed would not count; nothing was pushed.
            ConfigError: the signing program failed.
            Unavailable: git failed.
        """
        root = None if tip is not None else self._root(request)
        parent = tip or root
        assert parent is not None
        file = render_file(request, self.person, decision)
        suffix = "".join(secrets.choice(_SUFFIX) for _ in range(12))
        path = f"approvals/{shard(request.ask)}/{request.ask}/{self.person}.{decision.value}.{suffix}"
        blob = self._id("hash-object", "-w", "--no-filters", "-t", "blob", "--stdin", stdin=file)
        tree = grown(self.repository, f"{tip}^{{tree}}" if tip is not None else "", path.split("/"), blob)
        vote = self._commit(tree, parent, render_message(request, self.person, decision))
        if root is not None:
            self._hold(self.judge.examine(request, self.person, root))
        self._hold(self.judge.examine(request, self.person, vote))
        return Made(vote, root is not None)

    def push(self, made: Made) -> str | None:
        """Push exactly this commit to the person's branch; None when it is there, else what git said.

        Raises:
            Unavailable: git cannot be started or takes too long.
        """
        name = branch(self.judge.place.environment, self.person)
        done = self.repository.run(
            *("push", "--quiet", "--no-verify", "--no-follow-tags", "--end-of-options"),
            *(self.repository.address.url, f"{made.commit}:{name}"),
            network=True,
            timeout=PUSHING_SECONDS,
        )
        if done.returncode == 0:
            self.repository.keep(self.judge.place.environment, self.person, made.commit)
            return None
        return words(done) or f"git push ended with {done.returncode}"

    def _root(self, request: Request) -> ObjectId:
        empty = self._id("mktree", "-z")
        place = self.judge.place
        message = root_message(request.repository, place.environment, self.person)
        return self._commit(empty, None, f"{message}\n".encode())

    def _commit(self, tree: ObjectId, parent: ObjectId | None, message: bytes) -> ObjectId:
        above = () if parent is None else ("-p", parent)
        done = self.repository.attended(
            *("commit-tree", "-S", *above, tree),
            stdin=message,
            environment=self.signer.environment,
            settings=self.signer.settings,
            timeout=SIGNING_SECONDS,
        )
        if done.returncode != 0:
            raise ConfigError(
                f"nothing was signed: {words(done) or done.returncode}",
                fix="try `git commit-tree -S` with the same global configuration; is the key there, and its agent?",
            )
        return read_id(done.stdout.decode("ascii", "replace").strip())

    def _id(self, *arguments: str, stdin: bytes = b"") -> ObjectId:
        return read_id(self.repository.output(*arguments, stdin=stdin).decode("ascii", "replace").strip())

    def _hold(self, examined: Examined) -> None:
        """Let nothing leave that the channel's own steps refuse."""
        if examined.held is not None:
            raise Unavailable(f"what was signed cannot be verified here: {examined.held}. Nothing was pushed")
        if examined.refused is not None:
            said = examined.refused
            detail = f"{said.detail} Nothing was pushed. {remedy(said.reason.value)}".strip()
            raise Refusal(refuse(said.reason, detail, **said.facts))


def grown(repository: Repository, tree: str, path: list[str], blob: ObjectId) -> ObjectId:
    """Write a tree with one file more, its folders grown or begun.

    Raises:
        Refusal: something that is no folder stands where one is wanted, or the file is there (`unexpected_change`).
        Unavailable: git failed.
    """
    name, *below = path
    entries = _entries(repository, tree) if tree else {}
    there = entries.get(name)
    if there is not None and (not below or there[1] != "tree"):
        raise Refusal(refuse(Reason.UNEXPECTED_CHANGE, f"Something else stands at {name!a} on the branch."))
    if below:
        entries[name] = ("040000", "tree", grown(repository, "" if there is None else there[2], below, blob))
    else:
        entries[name] = ("100644", "blob", blob)
    raw = "".join(f"{mode} {kind} {oid}\t{name}\0" for name, (mode, kind, oid) in entries.items())
    made = repository.output("mktree", "-z", stdin=raw.encode("utf-8", "surrogateescape"))
    return read_id(made.decode("ascii", "replace").strip())


def _entries(repository: Repository, tree: str) -> dict[str, tuple[str, str, str]]:
    """List a tree: mode, kind and id by name."""
    entries: dict[str, tuple[str, str, str]] = {}
    for entry in repository.output("ls-tree", "-z", tree).decode("utf-8", "surrogateescape").split("\0")[:-1]:
        found = _TREE.fullmatch(entry)
        if found is None:
            raise Unavailable("git ls-tree answered strangely")
        entries[found[4]] = (found[1], found[2], found[3])
    return entries
