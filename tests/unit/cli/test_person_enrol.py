"""`gitops-bot person enrol` prints a code for one use within ten minutes, for people of the policy alone."""

import json

import pytest
from sqlalchemy import text

from gitops_bot.authority import enrolling
from gitops_bot.authority.challenges import Challenge
from gitops_bot.authority.enrolling import Enrolled
from gitops_bot.authority.sessions import authenticate
from gitops_bot.bootstrap.rules import rules_of
from gitops_bot.bootstrap.workspace import site_of
from gitops_bot.core.errors import Refused
from gitops_bot.demo.passkey import SoftwarePasskey
from gitops_bot.store import suspensions
from gitops_bot.store.roles import Role
from tests.unit.cli.conftest import Host


def test_the_printed_code_lets_its_person_in_once(host: Host) -> None:
    status, out, err = host.bot("person", "enrol", "alice")
    assert (status, err) == (0, "")
    code, address = out.split()[0], out.splitlines()[1].split()[1]
    site = site_of(host.settings)
    assert address == f"{site.origin}/enrol"
    database = host.open(Role.WORKSPACE)
    rules = rules_of(host.settings, host.open())
    with database.write() as tx:
        begun = enrolling.begin_enrolment(tx, rules, site, code, "laptop")
    assert isinstance(begun, Challenge)
    with database.write() as tx:
        made = SoftwarePasskey(site.origin).create(begun.options)
        enrolled = enrolling.finish_enrolment(tx, rules, site, begun.id, made)
    assert isinstance(enrolled, Enrolled)
    assert enrolled.passkey.principal == "alice"
    assert enrolled.passkey.rests_until - enrolled.passkey.created_at == host.settings.workspace.passkey_rest
    with database.write() as tx:
        assert isinstance(enrolling.begin_enrolment(tx, rules, site, code, ""), Refused)
    assert "passkeys that they have already: 1" in host.bot("person", "enrol", "alice")[1]


def test_the_code_is_shown_once_and_kept_nowhere(host: Host) -> None:
    status, out, _ = host.bot("person", "enrol", "alice", "--json")
    document = json.loads(out)
    assert status == 0
    assert set(document) == {"person", "code", "url", "expires_at", "passkeys"}
    code = document["code"]
    assert code not in host.database.path.read_bytes().decode("latin-1")
    with host.open(Role.OWNER).read() as tx:
        (row,) = tx.execute(text("SELECT principal, expires_at - created_at AS lasts FROM enrolment_codes")).all()
    assert (row.principal, row.lasts) == ("alice", 600_000)


@pytest.mark.parametrize(
    ("name", "code"),
    [("mallory", "unknown_principal"), ("demo-agent", "service_identity"), ("", "unknown_principal")],
)
def test_nobody_else_gets_a_code(host: Host, name: str, code: str) -> None:
    status, out, err = host.bot("person", "enrol", name)
    assert (status, out) == (4, "")
    assert err.startswith(f"gitops-bot: {code}: ")
    with host.open(Role.OWNER).read() as tx:
        assert tx.execute(text("SELECT count(*) FROM enrolment_codes")).scalar_one() == 0


def test_a_suspended_person_gets_no_code_until_they_are_reinstated(host: Host) -> None:
    assert host.bot("person", "suspend", "alice")[0] == 0
    status, _, err = host.bot("person", "enrol", "alice")
    assert status == 4
    assert err.startswith("gitops-bot: suspended: ")
    with host.open().read() as tx:
        assert suspensions.suspended(tx)
    assert host.bot("person", "suspend", "alice", "--lift")[0] == 0
    assert host.bot("person", "enrol", "alice")[0] == 0


def test_passkeys_are_listed_and_ended_on_the_host(host: Host) -> None:
    site, rules, database = site_of(host.settings), rules_of(host.settings, host.open()), host.open(Role.WORKSPACE)
    secrets = []
    for _ in range(2):
        code = json.loads(host.bot("person", "enrol", "alice", "--json")[1])["code"]
        with database.write() as tx:
            begun = enrolling.begin_enrolment(tx, rules, site, code, "laptop")
            assert isinstance(begun, Challenge)
            made = SoftwarePasskey(site.origin).create(begun.options)
            enrolled = enrolling.finish_enrolment(tx, rules, site, begun.id, made)
        assert isinstance(enrolled, Enrolled)
        assert enrolled.signed_in is not None
        secrets.append(enrolled.signed_in.secret)
    first, second = json.loads(host.bot("person", "passkeys", "alice", "--json")[1])["items"]
    status, _, err = host.bot("person", "passkeys", "alice", "--revoke", first["id"], "--revoke", "bm90aGluZw")
    assert (status, err.split(":")[1].strip()) == (4, "not_found")

    def standing() -> list[bool]:
        with database.write() as tx:
            return [authenticate(tx, rules, site, secret) is not None for secret in secrets]

    assert host.bot("person", "passkeys", "alice", "--revoke", first["id"][:3])[0] == 4
    assert standing() == [True, True], "nothing is revoked where one is unknown"
    assert host.bot("person", "passkeys", "alice", "--revoke", first["id"][:12])[0] == 0
    assert standing() == [False, True]
    ended = json.loads(host.bot("person", "passkeys", "alice", "--revoke", "all", "--json")[1])
    assert ended["revoked"] == [second["id"]]
    assert {one["revoked_by"] for one in ended["items"]} == {"host"}
    assert standing() == [False, False]
    assert "no passkey was ever enrolled" in host.bot("person", "passkeys", "mallory")[1]
