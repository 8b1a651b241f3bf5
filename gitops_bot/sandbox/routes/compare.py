"""How two commits stand to each other."""

from gitops_bot.sandbox import pull_shapes, shapes
from gitops_bot.sandbox.git import FULL_ID, Commit
from gitops_bot.sandbox.records import Repository
from gitops_bot.sandbox.refusals import not_found
from gitops_bot.sandbox.skin import Answer, Call, Route, page_of


def _commit(call: Call, repository: Repository, name: str) -> Commit:
    git = call.world.git(repository)
    oid = name if FULL_ID.fullmatch(name) else git.branches().get(name)
    found = None if oid is None else git.read_commit(oid)
    if found is None:
        raise not_found()
    return found


def compare(call: Call) -> Answer:
    """Compare `base...head`, full ids or branches: ahead, behind, identical or diverged. Changed files are not told."""
    repository = call.repository()
    names = call.path["basehead"].split("...")
    if len(names) != 2:
        raise not_found()
    base, head = (_commit(call, repository, name) for name in names)
    git = call.world.git(repository)
    fork = git.merge_base(base.id, head.id)
    if fork is None:
        raise not_found()
    missing = git.list_between(base.id, head.id)
    ahead, behind = len(missing), git.count_between(head.id, base.id)
    status = "diverged" if ahead and behind else "ahead" if ahead else "behind" if behind else "identical"
    page, headers = page_of(call, repository, f"/compare/{call.path['basehead']}", missing)
    here = f"{shapes.repository_url(call.world, repository)}/compare/{call.path['basehead']}"
    there = f"{call.world.url}/{call.world.model.directory.full_name(repository)}/compare"
    merge_base = _commit(call, repository, fork)
    return Answer(
        200,
        {
            "url": here,
            "html_url": f"{there}/{call.path['basehead']}",
            "permalink_url": f"{there}/{base.id}...{head.id}",
            "diff_url": f"{there}/{call.path['basehead']}.diff",
            "patch_url": f"{there}/{call.path['basehead']}.patch",
            "base_commit": pull_shapes.commit(call.world, repository, base),
            "merge_base_commit": pull_shapes.commit(call.world, repository, merge_base),
            "status": status,
            "ahead_by": ahead,
            "behind_by": behind,
            "total_commits": ahead,
            "commits": [pull_shapes.commit(call.world, repository, _commit(call, repository, oid)) for oid in page],
            "files": [],
        },
        headers,
    )


ROUTES = (Route("GET", "/repos/{owner}/{repo}/compare/{basehead...}", compare),)
