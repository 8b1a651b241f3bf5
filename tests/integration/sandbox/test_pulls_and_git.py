"""Pull requests, drafts and git objects through the real client; the repository on disk is read with GitPython."""

from collections.abc import Iterator

import pytest
from git import Repo
from github import GithubException, InputGitTreeElement, UnknownObjectException
from github.InputGitAuthor import InputGitAuthor

REPOSITORY = "acme/judge"


@pytest.fixture
def disk(forge) -> Iterator[Repo]:
    """The bare repository as another git library reads it."""
    repo = Repo(forge.sandbox.git_folder(REPOSITORY))
    yield repo
    repo.close()


def test_a_branch_is_built_from_blobs_trees_and_commits(forge, disk: Repo) -> None:
    """The way of the bot: no checkout, one commit, one ref; other files stay."""
    repository = forge.repository()
    base = repository.get_branch("main").commit
    blob = repository.create_git_blob('{"trace": "é"}\n', "utf-8")
    element = InputGitTreeElement("captures/x/request.json", "100644", "blob", sha=blob.sha)
    tree = repository.create_git_tree([element], base_tree=repository.get_git_commit(base.sha).tree)
    parent = repository.get_git_commit(base.sha)
    commit = repository.create_git_commit("Ask for a capture\n\nbody", tree, [parent])
    ref = repository.create_git_ref("refs/heads/capture/x-1", commit.sha)
    assert ref.object.sha == commit.sha
    assert repository.get_git_ref("heads/capture/x-1").object.sha == commit.sha

    found = disk.commit("capture/x-1")
    assert found.hexsha == commit.sha
    assert found.message == "Ask for a capture\n\nbody"
    assert (found.author.name, found.committed_date) == ("gitops-bot[bot]", forge.now)
    assert [p.hexsha for p in found.parents] == [base.sha]
    assert (found.tree / "captures/x/request.json").data_stream.read() == '{"trace": "é"}\n'.encode()
    assert (found.tree / "README.md").data_stream.read() == b"# acme/judge\n"
    assert disk.git.fsck("--strict") == ""


def test_a_tree_takes_content_and_removes_paths(forge, disk: Repo) -> None:
    """Inline content, and a null id for a path that goes; the base may be a commit."""
    repository = forge.repository()
    parent = repository.get_git_commit(repository.get_branch("main").commit.sha)
    elements = [
        InputGitTreeElement("a/b.txt", "100644", "blob", content="text"),
        InputGitTreeElement("README.md", "100644", "blob", sha=None),
    ]
    tree = repository.create_git_tree(elements, base_tree=parent.tree)
    listed = repository.get_git_tree(tree.sha, recursive=True).tree
    assert [(entry.path, entry.type) for entry in listed] == [("a", "tree"), ("a/b.txt", "blob")]
    assert disk.git.cat_file("-p", f"{tree.sha}:a/b.txt") == "text"


def test_a_commit_keeps_the_dates_that_its_maker_chose(forge, disk: Repo) -> None:
    """Dates prove nothing, here as at GitHub."""
    repository = forge.repository()
    parent = repository.get_git_commit(repository.get_branch("main").commit.sha)
    author = InputGitAuthor("Mallory", "mallory@example.invalid", "2001-02-03T04:05:06Z")
    commit = repository.create_git_commit("old", parent.tree, [parent], author=author)
    assert disk.commit(commit.sha).authored_date == 981_173_106
    assert commit.author.name == "Mallory"


@pytest.mark.parametrize(
    "path", ["../escape", "/absolute", "a//b", ".git/config", "a/.GIT/hooks/x", "a/./b", "", "line\nbreak"]
)
def test_a_path_that_leaves_the_tree_is_422(forge, path: str) -> None:
    """Whatever the path, nothing is written outside; the tests above are the accepting twins."""
    with pytest.raises(GithubException) as refused:
        forge.repository().create_git_tree([InputGitTreeElement(path, "100644", "blob", content="x")])
    assert refused.value.status == 422


@pytest.mark.parametrize("name", ["--upload-pack=x", "a..b", "a.lock", "a b", "a//b", "/a", "a/", "a\nb", "x" * 300])
def test_a_ref_that_is_none_is_422(forge, name: str) -> None:
    """No name reaches git that is not a full and well-formed ref."""
    repository = forge.repository()
    head = repository.get_branch("main").commit.sha
    with pytest.raises(GithubException) as refused:
        repository.create_git_ref(f"refs/heads/{name}", head)
    assert refused.value.status == 422
    assert repository.create_git_ref("refs/heads/fine-1.x/y_z", head).object.sha == head


