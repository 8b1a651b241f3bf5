"""The requests branch holds what the bot published, signed by the bot, whatever others do to it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitops_bot.core.asks import AskId
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import Malformed, Unavailable
from gitops_bot.core.principals import PrincipalName
from gitops_bot.signed.bot_key import BotKey
from gitops_bot.signed.evidence import Commit, ObjectId
from gitops_bot.signed.grammar import read_commit
from gitops_bot.signed.publication import ledger_file, request_files, spent_file, spent_path
from gitops_bot.signed.publishing import MAX_FILE, Finding, Foreign, Publisher
from gitops_bot.signed.rendering import DECISIONS
from tests import signed_keys as keys
from tests.publication_stage import AT, BRANCH, Stage, git, opened_key
from tests.signed_stage import ASK, transfer

PEOPLE = {PrincipalName(name): DECISIONS for name in ("alice", "bob")}
FILES = request_files(transfer(), PEOPLE)
DIGEST = Digest("sha256:" + "ab" * 32)
HEAD = ledger_file(1, DIGEST, 1, AT)
MARKER = spent_file(ASK, DIGEST, "ours", AT)
OTHER_MARKER = spent_file(ASK, DIGEST, "theirs", AT)
OTHER = AskId(ASK[:-1] + "g")


@pytest.fixture(scope="module")
def key() -> Iterator[BotKey]:
    with opened_key("ssh") as opened:
        yield opened


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def publisher(stage: Stage, key: BotKey) -> Publisher:
    return stage.publisher(key)


def ours(_: ObjectId, raw: bytes) -> bool:
    """Recognise any signed commit; which key signed is the caller's concern."""
    return b"\ngpgsig " in raw


def test_git_verifies_the_commits_with_the_bots_ssh_key(stage: Stage, publisher: Publisher) -> None:
    published = publisher.publish(FILES, AT)
    assert (published.commit, published.changed, published.foreign, published.kept) == (stage.tip(), True, (), ())
    assert stage.files() == FILES
    signers = stage.folder / "signers"
    signers.write_text(f"bot {keys.ssh_line('bot')}\n")
    settings = ("-c", "gpg.format=ssh", "-c", f"gpg.ssh.allowedSignersFile={signers}")
    git(stage.far, *settings, "verify-commit", str(published.commit))
    signers.write_text(f"bot {keys.ssh_line('outsider')}\n")
    git(stage.far, *settings, "verify-commit", str(published.commit), status=1)


def test_git_verifies_the_commits_with_the_bots_openpgp_key(stage: Stage) -> None:
    with opened_key("openpgp") as pgp, keys.gpg_home("bot") as home:
        assert pgp.identity == keys.fingerprint("bot")
        published = stage.publisher(pgp).publish(FILES, AT)
        git(stage.far, "verify-commit", str(published.commit), env={"GNUPGHOME": str(home)})
    with keys.gpg_home("outsider") as home:
        git(stage.far, "verify-commit", str(published.commit), env={"GNUPGHOME": str(home)}, status=1)


def test_a_commit_of_the_bot_has_the_strict_form(stage: Stage, publisher: Publisher) -> None:
    """The approver's side reads the branch as strictly as the bot reads theirs."""
    first = publisher.publish(HEAD, AT).commit
    second = publisher.publish(FILES, AT + 5_000).commit
    assert second is not None
    commit = read_commit(second, git(stage.far, "cat-file", "commit", second))
    assert isinstance(commit, Commit)
    assert (commit.parent, commit.committed_at) == (first, AT + 5_000)
    assert commit.message == b"gitops-bot/requests/v1 production\n"


def test_what_is_there_already_makes_no_commit(stage: Stage, publisher: Publisher) -> None:
    first = publisher.publish(FILES, AT)
    again = publisher.publish(FILES, AT + 60_000)
    assert (again.commit, again.changed) == (first.commit, False)
    more = publisher.publish(HEAD, AT + 60_000)
    assert (more.changed, stage.count()) == (True, 2)
    assert stage.files() == FILES | HEAD


def test_nothing_at_all_makes_no_branch(stage: Stage, publisher: Publisher) -> None:
    published = publisher.publish({}, AT)
    assert (published.commit, published.changed, stage.tip()) == (None, False, None)
    assert publisher.look() is None
    assert publisher.spent_marker(ASK) is None


