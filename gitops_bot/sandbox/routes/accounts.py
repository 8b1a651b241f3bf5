"""Accounts, repositories, and what an account may do in a repository."""

from gitops_bot.sandbox import shapes
from gitops_bot.sandbox.records import Role
from gitops_bot.sandbox.refusals import Rejected, not_found
from gitops_bot.sandbox.skin import Answer, Call, Route


def show_self(call: Call) -> Answer:
    """Show the account that the token stands for; an installation's stands for none that could ask."""
    if call.session.installation is not None:
        raise Rejected(403, "Resource not accessible by integration")
    return Answer(200, shapes.public_user(call.world, call.account))


def show_user(call: Call) -> Answer:
    """Show an account by its present login."""
    found = call.world.model.directory.account_named(call.path["username"])
    if found is None:
        raise not_found()
    return Answer(200, shapes.public_user(call.world, found))


def show_user_by_id(call: Call) -> Answer:
    """Show an account by its id."""
    found = call.world.model.directory.accounts.get(call.number("account_id"))
    if found is None:
        raise not_found()
    return Answer(200, shapes.public_user(call.world, found))


def show_repository(call: Call) -> Answer:
    """Show a repository with what the asking account may do in it."""
    repository = call.repository()
    role = call.world.model.directory.role(repository, call.account.id)
    return Answer(200, shapes.repository(call.world, repository, role))


def show_permission(call: Call) -> Answer:
    """Show an account's role; only who may push is told (GitHub REST, collaborators)."""
    repository = call.repository()
    directory = call.world.model.directory
    if not directory.role(repository, call.account.id).reaches(Role.WRITE):
        raise Rejected(403, "Must have push access to view collaborator permission.")
    found = directory.account_named(call.path["username"])
    if found is None:
        raise Rejected(404, f"{call.path['username']} is not a user")
    return Answer(200, shapes.collaborator(call.world, found, directory.role(repository, found.id)))


ROUTES = (
    Route("GET", "/user", show_self),
    Route("GET", "/users/{username}", show_user),
    Route("GET", "/user/{account_id}", show_user_by_id),
    Route("GET", "/repos/{owner}/{repo}", show_repository),
    Route("GET", "/repos/{owner}/{repo}/collaborators/{username}/permission", show_permission),
)
