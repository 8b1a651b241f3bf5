"""GraphQL: what REST does not tell of a comment (edits, minimising, e-mail), pull requests, the two draft mutations.

Queries and answers are validated against GitHub's schema (npm `@octokit/graphql-schema`). Answers are 200 with `errors`
where something is wrong, as GitHub's are. Who may not read a repository finds nothing in
it.
"""

from collections.abc import Callable

from gitops_bot.sandbox.graphql import Arguments, QueryError, Thing, execute, parse
from gitops_bot.sandbox.records import Account, Comment, Node, Repository, Role, Thread, read_node_id, timestamp
from gitops_bot.sandbox.records import node_id as global_id
from gitops_bot.sandbox.refusals import Rejected
from gitops_bot.sandbox.skin import Answer, Call, Route

CLASSIFIERS = ("spam", "abuse", "off_topic", "outdated", "duplicate", "resolved")


def answer(call: Call) -> Answer:
    """Run one query or mutation."""
    query, variables = call.body.get("query"), call.body.get("variables") or {}
    if not isinstance(query, str) or not isinstance(variables, dict):
        return Answer(200, {"errors": [{"message": "A query attribute must be specified and must be a string."}]})
    try:
        operation = parse(query)
        roots = _mutations(call) if operation.kind == "mutation" else _queries(call)
        return Answer(200, {"data": execute(operation, variables, roots)})
    except QueryError as error:
        told: dict[str, object] = {"message": error.message}
        if error.kind is None:
            return Answer(200, {"errors": [told]})
        first = operation.selections[0].key
        told |= {"type": error.kind, "path": [first], "locations": [{"line": 1, "column": 1}]}
        return Answer(200, {"data": {first: None}, "errors": [told]})


def _queries(call: Call) -> Thing:
    return Thing(
        "Query",
        {
            "viewer": _actor(call.account),
            "node": lambda given: _node(call, given),
            "repository": lambda given: _repository(call, given),
        },
    )


def _mutations(call: Call) -> Thing:
    return Thing(
        "Mutation",
        {
            "markPullRequestReadyForReview": _draft_mutation(call, "MarkPullRequestReadyForReview", draft=False),
            "convertPullRequestToDraft": _draft_mutation(call, "ConvertPullRequestToDraft", draft=True),
            "minimizeComment": lambda given: _minimise(call, given),
        },
    )


def _draft_mutation(call: Call, name: str, *, draft: bool) -> Callable[[Arguments], Thing]:
    def change(given: Arguments) -> Thing:
        wanted = given.get("input")
        if not isinstance(wanted, dict) or not isinstance(wanted.get("pullRequestId"), str):
            raise QueryError(f"Argument 'input' on Field has an invalid value. Expected type '{name}Input!'.")
        repository, thread = _thread_of(call, wanted["pullRequestId"], Node.PULL_REQUEST)
        try:
            changed = call.world.model.threads.set_draft(thread, call.account.id, draft, call.world.now())
        except Rejected:
            who = call.account.login
            raise QueryError(f"{who} does not have the correct permissions to execute `{name}`", "FORBIDDEN") from None
        fields = {"clientMutationId": wanted.get("clientMutationId"), "pullRequest": _pull(call, repository, changed)}
        return Thing(f"{name}Payload", fields)

    return change


def _minimise(call: Call, given: Arguments) -> Thing:
    wanted = given.get("input")
    subject = wanted.get("subjectId") if isinstance(wanted, dict) else None
    reason = str(wanted.get("classifier", "")).lower() if isinstance(wanted, dict) else ""
    if not isinstance(subject, str) or reason not in CLASSIFIERS:
        raise QueryError("Argument 'input' on Field has an invalid value. Expected type 'MinimizeCommentInput!'.")
    repository, found = _comment_of(call, subject)
    try:
        hidden = call.world.model.comments.minimise_comment(found, call.account.id, reason)
    except Rejected:
        words = f"{call.account.login} does not have the correct permissions to execute `MinimizeComment`"
        raise QueryError(words, "FORBIDDEN") from None
    return Thing("MinimizeCommentPayload", {"minimizedComment": _comment(call, repository, hidden)})


