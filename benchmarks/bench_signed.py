"""Whole branches authenticated by steps 1 to 5, beside `git verify-commit`; and one approval through both engines.

Three people have 10,000 approvals between them, in folders of two characters, each with an OpenPGP signature of its own
by an Ed25519 key; shorter branches, for comparison, are signed by RSA 3072 and P-256, whose arithmetic in Sequoia takes
several times as long. Bounds: steps 3 to 5 in the verifying processes of a look (one a core) authenticate at least
5,000 commits/s, and what it takes until both engines agreed on one more approval stays under 15 ms, for OpenPGP (with
gpg) as for SSH (with ssh-keygen). `git verify-commit` runs over a sample in turns with the latter. Each rate is the
best of some rounds, each duration the median: the machine may be busy with other things. Every round has new processes,
which have seen no signature before; their start is told by itself.
"""

import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.machine import median, timed
from gitops_bot.core.asks import AskId
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.model import SshKey
from gitops_bot.policy.sshkeys import read_ssh_line
from gitops_bot.signed.evidence import Commit, ObjectId, Signed, Window
from gitops_bot.signed.fetching import Fetcher, FetchLimits, Seen
from gitops_bot.signed.grammar import read_commit
from gitops_bot.signed.keys import Agree, Engine
from gitops_bot.signed.objects import Objects
from gitops_bot.signed.openpgp import certificates, engine, gpg, keyring
from gitops_bot.signed.openpgp.facts import CertificateFacts
from gitops_bot.signed.proving.grammar import Ring, Task
from gitops_bot.signed.proving.pool import Pool, cores, tasks_of
from gitops_bot.signed.rendering import render_file, render_message
from gitops_bot.signed.repository import Remote, Repository
from gitops_bot.signed.sshsig import keygen, verifier
from tests import signed_keys as keys
from tests.signed_engines import Engines, engines
from tests.signed_stage import ENVIRONMENT, FILE, FOLDER, NOW, OPENED, PEOPLE, Recipe, SignedStage, vote_path

COMMITS: Final = 10_000
FEW: Final = 2_000
KINDS: Final = {"Ed25519": ("alice", COMMITS), "RSA 3072": ("bob", FEW), "P-256": ("carol", FEW)}
"""Whose key signs all branches of one measurement, and how many commits they have; the first has the bound."""
ROUNDS: Final = 3
SAMPLE: Final = 40
RATE: Final = 5_000
APPROVAL_MS: Final = 15.0
WINDOW: Final = Window((NOW + 60) * 1_000, 300_000, OPENED * 1_000)
_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"


def ask_id(number: int) -> AskId:
    """Give an ask's id by number; their last two characters spread evenly."""
    tail = "".join(_DIGITS[number >> shift & 31] for shift in (15, 10, 5, 0))
    return AskId(f"01jdxm2r7q8v9w0a1b2c3d{tail}")


def grow(stage: SignedStage, person: str, asks: list[AskId]) -> None:
    """Commit an approve of each ask on a person's branch; of the trees only what changed is written anew."""
    name = PrincipalName(person)
    tip = stage.root(person)
    shards: dict[bytes, dict[bytes, bytes]] = {}
    folders: dict[bytes, bytes] = {}
    for number, ask in enumerate(asks):
        asked = replace(stage.request, ask=ask)
        blob = stage.blob(render_file(asked, name, Decision.APPROVE))
        _, shard, folder, file = vote_path(ask, person, "approve", f"{number:08x}").split(b"/")
        shards.setdefault(shard, {})[folder] = below(folder, stage.tree([(FILE, file, blob)]))
        folders[shard] = below(shard, joined(stage, shards[shard]))
        tree = stage.tree([(FOLDER, b"approvals", joined(stage, folders))])
        message = render_message(asked, name, Decision.APPROVE)
        tip = stage.commit(Recipe(tree, (tip,), message, person, NOW, stage.signers[person]))
    stage.push(person, tip)


