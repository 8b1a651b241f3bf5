"""A whole look stays within bounds of memory and time, whatever somebody pushed, and everybody else's votes count.

The sizes are those of the protocol with the profile `long`, smaller in other runs.
"""

import datetime
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pysequoia
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gitops_bot.core.errors import Reason
from gitops_bot.process import run
from gitops_bot.store.roles import Role
from tests.signed_bounded import looked
from tests.signed_bundle import NOT_AFTER, bundle
from tests.signed_court import COUNTED, Court
from tests.store_fixtures import FreshDatabase

LONG: Final = os.environ.get("HYPOTHESIS_PROFILE") == "long"
BLOB_MIB: Final = 1024 if LONG else 64
PERSONS: Final = 100 if LONG else 20
KEYS: Final = 20
"""Of each person: with a hundred of them, 2,000."""
OWN_MIB, CHILD_MIB = 200, 300
"""What a look may take itself, and the largest process that it starts (git's and gpg's own limits are above)."""

pytestmark = pytest.mark.slow


@pytest.fixture
def court(memory_folder: Path, sqlite_database: FreshDatabase) -> Iterator[Court]:
    """A court in which alice and bob may vote, everything in memory."""
    folder = memory_folder / f"bounds-{os.urandom(4).hex()}"
    folder.mkdir(mode=0o700)
    opened = Court(folder, sqlite_database.open(Role.BROKER), homes=folder / "homes")
    yield opened
    opened.close()


def pour(court: Court, mib: int) -> str:
    """Write a blob of zeros that never is in memory as a whole."""
    script = f"head -c {mib << 20} /dev/zero | git hash-object -w --stdin"
    folder = court.stage.folder
    done = run(["sh", "-c", script], cwd=folder, env={"GIT_DIR": str(folder), "HOME": str(folder)}, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def test_a_blob_of_a_gibibyte_refuses_its_commit_alone(court: Court, sqlite_database: FreshDatabase) -> None:
    """Its pack is small, so it arrives; it is never read."""
    court.begin()
    stage = court.stage
    tip = stage.root("carol")
    path = f"approvals/{court.request.ask[-2:]}/{court.request.ask}/carol.approve.0123abcd".encode()
    tree = stage.grown(stage.tree_of(tip), path, pour(court, BLOB_MIB))
    large = court.vote("carol", tree=tree)
    good = court.vote("alice")
    spent = looked(court, sqlite_database, bundle())
    assert court.outcome(large) == Reason.TOO_LARGE.value
    assert court.outcome(good) == COUNTED
    assert spent.own < OWN_MIB, spent
    assert spent.largest_child < CHILD_MIB, spent
    assert spent.cpu < 120, spent


def test_a_pack_of_a_hundred_megabytes_makes_its_branch_alone_unreadable(
    court: Court, sqlite_database: FreshDatabase
) -> None:
    """It cannot be compressed, and is cut off at the cap of what one fetch may bring."""
    court.begin()
    court.stage.repository.config["core.compression"] = 0  # which is only slow here
    court.vote("carol", file=os.urandom(100_000_000))
    good = court.vote("alice")
    spent = looked(court, sqlite_database, bundle())
    assert court.branch("carol") == Reason.TOO_LARGE.value
    assert court.outcome(good) == COUNTED
    assert spent.own < OWN_MIB, spent
    assert spent.largest_child < CHILD_MIB, spent
    kept = sum(path.stat().st_size for path in court.bot_repository.rglob("*") if path.is_file())
    assert kept < 1024 * 1024


def _ssh_line() -> str:
    public = Ed25519PrivateKey.generate().public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode().removesuffix(" ")


class Crowd:
    """Many persons: each with an OpenPGP certificate that signs and with SSH keys up to so many keys."""

    def __init__(self, persons: int) -> None:
        self.secrets = {f"p{number:03}": pysequoia.Tsk.generate(f"p{number}@example.com") for number in range(persons)}

    def change(self, tables: dict[str, Any]) -> None:
        """Put them into a policy, where they may vote."""
        today = datetime.date(2020, 1, 1)
        for number, name in enumerate(self.secrets):
            ssh = [{"key": _ssh_line(), "not_before": today, "not_after": NOT_AFTER} for _ in range(KEYS - 1)]
            identity = {"kind": "human", "github": 5_000 + number, "openpgp": [f"keys/{name}.asc"], "ssh": ssh}
            tables["people"][name] = identity
        tables["verbs"]["payments.transfer"]["voters"]["people"] += list(self.secrets)

    def files(self) -> Mapping[str, bytes]:
        """Give the bundle's files."""
        chosen = {name: name for name in self.secrets}
        return bundle(self.change, certificates=chosen)

    def sign(self, name: str) -> Any:
        """Give a person's signer."""
        signer = self.secrets[name].signer()
        return lambda payload, _at: pysequoia.sign(signer, payload, mode=pysequoia.SignatureMode.DETACHED)


def test_a_hundred_persons_of_two_thousand_keys_are_all_read(
    court: Court, sqlite_database: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = Crowd(PERSONS)
    own = {name: str(secret.extract_certificate()).encode() for name, secret in crowd.secrets.items()}
    from tests import signed_bundle

    known = signed_bundle.certificate
    monkeypatch.setattr(signed_bundle, "certificate", lambda name: own[name] if name in own else known(name))
    files = crowd.files()
    court._load(files)
    court.renew()
    assert len(court.certificates) >= PERSONS
    votes = []
    for name in crowd.secrets:
        court.stage.signers[name] = crowd.sign(name)
        votes.append(court.vote(name))
    spent = looked(court, sqlite_database, files)
    assert [court.outcome(vote) for vote in votes] == [COUNTED] * PERSONS
    assert spent.own < OWN_MIB, spent
    assert spent.largest_child < CHILD_MIB, spent
    # Per person: a fetch by git, and gpg with a home that is made for it.
    assert spent.cpu < 20 + 3 * PERSONS, spent
