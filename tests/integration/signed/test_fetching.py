"""Each person's branch is fetched on its own: what is wrong with one is that one's alone, and leaves nothing behind."""

import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitops_bot.core.errors import ConfigError, Reason, Unavailable
from gitops_bot.core.principals import PrincipalName
from gitops_bot.sandbox.http import Sandbox
from gitops_bot.signed.evidence import ObjectId
from gitops_bot.signed.fetching import Absent, Fetcher, FetchLimits, Seen, Tip, Unreadable
from gitops_bot.signed.grammar import read_commit
from gitops_bot.signed.repository import Remote, Repository, seen_ref
from tests.signed_stage import ENVIRONMENT, FILE, SignedStage, vote_path

ALICE, BOB, CAROL = (PrincipalName(name) for name in ("alice", "bob", "carol"))


@pytest.fixture
def stage(tmp_path: Path) -> SignedStage:
    """The shared repository, on which alice has voted."""
    made = SignedStage(tmp_path / "shared.git")
    made.vote("alice")
    return made


def opened(folder: Path, url: str, **changes: object) -> Repository:
    repository = Repository(folder, replace(Remote(url), **changes))
    repository.create()
    return repository


@pytest.fixture
def repository(stage: SignedStage, tmp_path: Path) -> Repository:
    return opened(tmp_path / "bot.git", stage.url)


@pytest.fixture
def fetcher(repository: Repository) -> Fetcher:
    return Fetcher(repository, ENVIRONMENT)


def blamed(tip: Tip) -> Reason:
    assert isinstance(tip, Unreadable), tip
    return tip.refused.reason


def left_behind(repository: Repository) -> list[Path]:
    return [*(repository.folder / "quarantine").iterdir(), *(repository.folder / "objects").glob("**/tmp_*")]


def test_a_branch_is_seen_and_one_that_was_never_made_holds_nothing_up(
    stage: SignedStage, fetcher: Fetcher, repository: Repository
) -> None:
    assert fetcher.fetch([ALICE, BOB]) == {ALICE: Seen(ObjectId(stage.tip("alice") or "")), BOB: Absent()}
    assert repository.refs() == {seen_ref(ENVIRONMENT, ALICE): stage.tip("alice")}
    assert repository.check() is None
    assert left_behind(repository) == []


def test_what_did_not_move_is_not_fetched_again(stage: SignedStage, fetcher: Fetcher, repository: Repository) -> None:
    fetcher.fetch([ALICE])
    packs = list((repository.folder / "objects" / "pack").iterdir())
    assert isinstance(fetcher.fetch([ALICE])[ALICE], Seen)
    assert list((repository.folder / "objects" / "pack").iterdir()) == packs
    stage.vote("alice")
    assert fetcher.fetch([ALICE])[ALICE] == Seen(ObjectId(stage.tip("alice") or ""))


def test_a_rewritten_branch_is_seen_as_it_is_now(stage: SignedStage, fetcher: Fetcher) -> None:
    """Whether it may be is history's question."""
    fetcher.fetch([ALICE])
    stage.root("alice", at=stage.now - 99)
    assert fetcher.fetch([ALICE])[ALICE] == Seen(ObjectId(stage.tip("alice") or ""))


def test_a_duplicate_tree_entry_refuses_its_branch_alone(
    stage: SignedStage, fetcher: Fetcher, repository: Repository
) -> None:
    stage.vote("bob")
    blob = stage.blob(b"x")
    tree = stage.tree([(FILE, b"a", blob), (FILE, b"a", stage.blob(b"y"))])
    stage.vote("carol", tree=tree)
    tips = fetcher.fetch([ALICE, BOB, CAROL])
    assert isinstance(tips[ALICE], Seen)
    assert isinstance(tips[BOB], Seen)
    assert blamed(tips[CAROL]) is Reason.FETCH_REFUSED
    assert isinstance(tips[CAROL], Unreadable)
    assert "duplicateEntries" in tips[CAROL].refused.detail
    assert seen_ref(ENVIRONMENT, CAROL) not in repository.refs()
    assert repository.kind(ObjectId(blob)) is None
    assert left_behind(repository) == []


