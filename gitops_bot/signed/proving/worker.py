"""A verifying process: reads commits of the bot's repository, and says which of their signatures stand.

It takes each commit through steps 3, 4 and 5 in their order, so that what is no vote costs no verification, and asks
neither the database nor the policy: that an ask exists and when it was opened, whose key it is, and what follows, is
for whoever reads the answers. It holds no secret, writes nothing, and ends with its input.
"""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from gitops_bot.core.errors import Refused, Unavailable
from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.model import SshKey
from gitops_bot.policy.sshkeys import read_ssh_line
from gitops_bot.signed.evidence import Commit, ObjectId, SignatureKind, Signed, Window
from gitops_bot.signed.objects import Objects
from gitops_bot.signed.openpgp.certificates import read_certificate
from gitops_bot.signed.openpgp.engine import OpenPgpKeys
from gitops_bot.signed.openpgp.facts import Revocation
from gitops_bot.signed.proving import grammar
from gitops_bot.signed.proving.grammar import Answer, Order, Ring, Task
from gitops_bot.signed.repository import Remote, Repository
from gitops_bot.signed.sshsig.verifier import SshKeys

_YOUNG: Final = 20_000
"""Objects before a collection: of what a commit leaves nothing is in a circle."""


class Prover:
    """The engines in process over one ring, and the repository that it reads."""

    def __init__(self, order: Order) -> None:
        """Read the keys; no process of git starts before something is asked."""
        self._skew = order.skew
        self._engines = engines(order.ring)
        self._objects = Objects(
            Repository(Path(order.folder), Remote(order.address), algorithm=order.algorithm),
        )

    def close(self) -> None:
        """End the processes of git."""
        self._objects.close()

    def prove(self, task: Task) -> Iterator[Answer]:
        """Say of each commit of a task which signature on it stands.

        Raises:
            Unavailable: a commit is not there, or git failed.
        """
        received = dict(task.commits)
        for oid in self._objects.read_ahead(oid for oid, _ in task.commits):
            yield self._one(task.person, oid, received[oid])

    def _one(self, person: PrincipalName, oid: ObjectId, received_at: int) -> Answer:
        commit = self._objects.commit(oid)
        if not isinstance(commit, Commit) or not self._adds(commit, person):
            return None
        # When its ask was opened is not known here; only whoever knows it can tell that a signature is too early.
        found = self._engines[commit.kind].verify(commit, Window(received_at, self._skew))
        return found if isinstance(found, Signed) else None

    def _adds(self, commit: Commit, person: PrincipalName) -> bool:
        if commit.parent is None:
            return True
        change = self._objects.change(commit, person, lambda _ask: True)
        return not isinstance(change, Refused) and isinstance(self._objects.blob(change), bytes)


def engines(ring: Ring) -> dict[SignatureKind, OpenPgpKeys | SshKeys]:
    """Make the engines in process over a ring.

    Raises:
        Malformed, DoesNotLoad: a key in it cannot be read.
    """
    known = [read_certificate(content, where="certificate") for content in ring.certificates]
    back = [Revocation(one.key, one.hard, one.at, None) for one in ring.taken_back]
    keys = [_ssh(line, first, last) for line, first, last in ring.ssh]
    return {SignatureKind.OPENPGP: OpenPgpKeys(known, back), SignatureKind.SSH: SshKeys(keys, ring.ssh_revoked)}


def _ssh(line: str, first: int, last: int) -> SshKey:
    name, key, security = read_ssh_line(line, where="SSH key")
    return SshKey(name, key, security, first, last)


def serve(asked: BinaryIO, told: BinaryIO) -> None:
    """Answer task after task until the input ends."""
    order = _frame(asked)
    if order is None:
        return
    prover = Prover(grammar.read_order(order))
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
    try:
        while (body := _frame(asked)) is not None:
            told.write(_answer(prover, *grammar.read_task(body)))
            told.flush()
    finally:
        prover.close()


def _answer(prover: Prover, number: int, task: Task) -> bytes:
    try:
        return grammar.write_answers(number, prover.prove(task))
    except Unavailable as error:
        return grammar.write_failed(str(error))


def _frame(asked: BinaryIO) -> bytes | None:
    header = asked.read(grammar.HEADER)
    if len(header) < grammar.HEADER:
        return None
    size = grammar.frame_size(header, grammar.MAX_FRAME)
    body = asked.read(size)
    return body if len(body) == size else None


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