def _comment_of(call: Call, text: str) -> tuple[Repository, Comment]:
    read = read_node_id(text)
    if read is None or read[0] is not Node.COMMENT or len(read[1]) != 2:
        raise _unresolved(text)
    repository = _readable(call, read[1][0])
    if repository is None:
        raise _unresolved(text)
    try:
        return repository, call.world.model.comments.comment(repository, _number(read[1][1]))
    except Rejected:
        raise _unresolved(text) from None


def _unresolved(text: str) -> QueryError:
    return QueryError(f"Could not resolve to a node with the global id of '{text[:200]}'", "NOT_FOUND")


def _number(text: str) -> int:
    """Give a number of the id alphabet; -1, which names nothing, for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else -1


def _readable(call: Call, repository_id: str) -> Repository | None:
    found = call.world.model.directory.repositories.get(_number(repository_id))
    chosen = call.session.repositories
    if found is not None and found.private and chosen is not None and found.id not in chosen:
        return None
    if found is None or not call.world.model.directory.role(found, call.account.id).reaches(Role.READ):
        return None
    return found


def _thread_of(call: Call, text: str, kind: Node) -> tuple[Repository, Thread]:
    read = read_node_id(text)
    if read is None or read[0] is not kind or len(read[1]) != 2:
        raise _unresolved(text)
    repository = _readable(call, read[1][0])
    if repository is None:
        raise _unresolved(text)
    call.world.tips(repository)
    try:
        return repository, call.world.model.threads.thread(repository, _number(read[1][1]))
    except Rejected:
        raise _unresolved(text) from None


def _node(call: Call, given: Arguments) -> Thing:
    text = given.get("id")
    read = read_node_id(text) if isinstance(text, str) else None
    if not isinstance(text, str) or read is None:
        raise _unresolved(str(text))
    kind, parts = read
    if kind in {Node.PULL_REQUEST, Node.ISSUE}:
        return _thread(call, *_thread_of(call, text, kind))
    if kind is Node.USER and len(parts) == 1:
        account = call.world.model.directory.accounts.get(_number(parts[0]))
        if account is not None:
            return _actor(account)
    if kind is Node.COMMENT:
        return _comment(call, *_comment_of(call, text))
    raise _unresolved(text)


def _repository(call: Call, given: Arguments) -> Thing:
    name = f"{given.get('owner')}/{given.get('name')}"
    found = call.world.model.directory.repository_named(name)
    if found is None or _readable(call, str(found.id)) is None:
        raise QueryError(f"Could not resolve to a Repository with the name '{name[:200]}'.", "NOT_FOUND")
    repository = found

    def numbered(arguments: Arguments, *, only_pulls: bool) -> Thing:
        number = arguments.get("number")
        call.world.tips(repository)
        try:
            lookup = call.world.model.threads.pull if only_pulls else call.world.model.threads.thread
            return _thread(call, repository, lookup(repository, number if isinstance(number, int) else 0))
        except Rejected:
            kind = "a PullRequest" if only_pulls else "an issue or pull request"
            raise QueryError(f"Could not resolve to {kind} with the number of {number}.", "NOT_FOUND") from None

    return Thing(
        "Repository",
        {
            "id": global_id(Node.REPOSITORY, repository.id),
            "databaseId": repository.id,
            "nameWithOwner": call.world.model.directory.full_name(repository),
            "isPrivate": repository.private,
            "pullRequest": lambda arguments: numbered(arguments, only_pulls=True),
            "issueOrPullRequest": lambda arguments: numbered(arguments, only_pulls=False),
        },
    )


def _actor(account: Account) -> Thing:
    fields = {"id": global_id(Node.USER, account.id), "databaseId": account.id, "login": account.login}
    return Thing(account.type.value, fields, frozenset({"Actor", "Node"}))


def _thread(call: Call, repository: Repository, found: Thread) -> Thing:
    if found.pull is not None:
        return _pull(call, repository, found)
    return Thing("Issue", _shared(call, found, Node.ISSUE), frozenset({"Node"}))


def _shared(call: Call, found: Thread, kind: Node) -> dict[str, object]:
    directory = call.world.model.directory
    full_name = directory.full_name(directory.repositories[found.repository_id])
    return {
        "id": global_id(kind, found.repository_id, found.number),
        "databaseId": found.id,
        "number": found.number,
        "title": found.title,
        "body": found.body or "",
        "url": f"{call.world.url}/{full_name}/{'issues' if found.pull is None else 'pull'}/{found.number}",
        "closed": not found.open,
        "locked": found.locked,
        "state": "OPEN" if found.open else "CLOSED",
        "author": _actor(call.world.model.directory.accounts[found.author_id]),
        "updatedAt": timestamp(found.updated_at),
    }


def _pull(call: Call, repository: Repository, found: Thread) -> Thing:
    assert found.pull is not None
    pull = found.pull
    fields = _shared(call, found, Node.PULL_REQUEST) | {
        "databaseId": pull.id,
        "isDraft": pull.draft,
        "merged": pull.merged_at is not None,
        "state": "MERGED" if pull.merged_at is not None else "OPEN" if found.open else "CLOSED",
        "headRefName": pull.head_ref,
        "headRefOid": pull.head_sha,
        "baseRefName": pull.base_ref,
        "baseRefOid": pull.base_sha,
        "isCrossRepository": False,
        "repository": Thing("Repository", {"databaseId": repository.id}),
    }
    return Thing("PullRequest", fields, frozenset({"Node"}))


def _comment(call: Call, repository: Repository, found: Comment) -> Thing:
    accounts = call.world.model.directory.accounts
    call.world.tips(repository)
    thread = call.world.model.threads.thread(repository, found.number)
    last = found.edits[-1] if found.edits else None
    return Thing(
        "IssueComment",
        {
            "id": global_id(Node.COMMENT, found.repository_id, found.id),
            "databaseId": found.id,
            "fullDatabaseId": str(found.id),
            "body": found.body,
            "author": _actor(accounts[found.author_id]),
            "editor": _actor(accounts[last.editor_id]) if last else None,
            "createdAt": timestamp(found.created_at),
            "updatedAt": timestamp(found.updated_at),
            "lastEditedAt": timestamp(last.at) if last else None,
            "includesCreatedEdit": last is not None,
            "isMinimized": found.minimised,
            "minimizedReason": found.minimised_as,
            "url": f"{_page(call, repository, found.number)}#issuecomment-{found.id}",
            "userContentEdits": lambda given: _edits(call, found, given),
            "createdViaEmail": found.via_email,
            "repository": Thing("Repository", {"databaseId": repository.id}),
            "pullRequest": None if thread.pull is None else _pull(call, repository, thread),
        },
        frozenset({"Node", "Comment", "Minimizable"}),
    )


def _page(call: Call, repository: Repository, number: int) -> str:
    return f"{call.world.url}/{call.world.model.directory.full_name(repository)}/pull/{number}"


def _edits(call: Call, found: Comment, given: Arguments) -> Thing:
    """Show what a comment said before; as at GitHub newest first, the first text being an edit too."""
    accounts = call.world.model.directory.accounts
    texts = [*(edit.before for edit in found.edits), found.body]
    made = [(found.author_id, found.created_at), *((edit.editor_id, edit.at) for edit in found.edits)]
    first, last = given.get("first"), given.get("last")
    if not any(isinstance(size, int) and 0 < size <= 100 for size in (first, last)):
        raise QueryError("You must provide a `first` or `last` value to properly paginate the `userContentEdits`.")
    rows = [
        Thing(
            "UserContentEdit",
            {
                "id": global_id(Node.EDIT, found.id, place),
                "createdAt": timestamp(at),
                "editedAt": timestamp(at),
                "updatedAt": timestamp(at),
                "deletedAt": None,
                "diff": texts[place],
                "editor": _actor(accounts[editor]),
            },
        )
        for place, (editor, at) in enumerate(made)
    ][::-1]
    shown = rows[:first] if isinstance(first, int) else rows[-last:] if isinstance(last, int) else rows
    edited = rows if found.edits else []
    return Thing("UserContentEditConnection", {"totalCount": len(edited), "nodes": shown if found.edits else []})


ROUTES = (Route("POST", "/graphql", answer),)