@pytest.mark.parametrize("path", ["README.md", "asks/../x", f"spent/00/{ASK}.json", ".git/config"])
def test_only_paths_of_the_branch_are_written(stage: Stage, publisher: Publisher, path: str) -> None:
    with pytest.raises(Malformed):
        publisher.publish({**FILES, path: b""}, AT)
    assert stage.tip() is None
    publisher.publish(FILES, AT)
    assert stage.tip() is not None


def test_a_file_has_a_size_limit(publisher: Publisher) -> None:
    publisher.publish({"ledger/1.json": b"x" * MAX_FILE}, AT)
    with pytest.raises(Malformed):
        publisher.publish({"ledger/1.json": b"x" * (MAX_FILE + 1)}, AT)


def test_bytes_are_published_as_they_are(stage: Stage, publisher: Publisher) -> None:
    """No attribute, filter or line end of a working tree ever touches them."""
    odd = {"ledger/1.json": b"", "ledger/2.json": b"\r\n\x00\xff done\ndata 3\n", "ledger/3.json": b"no newline"}
    publisher.publish(odd, AT)
    assert stage.files() == odd


def test_a_foreign_commit_is_built_upon_reported_and_dropped(stage: Stage, publisher: Publisher) -> None:
    publisher.publish(FILES, AT)
    request = f"asks/5f/{ASK}/request.json"
    foreign = stage.push({"README.md": b"mine now", request: b"{}", f"asks/5f/{ASK}/bob.deny": None})
    published = publisher.publish(HEAD, AT)
    assert published.foreign == (Foreign(Finding.ADDED, ObjectId(foreign)),)
    assert stage.files() == FILES | HEAD
    assert stage.descends(stage.tip(), foreign)
    assert publisher.publish({}, AT).foreign == published.foreign
    publisher.reported(published.foreign[0])
    assert publisher.publish({}, AT).foreign == ()


def test_a_foreign_commit_that_changes_nothing_is_built_upon_too(stage: Stage, publisher: Publisher) -> None:
    """Whoever reads the branch verifies the bot's signature on its tip."""
    publisher.publish(FILES, AT)
    foreign = stage.push({})
    published = publisher.publish({}, AT)
    assert (published.changed, stage.files()) == (True, FILES)
    assert stage.descends(stage.tip(), foreign)
    assert published.foreign == (Foreign(Finding.ADDED, ObjectId(foreign)),)


def test_a_branch_that_was_there_before_is_foreign(stage: Stage, publisher: Publisher) -> None:
    foreign = stage.push({"README.md": b"x"}, on="")
    published = publisher.publish(FILES, AT)
    assert (published.foreign, stage.files()) == ((Foreign(Finding.ADDED, ObjectId(foreign)),), FILES)
    assert stage.descends(stage.tip(), foreign)


def test_a_branch_that_was_taken_back_is_mended_without_force(stage: Stage, publisher: Publisher) -> None:
    first = publisher.publish(FILES, AT).commit
    second = publisher.publish(HEAD, AT).commit
    assert first is not None
    git(stage.far, "update-ref", BRANCH, first)
    published = publisher.publish({}, AT)
    assert published.foreign == (Foreign(Finding.REWRITTEN, first),)
    assert (stage.tip(), stage.files()) == (second, FILES | HEAD)


def test_a_branch_that_was_replaced_is_mended_without_force(stage: Stage, publisher: Publisher) -> None:
    publisher.publish(FILES, AT)
    foreign = stage.push({"README.md": b"x"}, on="")
    published = publisher.publish({}, AT)
    assert published.foreign == (Foreign(Finding.REWRITTEN, ObjectId(foreign)),)
    assert stage.files() == FILES
    assert stage.descends(stage.tip(), foreign)


def test_a_branch_that_was_deleted_is_made_again(stage: Stage, publisher: Publisher) -> None:
    commit = publisher.publish(FILES, AT).commit
    assert commit is not None
    git(stage.far, "update-ref", "-d", BRANCH)
    published = publisher.publish({}, AT)
    assert published.foreign == (Foreign(Finding.DELETED, commit),)
    assert (stage.tip(), stage.files()) == (commit, FILES)


