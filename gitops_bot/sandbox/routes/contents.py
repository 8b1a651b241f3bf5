"""Files by path: read at a ref, written in one commit each."""

from gitops_bot.sandbox import pull_shapes
from gitops_bot.sandbox.git import FULL_ID, Entry
from gitops_bot.sandbox.records import Repository, Role
from gitops_bot.sandbox.refusals import Rejected, not_found
from gitops_bot.sandbox.routes.gitdata import decode_content, read_signature
from gitops_bot.sandbox.skin import Answer, Call, Route, optional_text, text_field


def _tip(call: Call, repository: Repository, ref: str) -> str:
    tips = call.world.git(repository).branches()
    name = ref.removeprefix("refs/heads/")
    if name in tips:
        return tips[name]
    if FULL_ID.fullmatch(ref) and call.world.git(repository).read_commit(ref) is not None:
        return ref
    raise Rejected(404, f"No commit found for the ref {ref[:200]}")


def show_contents(call: Call) -> Answer:
    """Show a file with its bytes, or list a folder, at `ref` (a branch or full id; the default branch when absent)."""
    repository = call.repository()
    git, path = call.world.git(repository), call.path.get("path", "").strip("/")
    ref = call.query.get("ref", repository.default_branch)
    tip = _tip(call, repository, ref)
    found = git.read_path(tip, path) if path else git.read(tip)
    if found is None:
        raise not_found()
    if found.type == "blob":
        return Answer(200, pull_shapes.content(call.world, repository, path, ref, found, full=True))
    listed = []
    for entry in git.list_tree(found.id) or ():
        there = f"{path}/{entry.path}" if path else entry.path
        child = None if entry.id is None else git.read(entry.id)
        if child is not None:
            shape = pull_shapes.content(call.world, repository, there, ref, child, full=False)
            listed.append(shape if entry.type == "blob" else {**shape, "type": "dir", "size": 0})
    return Answer(200, listed)


def put_contents(call: Call) -> Answer:
    """Create a file, or replace the one whose blob id is given, in one commit on a branch.

    Answers 201 or 200; 409 when the id is not that of the file, 422 when one is missing, 404 without the branch.
    """
    repository = call.repository(Role.WRITE)
    git, path = call.world.git(repository), call.path["path"]
    branch = optional_text(call.body, "branch", "Content") or repository.default_branch
    content = decode_content(text_field(call.body, "content", "Content"), "base64")
    message = text_field(call.body, "message", "Content")
    old = git.branches().get(branch)
    if old is None:
        raise Rejected(404, f"Branch {branch[:200]} not found")
    there, given = git.read_path(old, path), optional_text(call.body, "sha", "Content")
    if there is not None and given is None:
        raise Rejected(422, 'Invalid request.\n\n"sha" wasn\'t supplied.')
    if given is not None and (there is None or there.id != given):
        raise Rejected(409, f"{path} does not match {given[:40]}")
    committer = read_signature(call.body, "committer", call.world.signature(call.account))
    author = read_signature(call.body, "author", committer)
    oid = git.write_blob(content)
    tree = git.write_tree(old, [Entry(path, "100644", "blob", oid)])
    head = git.write_commit(tree, [old], message, author, committer)
    if not git.move_branch(branch, head, old):
        raise Rejected(409, "Reference cannot be updated")
    call.world.tips(repository)
    blob, commit = git.read(oid), git.read_commit(head)
    assert blob is not None
    assert commit is not None
    shape = {
        "content": pull_shapes.content(call.world, repository, path, branch, blob, full=False),
        "commit": pull_shapes.git_commit(call.world, repository, commit),
    }
    return Answer(201 if there is None else 200, shape)


ROUTES = (
    Route("GET", "/repos/{owner}/{repo}/contents/", show_contents),
    Route("GET", "/repos/{owner}/{repo}/contents/{path...}", show_contents),
    Route("PUT", "/repos/{owner}/{repo}/contents/{path...}", put_contents),
)
