"""Threads as issues, their comments, and reactions to comments."""

from gitops_bot.sandbox import shapes
from gitops_bot.sandbox.records import Comment, read_timestamp
from gitops_bot.sandbox.refusals import Rejected
from gitops_bot.sandbox.skin import Answer, Call, Route, choice, optional_text, page_of, text_field


def show_issue(call: Call) -> Answer:
    """Show an issue or pull request as an issue."""
    repository = call.repository()
    found = call.world.model.threads.thread(repository, call.number("issue_number"))
    return Answer(200, shapes.issue(call.world, found))


def _since(call: Call, comments: tuple[Comment, ...]) -> list[Comment]:
    text = call.query.get("since")
    if text is None:
        return list(comments)
    since = read_timestamp(text)
    if since is None:
        raise Rejected(422, "Invalid value for parameter 'since'")
    return [comment for comment in comments if comment.updated_at >= since]


def list_repository_comments(call: Call) -> Answer:
    """List comments of all threads. Without `sort` by id; `direction` counts only with `sort` (then desc by default).
    `since` is inclusive."""
    repository = call.repository()
    comments = _since(call, call.world.model.comments.comments_of(repository))
    if "sort" in call.query:
        key = choice(call.query, "sort", ("created", "updated"))
        backwards = choice(call.query, "direction", ("desc", "asc")) == "desc"
        comments.sort(key=lambda c: (c.updated_at if key == "updated" else c.created_at, c.id), reverse=backwards)
    page, headers = page_of(call, repository, "/issues/comments", comments)
    return Answer(200, [shapes.comment(call.world, comment) for comment in page], headers)


def list_thread_comments(call: Call) -> Answer:
    """List the comments of one thread, oldest first; `since` is inclusive."""
    repository = call.repository()
    thread = call.world.model.threads.thread(repository, call.number("issue_number"))
    comments = _since(call, call.world.model.comments.comments_of(repository, thread.number))
    page, headers = page_of(call, repository, f"/issues/{thread.number}/comments", comments)
    return Answer(200, [shapes.comment(call.world, comment) for comment in page], headers)


def create_comment(call: Call) -> Answer:
    """Write a comment in the name of the token's account, through its app where it has one."""
    repository = call.repository()
    thread = call.world.model.threads.thread(repository, call.number("issue_number"))
    body = text_field(call.body, "body", "IssueComment")
    made = call.world.model.comments.add_comment(thread, call.account.id, body, call.world.now(), app=call.session.app)
    shape = shapes.comment(call.world, made)
    return Answer(201, shape, {"Location": str(shape["url"])})


def lock_thread(call: Call) -> Answer:
    """Lock a conversation, with a reason where one is given."""
    repository = call.repository()
    thread = call.world.model.threads.thread(repository, call.number("issue_number"))
    reason = optional_text(call.body, "lock_reason", "Issue")
    call.world.model.threads.set_locked(thread, call.account.id, True, reason)
    return Answer(204, None)


def unlock_thread(call: Call) -> Answer:
    """Unlock a conversation."""
    repository = call.repository()
    thread = call.world.model.threads.thread(repository, call.number("issue_number"))
    call.world.model.threads.set_locked(thread, call.account.id, False)
    return Answer(204, None)


def _comment(call: Call) -> Comment:
    return call.world.model.comments.comment(call.repository(), call.number("comment_id"))


def show_comment(call: Call) -> Answer:
    """Show a comment."""
    return Answer(200, shapes.comment(call.world, _comment(call)))


def edit_comment(call: Call) -> Answer:
    """Replace a comment's text."""
    comment, body = _comment(call), text_field(call.body, "body", "IssueComment")
    edited = call.world.model.comments.edit_comment(comment, call.account.id, body, call.world.now())
    return Answer(200, shapes.comment(call.world, edited))


def delete_comment(call: Call) -> Answer:
    """Remove a comment."""
    call.world.model.comments.delete_comment(_comment(call), call.account.id)
    return Answer(204, None)


def create_reaction(call: Call) -> Answer:
    """Leave a reaction: 201 when it is new, 200 when it was there."""
    comment, content = _comment(call), text_field(call.body, "content", "Reaction")
    found, new = call.world.model.comments.react(comment, call.account.id, content, call.world.now())
    return Answer(201 if new else 200, shapes.reaction(call.world, found))


def list_reactions(call: Call) -> Answer:
    """List the reactions to a comment, of one content where asked."""
    comment, repository = _comment(call), call.repository()
    wanted = call.query.get("content")
    every = call.world.model.comments.reactions_to(comment.id)
    found = [reaction for reaction in every if wanted in {None, reaction.content}]
    page, headers = page_of(call, repository, f"/issues/comments/{comment.id}/reactions", found)
    return Answer(200, [shapes.reaction(call.world, reaction) for reaction in page], headers)


ROUTES = (
    Route("GET", "/repos/{owner}/{repo}/issues/comments", list_repository_comments),
    Route("GET", "/repos/{owner}/{repo}/issues/comments/{comment_id}", show_comment),
    Route("PATCH", "/repos/{owner}/{repo}/issues/comments/{comment_id}", edit_comment),
    Route("DELETE", "/repos/{owner}/{repo}/issues/comments/{comment_id}", delete_comment),
    Route("POST", "/repos/{owner}/{repo}/issues/comments/{comment_id}/reactions", create_reaction, creates=True),
    Route("GET", "/repos/{owner}/{repo}/issues/comments/{comment_id}/reactions", list_reactions),
    Route("GET", "/repos/{owner}/{repo}/issues/{issue_number}", show_issue),
    Route("GET", "/repos/{owner}/{repo}/issues/{issue_number}/comments", list_thread_comments),
    Route("POST", "/repos/{owner}/{repo}/issues/{issue_number}/comments", create_comment, creates=True),
    Route("PUT", "/repos/{owner}/{repo}/issues/{issue_number}/lock", lock_thread),
    Route("DELETE", "/repos/{owner}/{repo}/issues/{issue_number}/lock", unlock_thread),
)
