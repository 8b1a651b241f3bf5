"""What steps 3 and 5 accept is accepted by git, gpg and Sequoia, or by git and ssh-keygen, and pygit2 reads the same.

2,000 commits are generated from a seed, valid and damaged. The converse, what the programs accept and we refuse, must
be exactly the table in `tests.interop.converse`.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pygit2
import pytest

from gitops_bot.core.asks import AskId
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.evidence import Change, Commit, ObjectId
from gitops_bot.signed.objects import Objects
from gitops_bot.signed.repository import Remote, Repository
from tests.interop import converse, damages, damages_openpgp, damages_sshsig, drafts
from tests.interop.converse import Row
from tests.interop.drafts import Case, Damage, Kit
from tests.interop.judges import Bench, Judged, openpgp_bench, ssh_bench
from tests.signed_stage import ASK, Recipe, SignedStage

SEED: Final = "signed differential"
COMMITS: Final = 1_000
"""Of each of the two kinds."""
DECISIONS: Final = ("approve", "deny", "revoke")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of signature: its keys, what is done to them, what of it does no harm, and the table of the converse."""

    name: str
    kits: tuple[Kit, ...]
    damages: Mapping[str, Damage]
    harmless: frozenset[str]
    table: Mapping[str, Row]

    @contextmanager
    def bench(self, folder: Path, repository: Path) -> Iterator[Bench]:
        """Set up its judges."""
        with openpgp_bench(folder, repository) if self.name == "openpgp" else ssh_bench(repository) as made:
            yield made


KINDS: Final = (
    Kind("openpgp", drafts.OPENPGP, damages_openpgp.DAMAGES, damages_openpgp.HARMLESS, converse.OPENPGP),
    Kind("ssh", drafts.SSH, damages_sshsig.DAMAGES, damages_sshsig.HARMLESS, converse.SSH),
)


@dataclass(frozen=True, slots=True)
class Written:
    """A case in the repository."""

    case: Case
    oid: ObjectId
    raw: bytes


@dataclass(frozen=True, slots=True)
class Session:
    """One kind's cases after everybody judged them."""

    kind: Kind
    stage: SignedStage
    others: frozenset[str]
    judged: list[tuple[Written, Judged]]

    @property
    def accepted(self) -> list[tuple[Written, Commit]]:
        """Those that count."""
        return [(at, said.commit) for at, said in self.judged if said.code is None and said.commit is not None]


def bases(stage: SignedStage) -> list[Recipe]:
    """Give votes to be damaged: several asks, decisions and trees."""
    root = stage.root("alice")
    asks = [AskId(f"{ASK[:-1]}{letter}") for letter in "abcdefgh"]
    requests = [replace(stage.request, ask=ask) for ask in asks]
    return [
        stage.recipe("alice", decision, request=request, parent=root) for request in requests for decision in DECISIONS
    ]


PARAMS: Final = [
    pytest.param(kind, id=kind.name, marks=pytest.mark.xdist_group(f"signed {kind.name}")) for kind in KINDS
]


@pytest.fixture(scope="module", params=PARAMS)
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Generate, write and have judged, by two at a time: nearly all of it is waiting for processes."""
    kind: Kind = request.param
    folder = tmp_path_factory.mktemp(f"differential-{kind.name}")
    stage = SignedStage(folder / "shared.git")
    sound = bases(stage)
    written = []
    for case in drafts.generate(f"{SEED}, {kind.name}", kind.kits, kind.damages, damages.HARMLESS, COMMITS):
        raw = case.draft.bytes(sound[case.number % len(sound)])
        written.append(Written(case, ObjectId(stage.write("commit", raw)), raw))
    with kind.bench(folder, stage.folder) as bench, ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda at: bench.judge(at.case.draft.ring, at.oid, at.raw), written))
        return Session(kind, stage, bench.others, list(zip(written, said, strict=True)))


pytestmark = pytest.mark.slow


def told(at: Written, said: Judged) -> str:
    """Say what is needed to look at a case."""
    code = "accepted" if said.code is None else said.code.value
    return f"{at.case}: {code} here, accepted by {sorted(said.accepted_by)}\n{at.raw!r}"


def test_what_is_accepted_here_is_accepted_by_all_others(session: Session) -> None:
    beyond = [
        told(at, said)
        for at, said in session.judged
        if said.code is None and said.accepted_by != converse.BEYOND.get(at.case.damage, (session.others, ""))[0]
    ]
    assert not beyond, "\n".join(beyond)


def test_every_kind_of_key_counts_and_every_damage_was_tried(session: Session) -> None:
    """Otherwise the test above would hold of nothing. The harmless are the accepting twins."""
    kind = session.kind
    assert {at.case.kit.name for at, _ in session.accepted} == {kit.name for kit in kind.kits}
    assert {at.case.damage for at, _ in session.judged} == set(kind.damages)
    wrong = [told(at, said) for at, said in session.judged if at.case.damage in kind.harmless and said.code is not None]
    assert not wrong, "\n".join(wrong)
    assert len(session.accepted) > COMMITS // 4
    assert len(session.judged) - len(session.accepted) > COMMITS // 4


def test_what_is_refused_here_and_accepted_elsewhere_is_listed_with_its_reason(session: Session) -> None:
    """The table is complete, and nothing in it is out of date."""
    seen: Counter[str] = Counter()
    unlisted = []
    for at, said in session.judged:
        if said.code is None or not said.accepted_by:
            continue
        row = session.kind.table.get(at.case.damage)
        seen[at.case.damage] += 1
        if row is None or said.code not in row.codes or not said.accepted_by <= row.by:
            unlisted.append(told(at, said))
    assert not unlisted, "\n".join(unlisted)
    assert {name for name, row in session.kind.table.items() if not row.sometimes} <= set(seen)


def test_pygit2_reads_the_same_of_all_that_is_accepted(session: Session, tmp_path: Path) -> None:
    """Tree, parents, message, what is signed, and the file that it adds."""
    ours = Repository(tmp_path / "bot.git", Remote(session.stage.url))
    ours.create()
    shutil.copytree(session.stage.folder / "objects", ours.folder / "objects", dirs_exist_ok=True)
    theirs = pygit2.Repository(str(session.stage.folder))
    accepted = {at.oid: at for at, _ in session.accepted}
    compared = 0
    with Objects(ours) as objects:
        for oid in objects.read_ahead(accepted):
            commit, other = objects.commit(oid), theirs[pygit2.Oid(hex=oid)]
            assert isinstance(commit, Commit)
            assert isinstance(other, pygit2.Commit)
            assert str(other.tree_id) == commit.tree, accepted[oid]
            assert [str(parent) for parent in other.parent_ids] == ([commit.parent] if commit.parent else [])
            # libgit2 leaves out the empty lines that a message begins with.
            assert other.raw_message == commit.message.lstrip(b"\n"), accepted[oid]
            assert other.gpg_signature == (commit.armor.removesuffix(b"\n"), commit.payload), accepted[oid]
            assert other.read_raw() == commit.raw
            if commit.parent is not None:
                change = objects.change(commit, PrincipalName("alice"), lambda _: True)
                assert isinstance(change, Change), accepted[oid]
                entry = other.tree[change.path]
                assert isinstance(entry, pygit2.Blob)
                assert (str(entry.id), entry.data) == (change.blob, objects.blob(change))
                compared += 1
    assert compared > COMMITS // 5
