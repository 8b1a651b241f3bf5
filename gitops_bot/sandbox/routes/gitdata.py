"""Git objects and refs by id: blobs, trees, commits, branches. Reading needs read, writing needs write access."""

import base64

from gitops_bot.sandbox import pull_shapes
from gitops_bot.sandbox.git import FULL_ID, Commit, Entry, Signature, branch_ref
from gitops_bot.sandbox.records import Node, Repository, Role, node_id, read_timestamp
from gitops_bot.sandbox.refusals import Rejected, invalid, not_found
from gitops_bot.sandbox.shapes import repository_url
from gitops_bot.sandbox.skin import Answer, Call, Json, Route, flag_field, object_list, optional_text, text_field


def decode_content(text: str, encoding: str) -> bytes:
    """Decode file content that came as `utf-8` or `base64` (line ends allowed).

    Raises:
        Rejected: 422, another encoding or no base64.
    """
    if encoding == "utf-8":
        return text.encode("utf-8")
    if encoding != "base64":
        raise invalid("Blob", "encoding", "invalid")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:  # binascii.Error is one; so is text beyond ASCII
        raise Rejected(422, "content is not valid Base64") from None


def create_blob(call: Call) -> Answer:
    """Store a file's bytes."""
    repository = call.repository(Role.WRITE)
    encoding = optional_text(call.body, "encoding", "Blob") or "utf-8"
    oid = call.world.git(repository).write_blob(decode_content(text_field(call.body, "content", "Blob"), encoding))
    url = f"{repository_url(call.world, repository)}/git/blobs/{oid}"
    return Answer(201, {"sha": oid, "url": url}, {"Location": url})


def show_blob(call: Call) -> Answer:
    """Show a file's bytes in base64."""
    repository = call.repository()
    found = call.world.git(repository).read(_oid(call))
    if found is None or found.type != "blob":
        raise not_found()
    return Answer(
        200,
        {
            "sha": found.id,
            "node_id": node_id(Node.BLOB, repository.id, found.id),
            "size": len(found.content),
            "url": f"{repository_url(call.world, repository)}/git/blobs/{found.id}",
            "content": base64.encodebytes(found.content).decode("ascii"),
            "encoding": "base64",
        },
    )


def _oid(call: Call) -> str:
    if not FULL_ID.fullmatch(call.path["sha"]):
        raise not_found()
    return call.path["sha"]


def _entry(call: Call, repository: Repository, item: Json) -> Entry:
    path, mode = text_field(item, "path", "Tree"), optional_text(item, "mode", "Tree") or "100644"
    content = optional_text(item, "content", "Tree")
    if content is not None:
        return Entry(path, mode, "blob", call.world.git(repository).write_blob(content.encode("utf-8")))
    if "sha" not in item:
        raise Rejected(422, "Must supply either tree.sha or tree.content")
    oid = optional_text(item, "sha", "Tree")
    if oid is not None:
        found = call.world.git(repository).read(oid) if FULL_ID.fullmatch(oid) else None
        if found is None or found.type != "blob":
            raise Rejected(422, f"tree.sha {oid[:40]} is not a valid blob")
    return Entry(path, mode, "blob", oid)


def create_tree(call: Call) -> Answer:
    """Store a tree: entries over `base_tree` (a tree or commit), a null id removing a path."""
    repository = call.repository(Role.WRITE)
    git = call.world.git(repository)
    base = optional_text(call.body, "base_tree", "Tree")
    if base is not None and (not FULL_ID.fullmatch(base) or git.list_tree(base) is None):
        raise Rejected(422, "base_tree is not a valid tree oid")
    entries = [_entry(call, repository, item) for item in object_list(call.body, "tree", "Tree")]
    oid = git.write_tree(base, entries)
    shape = pull_shapes.git_tree(call.world, repository, oid, git.list_tree(oid) or ())
    return Answer(201, shape, {"Location": str(shape["url"])})


def show_tree(call: Call) -> Answer:
    """Show a tree by its id, a commit's id or a branch name; with `recursive`, all of it."""
    repository = call.repository()
    git, name = call.world.git(repository), call.path["sha"]
    oid = name if FULL_ID.fullmatch(name) else git.branches().get(name)
    entries = None if oid is None else git.list_tree(oid, recursive="recursive" in call.query)
    if oid is None or entries is None:
        raise not_found()
    commit = git.read_commit(oid)
    shape = pull_shapes.git_tree(call.world, repository, commit.tree if commit else oid, entries)
    return Answer(200, shape)


def read_signature(body: Json, name: str, default: Signature) -> Signature:
    """Read an author or committer; the default where absent.

    Raises:
        Rejected: 422, it lacks name or e-mail, or its date is none.
    """
    given = body.get(name)
    if given is None:
        return default
    if not isinstance(given, dict):
        raise invalid("Commit", name, "invalid")
    date = optional_text(given, "date", "Commit")
    moment = default.at if date is None else read_timestamp(date)
    if moment is None:
        raise invalid("Commit", name, "invalid")
    return Signature(text_field(given, "name", "Commit"), text_field(given, "email", "Commit"), moment)


def create_commit(call: Call) -> Answer:
    """Store a commit; dates are whatever the caller says they are, as in git."""
    repository = call.repository(Role.WRITE)
    git = call.world.git(repository)
    tree, parents = text_field(call.body, "tree", "Commit"), call.body.get("parents", [])
    if not isinstance(parents, list) or not all(isinstance(parent, str) for parent in parents):
        raise invalid("Commit", "parents", "invalid")
    author = read_signature(call.body, "author", call.world.signature(call.account))
    committer = read_signature(call.body, "committer", author)
    oid = git.write_commit(tree, parents, text_field(call.body, "message", "Commit"), author, committer)
    shape = pull_shapes.git_commit(call.world, repository, _commit(call, repository, oid))
    return Answer(201, shape, {"Location": str(shape["url"])})


