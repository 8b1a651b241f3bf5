"""Commands on the broker's host: agents are added once with their token, trust is shown, the ledger proved."""

import json
import re
import stat

import pytest

from gitops_bot.bootstrap.trust import LedgerHead, read_trust, write_trust
from gitops_bot.core.canonical import Digest
from gitops_bot.core.ledger import Entry
from gitops_bot.store import agents, ledger
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind, TokenScope
from tests.unit.cli.conftest import Host

AS = ("--principal", "demo-agent")


def test_a_token_is_printed_once_and_works(host: Host) -> None:
    status, out, err = host.bot("agent", "add", "nightly", *AS, "--purpose", "asks at night")
    token = out.strip()
    assert status == 0
    assert re.fullmatch(r"gbt_[A-Za-z0-9_-]{43}", token)
    assert token not in err
    with host.open().read() as tx:
        bearer = agents.bearer(tx, token)
    assert bearer is not None
    assert (bearer.agent.slug, bearer.scope, bearer.agent.kind) == ("nightly", TokenScope.AGENT, AgentKind.APPLICATION)
    assert (bearer.agent.principal, bearer.agent.owner) == ("demo-agent", "alice")
    for command in (("agent", "show", "nightly"), ("agent", "list"), ("agent", "list", "--json")):
        status, out, err = host.bot(*command)
        assert status == 0
        assert token not in out + err


def test_a_loop_token_goes_into_a_private_file_that_is_new(host: Host) -> None:
    file = host.folder / "loop.token"
    status, out, _ = host.bot("agent", "add", "tuner", *AS, "--loop", "--owner", "bob", "--token-file", str(file))
    assert (status, out) == (0, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with host.open().read() as tx:
        bearer = agents.bearer(tx, file.read_text().strip())
    assert bearer is not None
    assert (bearer.scope, bearer.agent.owner) == (TokenScope.LOOP, "bob")
    before = file.read_text()
    status, _, err = host.bot("agent", "add", "another", *AS, "--token-file", str(file))
    assert status == 1
    assert "name a new file" in err
    assert file.read_text() == before
    assert host.bot("agent", "show", "another")[0] == 4, "no token is lost to a path that cannot be written"


@pytest.mark.parametrize(
    ("slug", "more", "code"),
    [
        ("nightly", ("--principal", "alice"), "unknown_principal"),
        ("nightly", ("--principal", "nobody"), "unknown_principal"),
        ("nightly", (*AS, "--owner", "demo-agent"), "unknown_principal"),
        ("nightly", (*AS, "--owner", "mallory"), "unknown_principal"),
        ("Nightly", AS, "bad_params"),
        ("../x", AS, "bad_params"),
        ("nightly", (*AS, "--purpose", "two\nlines"), "bad_params"),
        ("taken", AS, "already_settled"),
    ],
)
def test_an_agent_of_nobody_is_refused(host: Host, slug: str, more: tuple[str, ...], code: str) -> None:
    file = host.folder / "t"
    assert host.bot("agent", "add", "taken", *AS)[0] == 0
    status, out, err = host.bot("agent", "add", slug, *more, "--token-file", str(file))
    assert (status, out) == (4, "")
    assert err.startswith(f"gitops-bot: {code}: ")
    assert not file.exists()


def test_agents_are_listed_by_pages(host: Host) -> None:
    for slug in ("a", "b", "c"):
        host.bot("agent", "add", slug, *AS)
    first = json.loads(host.bot("agent", "list", "--json", "--limit", "2")[1])
    assert ([row["slug"] for row in first["items"]], first["next"]) == (["a", "b"], "b")
    rest = json.loads(host.bot("agent", "list", "--json", "--limit", "2", "--after", "b")[1])
    assert ([row["slug"] for row in rest["items"]], rest["next"]) == (["c"], None)
    assert host.bot("agent", "show", "absent")[0] == 4


def test_the_ledger_tells_that_an_agent_came(host: Host) -> None:
    host.bot("agent", "add", "nightly", *AS)
    with host.open(Role.BROKER).write() as tx:
        ledger.seal_next(tx, 10)
    _, out, _ = host.bot("ledger", "export")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["seq"] for line in lines] == [1, 2]
    assert [line["entry"]["kind"] for line in lines] == ["agent.added", "token.issued"]
    shown = json.loads(host.bot("ledger", "show", "--json", "--after", "1", "--limit", "1")[1])
    assert ([entry["kind"] for entry in shown["items"]], shown["next"]) == (["token.issued"], 2)
    assert "agent.added" in host.bot("ledger", "show")[1]


