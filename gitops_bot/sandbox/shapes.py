"""How the forge's objects look in REST answers (GitHub REST).

Validated, each answer in each test, against GitHub's OpenAPI description (npm `@octokit/openapi`, api.github.com).
Every function reads a `World` and gives a fresh JSON object; none changes anything or asks who may see it.
"""

from gitops_bot.sandbox.apps import Installation
from gitops_bot.sandbox.records import (
    REACTIONS,
    Account,
    App,
    Comment,
    Node,
    Reaction,
    Repository,
    Role,
    Thread,
    node_id,
    timestamp,
)
from gitops_bot.sandbox.world import World

Shape = dict[str, object]


def repository_url(world: World, repository: Repository) -> str:
    """Give the API address of a repository."""
    return f"{world.url}/repos/{world.model.directory.full_name(repository)}"


def user(world: World, account: Account) -> Shape:
    """Show an account (simple-user)."""
    here = f"{world.url}/users/{account.login}"
    return {
        "login": account.login,
        "id": account.id,
        "node_id": node_id(Node.USER, account.id),
        "avatar_url": f"{world.url}/u/{account.id}",
        "gravatar_id": "",
        "url": here,
        "html_url": f"{world.url}/{account.login}",
        "followers_url": f"{here}/followers",
        "following_url": f"{here}/following{{/other_user}}",
        "gists_url": f"{here}/gists{{/gist_id}}",
        "starred_url": f"{here}/starred{{/owner}}{{/repo}}",
        "subscriptions_url": f"{here}/subscriptions",
        "organizations_url": f"{here}/orgs",
        "repos_url": f"{here}/repos",
        "events_url": f"{here}/events{{/privacy}}",
        "received_events_url": f"{here}/received_events",
        "type": account.type.value,
        "site_admin": False,
    }


def public_user(world: World, account: Account) -> Shape:
    """Show an account in full (public-user)."""
    blank: Shape = dict.fromkeys(("name", "company", "location", "email", "hireable", "bio"))
    moment = timestamp(account.created_at)
    counts: Shape = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
    return {**user(world, account), **blank, "blog": "", **counts, "created_at": moment, "updated_at": moment}


def permissions(role: Role) -> Shape:
    """Show a role as the five older flags."""
    rungs = {"pull": Role.READ, "triage": Role.TRIAGE, "push": Role.WRITE}
    rungs |= {"maintain": Role.MAINTAIN, "admin": Role.ADMIN}
    return {name: role.reaches(rung) for name, rung in rungs.items()}


_TEMPLATES = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "contributors_url": "/contributors",
    "deployments_url": "/deployments",
    "downloads_url": "/downloads",
    "events_url": "/events",
    "forks_url": "/forks",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "hooks_url": "/hooks",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "languages_url": "/languages",
    "merges_url": "/merges",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "stargazers_url": "/stargazers",
    "statuses_url": "/statuses/{sha}",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "tags_url": "/tags",
    "teams_url": "/teams",
    "trees_url": "/git/trees{/sha}",
}


def repository(world: World, found: Repository, role: Role | None = None) -> Shape:
    """Show a repository; with a role, also what the asking account may do in it."""
    directory = world.model.directory
    name, here = directory.full_name(found), repository_url(world, found)
    page, moment = f"{world.url}/{name}", timestamp(found.created_at)
    count = sum(thread.open for thread in world.model.threads.pulls(found))
    shape: Shape = {
        "id": found.id,
        "node_id": node_id(Node.REPOSITORY, found.id),
        "name": found.name,
        "full_name": name,
        "owner": user(world, directory.accounts[found.owner_id]),
        "private": found.private,
        "visibility": "private" if found.private else "public",
        "description": None,
        "html_url": page,
        "homepage": None,
        "language": None,
        "license": None,
        "mirror_url": None,
        "url": here,
        "clone_url": f"{page}.git",
        "git_url": f"{page}.git",
        "ssh_url": f"{page}.git",
        "svn_url": page,
        "default_branch": found.default_branch,
        "created_at": moment,
        "updated_at": moment,
        "pushed_at": moment,
        "topics": [],
        **dict.fromkeys(("forks", "forks_count", "stargazers_count", "watchers", "watchers_count", "size"), 0),
        **dict.fromkeys(("open_issues", "open_issues_count"), count),
        **dict.fromkeys(("archived", "disabled", "fork", "has_downloads", "has_pages", "has_discussions"), False),
        **dict.fromkeys(("has_issues", "has_projects", "has_wiki", "is_template"), False),
        **{key: f"{here}{rest}" for key, rest in _TEMPLATES.items()},
    }
    if role is not None:
        shape |= {"permissions": permissions(role), "network_count": 0, "subscribers_count": 0}
    return shape


def association(world: World, found: Repository, account_id: int) -> str:
    """Tell the `author_association`; as at GitHub it is no ground for a decision."""
    if account_id == found.owner_id:
        return "OWNER"
    return "COLLABORATOR" if (found.id, account_id) in world.model.directory.grants else "NONE"


def app(world: World, found: App) -> Shape:
    """Show an app (integration)."""
    owner = next(iter(world.model.directory.accounts.values()))
    moment = timestamp(owner.created_at)
    return {
        "id": found.id,
        "slug": found.slug,
        "node_id": node_id(Node.APP, found.id),
        "client_id": f"Iv1.{found.id:016x}",
        "owner": user(world, owner),
        "name": found.slug,
        "description": None,
        "external_url": f"{world.url}/apps/{found.slug}",
        "html_url": f"{world.url}/apps/{found.slug}",
        "created_at": moment,
        "updated_at": moment,
        "permissions": {"checks": "write", "contents": "write", "issues": "write", "pull_requests": "write"},
        "events": [],
    }


