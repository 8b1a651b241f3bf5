"""The stage is honest: what it calls sound is accepted by git, gpg, Sequoia and ssh-keygen, and each of its faults is
the fault that it is named for.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pygit2
import pytest

from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import Digest
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.signed.rendering import read_time, render_file, render_message
from tests import signed_keys as keys
from tests.signed_bundle import bundle, policy, write_bundle
from tests.signed_engines import Engines, engines, gpg_verdict, sequoia, split
from tests.signed_stage import NOW, REPOSITORY, SignedStage, transfer, vote_path

VECTORS = Path(__file__).parents[2] / "vectors"
OPENPGP = ("alice", "bob", "carol", "bot", "worker", "outsider", "forge-web", "p384", "p521")
WEAK = ("weak-rsa2048", "weak-dsa2048", "brainpool256", "sha1-bound")
SOFTWARE = ("alice", "bob", "carol", "carol-384", "carol-521", "bot", "worker", "outsider")
SECURITY = ("alice-sk", "alice-sk-ecdsa", "bob-sk", "carol-sk")


@pytest.fixture(scope="module")
def judges() -> Iterator[Engines]:
    with engines((*OPENPGP, *WEAK), (*SOFTWARE, *SECURITY, "weak-rsa2048")) as made:
        yield made


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> SignedStage:
    return SignedStage(tmp_path_factory.mktemp("stage") / "approvals.git")


@pytest.mark.parametrize("name", (*OPENPGP, *WEAK))
def test_an_openpgp_signature_made_here_is_one(judges: Engines, stage: SignedStage, name: str) -> None:
    """Made at the chosen time by the certificate's signing key, over exactly these bytes."""
    oid = stage.vote(signer=keys.openpgp(name))
    assert judges.git(stage.folder, oid)
    status = judges.gpg(*split(stage.read(oid)))
    assert gpg_verdict(status) == "GOODSIG"
    signer = keys.secrets(name)[-1]
    assert status["VALIDSIG"][0] == signer.fingerprint
    assert status["VALIDSIG"][2] == str(NOW)
    assert status["VALIDSIG"][7:10] == ["10", "00", keys.fingerprint(name)]


@pytest.mark.parametrize("name", OPENPGP)
def test_sequoia_accepts_it_too(stage: SignedStage, name: str) -> None:
    raw = stage.read(stage.vote(signer=keys.openpgp(name)))
    assert sequoia(name, *split(raw))
    assert not sequoia(name, *split(raw.replace(b"Transfer", b"transfer")))


@pytest.mark.parametrize("name", (*SOFTWARE, *SECURITY))
def test_an_ssh_signature_made_here_is_one(judges: Engines, stage: SignedStage, name: str) -> None:
    """Those of security keys among them: their form is the real one, and no hardware was asked."""
    oid = stage.vote(signer=keys.ssh(name))
    assert judges.git(stage.folder, oid)
    assert judges.keygen(*split(stage.read(oid)))


@pytest.mark.parametrize("signer", [keys.ssh("bob"), keys.ssh("alice-sk"), keys.openpgp("bob")])
def test_a_changed_commit_is_refused_by_all(judges: Engines, stage: SignedStage, signer: keys.Signer) -> None:
    """The accepting twins are above: the engines are asked for real."""
    oid = stage.vote(signer=signer, raw=lambda raw: raw.replace(b"Transfer", b"transfer"))
    assert not judges.git(stage.folder, oid)
    assert not judges.keygen(*split(stage.read(oid)))
    assert gpg_verdict(judges.gpg(*split(stage.read(oid)))) in (None, "BADSIG")


@pytest.mark.parametrize("flags", range(8))
@pytest.mark.parametrize("name", ["alice-sk", "alice-sk-ecdsa"])
def test_ssh_keygen_accepts_any_flags_and_counter(judges: Engines, stage: SignedStage, name: str, flags: int) -> None:
    """So that flags and counter are for us to judge, and a refusal of ours is about them alone."""
    oid = stage.vote(signer=keys.ssh(name, flags=flags, counter=2**32 - 1 - flags))
    assert judges.keygen(*split(stage.read(oid)))


def test_flags_and_counter_are_signed(judges: Engines, stage: SignedStage) -> None:
    payload, armor = split(stage.read(stage.vote(signer=keys.ssh("alice-sk", flags=1, counter=7))))
    raised = split(stage.read(stage.vote(signer=keys.ssh("alice-sk", flags=5, counter=7))))[1]
    assert judges.keygen(payload, armor)
    assert not judges.keygen(payload, raised)


@pytest.mark.parametrize("signer", [keys.gpg("alice"), keys.sequoia("bob"), keys.ssh_keygen("carol")])
def test_real_signers_sign_commits_of_the_stage(judges: Engines, stage: SignedStage, signer: keys.Signer) -> None:
    assert judges.git(stage.folder, stage.vote(signer=signer))


