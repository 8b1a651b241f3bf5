"""Pull requests from branches of the same repository. Drafts change by GraphQL only: PATCH knows no `draft`."""

from gitops_bot.sandbox import pull_shapes
from gitops_bot.sandbox.records import Pull, Repository, Role, Thread
from gitops_bot.sandbox.refusals import Rejected, invalid
from gitops_bot.sandbox.skin import Answer, Call, Route, choice, flag_field, optional_text, page_of, text_field


def _split_head(call: Call, repository: Repository, head: str) -> str | None:
    """Give the branch of `owner:branch` or `branch`; None when it belongs to another owner."""
    owner, colon, branch = head.partition(":")
    if not colon:
        return head
    mine = call.world.model.directory.accounts[repository.owner_id].login
    return branch if owner.lower() == mine.lower() else None


def create_pull(call: Call) -> Answer:
    """Open a pull request, as a draft where asked."""
    repository = call.repository()
    world = call.world
    title = text_field(call.body, "title", "PullRequest")
    head = _split_head(call, repository, text_field(call.body, "head", "PullRequest"))
    base = text_field(call.body, "base", "PullRequest")
    tips = world.tips(repository)
    if head is None or head not in tips:
        raise invalid("PullRequest", "head", "invalid")
    if base not in tips:
        raise invalid("PullRequest", "base", "invalid")
    if world.git(repository).count_between(tips[base], tips[head]) == 0:
        message = f"No commits between {base} and {head}"
        error = {"resource": "PullRequest", "code": "custom", "message": message}
        raise Rejected(422, "Validation Failed", (error,))
    pull = Pull(0, head, base, tips[head], tips[base], flag_field(call.body, "draft", "PullRequest"))
    body = optional_text(call.body, "body", "PullRequest")
    made = world.model.threads.open_pull(repository, call.account.id, title, body, pull, world.now())
    shape = pull_shapes.full_pull(world, made)
    return Answer(201, shape, {"Location": str(shape["url"])})


def list_pulls(call: Call) -> Answer:
    """List pull requests: open ones unless `state` says otherwise, newest first unless sorted."""
    repository = call.repository()
    call.world.tips(repository)
    state = choice(call.query, "state", ("open", "closed", "all"))
    found = [t for t in call.world.model.threads.pulls(repository) if state in {"all", _state(t)}]
    head, base = call.query.get("head"), call.query.get("base")
    if head and ":" in head:  # GitHub ignores a head without its owner
        branch = _split_head(call, repository, head)
        found = [t for t in found if t.pull is not None and t.pull.head_ref == branch]
    if base:
        found = [t for t in found if t.pull is not None and t.pull.base_ref == base]
    key = choice(call.query, "sort", ("created", "updated", "popularity", "long-running"))
    directions = ("desc", "asc") if key == "created" else ("asc", "desc")
    backwards = choice(call.query, "direction", directions) == "desc"
    found.sort(key=lambda t: (t.updated_at if key == "updated" else t.created_at, t.number), reverse=backwards)
    page, headers = page_of(call, repository, "/pulls", found)
    return Answer(200, [pull_shapes.pull(call.world, thread) for thread in page], headers)


def _state(thread: Thread) -> str:
    return "open" if thread.open else "closed"


def _pull(call: Call) -> Thread:
    repository = call.repository()
    call.world.tips(repository)
    return call.world.model.threads.pull(repository, call.number("pull_number"))


def show_pull(call: Call) -> Answer:
    """Show a pull request, its head and base read from git now."""
    return Answer(200, pull_shapes.full_pull(call.world, _pull(call)))


def edit_pull(call: Call) -> Answer:
    """Change title, body or state. Reopening needs the head branch."""
    found, world = _pull(call), call.world
    assert found.pull is not None
    state = optional_text(call.body, "state", "PullRequest")
    if state == "open" and found.pull.head_ref not in world.tips(call.repository()):
        raise invalid("PullRequest", "state", "invalid", "state cannot be changed. The branch was deleted.")
    base = optional_text(call.body, "base", "PullRequest")
    if base not in {None, found.pull.base_ref}:
        call.repository(Role.WRITE)
        raise Rejected(422, "Changing the base is not supported here")
    edited = world.model.threads.edit_thread(
        found,
        call.account.id,
        world.now(),
        title=optional_text(call.body, "title", "PullRequest"),
        body=optional_text(call.body, "body", "PullRequest"),
        state=state,
    )
    world.tips(call.repository())
    fresh = world.model.threads.pull(call.repository(), edited.number)
    return Answer(200, pull_shapes.full_pull(world, fresh))


def merge_pull(call: Call) -> Answer:
    """Merge a pull request with a merge commit, if its head is the one given."""
    found, repository = _pull(call), call.repository()
    assert found.pull is not None
    expected = optional_text(call.body, "sha", "PullRequest")
    if expected not in {None, found.pull.head_sha}:
        raise Rejected(409, "Head branch was modified. Review and try the merge again.")
    if optional_text(call.body, "merge_method", "PullRequest") not in {None, "merge"}:
        raise Rejected(405, "Only merge commits are allowed on this repository.")
    merged = call.world.merge(repository, found, call.account)
    return Answer(200, {"sha": merged, "merged": True, "message": "Pull Request successfully merged"})


ROUTES = (
    Route("GET", "/repos/{owner}/{repo}/pulls", list_pulls),
    Route("POST", "/repos/{owner}/{repo}/pulls", create_pull, creates=True),
    Route("GET", "/repos/{owner}/{repo}/pulls/{pull_number}", show_pull),
    Route("PATCH", "/repos/{owner}/{repo}/pulls/{pull_number}", edit_pull),
    Route("PUT", "/repos/{owner}/{repo}/pulls/{pull_number}/merge", merge_pull),
)
