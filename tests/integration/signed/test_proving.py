"""Verifying processes save time and decide nothing: with them and without, every commit is judged alike.

A process that dies, hangs, floods or says what it was not asked leaves nothing behind but a commit that is held.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gitops_bot.core.errors import Refused, Unavailable
from gitops_bot.core.principals import PrincipalName
from gitops_bot.policy.model import SshKey
from gitops_bot.policy.sshkeys import read_ssh_line
from gitops_bot.signed.evidence import Commit, ObjectId, SignatureKind, Signed, Window
from gitops_bot.signed.objects import Objects
from gitops_bot.signed.openpgp.certificates import read_certificate
from gitops_bot.signed.openpgp.engine import OpenPgpKeys
from gitops_bot.signed.proving import pool as pools
from gitops_bot.signed.proving import proofs
from gitops_bot.signed.proving.grammar import Ring, Task
from gitops_bot.signed.proving.pool import Pool, tasks_of
from gitops_bot.signed.proving.proofs import Proofs
from gitops_bot.signed.repository import Remote, Repository
from gitops_bot.signed.sshsig.verifier import SshKeys
from gitops_bot.store.roles import Role
from tests import signed_keys as keys
from tests.interop import damages, damages_openpgp, damages_sshsig, drafts
from tests.signed_court import COUNTED, HELD, Court
from tests.signed_stage import NOW, OPENED, Recipe, SignedStage
from tests.store_fixtures import FreshDatabase

ALICE: Final = PrincipalName("alice")
WINDOW: Final = Window((NOW + 60) * 1_000, 300_000, OPENED * 1_000)
ALWAYS: Final = (0, 4_000_000_000_000)
EACH: Final = 100
"""Commits of each kind of signature: every damage of some of the keys."""
HEAD: Final = "import sys; read = sys.stdin.buffer.read; out = sys.stdout.buffer\n"
NEXT: Final = "read(int.from_bytes(read(4), 'big'))\n"
SAY: Final = "b = %r; out.write(len(b).to_bytes(4, 'big') + b); out.flush()\n"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("proving")]


class Bench:
    """Generated commits of both kinds, sound and damaged, in the bot's repository; the engines that judge them."""

    def __init__(self, folder: Path) -> None:
        self.stage = SignedStage(folder / "shared.git")
        self.repository = Repository(folder / "bot.git", Remote(self.stage.url))
        self.repository.create()
        root = self.stage.root("alice")
        bases = [self.stage.recipe("alice", decision, parent=root) for decision in ("approve", "deny", "revoke")]
        self.oids = [ObjectId(root), *self._written(bases, "openpgp", drafts.OPENPGP, damages_openpgp.DAMAGES)]
        self.oids += self._written(bases, "ssh", drafts.SSH, damages_sshsig.DAMAGES)
        shutil.copytree(self.stage.folder / "objects", self.repository.folder / "objects", dirs_exist_ok=True)
        self.oids = [oid for oid in self.oids if self._is_whole(oid)]
        known = [read_certificate(keys.certificate(name), where=name) for name in damages_openpgp.SOUND]
        lines = [read_ssh_line(keys.ssh_line(name), where=name) for name in damages_sshsig.SOUND]
        ssh = [SshKey(*line, *ALWAYS) for line in lines]
        self.ring = Ring(tuple(one.content for one in known), (), tuple((one.line, *ALWAYS) for one in ssh))
        self.engines: dict[SignatureKind, OpenPgpKeys | SshKeys] = {
            SignatureKind.OPENPGP: OpenPgpKeys(known),
            SignatureKind.SSH: SshKeys(ssh),
        }

    def _written(
        self,
        bases: list[Recipe],
        name: str,
        kits: tuple[drafts.Kit, ...],
        known: "dict[str, drafts.Damage] | object",
    ) -> Iterator[ObjectId]:
        assert isinstance(known, dict)
        for case in drafts.generate(f"proving, {name}", kits, known, damages.HARMLESS, EACH):
            raw = case.draft.bytes(bases[case.number % len(bases)])
            yield ObjectId(self.stage.write("commit", raw))

    def _is_whole(self, oid: ObjectId) -> bool:
        """Tell whether git can compare a commit with its parent; what it cannot is not let in by a fetch."""
        try:
            with Objects(self.repository) as objects:
                objects.commit(oid)
        except Unavailable:
            return False
        return True

    def pool(self, size: int = 2, patience: float = 60.0, program: str | None = None) -> Pool:
        """Make processes over it; with `program`, some Python in their place."""
        more = {} if program is None else {"program": (sys.executable, "-I", "-c", HEAD + program)}
        return Pool(self.repository, self.ring, WINDOW.skew, size=size, patience=patience, **more)

    def tasks(self, size: int = 32) -> Iterator[Task]:
        """Give every commit as received in the window."""
        return tasks_of(ALICE, ((oid, WINDOW.received_at) for oid in self.oids), size)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("proving"))


