"""Accounts, tokens, repositories and permissions through the real client."""

import pytest
from github import BadCredentialsException, GithubException, UnknownObjectException
from github.NamedUser import NamedUser


def test_a_token_is_its_account(forge) -> None:
    """GET /user: the numeric id and type, for a person and a bot."""
    alice, bot = forge.client("alice").get_user(), forge.client("gitops-bot[bot]").get_user()
    assert (alice.login, alice.id, alice.type) == ("alice", 1001, "User")
    assert (bot.login, bot.id, bot.type) == ("gitops-bot[bot]", 2001, "Bot")


def test_a_bad_or_expired_token_is_401(forge) -> None:
    """The refusing twins: an unknown token, and one that was good a moment ago."""
    with pytest.raises(BadCredentialsException) as refused:
        forge.client("alice", token="ghp_of_nobody").get_user().login  # noqa: B018 # the attribute sends the request
    assert refused.value.status == 401
    good = forge.client("alice")
    assert good.get_user().login == "alice"
    forge.sandbox.expire_token(forge.tokens["alice"])
    with pytest.raises(BadCredentialsException):
        good.get_repo("acme/judge")


def test_an_account_is_found_by_login_and_id_and_stays_itself_when_renamed(forge) -> None:
    """The id outlives the login; the old login then belongs to nobody, or to somebody else."""
    client = forge.client("gitops-bot[bot]")
    assert client.get_user("carol").id == 1003
    forge.sandbox.rename("carol", "carol-2")
    found = client.get_user_by_id(1003)
    assert isinstance(found, NamedUser)
    assert found.login == "carol-2"
    with pytest.raises(UnknownObjectException):
        client.get_user("carol")
    with pytest.raises(UnknownObjectException):
        client.get_user_by_id(77)


def test_a_repository_is_the_same_by_name_and_id(forge) -> None:
    """GET /repos/{o}/{r} and /repositories/{id}, with what the caller may do."""
    client = forge.client("alice")
    by_name, by_id = client.get_repo("acme/judge"), client.get_repo(501)
    assert (by_name.id, by_name.full_name, by_name.default_branch) == (501, "acme/judge", "main")
    assert by_id.full_name == "acme/judge"
    assert (by_name.permissions.push, by_name.permissions.admin) == (True, False)
    with pytest.raises(UnknownObjectException):
        client.get_repo("acme/nothing")


def test_a_private_repository_is_absent_to_strangers(forge) -> None:
    """404 and not 403, so that nobody learns of it; a member sees it."""
    forge.sandbox.add_repository("acme/vault", 502, private=True)
    forge.sandbox.grant("acme/vault", "alice", "read")
    assert forge.client("alice").get_repo("acme/vault").private
    with pytest.raises(UnknownObjectException):
        forge.client("carol").get_repo("acme/vault")


@pytest.mark.parametrize(
    ("role", "permission"),
    [("admin", "admin"), ("maintain", "write"), ("write", "write"), ("triage", "read"), ("read", "read")],
)
def test_the_permission_endpoint_tells_both_words(forge, role: str, permission: str) -> None:
    """Maintain reads as write, triage as read; role_name is exact."""
    forge.sandbox.grant("acme/judge", "carol", role)
    repository = forge.repository()
    assert repository.get_collaborator_permission("carol") == permission
    assert repository.get_collaborator_role_name("carol") == role


def test_permissions_are_told_to_who_may_push_only(forge) -> None:
    """403 to a reader, 404 for an unknown login, an answer with the numeric id else."""
    with pytest.raises(GithubException) as refused:
        forge.repository("carol").get_collaborator_permission("alice")
    assert refused.value.status == 403
    with pytest.raises(GithubException) as unknown:
        forge.repository("alice").get_collaborator_permission("nobody")
    assert unknown.value.status == 404
    requester = forge.client("alice").requester
    _, data = requester.requestJsonAndCheck("GET", "/repos/acme/judge/collaborators/bob/permission")
    assert (data["user"]["id"], data["role_name"], data["permission"]) == (1002, "triage", "read")


def test_without_a_grant_a_public_repository_reads_and_a_private_one_is_none(forge) -> None:
    """Nobody in particular never writes (I13)."""
    assert forge.repository().get_collaborator_permission("carol") == "read"
    forge.sandbox.add_repository("acme/vault", 502, private=True)
    forge.sandbox.grant("acme/vault", "alice", "write")
    assert forge.client("alice").get_repo("acme/vault").get_collaborator_permission("carol") == "none"