@pytest.mark.parametrize(
    "fault",
    [
        lambda raw: raw.replace(b"tree ", b"tree " + b"1" * 40 + b"\ntree ", 1),
        lambda raw: raw.replace(b"author ", b"author\0", 1),
        lambda raw: raw.replace(b"\nauthor ", b"\nencoding latin-1\nauthor ", 1),
        lambda raw: raw.replace(b"> ", b"> 0", 1),
        lambda raw: raw.replace(b"\ngpgsig ", b"\ngpgsigX y\ngpgsig ", 1),
    ],
    ids=["second tree", "NUL", "encoding", "zero-padded date", "gpgsigX"],
)
def test_a_bad_commit_is_fetched_and_left_to_the_step_that_judges_it_alone(
    stage: SignedStage, fetcher: Fetcher, repository: Repository, fault: object
) -> None:
    """Git's fsck would refuse the whole branch; a later vote must not be blocked by junk below it."""
    assert callable(fault)
    recipe = stage.recipe("alice")
    bad = stage.push("alice", stage.commit(replace(recipe, raw=lambda raw: fix_tree(stage, fault(raw)))))
    stage.vote("alice", parent=bad, tree=recipe.tree)
    tips = fetcher.fetch([ALICE])
    assert tips == {ALICE: Seen(ObjectId(stage.tip("alice") or ""))}
    raw = repository.output("cat-file", "commit", bad)
    assert getattr(read_commit(ObjectId(bad), raw), "reason", None) is Reason.MALFORMED_COMMIT


def fix_tree(stage: SignedStage, raw: bytes) -> bytes:
    """Let an invented tree be one that exists."""
    return raw.replace(b"1" * 40, stage.empty.encode())


def test_many_fatal_commits_end_in_a_refusal(stage: SignedStage, fetcher: Fetcher) -> None:
    """Each takes one more attempt; there is a limit."""
    for _ in range(12):
        recipe = stage.recipe("alice")
        stage.push("alice", stage.commit(replace(recipe, raw=lambda raw: raw.replace(b"author ", b"author\0", 1))))
    stage.vote("bob")
    tips = fetcher.fetch([ALICE, BOB])
    assert blamed(tips[ALICE]) is Reason.FETCH_REFUSED
    assert isinstance(tips[BOB], Seen)


def test_a_missing_object_refuses_its_branch_alone(stage: SignedStage, fetcher: Fetcher) -> None:
    stage.vote("bob")
    stage.vote("carol", tree="3" * 40)
    tips = fetcher.fetch([ALICE, BOB, CAROL])
    assert blamed(tips[CAROL]) is Reason.FETCH_REFUSED
    assert isinstance(tips[ALICE], Seen)
    assert isinstance(tips[BOB], Seen)


def test_a_branch_that_names_no_commit_is_refused_alone(stage: SignedStage, fetcher: Fetcher) -> None:
    stage.push("carol", stage.blob(b"x"))
    tips = fetcher.fetch([ALICE, CAROL])
    assert isinstance(tips[ALICE], Seen)
    assert blamed(tips[CAROL]) is Reason.FETCH_REFUSED


def test_a_failed_tip_is_tried_again_after_a_growing_pause_or_when_it_moves(
    stage: SignedStage, repository: Repository
) -> None:
    now = 0.0
    fetcher = Fetcher(repository, ENVIRONMENT, monotonic=lambda: now)
    good = stage.tip("alice")
    assert good is not None
    lost = stage.folder / "objects" / good[:2] / good[2:]
    hidden = lost.rename(lost.with_suffix(".hidden"))
    assert blamed(fetcher.fetch([ALICE])[ALICE]) is Reason.FETCH_REFUSED
    hidden.rename(lost)
    assert isinstance(fetcher.fetch([ALICE])[ALICE], Unreadable)
    now = 6.0
    assert isinstance(fetcher.fetch([ALICE])[ALICE], Seen)


def test_a_large_pack_is_cut_off_and_refuses_its_branch_alone(
    stage: SignedStage, repository: Repository, tmp_path: Path
) -> None:
    """100 MB that cannot be compressed, over the cap for what one fetch may bring."""
    stage.repository.config["core.compression"] = 0  # which is only slow here
    stage.vote("carol", file=os.urandom(100 * 1024 * 1024))
    fetcher = Fetcher(repository, ENVIRONMENT, FetchLimits(pack_bytes=16 * 1024 * 1024))
    tips = fetcher.fetch([ALICE, CAROL])
    assert isinstance(tips[ALICE], Seen)
    assert blamed(tips[CAROL]) is Reason.TOO_LARGE
    assert left_behind(repository) == []
    used = sum(path.stat().st_size for path in repository.folder.rglob("*") if path.is_file())
    assert used < 1024 * 1024


