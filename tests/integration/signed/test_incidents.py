"""The drills of docs/incidents.md, each with exactly the commands of its section: they end in a channel that works."""

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.authority import enrolling
from gitops_bot.authority.challenges import Challenge
from gitops_bot.authority.sessions import authenticate
from gitops_bot.authority.signing_in import SignedIn, begin_sign_in, finish_sign_in
from gitops_bot.bootstrap.gate import closed
from gitops_bot.bootstrap.rules import rules_of
from gitops_bot.bootstrap.workspace import site_of
from gitops_bot.core.errors import Refused
from gitops_bot.demo.passkey import SoftwarePasskey
from gitops_bot.store import asks, schema
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from tests import signed_keys as keys
from tests.signed_bundle import ssh_keys
from tests.signed_pin import PinHost

PAGE = Path(__file__).parents[3] / "docs" / "incidents.md"


def commands(section: str) -> list[list[str]]:
    """Give the commands of a section of the page, in order."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    lines = "\n".join(re.findall(r"```console\n(.*?)```", text, re.DOTALL)).splitlines()
    return [shlex.split(line)[1:] for line in lines if line]


class Drill:
    """A section's commands, run one after the other; what happens between them is the test's."""

    def __init__(self, host: PinHost, section: str) -> None:
        self.host = host
        self.left: Iterator[list[str]] = iter(commands(section))

    def run(self, *begin: str) -> str:
        """Run the next command, which begins so; a question is answered with yes."""
        words = next(self.left)
        assert tuple(words[: len(begin)]) == begin
        if words[:2] == ["policy", "check"]:
            told = self.host.bot_plain("policy", "check", str(self.host.folder / "policies"))
        elif words[:2] == ["db", "upgrade"]:
            upgrade(self.host)
            return ""
        else:
            told = self.host.bot(*words, *(["--yes"] if words[:2] == ["trust", "repin"] else []))
        assert told[0] == 0, told[2]
        return told[1]

    def proposed(self) -> str:
        """Run `policy propose` and give its ask."""
        return self.run("policy", "propose").split("asked: ")[1].split()[0]

    def over(self) -> None:
        """Nothing of the section is left."""
        assert next(self.left, None) is None


def upgrade(host: PinHost) -> None:
    owner = Database.open(host.fresh.owner_url, Role.OWNER, **host.fresh.options)
    schema.upgrade(owner.engine)
    owner.close()


def works(host: PinHost, *people: str) -> None:
    """People approve a transfer under what is in force, and the channel is open."""
    host.restart()
    with host.database.read() as tx:
        assert closed(host.database, tx, host.settings.trust_file) is None
    ask = host.ask(amount_minor=77, owner="bob" if "carol" in people else "carol")
    host.announce()
    for person in people:
        host.vote(person, ask)
    host.look()
    assert host.state_of(ask)[0] == "APPROVED"


def has_keys(**held: str) -> Callable[[dict[str, Any]], None]:
    """Give people other security keys, and none beside."""

    def change(tables: dict[str, Any]) -> None:
        for person, key in held.items():
            tables["people"][person]["ssh"] = ssh_keys(key)
            tables["people"][person].pop("openpgp", None)

    return change


def test_one_lost_key(pin_host: PinHost) -> None:
    drill = Drill(pin_host, "One lost key")
    pin_host.put(has_keys(bob="outsider-sk"))
    drill.run("policy", "check")
    pin_host.adopt(drill.proposed(), "alice", "carol")
    drill.over()
    pin_host.stage.signers["bob"] = keys.ssh("outsider-sk", flags=5)
    works(pin_host, "alice", "bob")


def test_two_lost_keys(pin_host: PinHost) -> None:
    drill = Drill(pin_host, "Two lost keys")
    pin_host.put(has_keys(bob="outsider-sk", carol="alice-sk-ecdsa", alice="alice-sk"))
    drill.run("policy", "check")
    assert "epoch 2" in drill.run("trust", "repin")
    assert "2" in drill.run("trust", "show")
    drill.over()
    pin_host.stage.signers |= {
        "bob": keys.ssh("outsider-sk", flags=5), "carol": keys.ssh("alice-sk-ecdsa", flags=5),
    }  # fmt: skip
    works(pin_host, "alice", "bob")


def test_a_stolen_bot_key(pin_host: PinHost) -> None:
    drill = Drill(pin_host, "A stolen bot key")
    pin_host.put(lambda tables: tables["people"]["bot"].update(ssh=ssh_keys("bot", "outsider")))
    pin_host.adopt(drill.proposed())
    pin_host.restart()
    pin_host.private("bot.key", keys.ssh_path("outsider").read_bytes())
    assert pin_host.rules.policy.version == 2
    pin_host.put(lambda tables: tables["people"]["bot"].update(ssh=ssh_keys("outsider")), version=3)
    pin_host.adopt(drill.proposed())
    drill.over()
    works(pin_host, "alice", "bob")
    assert pin_host.rules.policy.version == 3
    with pin_host.database.read() as tx:
        asked = [ask for ask in asks.page(tx, "", 100) if ask.verb == "policy.adopt"]
    assert len(asked) == 2


def test_a_stolen_key_of_a_person(pin_host: PinHost) -> None:
    """The thief's deny and approve are both nothing; with another key the person is back, and the lift is refused."""
    ask = pin_host.ask()
    pin_host.announce()
    drill = Drill(pin_host, "A stolen key of a person")
    drill.run("person", "suspend", "alice", "--reason")
    pin_host.vote("alice", ask, "deny")
    pin_host.look()
    assert pin_host.state_of(ask)[0] == "OPEN"
    assert "suspended" in drill.run("approval", "list")
    pin_host.put(has_keys(alice="outsider-sk"))
    pin_host.adopt(drill.proposed(), "bob", "carol")
    pin_host.stage.signers["alice"] = keys.ssh("outsider-sk", flags=5)
    works(pin_host, "alice", "bob")
    pin_host.bot("person", "suspend", "alice")
    assert "alice is reinstated" in drill.run("person", "suspend", "alice", "--lift")
    drill.over()