def _commit(call: Call, repository: Repository, oid: str) -> Commit:
    found = call.world.git(repository).read_commit(oid)
    if found is None:
        raise not_found()
    return found


def show_git_commit(call: Call) -> Answer:
    """Show a commit object."""
    repository = call.repository()
    return Answer(200, pull_shapes.git_commit(call.world, repository, _commit(call, repository, _oid(call))))


def show_commit(call: Call) -> Answer:
    """Show a commit by its id or a branch name."""
    repository = call.repository()
    name = call.path["sha"]
    oid = name if FULL_ID.fullmatch(name) else call.world.git(repository).branches().get(name, "")
    if not oid:
        raise Rejected(422, f"No commit found for SHA: {name[:100]}")
    return Answer(200, pull_shapes.commit(call.world, repository, _commit(call, repository, oid)))


def show_branch(call: Call) -> Answer:
    """Show a branch with the commit at its tip."""
    repository = call.repository()
    tip = call.world.git(repository).branches().get(call.path["branch"])
    if tip is None:
        raise Rejected(404, "Branch not found")
    commit = _commit(call, repository, tip)
    return Answer(200, pull_shapes.branch(call.world, repository, call.path["branch"], commit))


def _branch(call: Call) -> str:
    kind, _, branch = call.path["ref"].partition("/")
    if kind != "heads" or not branch:
        raise not_found()
    return branch


def show_ref(call: Call) -> Answer:
    """Show a branch as a ref."""
    repository = call.repository()
    tip = call.world.git(repository).branches().get(_branch(call))
    if tip is None:
        raise not_found()
    return Answer(200, pull_shapes.git_ref(call.world, repository, f"refs/{call.path['ref']}", tip))


def create_ref(call: Call) -> Answer:
    """Create a branch at a commit."""
    repository = call.repository(Role.WRITE)
    ref, oid = text_field(call.body, "ref", "Reference"), text_field(call.body, "sha", "Reference")
    if not ref.startswith("refs/heads/"):
        raise Rejected(422, "Reference name must start with 'refs/' and have at least two slashes.")
    branch = ref.removeprefix("refs/heads/")
    branch_ref(branch)
    git = call.world.git(repository)
    if not FULL_ID.fullmatch(oid) or git.read_commit(oid) is None:
        raise Rejected(422, "Object does not exist")
    if branch in git.branches():
        raise Rejected(422, "Reference already exists")
    if not git.move_branch(branch, oid, None):
        raise Rejected(422, "Reference cannot be created")
    call.world.tips(repository)
    shape = pull_shapes.git_ref(call.world, repository, ref, oid)
    return Answer(201, shape, {"Location": str(shape["url"])})


def move_ref(call: Call) -> Answer:
    """Move a branch forward, or anywhere with `force`."""
    repository = call.repository(Role.WRITE)
    branch, git = _branch(call), call.world.git(repository)
    oid, force = text_field(call.body, "sha", "Reference"), flag_field(call.body, "force", "Reference")
    old = git.branches().get(branch)
    if old is None:
        raise Rejected(422, "Reference does not exist")
    if not FULL_ID.fullmatch(oid) or git.read_commit(oid) is None:
        raise Rejected(422, "Object does not exist")
    if not force and not git.contains(old, oid):
        raise Rejected(422, "Update is not a fast forward")
    if not git.move_branch(branch, oid, old):
        raise Rejected(422, "Reference cannot be updated")
    call.world.tips(repository)
    return Answer(200, pull_shapes.git_ref(call.world, repository, f"refs/heads/{branch}", oid))


def delete_ref(call: Call) -> Answer:
    """Remove a branch; pull requests keep the head that they had."""
    repository = call.repository(Role.WRITE)
    branch, tips = _branch(call), call.world.tips(repository)
    if branch not in tips or not call.world.git(repository).delete_branch(branch, tips[branch]):
        raise Rejected(422, "Reference does not exist")
    return Answer(204, None)


ROUTES = (
    Route("POST", "/repos/{owner}/{repo}/git/blobs", create_blob),
    Route("GET", "/repos/{owner}/{repo}/git/blobs/{sha}", show_blob),
    Route("POST", "/repos/{owner}/{repo}/git/trees", create_tree),
    Route("GET", "/repos/{owner}/{repo}/git/trees/{sha}", show_tree),
    Route("POST", "/repos/{owner}/{repo}/git/commits", create_commit),
    Route("GET", "/repos/{owner}/{repo}/git/commits/{sha}", show_git_commit),
    Route("GET", "/repos/{owner}/{repo}/commits/{sha...}", show_commit),
    Route("GET", "/repos/{owner}/{repo}/branches/{branch...}", show_branch),
    Route("GET", "/repos/{owner}/{repo}/git/ref/{ref...}", show_ref),
    Route("GET", "/repos/{owner}/{repo}/git/refs/{ref...}", show_ref),
    Route("POST", "/repos/{owner}/{repo}/git/refs", create_ref),
    Route("PATCH", "/repos/{owner}/{repo}/git/refs/{ref...}", move_ref),
    Route("DELETE", "/repos/{owner}/{repo}/git/refs/{ref...}", delete_ref),
)