def test_a_slow_server_is_given_up(stage: SignedStage, repository: Repository) -> None:
    with pytest.raises(Unavailable, match="longer than"):
        Fetcher(repository, ENVIRONMENT, FetchLimits(seconds=0.001)).fetch([ALICE])
    assert isinstance(Fetcher(repository, ENVIRONMENT).fetch([ALICE])[ALICE], Seen)


def test_a_repository_that_is_away_is_unavailable(tmp_path: Path) -> None:
    fetcher = Fetcher(opened(tmp_path / "bot.git", f"file://{tmp_path}/none.git"), ENVIRONMENT)
    with pytest.raises(Unavailable, match="cannot list"):
        fetcher.fetch([ALICE])


def test_a_shallow_clone_as_the_server_gives_no_history_without_its_beginning(
    stage: SignedStage, tmp_path: Path
) -> None:
    stage.vote("alice")
    shallow = tmp_path / "shallow.git"
    subprocess.run(["git", "clone", "-q", "--bare", "--depth=1", "--no-single-branch", stage.url, shallow], check=True)
    repository = opened(tmp_path / "bot.git", f"file://{shallow}")
    assert blamed(Fetcher(repository, ENVIRONMENT).fetch([ALICE])[ALICE]) is Reason.FETCH_REFUSED
    assert repository.check() is None


def test_replace_refs_tags_and_other_branches_stay_where_they_are(
    stage: SignedStage, fetcher: Fetcher, repository: Repository
) -> None:
    tip = stage.tip("alice")
    assert tip is not None
    stage.point(f"refs/replace/{tip}", stage.commit(stage.recipe("alice", message=b"something else\n")))
    stage.point("refs/tags/v1", tip)
    stage.point("refs/heads/main", tip)
    assert isinstance(fetcher.fetch([ALICE])[ALICE], Seen)
    assert list(repository.refs()) == [seen_ref(ENVIRONMENT, ALICE)]
    assert repository.output("cat-file", "commit", tip) == stage.read(tip)


def test_a_hundred_persons_are_independent(stage: SignedStage, fetcher: Fetcher) -> None:
    """Every tenth is damaged, every tenth was never made."""
    people = [PrincipalName(f"p{number:03}") for number in range(100)]
    signer = stage.signers["alice"]
    for number, person in enumerate(people):
        stage.signers[person] = signer
        if number % 10 == 0:
            stage.push(person, stage.blob(f"{number}".encode()))
        elif number % 10 != 5:
            stage.root(person)
    tips = fetcher.fetch(people)
    kinds = [type(tips[person]) for person in people]
    assert kinds == [{0: Unreadable, 5: Absent}.get(number % 10, Seen) for number in range(100)]