def alone(bench: Bench, proven: dict[ObjectId, Signed] | None = None) -> dict[ObjectId, Signed | Refused]:
    """Judge each commit in this process by steps 3 to 5, with the word of the others or without."""
    found: dict[ObjectId, Signed | Refused] = {}
    with Objects(bench.repository) as objects:
        for oid in objects.read_ahead(bench.oids):
            commit = objects.commit(oid)
            if not isinstance(commit, Commit):
                found[oid] = commit
                continue
            change = None if commit.parent is None else objects.change(commit, ALICE, lambda _: True)
            if isinstance(change, Refused):
                found[oid] = change
                continue
            engine = bench.engines[commit.kind]
            word = None if proven is None else proven.get(oid)
            found[oid] = engine.verify(commit, WINDOW) if word is None else engine.accept(commit, WINDOW, word)
    return found


def test_with_processes_and_without_every_commit_is_judged_alike(bench: Bench) -> None:
    """Sound and damaged, OpenPGP and SSH; what stands by their word is what stands here, but for a beginning that they
    do not know."""
    with bench.pool() as pool:
        proven = pool.prove(bench.tasks())
    here = alone(bench)
    assert alone(bench, proven) == here
    stands = {oid for oid, found in here.items() if isinstance(found, Signed)}
    assert stands <= set(proven)
    assert all(here[oid] == proven[oid] for oid in stands)
    beyond = {oid: here[oid] for oid in set(proven) - stands}
    assert {found.reason.value for found in beyond.values() if isinstance(found, Refused)} <= {"signature_time"}
    assert len(stands) > len(bench.oids) // 4
    assert len(bench.oids) - len(proven) > len(bench.oids) // 4


def test_a_word_about_another_key_or_time_is_not_taken(bench: Bench) -> None:
    """It counts only where it says exactly what our own checks found; else the signature is verified here."""
    here = alone(bench)
    lies: list[Callable[[Signed], Signed]] = [
        lambda one: replace(one, key="F" * 40),
        lambda one: replace(one, component="F" * 40),
        lambda one: replace(one, signed_at=one.signed_at + 1),
        lambda one: replace(one, counter=0),
    ]
    sound = {oid: found for oid, found in here.items() if isinstance(found, Signed)}
    any_one = next(iter(sound.values()))
    for lie in lies:
        assert alone(bench, {oid: lie(sound.get(oid, any_one)) for oid in bench.oids}) == here


def test_a_process_killed_in_the_middle_leaves_nothing_and_the_next_is_whole(bench: Bench) -> None:
    """Whichever it is and whatever it had answered."""
    with bench.pool() as pool:

        def killed() -> Iterator[Task]:
            for number, task in enumerate(bench.tasks(16)):
                if number == 8:
                    os.kill(pool._hands[number % 2].child.pid, signal.SIGKILL)
                yield task

        with pytest.raises(Unavailable, match="verifying process"):
            pool.prove(killed())
        assert pool._hands == []
        assert pool.prove(bench.tasks(16))


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("", "ended"),
        (NEXT + NEXT, "ended"),
        (NEXT + NEXT + "import time; time.sleep(600)", "said nothing"),
        (NEXT + NEXT + SAY % b"[]" + NEXT, "strangely"),
        (NEXT + NEXT + SAY % b'{"failed":"git is gone"}' + NEXT, "git is gone"),
        (NEXT + NEXT + SAY % b"yes" + NEXT, "strangely"),
        (NEXT + NEXT + "b = b'\\0\\0\\0\\x0a[1,[null]]'; out.write(b + b); out.flush()\n" + NEXT, "strangely"),
        (NEXT + NEXT + SAY % b"[2,[null]]" + NEXT, "strangely"),
        (NEXT + NEXT + "out.write(b'\\xff' * 4); out.flush()\n" + NEXT, "strangely"),
        (NEXT + NEXT + "out.write(b'\\0\\0\\0\\x09[nul'); out.flush()\n", "ended"),
        (NEXT + NEXT + "x = bytearray(4 << 30)", "ended"),
    ],
    ids=[
        "at once",
        "asked",
        "hangs",
        "too few",
        "failed",
        "no JSON",
        "unasked",
        "of another",
        "flood",
        "half",
        "memory",
    ],
)
def test_whatever_else_a_process_does_nothing_is_known(bench: Bench, program: str, says: str) -> None:
    """The twin is the one that answers as agreed, whose null is no word about anything."""
    one = Task(ALICE, ((bench.oids[0], WINDOW.received_at),))
    good = NEXT + NEXT + SAY % b"[1,[null]]" + NEXT
    with bench.pool(1, program=good) as pool:
        assert pool.prove([one]) == {}
    with bench.pool(1, 0.5, program) as pool, pytest.raises(Unavailable, match=says):
        pool.prove([one])
    assert pool._hands == []