def below(name: bytes, oid: str) -> bytes:
    """Write the entry of a folder."""
    return FOLDER + b" " + name + b"\0" + bytes.fromhex(oid)


def joined(stage: SignedStage, entries: Mapping[bytes, bytes]) -> str:
    """Write the tree of some folders; their names are of one length."""
    return stage.write("tree", b"".join(entries[name] for name in sorted(entries)))


def tasks(objects: Objects, tips: Mapping[PrincipalName, ObjectId]) -> Iterator[Task]:
    """List every commit of the branches as a look hands them to its verifying processes."""
    for person, tip in tips.items():
        yield from tasks_of(person, ((oid, WINDOW.received_at) for oid in objects.new_ids(None, tip)))


@dataclass(frozen=True, slots=True)
class Side:
    """One kind of signature: a commit, and the two engines that must agree on it."""

    name: str
    commit: Commit
    first: Engine
    second: Engine
    agree: Agree

    def approve(self) -> None:
        """Take the commit through both engines."""
        found = self.first.verify(self.commit, WINDOW)
        assert isinstance(found, Signed), found
        both = self.agree(found, self.second.verify(self.commit, WINDOW))
        assert isinstance(both, Signed), both


def ssh_entry(name: str) -> SshKey:
    """Give an SSH key as a policy holds it."""
    line, key, security = read_ssh_line(keys.ssh_line(name), where=name)
    return SshKey(line, key, security, 0, 2 * NOW * 1_000)


@contextmanager
def fetched(
    folder: Path, stage: SignedStage, commits: int
) -> Iterator[tuple[Repository, dict[PrincipalName, ObjectId]]]:
    """Fetch the branches into a repository of the bot's (step 1), and say what that took."""
    repository = Repository(folder / "bot", Remote(stage.url))
    repository.create()
    tips: dict[PrincipalName, ObjectId] = {}

    def fetch() -> None:
        limits = FetchLimits(seconds=600.0, cpu_seconds=600, pack_bytes=1024**3)
        for person, tip in Fetcher(repository, ENVIRONMENT, limits).fetch(map(PrincipalName, PEOPLE)).items():
            assert isinstance(tip, Seen), tip
            tips[person] = tip.tip

    took = timed(fetch)
    packs = sum(path.stat().st_size for path in (repository.folder / "objects" / "pack").iterdir())
    print(f"  fetched {commits} commits in {took / 1000:.1f} s, {packs / 1e6:.0f} MB of packs", flush=True)
    yield repository, tips