def test_packs_are_joined_and_kept_tips_stay(
    stage: SignedStage, fetcher: Fetcher, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a rewritten branch left behind is kept as long as the database stores it."""
    monkeypatch.setattr("gitops_bot.signed.fetching._PACKS", 3)
    fetcher.fetch([ALICE])
    kept = ObjectId(stage.tip("alice") or "")
    repository.keep(ENVIRONMENT, ALICE, kept)
    gone = None
    for at in range(4):
        gone = stage.root("alice", at=stage.now - at)
        fetcher.fetch([ALICE])
    packs = list((repository.folder / "objects" / "pack").glob("*.pack"))
    assert len(packs) < 3
    assert repository.kind(kept) == "commit"
    assert gone is not None
    assert repository.kind(ObjectId(gone)) == "commit"


def test_what_a_killed_fetch_left_behind_is_cleared(fetcher: Fetcher, repository: Repository) -> None:
    left = repository.folder / "quarantine" / "tmpkilled" / "pack"
    left.mkdir(parents=True)
    (left / "tmp_pack_x").write_bytes(b"half")
    fetcher.fetch([ALICE])
    assert left_behind(repository) == []


def test_one_process_fetches_at_a_time(fetcher: Fetcher, repository: Repository) -> None:
    code = (
        "import fcntl,os,sys; f=os.open(sys.argv[1], os.O_RDWR|os.O_CREAT); fcntl.flock(f, fcntl.LOCK_EX);"
        "print('locked', flush=True); sys.stdin.read()"
    )
    command = ["python3", "-c", code, str(repository.folder / "fetch.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(Unavailable, match="another process"):
            fetcher.fetch([ALICE])
        other.communicate()
    assert isinstance(fetcher.fetch([ALICE])[ALICE], Seen)


# Other protocols


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Sandbox]:
    with Sandbox.start(tmp_path / "forge") as sandbox:
        sandbox.add_repository("acme/approvals", 502, private=True)
        yield sandbox


def test_a_private_repository_is_fetched_over_http_with_the_token_of_a_file(
    stage: SignedStage, forge: Sandbox, tmp_path: Path
) -> None:
    """Without a token, or with another's, nothing is listed; the token is in no argument and no variable."""
    token = forge.add_account("gitops-bot[bot]", 2001, "Bot")
    forge.grant("acme/approvals", "gitops-bot[bot]", "write")
    url = f"{forge.url}/acme/approvals.git"
    pushing = url.replace("http://", f"http://bot:{token}@")
    tip = stage.tip("alice")
    subprocess.run(
        ["git", f"--git-dir={stage.folder}", "push", "-q", pushing, f"{tip}:{stage.ref('alice')}"], check=True
    )
    with pytest.raises(Unavailable, match="cannot list"):
        Fetcher(opened(tmp_path / "a.git", url), ENVIRONMENT).fetch([ALICE])
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("wrong\n")
    with pytest.raises(Unavailable, match="cannot list"):
        Fetcher(opened(tmp_path / "b.git", url, token_file=file), ENVIRONMENT).fetch([ALICE])
    file.write_text(token)
    repository = opened(tmp_path / "c.git", url, token_file=file)
    assert Fetcher(repository, ENVIRONMENT).fetch([ALICE, BOB]) == {ALICE: Seen(ObjectId(tip or "")), BOB: Absent()}
    told = [*repository._argv(("fetch",), (), network=True), *repository._environment(network=True).values()]
    assert not any(token in word for word in told)
    assert token not in (repository.folder / "askpass").read_text()
    assert token not in (repository.folder / "config").read_text()


def test_ssh_runs_without_configuration_agent_or_prompt(stage: SignedStage, tmp_path: Path) -> None:
    """A stand-in for ssh shows how it is called and runs the server's side of git."""
    programs = tmp_path / "bin"
    programs.mkdir()
    key, hosts, log = tmp_path / "key file", tmp_path / "hosts", tmp_path / "log"
    key.touch(0o600)
    ssh = programs / "ssh"
    ssh.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {log}\nfor last; do :; done\nexec sh -c "$last"\n')
    ssh.chmod(0o755)
    url = f"ssh://git@host.invalid{stage.folder}"
    repository = opened(tmp_path / "bot.git", url, ssh_key=key, known_hosts=hosts)
    own = repository._environment
    path = f"{programs}:/usr/bin:/bin"
    repository._environment = lambda network: own(network) | {"PATH": path}  # type: ignore[method-assign] # the stand-in
    assert isinstance(Fetcher(repository, ENVIRONMENT).fetch([ALICE])[ALICE], Seen)
    words = log.read_text().splitlines()
    assert words[:3] == ["-F", "/dev/null", "-T"]
    for option in ("BatchMode=yes", "StrictHostKeyChecking=yes", "IdentityAgent=none", "IdentitiesOnly=yes"):
        assert option in words
    assert f'IdentityFile="{key}"' in words
    assert f'UserKnownHostsFile="{hosts}"' in words
    assert "git@host.invalid" in words


def test_only_the_protocol_of_the_address_is_spoken(stage: SignedStage, repository: Repository, tmp_path: Path) -> None:
    done = repository.run("ls-remote", "--end-of-options", "https://127.0.0.1:1/x.git", network=True)
    assert b"transport 'https' not allowed" in done.stderr
    done = repository.run("ls-remote", "--end-of-options", stage.url)
    assert b"transport 'file' not allowed" in done.stderr
    assert repository.run("ls-remote", "--end-of-options", stage.url, network=True).returncode == 0


# The repository


def test_it_is_ours_alone(repository: Repository, stage: SignedStage, tmp_path: Path) -> None:
    assert stat.S_IMODE(repository.folder.stat().st_mode) == 0o700
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o755)
    with pytest.raises(ConfigError, match="others may enter"):
        Repository(open_to_all, Remote(stage.url)).create()


def test_a_secret_that_others_may_read_is_none(stage: SignedStage, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o644)
    with pytest.raises(ConfigError, match="others may read"):
        Repository(tmp_path / "x", Remote(stage.url, token_file=token))
    with pytest.raises(ConfigError, match="cannot read"):
        Repository(tmp_path / "x", Remote(stage.url, token_file=tmp_path / "none"))
    token.chmod(0o600)
    Repository(tmp_path / "x", Remote(stage.url, token_file=token)).create()