@pytest.mark.parametrize("name", SOFTWARE)
def test_private_and_public_ssh_keys_belong_together(tmp_path: Path, name: str) -> None:
    """`ssh-keygen -y` derives the public line; it insists on a file that nobody else may read."""
    path = tmp_path / name
    path.write_bytes(keys.ssh_path(name).read_bytes())
    path.chmod(0o600)
    made = subprocess.run(["ssh-keygen", "-y", "-f", str(path)], capture_output=True, check=True).stdout
    assert made.decode().split()[:2] == keys.ssh_line(name).split()


@pytest.mark.parametrize(
    ("certificate", "verdict"),
    [
        ("alice", "GOODSIG"),
        ("alice.expires", "GOODSIG"),
        ("alice.second-name", "GOODSIG"),
        ("alice.second-subkey", "GOODSIG"),
        ("alice.unbound-subkey", "GOODSIG"),
        ("alice.expired", "EXPKEYSIG"),
        ("alice.subkey-expired", "EXPKEYSIG"),
        ("alice.revoked-hard", "REVKEYSIG"),
        ("alice.revoked-unexplained", "REVKEYSIG"),
        ("alice.revoked-retired", "REVKEYSIG"),
        ("alice.revoked-superseded", "REVKEYSIG"),
        ("alice.subkey-revoked-hard", "REVKEYSIG"),
        ("alice.subkey-revoked-retired", "REVKEYSIG"),
    ],
)
def test_each_certificate_differs_as_it_is_named(stage: SignedStage, certificate: str, verdict: str) -> None:
    """One commit of alice's, judged under one of her certificates after another."""
    payload, armor = split(stage.read(stage.vote(signer=keys.openpgp("alice"))))
    with engines([certificate]) as judges:
        assert gpg_verdict(judges.gpg(payload, armor)) == verdict


@pytest.mark.parametrize(("certificate", "known"), [("alice.second-subkey", True), ("alice", False)])
def test_the_second_subkey_is_known_by_one_certificate(stage: SignedStage, certificate: str, known: bool) -> None:
    payload, armor = split(stage.read(stage.vote(signer=keys.openpgp("alice.second-subkey"))))
    with engines([certificate]) as judges:
        assert gpg_verdict(judges.gpg(payload, armor)) == ("GOODSIG" if known else "ERRSIG")
    assert sequoia(certificate, payload, armor) is known


def test_an_unbound_subkey_signs_for_nobody(stage: SignedStage) -> None:
    payload, armor = split(stage.read(stage.vote(signer=keys.openpgp("alice.second-subkey"))))
    assert not sequoia("alice.unbound-subkey", payload, armor)


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ({"kind": keys.TEXT}, 8, "01"),
        ({"digest": "sha1"}, 7, "2"),
        ({"digest": "sha256"}, 7, "8"),
        ({"at": NOW - 86_400}, 2, str(NOW - 86_400)),
    ],
)
def test_each_fault_of_a_signature_is_the_one_it_is_named_for(
    judges: Engines, stage: SignedStage, options: dict[str, object], field: int, value: str
) -> None:
    """gpg finds the signature good, and its status tells what is ours to refuse."""
    status = judges.gpg(*split(stage.read(stage.vote(signer=keys.openpgp("bob", **options)))))
    assert gpg_verdict(status) == "GOODSIG"
    assert status["VALIDSIG"][field] == value


@pytest.mark.parametrize(("critical", "verdict"), [(False, "GOODSIG"), (True, "BADSIG")])
def test_a_notation_matters_when_it_is_critical(
    judges: Engines, stage: SignedStage, critical: bool, verdict: str
) -> None:
    hashed = keys.notation("terms@example.com", "none", critical=critical)
    payload, armor = split(stage.read(stage.vote(signer=keys.openpgp("bob", hashed=hashed))))
    assert gpg_verdict(judges.gpg(payload, armor)) == verdict
    assert sequoia("bob", payload, armor) is not critical


def test_pygit2_reads_the_same_bytes(stage: SignedStage) -> None:
    """Another reader of git's objects sees the parents, the tree, the message, the file and the signature we wrote."""
    above = stage.tip("alice") or stage.root("alice")
    recipe = stage.recipe(path=vote_path(stage.request.ask, "alice", "approve", "pygit2ab"))
    oid = stage.commit(recipe)
    commit = stage.repository[oid]
    assert isinstance(commit, pygit2.Commit)
    assert [str(parent) for parent in commit.parent_ids] == [above]
    assert str(commit.tree_id) == recipe.tree
    assert commit.raw_message == recipe.message
    signature, payload = commit.gpg_signature
    assert signature is not None
    assert (payload, signature.rstrip(b"\n") + b"\n") == split(stage.read(oid))
    assert payload == recipe.payload
    path = vote_path(stage.request.ask, "alice", "approve", "pygit2ab").decode()
    blob = commit.tree / path
    assert isinstance(blob, pygit2.Blob)
    assert blob.data.startswith(b"# I approve exactly this action, once.\n")


