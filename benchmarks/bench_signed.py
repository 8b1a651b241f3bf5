"""Whole branches authenticated by steps 1 to 5, beside `git verify-commit`; and one approval through both engines.

Three people have 10,000 approvals between them, in folders of two characters, signed by OpenPGP keys of three kinds
(Ed25519, RSA 3072, P-256). Bounds: steps 3 to 5 by the engine in process authenticate at least 5,000 commits/s, and
what it takes until both engines agreed on one more approval stays under 15 ms, for OpenPGP (with gpg) as for SSH (with
ssh-keygen). `git verify-commit` runs over a sample in turns with the latter. Each rate is the best of some rounds, each
duration the median: the machine may be busy with other things.
"""

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
from gitops_bot.signed.evidence import Change, Commit, ObjectId, Signed, Window
from gitops_bot.signed.fetching import Fetcher, FetchLimits, Seen
from gitops_bot.signed.grammar import read_commit
from gitops_bot.signed.keys import Agree, Engine
from gitops_bot.signed.objects import Objects
from gitops_bot.signed.openpgp import certificates, engine, gpg, keyring
from gitops_bot.signed.rendering import render_file, render_message
from gitops_bot.signed.repository import Remote, Repository
from gitops_bot.signed.sshsig import keygen, verifier
from tests import signed_keys as keys
from tests.signed_engines import Engines, engines
from tests.signed_stage import ENVIRONMENT, FILE, FOLDER, NOW, OPENED, PEOPLE, Recipe, SignedStage, vote_path

COMMITS: Final = 10_000
ROUNDS: Final = 3
SAMPLE: Final = 40
RATE: Final = 5_000
APPROVAL_MS: Final = 15.0
WINDOW: Final = Window((NOW + 60) * 1_000, 300_000, OPENED * 1_000)
ROOT: Final = replace(WINDOW, opened_at=None)
"""A branch's root answers no ask."""
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


def authenticate(repository: Repository, tips: Mapping[PrincipalName, ObjectId], engine: Engine) -> int:
    """Read, judge and verify every commit of the branches as the channel does; give how many stood."""
    stood = 0
    with Objects(repository) as objects:
        for person, tip in tips.items():
            for oid in objects.new_commits(None, tip):
                commit, window = objects.commit(oid), ROOT
                assert isinstance(commit, Commit), commit
                if commit.parent is not None:
                    window = WINDOW
                    change = objects.change(commit, person, lambda _: True)
                    assert isinstance(change, Change), change
                    assert isinstance(objects.blob(change), bytes)
                stood += isinstance(engine.verify(commit, window), Signed)
    return stood


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
def fetched(folder: Path, stage: SignedStage) -> Iterator[tuple[Repository, Mapping[PrincipalName, ObjectId]]]:
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
    print(f"  fetched {COMMITS} commits in {took / 1000:.1f} s, {packs / 1e6:.0f} MB of packs", flush=True)
    yield repository, tips


def whole_branches(repository: Repository, tips: Mapping[PrincipalName, ObjectId], engine: Engine) -> bool:
    """Measure the rate of steps 3 to 5 over everything, anew each round."""
    best, own, expected = 0.0, float("inf"), COMMITS + len(tips)
    for _ in range(ROUNDS):
        start, used = time.perf_counter(), time.process_time()
        stood = authenticate(repository, tips, engine)
        best = max(best, stood / (time.perf_counter() - start))
        own = min(own, (time.process_time() - used) / stood)
        assert stood == expected, f"{stood} of {expected} stood"
    held = best >= RATE
    print(
        f"  {expected} commits authenticated at {best:,.0f}/s (bound {RATE:,}/s), {own * 1e6:.0f} µs each of this "
        f"process's own processor time, beside git's: {'holds' if held else 'BROKEN'}"
    )
    return held


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
    with tempfile.TemporaryDirectory(prefix="gitops-bot-bench-") as name:
        folder = Path(name)
        stage = SignedStage(folder / "shared")
        asks = [ask_id(number) for number in range(COMMITS)]
        for place, person in enumerate(PEOPLE):
            grow(stage, person, asks[place :: len(PEOPLE)])
        known = [certificates.read_certificate(keys.certificate(person), where=person) for person in PEOPLE]
        openpgp, ssh = engine.OpenPgpKeys(known), [ssh_entry(person) for person in PEOPLE]
        with fetched(folder, stage) as (repository, tips), engines(PEOPLE, PEOPLE) as judge:
            held = whole_branches(repository, tips, openpgp)
            votes = {"OpenPGP": stage.tip("alice"), "SSH": stage.vote(signer=keys.ssh("alice"))}
            commits = {kind: read(stage, oid) for kind, oid in votes.items() if oid is not None}
            second = gpg.Gpg(known, folder=folder / "gpg")
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