def test_an_address_with_a_secret_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Repository(tmp_path / "x", Remote("https://alice:secret@host.invalid/x.git"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("info/grafts", "1" * 40),
        ("shallow", "1" * 40),
        ("objects/info/alternates", "/somewhere"),
        ("objects/info/http-alternates", "http://host.invalid/"),
        ("refs/replace/" + "1" * 40, "2" * 40),
        ("packed-refs", "4b825dc642cb6eb9a060e54bf8d69288fbee4904 refs/replace/" + "1" * 40 + "\n"),
        ("commondir", ".."),
        ("config.worktree", ""),
        ("config", "[core]\n\tbare = true\n\tsshCommand = id\n"),
        ("HEAD", "ref: refs/heads/main\n"),
    ],
)
def test_what_changes_the_meaning_of_objects_refuses_everybody(
    fetcher: Fetcher, repository: Repository, stage: SignedStage, name: str, content: str
) -> None:
    """The twin: without it the same fetch gives a tip."""
    repository.output("hash-object", "-t", "tree", "-w", "--stdin")
    path = repository.folder / name
    before = path.read_bytes() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    assert blamed(fetcher.fetch([ALICE])[ALICE]) is Reason.FETCH_REFUSED
    path.unlink()
    if before is not None:
        path.write_bytes(before)
    if name.startswith("refs/replace/"):
        path.parent.rmdir()
    assert isinstance(fetcher.fetch([ALICE])[ALICE], Seen)


def test_grafts_and_replace_refs_do_not_move_what_is_read_meanwhile(
    fetcher: Fetcher, repository: Repository, stage: SignedStage
) -> None:
    """Git is told to look at neither, should somebody put them there after the check."""
    fetcher.fetch([ALICE])
    tip = stage.tip("alice")
    assert tip is not None
    root = repository.output("rev-list", "--max-parents=0", tip).decode().strip()
    (repository.folder / "info" / "grafts").write_text(f"{tip}\n")
    replacing = repository.folder / "refs" / "replace" / tip
    replacing.parent.mkdir()
    replacing.write_text(f"{root}\n")
    assert repository.output("rev-list", "--max-parents=0", tip).decode().strip() == root
    assert repository.output("cat-file", "commit", tip) == stage.read(tip)


def test_a_damaged_ref_of_ours_is_unavailable(fetcher: Fetcher, repository: Repository) -> None:
    fetcher.fetch([ALICE])
    path = repository.folder / seen_ref(ENVIRONMENT, ALICE)
    content = path.read_bytes()
    path.write_bytes(b"")
    with pytest.raises(Unavailable, match="damaged ref"):
        fetcher.fetch([ALICE])
    path.write_bytes(content)
    assert isinstance(fetcher.fetch([ALICE])[ALICE], Seen)


def test_a_sha256_repository_is_fetched_into_one(tmp_path: Path) -> None:
    """And into none of the other kind."""
    shared = tmp_path / "shared.git"
    git = ["git", f"--git-dir={shared}", "-c", "user.name=alice", "-c", "user.email=a@example.invalid"]
    subprocess.run(["git", "init", "-q", "--bare", "--object-format=sha256", shared], check=True)
    tree = subprocess.run([*git, "mktree"], input=b"", capture_output=True, check=True).stdout.decode().strip()
    made = (
        subprocess.run([*git, "commit-tree", "-m", "x", tree], capture_output=True, check=True).stdout.decode().strip()
    )
    subprocess.run([*git, "update-ref", f"refs/heads/gated/{ENVIRONMENT}/approvals/alice", made], check=True)
    other = Fetcher(opened(tmp_path / "a.git", f"file://{shared}"), ENVIRONMENT)
    assert blamed(other.fetch([ALICE])[ALICE]) is Reason.FETCH_REFUSED
    repository = Repository(tmp_path / "b.git", Remote(f"file://{shared}"), algorithm="sha256")
    repository.create()
    assert Fetcher(repository, ENVIRONMENT).fetch([ALICE]) == {ALICE: Seen(ObjectId(made))}
    assert repository.check() is None


def test_a_path_outside_of_the_form_still_arrives(stage: SignedStage, fetcher: Fetcher) -> None:
    """Names that only step 4 refuses do not stop the fetch."""
    stage.vote("alice", path=vote_path(stage.request.ask, "alice", "approve") + b"\nx")
    assert isinstance(fetcher.fetch([ALICE])[ALICE], Seen)