def test_a_commit_that_is_not_there_is_unavailable(bench: Bench) -> None:
    with bench.pool(1) as pool, pytest.raises(Unavailable, match="missing or damaged"):
        pool.prove([Task(ALICE, ((ObjectId("1" * 40), WINDOW.received_at),))])


def test_processes_are_given_no_environment_and_no_open_file(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITOPS_BOT_TOKEN", "secret")
    with (bench.repository.folder / "config").open() as file:
        os.set_inheritable(file.fileno(), True)
        with bench.pool(1) as pool:
            pool.start()
            pool.prove([Task(ALICE, ((bench.oids[0], WINDOW.received_at),))])
            pid = pool._hands[0].child.pid
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            argv = Path(f"/proc/{pid}/cmdline").read_bytes()
            open_files = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
        assert b"secret" not in environment + argv
        assert {name.partition("=")[0] for name in environment.decode().split("\0") if name} <= {
            "PATH", "LC_ALL", "LANG", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE",
        }  # fmt: skip
        assert not any(name.startswith(str(bench.repository.folder)) for name in open_files)


def test_few_commits_start_no_process(bench: Bench) -> None:
    """A poll with a handful of commits stays as quick as it is; with enough of them they are verified beside."""
    waiting = {ALICE: [(oid, WINDOW.received_at) for oid in bench.oids]}
    with bench.pool() as pool:
        few = Proofs(pool, worth=len(bench.oids) + 1)
        few.gather(waiting)
        assert pool._hands == []
        assert {few.of(oid) for oid in bench.oids} == {None}
        many = Proofs(pool, worth=len(bench.oids))
        many.gather(waiting)
        assert len(pool._hands) == 2
        assert many.of(bench.oids[0]) is not None
        pool.close()
        many.gather(waiting)
        assert pool._hands == [], "what was proven and still waits is not proven again"
        many.gather({})
        assert many.of(bench.oids[0]) is None


@pytest.fixture
def court(tmp_path: Path, sqlite_database: FreshDatabase, monkeypatch: pytest.MonkeyPatch) -> Iterator[Court]:
    """A court whose looks always use verifying processes."""
    monkeypatch.setattr(pools, "cores", lambda: 2)
    monkeypatch.setattr(proofs.Proofs.__init__, "__kwdefaults__", {"worth": 1})
    opened = Court(tmp_path / "court", sqlite_database.open(Role.BROKER))
    yield opened
    opened.close()


def test_votes_count_by_way_of_processes(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    """Roots included; the engine in this process is not asked for what stands."""
    asked: list[str] = []
    verify = OpenPgpKeys.verify

    def noted(engine: OpenPgpKeys, commit: Commit, window: Window) -> Signed | Refused:
        asked.append(commit.id)
        return verify(engine, commit, window)

    monkeypatch.setattr(OpenPgpKeys, "verify", noted)
    court.begin()
    one = court.vote("alice")
    two = court.vote("bob", signer=keys.openpgp("alice"))
    court.look()
    assert court.outcome(one) == COUNTED
    assert court.outcome(two) == "wrong_branch"
    assert one.commit not in asked


def test_where_a_process_dies_what_waits_is_held_and_then_counts(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown is not no: held by the look that met it, judged by the next without such processes."""
    court.settle()
    vote = court.vote("alice")
    looker = court.looker()
    pool = looker._proofs._pool
    assert pool is not None
    monkeypatch.setattr(pool, "_program", (sys.executable, "-I", "-c", "raise SystemExit(3)"))
    looked = looker.look()
    assert (looked.judged, looked.held, looked.more) == (0, 1, False)
    assert court.outcome(vote) == HELD
    assert looker.look().judged == 1
    assert court.outcome(vote) == COUNTED
    looker.close()


def test_the_word_of_a_process_alone_counts_no_vote(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says of every signature that it stands: the second engine refuses what does not."""
    court.settle()
    recipe = court.recipe("alice")
    signer = recipe.signer
    assert signer is not None
    forged = court.commit("alice", recipe, signer=lambda payload, at: signer(payload + b"!", at))
    looker = court.looker()
    engine = looker._keys.pairs[SignatureKind.OPENPGP].first
    assert isinstance(engine, OpenPgpKeys)

    def lies(oid: ObjectId) -> Signed | None:
        commit = looker._objects.commit(oid)
        assert isinstance(commit, Commit)
        admitted = engine._keyring.admit(commit, Window(commit.committed_at + 1_000, 300_000))
        return None if isinstance(admitted, Refused) else admitted.signed

    monkeypatch.setattr(looker._proofs, "of", lies)
    looker.look()
    looker.close()
    assert court.outcome(forged) == "engines_disagree"
    assert court.counted(forged) == 0
