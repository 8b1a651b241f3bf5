"""`doctor` says whether anybody can come into the workspace, and which verbs nobody could answer."""

from gitops_bot.bootstrap.database import Finding
from gitops_bot.bootstrap.people_doctor import people_findings
from gitops_bot.bootstrap.trust import pin
from gitops_bot.core.principals import PrincipalName
from gitops_bot.store import passkeys
from gitops_bot.store.roles import Role
from tests.unit.cli.conftest import Host


def found(host: Host) -> dict[str, Finding]:
    return {one.name: one for one in people_findings(host.settings)}


def enrol(host: Host, name: str) -> None:
    with host.open(Role.WORKSPACE).write() as tx:
        passkeys.add(
            tx,
            passkey="AAAAAAAAAAAAAAAA",
            principal=PrincipalName(name),
            public_key=b"key",
            sign_count=0,
            label="laptop",
            transports=(),
            aaguid="00000000-0000-0000-0000-000000000000",
            backed_up=False,
            rests_until=0,
        )


def change(host: Host, old: str, new: str) -> None:
    policy = host.folder / "policies" / "policy.toml"
    assert old in policy.read_text()
    policy.write_text(policy.read_text().replace(old, new))
    host.settings.trust_file.unlink()
    pin(host.folder / "policies", host.settings.trust_file)


def test_nobody_enrolled_is_said_and_no_fault_while_the_forge_answers(host: Host) -> None:
    finding = found(host)["passkeys"]
    assert finding.ok and "nobody" in finding.detail and "person enrol" in finding.fix
    enrol(host, "alice")
    finding = found(host)["passkeys"]
    assert finding.ok and "1 of 2" in finding.detail and "alice" in finding.detail


def test_a_verb_that_only_the_workspace_answers_needs_somebody_there(host: Host) -> None:
    change(host, 'channels = ["forge", "workspace"]', 'channels = ["workspace"]')
    finding = found(host)["passkeys"]
    assert not finding.ok and "capture.approve" in finding.detail
    enrol(host, "bob")
    assert found(host)["passkeys"].ok


def test_a_verb_of_high_risk_is_named(host: Host) -> None:
    assert "risk" not in found(host)
    change(host, "approve = 1\n", 'approve = 1\nrisk = "high"\n')
    assert "capture.approve" in found(host)["risk"].detail