def test_refs_move_forward_and_elsewhere_only_by_force(forge, disk: Repo) -> None:
    """A second creation, a rewind and an unknown object are 422; a fast forward and a forced move work."""
    repository = forge.repository()
    start = repository.get_branch("main").commit.sha
    ref = repository.create_git_ref("refs/heads/topic", start)
    with pytest.raises(GithubException) as twice:
        repository.create_git_ref("refs/heads/topic", start)
    assert (twice.value.status, twice.value.data["message"]) == (422, "Reference already exists")
    parent = repository.get_git_commit(start)
    child = repository.create_git_commit("next", parent.tree, [parent])
    ref.edit(child.sha)
    assert disk.commit("topic").hexsha == child.sha
    with pytest.raises(GithubException) as rewound:
        ref.edit(start)
    assert rewound.value.data["message"] == "Update is not a fast forward"
    with pytest.raises(GithubException):
        ref.edit("f" * 40, force=True)
    ref.edit(start, force=True)
    assert disk.commit("topic").hexsha == start


def test_an_absent_ref_branch_or_object_is_404(forge) -> None:
    """Unknown is told as such."""
    repository = forge.repository()
    with pytest.raises(UnknownObjectException):
        repository.get_git_ref("heads/nothing").object  # noqa: B018 # the attribute sends the request
    for look in (lambda: repository.get_branch("nothing"), lambda: repository.get_git_commit("f" * 40)):
        with pytest.raises(GithubException) as absent:
            look()
        assert absent.value.status == 404


def test_files_are_written_by_path_with_the_blob_that_they_replace(forge, disk: Repo) -> None:
    """PUT contents: 201, then 422 without the id, 409 with a wrong one, 200 with the right one."""
    repository = forge.repository()
    repository.create_git_ref("refs/heads/topic", repository.get_branch("main").commit.sha)
    made = repository.create_file("captures/x/a.json", "add", b"\x00\xffone", branch="topic")
    assert disk.commit("topic").hexsha == made["commit"].sha
    with pytest.raises(GithubException) as missing:
        repository.create_file("captures/x/a.json", "again", b"two", branch="topic")
    assert missing.value.status == 422
    with pytest.raises(GithubException) as wrong:
        repository.update_file("captures/x/a.json", "again", b"two", "f" * 40, branch="topic")
    assert wrong.value.status == 409
    before = repository.get_contents("captures/x/a.json", ref="topic")
    assert not isinstance(before, list)
    assert before.decoded_content == b"\x00\xffone"
    repository.update_file("captures/x/a.json", "again", b"two", before.sha, branch="topic")
    assert (disk.commit("topic").tree / "captures/x/a.json").data_stream.read() == b"two"
    folder = repository.get_contents("captures", ref="topic")
    assert isinstance(folder, list)
    assert [(entry.path, entry.type) for entry in folder] == [("captures/x", "dir")]
    with pytest.raises(UnknownObjectException):
        repository.get_contents("captures/x/a.json")
    with pytest.raises(GithubException) as nowhere:
        repository.create_file("b.json", "add", b"x", branch="nothing")
    assert nowhere.value.status == 404


def test_who_may_not_write_writes_no_object_and_no_ref(forge, disk: Repo) -> None:
    """403 at every write, and the repository is as it was."""
    repository = forge.repository("carol")
    before = {head.name: head.commit.hexsha for head in disk.heads}
    main = before["main"]
    writes = (
        lambda: repository.create_git_blob("x", "utf-8"),
        lambda: repository.create_git_tree([InputGitTreeElement("a", "100644", "blob", content="x")]),
        lambda: repository.create_git_ref("refs/heads/mine", main),
        lambda: repository.create_file("a", "m", b"x"),
        lambda: repository.create_pull("main", "main", title="t"),
    )
    for write in writes:
        with pytest.raises(GithubException) as refused:
            write()
        assert refused.value.status in {403, 422}
    assert {head.name: head.commit.hexsha for head in disk.heads} == before