def test_git_finds_no_fault_in_sound_branches(tmp_path: Path) -> None:
    stage = SignedStage(tmp_path / "a.git")
    asks = [AskId(f"01jdxm2r7q8v9w0a1b2c3d4e{n:02}") for n in range(12)]
    stage.votes("alice", asks)
    stage.vote("bob", "deny")
    stage.vote("carol", "revoke")
    argv = ["git", "-C", str(stage.folder)]
    checked = subprocess.run([*argv, "fsck", "--strict", "--no-dangling"], capture_output=True, check=True)
    assert b"error" not in checked.stderr + checked.stdout
    count = subprocess.run([*argv, "rev-list", "--count", stage.ref("alice")], capture_output=True, check=True).stdout
    assert int(count) == 13
    root = subprocess.run([*argv, "log", "--max-parents=0", "--format=%B", stage.ref("bob")], capture_output=True)
    assert root.stdout.decode().strip() == f"gitops-bot/approvals/v1 {REPOSITORY} production bob"
    changed = subprocess.run([*argv, "show", "--format=", "--name-status", stage.ref("bob")], capture_output=True)
    assert changed.stdout.startswith(b"A\tapprovals/5f/01jdxm2r7q8v9w0a1b2c3d4e5f/bob.deny.")


def test_a_tree_grows_as_git_sorts_it(tmp_path: Path) -> None:
    """`a.b`, `a/`, `a0`: git sorts a folder as if its name ended in a stroke."""
    stage = SignedStage(tmp_path / "a.git")
    tree = stage.empty
    for path in (b"a0", b"a/x/y", b"a.b", b"a/x/z"):
        tree = stage.grown(tree, path, stage.blob(path))
    listed = subprocess.run(["git", "-C", str(stage.folder), "ls-tree", "-r", "--name-only", tree], capture_output=True)
    assert listed.stdout.split() == [b"a.b", b"a/x/y", b"a/x/z", b"a0"]
    subprocess.run(["git", "-C", str(stage.folder), "fsck", "--strict", tree], capture_output=True, check=True)


def test_two_branches_are_apart(tmp_path: Path) -> None:
    stage = SignedStage(tmp_path / "a.git")
    tip = stage.vote("alice")
    stage.vote("bob")
    assert stage.tip("alice") == tip
    stage.delete("alice")
    assert stage.tip("alice") is None
    assert stage.tip("bob") is not None


def test_the_vectors_are_what_the_stage_signs() -> None:
    """The request of the vectors, made by the stage, renders to the vectors' bytes."""
    vector = json.loads((VECTORS / "approval.json").read_text())["approvals"][0]
    request = transfer(policy=Digest(vector["request"]["policy"]), expires_at=read_time("2026-12-01T12:00:00Z"))
    assert request.action_hash == vector["request"]["action_hash"]
    assert render_file(request, PrincipalName("alice"), Decision.APPROVE).decode() == vector["file"]
    assert render_message(request, PrincipalName("alice"), Decision.APPROVE).decode() == vector["message"]


def test_the_bundle_loads_from_files(tmp_path: Path) -> None:
    files = bundle()
    folder = write_bundle(files, tmp_path)
    assert {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()} == files
    loaded = policy(files)
    assert {rule.name for rule in loaded.gated} == {
        "payments.transfer",
        "payments.refund",
        "payments.close",
        "note.publish",
        "policy.adopt",
    }
    assert loaded.people[PrincipalName("alice")].openpgp[0].facts.fingerprint == keys.fingerprint("alice")


def test_another_certificate_is_another_bundle() -> None:
    revoked = bundle(certificates={"alice": "alice.revoked-hard"})
    assert revoked["keys/alice.asc"] == keys.certificate("alice.revoked-hard")
    assert {path for path in revoked if revoked[path] != bundle()[path]} == {"keys/alice.asc"}


def test_a_recipe_replaces_one_part_at_a_time(stage: SignedStage) -> None:
    stage.root("bob")
    sound = stage.recipe("bob")
    assert replace(sound, beside=(b"gpgsigX junk",)).bytes().count(b"\ngpgsigX junk\n\n") == 1
    assert replace(sound, signed=(b"encoding latin1",)).payload.count(b"\nencoding latin1\n\n") == 1
    assert replace(sound, signer=None).bytes() == sound.payload