def test_a_commit_of_another_broker_is_ours_when_it_is_recognised(stage: Stage, key: BotKey) -> None:
    """Two hosts of one policy publish to one branch, and neither takes away what the other wrote."""
    one, other = (stage.publisher(key, name, recognise=ours) for name in ("one", "other"))
    assert one.publish(FILES, AT).foreign == ()
    assert other.publish(HEAD, AT).foreign == ()
    assert one.publish(MARKER, AT).foreign == ()
    assert other.publish({}, AT).changed is False
    assert (stage.files(), stage.count()) == (FILES | HEAD | MARKER, 3)
    stranger = stage.publisher(key, "stranger").publish(HEAD, AT)
    assert [found.finding for found in stranger.foreign] == [Finding.ADDED]
    assert stage.files() == HEAD | MARKER


def test_a_marker_of_another_stays_whoever_wrote_it(stage: Stage, publisher: Publisher) -> None:
    """A database restored from before a spend finds the marker that it does not remember, and refuses."""
    publisher.publish(FILES, AT)
    stage.push({spent_path(ASK): OTHER_MARKER[spent_path(ASK)], "spent/README": b"x", "spent/5f/x.json": b"x"})
    published = publisher.publish(MARKER, AT)
    assert published.kept == (spent_path(ASK),)
    assert stage.files() == FILES | OTHER_MARKER
    assert publisher.spent_marker(ASK) == OTHER_MARKER[spent_path(ASK)]
    assert publisher.publish(MARKER, AT).kept == (spent_path(ASK),)
    assert publisher.publish(OTHER_MARKER, AT).kept == ()


def test_a_marker_of_ours_is_never_replaced(stage: Stage, publisher: Publisher) -> None:
    assert publisher.publish(MARKER, AT).kept == ()
    assert publisher.publish(MARKER, AT).kept == ()
    again = publisher.publish(OTHER_MARKER | HEAD, AT)
    assert (again.kept, again.changed) == ((spent_path(ASK),), True)
    assert stage.files() == MARKER | HEAD


def test_markers_of_both_sides_stay_when_a_commit_is_taken_for_ours(stage: Stage, key: BotKey) -> None:
    """An older commit of the bot, pushed by force over a newer one, takes no marker away."""
    one, other = (stage.publisher(key, name, recognise=ours) for name in ("one", "other"))
    one.publish(MARKER, AT)
    git(stage.far, "update-ref", "-d", BRANCH)
    other.publish(spent_file(OTHER, DIGEST, "theirs", AT), AT)
    published = one.publish({}, AT)
    assert [found.finding for found in published.foreign] == [Finding.REWRITTEN]
    assert stage.files() == MARKER | spent_file(OTHER, DIGEST, "theirs", AT)


def test_a_marker_is_found_where_anybody_wrote_it(stage: Stage, publisher: Publisher) -> None:
    publisher.publish(FILES, AT)
    assert publisher.spent_marker(ASK) is None
    stage.push(dict(OTHER_MARKER))
    assert publisher.spent_marker(ASK) is None  # as of the last look
    publisher.look()
    assert publisher.spent_marker(ASK) == OTHER_MARKER[spent_path(ASK)]
    assert publisher.spent_marker(OTHER) is None


def test_a_marker_of_ours_stays_known_when_the_branch_is_taken_back(stage: Stage, publisher: Publisher) -> None:
    publisher.publish(MARKER, AT)
    git(stage.far, "update-ref", "-d", BRANCH)
    publisher.look()
    assert publisher.spent_marker(ASK) == MARKER[spent_path(ASK)]


@pytest.mark.parametrize(("content", "mode"), [(b"x" * 9_000, "100644"), (b"/etc/passwd", "120000"), (b"{}", "100755")])
def test_a_marker_that_is_no_plain_small_file_is_there_all_the_same(
    stage: Stage, publisher: Publisher, content: bytes, mode: str
) -> None:
    stage.push({spent_path(ASK): content}, on="", mode=mode)
    assert publisher.spent_marker(ASK) == b""
    stage.push({spent_path(OTHER): b"{}"})
    publisher.look()
    assert publisher.spent_marker(OTHER) == b"{}"