def installation(world: World, app: App, found: Installation, owner_id: int) -> Shape:
    """Show an installation of an app at an account (installation)."""
    account = world.model.directory.accounts[owner_id]
    moment = timestamp(account.created_at)
    suspended = None if found.suspended_at is None else timestamp(found.suspended_at)
    return {
        "id": found.id,
        "account": user(world, account),
        "repository_selection": "all" if found.repositories is None else "selected",
        "access_tokens_url": f"{world.url}/app/installations/{found.id}/access_tokens",
        "repositories_url": f"{world.url}/installation/repositories",
        "html_url": f"{world.url}/settings/installations/{found.id}",
        "app_id": app.id,
        "app_slug": app.slug,
        "target_id": owner_id,
        "target_type": account.type.value,
        "permissions": dict(found.permissions),
        "events": [],
        "created_at": moment,
        "updated_at": moment,
        "single_file_name": None,
        "suspended_by": user(world, account) if suspended else None,
        "suspended_at": suspended,
    }


def rollup(world: World, found: Comment) -> Shape:
    """Count the reactions to a comment."""
    given = [reaction.content for reaction in world.model.comments.reactions_to(found.id)]
    here = f"{repository_url(world, world.model.directory.repositories[found.repository_id])}/issues/comments"
    counts: Shape = {content: given.count(content) for content in REACTIONS}
    return {"url": f"{here}/{found.id}/reactions", "total_count": len(given), **counts}


def comment(world: World, found: Comment) -> Shape:
    """Show a comment (issue-comment). Edits and minimising are told by GraphQL only."""
    directory = world.model.directory
    there = directory.repositories[found.repository_id]
    here = repository_url(world, there)
    thread = world.model.threads.thread(there, found.number)
    kind = "pull" if thread.pull else "issues"
    page = f"{world.url}/{directory.full_name(there)}/{kind}/{found.number}"
    return {
        "url": f"{here}/issues/comments/{found.id}",
        "html_url": f"{page}#issuecomment-{found.id}",
        "issue_url": f"{here}/issues/{found.number}",
        "id": found.id,
        "node_id": node_id(Node.COMMENT, found.repository_id, found.id),
        "user": user(world, directory.accounts[found.author_id]),
        "created_at": timestamp(found.created_at),
        "updated_at": timestamp(found.updated_at),
        "author_association": association(world, there, found.author_id),
        "body": found.body,
        "reactions": rollup(world, found),
        "performed_via_github_app": app(world, found.app) if found.app else None,
    }


def reaction(world: World, found: Reaction) -> Shape:
    """Show a reaction."""
    return {
        "id": found.id,
        "node_id": node_id(Node.REACTION, found.id),
        "user": user(world, world.model.directory.accounts[found.account_id]),
        "content": found.content,
        "created_at": timestamp(found.created_at),
    }


def issue(world: World, found: Thread) -> Shape:
    """Show a thread as an issue; a pull request has `pull_request` and `draft` there."""
    directory = world.model.directory
    there = directory.repositories[found.repository_id]
    repo = repository_url(world, there)
    here, page = f"{repo}/issues/{found.number}", f"{world.url}/{directory.full_name(there)}"
    kind = Node.PULL_REQUEST if found.pull else Node.ISSUE
    shape: Shape = {
        "url": here,
        "repository_url": repo,
        "labels_url": f"{here}/labels{{/name}}",
        "comments_url": f"{here}/comments",
        "events_url": f"{here}/events",
        "html_url": f"{page}/{'pull' if found.pull else 'issues'}/{found.number}",
        "id": found.id,
        "node_id": node_id(kind, found.repository_id, found.number),
        "number": found.number,
        "title": found.title,
        "user": user(world, directory.accounts[found.author_id]),
        "labels": [],
        "state": "open" if found.open else "closed",
        "locked": found.locked,
        "assignee": None,
        "assignees": [],
        "milestone": None,
        "comments": len(world.model.comments.comments_of(there, found.number)),
        "created_at": timestamp(found.created_at),
        "updated_at": timestamp(found.updated_at),
        "closed_at": None if found.closed_at is None else timestamp(found.closed_at),
        "closed_by": None if found.closed_by is None else user(world, directory.accounts[found.closed_by]),
        "author_association": association(world, there, found.author_id),
        "active_lock_reason": found.lock_reason,
        "body": found.body,
        "performed_via_github_app": None,
        "state_reason": None,
        "timeline_url": f"{here}/timeline",
    }
    if found.pull is not None:
        mine = {"url": f"{repo}/pulls/{found.number}", "html_url": f"{page}/pull/{found.number}"}
        merged = None if found.pull.merged_at is None else timestamp(found.pull.merged_at)
        links = {**mine, "diff_url": f"{mine['html_url']}.diff", "patch_url": f"{mine['html_url']}.patch"}
        shape |= {"draft": found.pull.draft, "pull_request": {**links, "merged_at": merged}}
    return shape


def collaborator(world: World, account: Account, role: Role) -> Shape:
    """Show what an account may do (repository-collaborator-permission)."""
    who = {**user(world, account), "permissions": permissions(role), "role_name": role.value}
    return {"permission": role.permission, "role_name": role.value, "user": who}