def test_a_draft_is_opened_found_readied_and_closed(forge) -> None:
    """The life of a capture's pull request; ready and draft go through the client's own GraphQL."""
    pull = forge.draft()
    assert (pull.number, pull.draft, pull.state, pull.user.id) == (1, True, "open", 2001)
    assert (pull.head.ref, pull.base.ref, pull.changed_files, pull.commits) == ("capture/judge-1", "main", 1, 1)
    repository = forge.repository()
    (found,) = repository.get_pulls(state="all", head="acme:capture/judge-1")
    assert found.id == pull.id
    assert list(repository.get_pulls(state="open", head="acme:other")) == []
    assert pull.mark_ready_for_review()["pullRequest"] == {"isDraft": False}
    assert not repository.get_pull(1).draft
    assert pull.convert_to_draft()["pullRequest"] == {"isDraft": True}
    forge.now += 60
    pull.edit(state="closed")
    closed = repository.get_pull(1)
    assert (closed.state, closed.merged) == ("closed", False)
    assert closed.closed_at is not None
    assert [p.number for p in repository.get_pulls(state="open")] == []
    assert [p.number for p in repository.get_pulls(state="closed")] == [1]


def test_patch_knows_no_draft(forge) -> None:
    """The REST field is ignored, as at GitHub."""
    forge.draft()
    requester = forge.client("gitops-bot[bot]").requester
    _, data = requester.requestJsonAndCheck("PATCH", f"/repos/{REPOSITORY}/pulls/1", input={"draft": False})
    assert data["draft"] is True


def test_a_reader_takes_nothing_out_of_draft_and_closes_nothing(forge) -> None:
    """The refusing twin, in both languages."""
    forge.draft()
    pull = forge.repository("carol").get_pull(1)
    with pytest.raises(GithubException) as refused:
        pull.mark_ready_for_review()
    assert "FORBIDDEN" in str(refused.value.data)
    with pytest.raises(GithubException) as closing:
        pull.edit(state="closed")
    assert closing.value.status == 403
    assert forge.repository().get_pull(1).draft


def test_a_push_moves_the_head_and_a_merge_target_the_base(forge, disk: Repo) -> None:
    """Head and base are the branch tips at the time of the request."""
    pull = forge.draft()
    assert pull.head.sha == disk.commit("capture/judge-1").hexsha
    head = forge.sandbox.push(REPOSITORY, "capture/judge-1", {"more.txt": b"x"}, "alice")
    base = forge.sandbox.push(REPOSITORY, "main", {"other.txt": b"y"}, "alice")
    again = forge.repository().get_pull(1)
    assert (again.head.sha, again.base.sha) == (head, base)
    assert again.changed_files == 2
    again.edit(state="closed")
    forge.sandbox.push(REPOSITORY, "capture/judge-1", {"late.txt": b"z"}, "alice")
    assert forge.repository().get_pull(1).head.sha == head


def test_a_second_or_empty_pull_request_is_422(forge) -> None:
    """One open pull request a branch; none without commits; none from an unknown branch."""
    forge.draft()
    repository = forge.repository()
    repository.create_git_ref("refs/heads/empty", repository.get_branch("main").commit.sha)
    for head in ("capture/judge-1", "empty", "nothing", "other-owner:capture/judge-1"):
        with pytest.raises(GithubException) as refused:
            repository.create_pull("main", head, title="t", draft=True)
        assert refused.value.status == 422
    assert forge.draft("capture/judge-2").number == 2


def test_an_unknown_pull_request_is_404_and_so_is_a_plain_issue(forge) -> None:
    """Issue numbers are no pull requests."""
    number = forge.sandbox.issue(REPOSITORY, "carol", "A question")
    for wanted in (number, 99):
        with pytest.raises(UnknownObjectException):
            forge.repository().get_pull(wanted)


def test_objects_of_a_kept_folder_are_there_after_a_restart(forge, disk: Repo, tmp_path) -> None:
    """The bare repository outlives the process: a new forge over the same folder shows the same branches."""
    from gitops_bot.sandbox.http import Sandbox

    head = forge.sandbox.push(REPOSITORY, "topic", {"a": b"x"}, "alice")
    forge.sandbox.close()
    with Sandbox.start(tmp_path / "forge") as second:
        second.add_repository(REPOSITORY, 501)
        assert second.branches(REPOSITORY)["topic"] == head