def test_what_cannot_be_looked_at_is_no_absence(stage: Stage, key: BotKey) -> None:
    """Unknown is not no (I14): without a look nothing is said, and a damaged tree is not an empty one."""
    publisher = stage.publisher(key)
    moved = stage.far.rename(stage.folder / "away")
    with pytest.raises(Unavailable):
        publisher.spent_marker(ASK)
    moved.rename(stage.far)
    assert publisher.spent_marker(ASK) is None
    publisher.publish(FILES, AT)
    publisher.publish(MARKER, AT)
    near = stage.folder / "near"
    tree = git(near, "rev-parse", "refs/publication/production/own:spent").decode().strip()
    (near / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(Unavailable):
        publisher.spent_marker(ASK)


def test_a_push_that_fails_is_said_and_made_good(stage: Stage, publisher: Publisher) -> None:
    hook = stage.far / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(Unavailable, match="cannot be pushed"):
        publisher.publish(FILES, AT)
    assert stage.tip() is None
    hook.unlink()
    published = publisher.publish(FILES, AT)
    assert (published.commit, stage.files(), stage.count()) == (stage.tip(), FILES, 1)


def test_a_remote_that_is_away_is_said(stage: Stage, publisher: Publisher) -> None:
    publisher.publish(HEAD, AT)
    moved = stage.far.rename(stage.folder / "away")
    with pytest.raises(Unavailable):
        publisher.publish(FILES, AT)
    with pytest.raises(Unavailable):
        publisher.look()
    moved.rename(stage.far)
    assert publisher.publish(FILES, AT).changed


def test_somebody_who_pushes_in_between_costs_one_more_try(
    stage: Stage, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.publish(HEAD, AT)
    push, raced = publisher._push, []

    def late(commit: ObjectId) -> str | None:
        if not raced:
            raced.append(stage.push({"README.md": b"first"}))
        return push(commit)

    monkeypatch.setattr(publisher, "_push", late)
    published = publisher.publish(FILES, AT)
    assert published.foreign == (Foreign(Finding.ADDED, ObjectId(raced[0])),)
    assert stage.files() == FILES | HEAD
    assert stage.descends(stage.tip(), raced[0])


def test_no_hook_runs_and_nothing_of_the_surroundings_is_inherited(
    stage: Stage, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks in the bot's repository, and settings in the environment of the broker, reach no git of ours."""
    seen = stage.folder / "ran"
    hooks = stage.folder / "near" / "hooks"
    hooks.mkdir()
    for name in ("pre-push", "reference-transaction", "pre-commit", "commit-msg", "post-index-change", "post-commit"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {seen}\nexit 1\n")
        (hooks / name).chmod(0o755)
    for name, value in {
        "GIT_DIR": "/nonexistent",
        "GIT_WORK_TREE": "/nonexistent",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": str(hooks),
        "GIT_AUTHOR_NAME": "somebody",
        "GNUPGHOME": "/nonexistent",
    }.items():
        monkeypatch.setitem(os.environ, name, value)
    commit = publisher.publish(FILES, AT).commit
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delitem(os.environ, name)
    assert not seen.exists()
    assert b"author gitops-bot <gitops-bot@localhost> 1717243200 +0000" in git(stage.far, "cat-file", "-p", str(commit))
    assert not (stage.folder / "near" / "index").exists()


def test_one_more_ask_writes_the_folders_on_its_path_alone(stage: Stage, publisher: Publisher) -> None:
    """A tree of many asks is not written again for each push."""
    letters = "0123456789abcdefghjkmnpqrstvwxyz"
    many = {f"asks/{a}{b}/{ASK[:-2]}{a}{b}/request.json": b"{}" for a in letters for b in letters[:16]}
    publisher.publish(many, AT)
    before = stage.tip()
    publisher.publish(FILES, AT)
    written = git(stage.far, "rev-list", "--objects", BRANCH, f"^{before}").decode().splitlines()
    folders = 4  # the root, asks, the shard and the ask's own
    assert len(written) == 1 + folders + len(FILES)
    assert stage.files() == many | FILES


def test_loose_objects_are_packed_now_and_then(
    stage: Stage, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitops_bot.signed.requests_store.TIDY_EVERY", 2)
    for seq in range(1, 4):
        publisher.publish(ledger_file(seq, DIGEST, 1, AT), AT)
    assert git(stage.folder / "near", "count-objects").startswith(b"0 objects")
    assert len(stage.files()) == 3