def children() -> float:
    """Give the processor seconds of the children that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def one_round(
    repository: Repository, tips: Mapping[PrincipalName, ObjectId], ring: Ring, expected: int
) -> tuple[float, float, float]:
    """Have every commit authenticated by new processes; give commits a second, the processor seconds of each commit
    (ours, theirs and git's, the start included), and the seconds that the start took."""
    used = time.process_time() + children()
    begun = time.perf_counter()
    with Pool(repository, ring, WINDOW.skew) as pool, Objects(repository) as objects:
        # One commit for each process: when it is answered they have loaded what they need.
        first = next(iter(tips))
        pool.prove(Task(first, ((tips[first], WINDOW.received_at),)) for _ in range(cores()))
        start = time.perf_counter()
        stood = pool.prove(tasks(objects, tips))
        took = time.perf_counter() - start
    assert len(stood) == expected, f"{len(stood)} of {expected} stood"
    return expected / took, (time.process_time() + children() - used) / expected, start - begun


def whole_branches(folder: Path, kind: str, bound: int | None) -> tuple[SignedStage, bool]:
    """Build the branches of one kind of key, and measure the rate of steps 3 to 5 over everything, anew each round."""
    signer, commits = KINDS[kind]
    stage = SignedStage(folder / "shared")
    asks = [ask_id(number) for number in range(commits)]
    for place, person in enumerate(PEOPLE):
        stage.signers[person] = keys.openpgp(signer)
        grow(stage, person, asks[place :: len(PEOPLE)])
    ring = Ring((known(signer).content,))
    with fetched(folder, stage, commits) as (repository, tips):
        rounds = [one_round(repository, tips, ring, commits + len(tips)) for _ in range(ROUNDS)]
    best = max(rate for rate, _, _ in rounds)
    used, start = min(used for _, used, _ in rounds), median([start for _, _, start in rounds])
    held = bound is None or best >= bound
    against = "no bound" if bound is None else f"bound {bound:,}/s: {'holds' if held else 'BROKEN'}"
    print(
        f"  {kind}: {commits + len(tips)} commits authenticated at {best:,.0f}/s by {cores()} processes ({against}), "
        f"{used * 1e6:.0f} µs of processor time each with git's and the start, which took {start:.2f} s",
        flush=True,
    )
    return stage, held


def known(person: str) -> CertificateFacts:
    """Give the facts of somebody's certificate."""
    return certificates.read_certificate(keys.certificate(person), where=person)


def both_engines(side: Side, git: Callable[[], object]) -> bool:
    """Measure one approval through both engines in turns with git's own verification of the same commit."""
    side.approve()
    ours, theirs = [], []
    for _ in range(SAMPLE):
        ours.append(timed(side.approve))
        theirs.append(timed(git))
    held = median(ours) < APPROVAL_MS
    print(
        f"  {side.name}: one approval through both engines {median(ours):.1f} ms (bound {APPROVAL_MS:.0f} ms), "
        f"git verify-commit {median(theirs):.1f} ms: {'holds' if held else 'BROKEN'}"
    )
    return held


def verified_by_git(judge: Engines, stage: SignedStage, oid: str) -> Callable[[], None]:
    """Give git's verification of a commit in the shared repository."""

    def verify() -> None:
        assert judge.git(stage.folder, oid), oid

    return verify


def main() -> bool:
    """Build the branches, measure, print, and tell whether the bounds hold."""
    # Where it is set, Sequoia takes a stack at errors that it raises and drops inside every verification: 0.05 ms.
    os.environ.pop("RUST_BACKTRACE", None)
    with tempfile.TemporaryDirectory(prefix="gitops-bot-bench-") as name:
        folder = Path(name)
        held = True
        stages = {}
        for kind in KINDS:
            place = folder / kind.replace(" ", "-")
            place.mkdir()
            stages[kind], holds = whole_branches(place, kind, RATE if KINDS[kind][1] == COMMITS else None)
            held = held and holds
        return approvals(folder, stages["Ed25519"]) and held


def approvals(folder: Path, stage: SignedStage) -> bool:
    """Measure one approval of each kind of signature through both engines."""
    openpgp_keys, ssh = [known(person) for person in PEOPLE], [ssh_entry(person) for person in PEOPLE]
    openpgp, held = engine.OpenPgpKeys(openpgp_keys), True
    with engines(PEOPLE, PEOPLE) as judge:
        votes = {"OpenPGP": stage.tip("alice"), "SSH": stage.vote(signer=keys.ssh("alice"))}
        commits = {kind: read(stage, oid) for kind, oid in votes.items() if oid is not None}
        second = gpg.Gpg(openpgp_keys, folder=folder / "gpg")
        sides = (
            Side("OpenPGP", commits["OpenPGP"], openpgp, second, keyring.agree),
            Side("SSH", commits["SSH"], verifier.SshKeys(ssh), keygen.SshKeygen(ssh), keygen.agree),
        )
        for side in sides:
            held = both_engines(side, verified_by_git(judge, stage, side.commit.id)) and held
    return held


def read(stage: SignedStage, oid: str) -> Commit:
    """Read one commit of the shared repository in its strict form."""
    commit = read_commit(ObjectId(oid), stage.read(oid))
    assert isinstance(commit, Commit), commit
    return commit