def test_i19_ledger_verify_holds_and_sees_a_rolled_back_database(host: Host) -> None:
    """I19, I18: the chain is recomputed, and the head that this host has seen must be in it."""
    host.bot("agent", "add", "nightly", *AS)
    with host.open(Role.BROKER).write() as tx:
        ledger.seal_next(tx, 10)
        head = ledger.head(tx)
    trust = read_trust(host.settings.trust_file)
    status, out, _ = host.bot("ledger", "verify", "--json")
    assert (status, json.loads(out)["ok"], json.loads(out)["sealed"]) == (0, True, 2)
    from dataclasses import replace

    write_trust(host.settings.trust_file, replace(trust, ledger_head=LedgerHead(head.seq, head.hash)))
    assert host.bot("ledger", "verify")[0] == 0
    for seen in (LedgerHead(head.seq, Digest("sha256:" + "0" * 64)), LedgerHead(head.seq + 1, head.hash)):
        write_trust(host.settings.trust_file, replace(trust, ledger_head=seen))
        status, out, err = host.bot("ledger", "verify")
        assert status == 1
        assert "rolled back or replaced" in err


def test_text_of_others_does_not_act_on_the_terminal(host: Host) -> None:
    """Every output escapes control and direction characters."""
    with host.open(Role.BROKER).write() as tx:
        ledger.append(tx, Entry("agent.added", tx.now, reason="\x1b[2J\u202eevil\n"))
        ledger.seal_next(tx, 10)
    _, out, _ = host.bot("ledger", "show")
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "\\x1b[2J" in out


def test_trust_is_shown_and_pinned(host: Host) -> None:
    status, out, _ = host.bot("trust", "show", "--json")
    shown = json.loads(out)
    assert (status, shown["epoch"], shown["policy"]["version"]) == (0, 1, 1)
    assert shown["policy"]["digest"] in host.bot("trust", "pin")[1], "pinning the pinned one again changes nothing"
    policy = host.folder / "policies" / "policy.toml"
    policy.write_text(policy.read_text() + "\n# changed\n")
    status, _, err = host.bot("trust", "pin")
    assert status == 1
    assert "fix:" in err
    host.settings.trust_file.unlink()
    assert host.bot("trust", "show")[0] == 1


def test_doctor_finds_nothing_wrong_with_a_good_host(host: Host) -> None:
    status, out, _ = host.bot("doctor", "--json")
    findings = {one["name"]: one for one in json.loads(out)["findings"]}
    assert (status, json.loads(out)["ok"]) == (0, True), out
    assert {"python", "git", "gpg", "state folder", "sqlite", "policy", "forge", "isolation"} <= set(findings)
    lines = host.bot("doctor")[1].splitlines()
    assert len(lines) == len(json.loads(out)["findings"])
    assert all(line.startswith("ok  ") for line in lines)


def test_doctor_names_what_is_broken_with_its_fix(host: Host) -> None:
    host.settings.trust_file.unlink()
    (host.folder / ".gitops-bot").chmod(0o755)
    (host.folder / "token").touch(mode=0o644)
    settings = (host.folder / "gitops-bot.toml").read_text()
    more = '[forge]\nrepositories = ["a/b"]\napi_url = "http://127.0.0.1:9"\ntoken_file = "token"\n'
    (host.folder / "gitops-bot.toml").write_text(f'{settings}{more}[capture]\nprogram = ["measure"]\n')
    status, out, _ = host.bot("doctor", "--json")
    broken = {one["name"]: one["fix"] for one in json.loads(out)["findings"] if not one["ok"]}
    assert status == 1
    assert set(broken) == {"state folder", "forge token", "policy", "forge", "captures"}
    assert all(broken.values())
    assert "trust pin" in broken["policy"]