def test_a_lost_or_stolen_passkey(pin_host: PinHost) -> None:
    """The thief is out at once, in every session; the person comes back in by another code."""
    site, thief, mine = site_of(pin_host.settings), SoftwarePasskey("http://x"), SoftwarePasskey("http://x")
    workspace = pin_host.fresh.open(Role.WORKSPACE)
    thief.origin = mine.origin = site.origin
    rules = rules_of(pin_host.settings, pin_host.database)

    def enrol(code: str, passkey: SoftwarePasskey) -> SignedIn:
        with workspace.write() as tx:
            begun = enrolling.begin_enrolment(tx, rules, site, code, "phone")
            assert isinstance(begun, Challenge)
            done = enrolling.finish_enrolment(tx, rules, site, begun.id, passkey.create(begun.options))
        assert isinstance(done, enrolling.Enrolled)
        assert done.signed_in is not None
        return done.signed_in

    stolen = enrol(pin_host.bot("person", "enrol", "alice")[1].split()[0], thief)
    drill = Drill(pin_host, "A lost or stolen passkey")
    drill.run("person", "passkeys", "alice", "--revoke", "all")
    drill.run("ledger", "verify")
    again = enrol(drill.run("person", "enrol", "alice").split()[0], mine)
    drill.over()
    with workspace.write() as tx:
        assert authenticate(tx, rules, site, stolen.secret) is None
        assert authenticate(tx, rules, site, again.secret) is not None
        begun = begin_sign_in(tx, site)
        assert isinstance(finish_sign_in(tx, rules, site, begun.id, thief.get(begun.options)), Refused)


@pytest.mark.parametrize("backup", [False, True])
def test_a_lost_database(pin_host: PinHost, backup: bool) -> None:
    assert pin_host.in_force is not None
    pin_host.restart()
    kept = pin_host.fresh.path.read_bytes()
    works(pin_host, "alice", "bob")
    pin_host.kinds()
    pin_host.keep()
    pin_host.restart()
    shutil.rmtree(pin_host.fresh.path.parent)
    pin_host.fresh.path.parent.mkdir(mode=0o700)
    if backup:
        pin_host.fresh.path.touch(mode=0o600)
        pin_host.fresh.path.write_bytes(kept)
    drill = Drill(pin_host, "A lost database")
    drill.run("db", "upgrade")
    pin_host.keep()
    assert pin_host.kinds("channel.closed") == ["channel.closed"]
    drill.run("trust", "repin")
    drill.over()
    works(pin_host, "alice", "bob")
    pin_host.keep()
    assert pin_host.kinds("channel.opened") == ["channel.opened"]


def test_a_lost_trust_file(pin_host: PinHost) -> None:
    works(pin_host, "alice", "bob")
    pin_host.restart()
    (pin_host.state / "trust.json").unlink()
    drill = Drill(pin_host, "A lost trust file")
    drill.run("trust", "repin")
    drill.run("trust", "show")
    drill.over()
    works(pin_host, "alice", "bob")
