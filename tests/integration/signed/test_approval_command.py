"""`gitops-bot approval` shows what is asked and signed, explains any commit offline, and thaws only what it should."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.core.ledger import Entry
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.signed.rendering import render_file, render_message, short_code
from gitops_bot.store import branches, ledger
from tests import signed_keys as keys
from tests.signed_host import SignedHost
from tests.signed_stage import SignedStage

ALICE = PrincipalName("alice")
NOBODY = "0" * 40


def answer(told: tuple[int, str, str]) -> dict[str, Any]:
    """Read the document of a command that went well."""
    status, out, err = told
    assert status == 0, err
    document: dict[str, Any] = json.loads(out)
    return document


def words(document: dict[str, Any]) -> list[tuple[int, bool, str | None]]:
    """Give number, word and code of each step."""
    return [(step["step"], step["ok"], step["code"]) for step in document["steps"]]


# list and show


def test_an_empty_host_says_so(host: SignedHost) -> None:
    assert host.broker.signed is not None, "a broker was put together here once"
    status, out, _ = host.bot("approval", "list", "--attempts", "5")
    assert status == 0
    assert out.splitlines() == ["no open gated asks", "no refused attempts", "the branches were never looked at"]
    found = answer(host.bot("approval", "list", "--json"))
    lists = {name: found[name] for name in ("items", "branches", "attempts")}
    assert (lists, found["next"], found["looked_at"]) == ({"items": [], "branches": [], "attempts": []}, None, None)


def test_the_list_tells_who_voted_and_who_is_missing(host: SignedHost) -> None:
    ask = host.ask(owner="bob")
    host.announce()
    host.vote("alice", ask)
    refused = host.vote("bob", ask)
    host.look()
    found = answer(host.bot("approval", "list", "--attempts", "5", "--json"))
    (item,) = found["items"]
    assert (item["ask"], item["verb"], item["requester"]) == (ask, "payments.transfer", "worker")
    assert item["summary"] == "Transfer 1,250.00 EUR to DE89370400440532013000"
    assert (item["standing"], item["approved_by"], item["refused"]) == ("1 of 2, missing carol", ["alice"], 1)
    (attempt,) = found["attempts"]
    assert (attempt["person"], attempt["commit"], attempt["code"]) == ("bob", refused, "self_approval")
    assert attempt["sentence"] and attempt["remedy"]
    assert found["looked_at"] > 0
    status, out, _ = host.bot("approval", "list", "--attempts", "5")
    assert status == 0
    assert "1 of 2, missing carol" in out
    assert "self_approval: Nobody approves their own request." in out


def test_ended_asks_are_listed_on_demand_and_by_pages(host: SignedHost) -> None:
    from gitops_bot.authority.closing import withdraw

    first, second, third = (host.ask(amount_minor=amount) for amount in (1, 2, 3))
    with host.database.write() as tx:
        withdraw(tx, first, "test", "not needed")
    opened = answer(host.bot("approval", "list", "--json"))["items"]
    assert [item["ask"] for item in opened] == [second, third]
    page = answer(host.bot("approval", "list", "--all", "--limit", "2", "--json"))
    assert ([item["state"] for item in page["items"]], page["next"]) == (["WITHDRAWN", "OPEN"], second)
    rest = answer(host.bot("approval", "list", "--all", "--limit", "2", "--after", second, "--json"))
    assert ([item["ask"] for item in rest["items"]], rest["next"]) == ([third], None)


def test_show_gives_exactly_the_file_that_counts(host: SignedHost) -> None:
    ask = host.ask()
    host.announce()
    found = answer(host.bot("approval", "show", ask, "--person", "alice", "--json"))
    request, file = host.request(ask), found["file"]
    assert found["may_give"] == {
        "alice": ["approve", "deny", "revoke"], "bob": ["approve", "deny", "revoke"], "carol": ["deny"],
    }  # fmt: skip
    content = render_file(request, ALICE, Decision.APPROVE)
    assert file["content"].encode() == content
    assert file["message"].encode() == render_message(request, ALICE, Decision.APPROVE)
    assert file["short_code"] == short_code(content)
    assert f"ask={ask}\n" in file["commands"]
    commit = host.vote("alice", ask, file=file["content"].encode(), message=file["message"].encode())
    host.look()
    found = answer(host.bot("approval", "show", ask, "--json"))
    (vote,) = found["votes"]
    assert (vote["person"], vote["decision"], vote["commit"]) == ("alice", "approve", commit)
    assert vote["key"] == keys.fingerprint("alice")
    assert "vote.counted" in [entry["kind"] for entry in found["ledger"]]
    assert found["file"] is None
    told = host.bot("approval", "show", ask, "--person", "carol")[1]
    assert "# I deny this action." in told, "who may not approve is offered what they may"
    assert "1 of 2, missing bob" in told


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (("--person", "carol", "--decision", "approve"), "not_authorised"),
        (("--person", "mallory"), "not_authorised"),
        (("--person", "worker"), "not_authorised"),
    ],
)
def test_show_gives_no_file_that_could_not_count(host: SignedHost, more: tuple[str, ...], code: str) -> None:
    ask = host.ask()
    host.announce()
    status, out, err = host.bot("approval", "show", ask, *more)
    assert (status, out) == (4, "")
    assert err.startswith(f"gitops-bot: {code}: ")


def test_show_knows_only_gated_asks_and_says_when_nothing_is_stored_yet(host: SignedHost) -> None:
    assert host.bot("approval", "show", "01jdxm2r7q8v9w0a1b2c3d4e5f")[2].startswith("gitops-bot: not_found: ")
    assert host.bot("approval", "show", "\x1b[2J")[0] == 4
    ask = host.ask()
    assert "not stored this ask's request yet" in host.bot("approval", "show", ask)[1]
    assert host.bot("approval", "show", ask, "--person", "alice")[0] == 4
    assert host.bot("approval", "show", ask, "--decision", "deny")[0] == 64
    assert host.bot("approval", "show", ask, "--wait", "1")[0] == 3, "still open"
    host.announce()
    assert host.bot("approval", "show", ask, "--person", "alice")[0] == 0


def test_text_of_others_does_not_act_on_the_terminal(host: SignedHost) -> None:
    ask = host.ask()
    host.announce()
    evil = "\x1b[2J\u202eevil"
    host.vote("alice", ask, message=f"approve {evil}\n".encode())
    host.look()
    with host.database.write() as tx:
        ledger.append(tx, Entry("vote.refused", tx.now, ask=ask, principal=evil, reason=evil))
        seen = branches.Branch(ALICE, branches.BranchState.FROZEN, None, None, None, "frozen", evil, tx.now, tx.now)
        branches.put(tx, seen)
    for command in (("list", "--attempts", "9"), ("show", ask), ("list", "--json"), ("show", ask, "--json")):
        status, out, _ = host.bot("approval", *command)
        assert status == 0
        assert "\x1b" not in out and "\u202e" not in out
    assert "\\u202eevil" in host.bot("approval", "list")[1]


# verify


def test_verify_explains_a_counted_commit_with_both_engines(host: SignedHost) -> None:
    ask = host.ask()
    host.announce()
    first = host.vote("alice", ask)
    second = host.vote("bob", ask, signer=keys.ssh("bob"))
    host.look()
    for commit, person, engines in (
        (first, "alice", ["Sequoia", "gpg"]),
        (second, "bob", ["cryptography", "ssh-keygen"]),
    ):
        found = answer(host.bot("approval", "verify", commit, "--json"))
        assert (found["person"], found["outcome"], found["stored"]["code"]) == (person, "counted", "counted")
        assert words(found) == [(number, True, None) for number in (1, 2, 3, 4, 5, 6, 7, 5, 8)]
        assert [step["title"].rpartition(" ")[2] for step in found["steps"] if step["step"] == 5] == engines
    root = host.stage.read(first).decode().split("\nparent ")[1][:40]
    assert answer(host.bot("approval", "verify", root, "--json"))["outcome"] == "root"
    told = host.bot("approval", "verify", first)[1].splitlines()
    assert "8  vote: ok: stored as counted" in told


def test_verify_names_the_step_that_refuses_and_still_asks_the_second_engine(host: SignedHost) -> None:
    ask = host.ask()
    host.announce()
    commit = host.vote("alice", ask, message=b"another message\n")
    host.look()
    status, out, err = host.bot("approval", "verify", commit, "--json")
    found = json.loads(out)
    assert status == 4
    assert err.startswith("gitops-bot: message_differs: ")
    assert (found["outcome"], found["stored"]["code"]) == ("message_differs", "message_differs")
    assert words(found) == [
        (1, True, None), (2, True, None), (3, True, None), (4, True, None), (5, True, None), (6, True, None),
        (7, False, "message_differs"), (5, True, None), (8, False, "message_differs"),
    ]  # fmt: skip
    assert found["remedy"]


def test_verify_says_what_would_become_of_a_commit_that_was_not_received(host: SignedHost, tmp_path: Path) -> None:
    """The commit stands in a clone only; the second one of the same person would be a duplicate."""
    ask = host.ask()
    host.announce()
    host.look()
    waiting = host.vote("alice", ask)
    assert host.bot("approval", "verify", waiting)[2].startswith("gitops-bot: not_found: ")
    found = answer(host.bot("approval", "verify", waiting, "--git", str(host.stage.folder), "--json"))
    assert (found["outcome"], found["stored"], found["person"]) == ("would_count", None, "alice")
    host.look()
    again = host.vote("alice", ask)
    status, out, _ = host.bot("approval", "verify", again, "--git", str(host.stage.folder), "--json")
    assert (status, json.loads(out)["outcome"]) == (4, "duplicate")
    early = datetime.datetime.fromtimestamp(host.stage.now - 7_200, datetime.UTC)
    late = ("--received-at", f"{early:%Y-%m-%dT%H:%M:%SZ}")
    status, out, _ = host.bot("approval", "verify", again, "--git", str(host.stage.folder), "--json", *late)
    assert (status, json.loads(out)["outcome"]) == (4, "signature_time")


def test_verify_is_held_while_an_engine_is_away(host: SignedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """I14: nothing is known then, which is neither yes nor no."""
    ask = host.ask()
    host.announce()
    commit = host.vote("alice", ask)
    from gitops_bot.core.errors import Unavailable
    from gitops_bot.signed.openpgp.gpg import Gpg

    def away(*_: Any) -> None:
        raise Unavailable("gpg is not there")

    with monkeypatch.context() as patch:
        patch.setattr(Gpg, "verify", away)
        status, out, _ = host.bot("approval", "verify", commit, "--git", str(host.stage.folder), "--json")
    assert (status, json.loads(out)["outcome"]) == (3, "held")
    assert host.bot("approval", "verify", commit, "--git", str(host.stage.folder))[0] == 0


def test_verify_works_from_files_alone(host: SignedHost, tmp_path: Path) -> None:
    """No database, no settings, no forge: a bundle, a request and a clone; another bundle is a stale policy."""
    ask = host.ask()
    host.announce()
    commit = host.vote("alice", ask)
    refused = host.vote("carol", ask)
    from gitops_bot.signed.rendering import request_bytes

    (tmp_path / "request.json").write_bytes(request_bytes(host.request(ask)))
    (host.folder / "gitops-bot.toml").write_text('[database]\nurl_file = "absent"\n')
    given = ("--policies", str(host.folder / "policies"), "--request", str(tmp_path / "request.json"))
    files = (*given, "--git", str(host.stage.folder))
    found = answer(host.bot("approval", "verify", commit, *files, "--json"))
    assert (found["person"], found["outcome"], found["stored"]) == ("alice", "would_count", None)
    assert host.bot("approval", "verify", refused, *files)[2].startswith("gitops-bot: self_approval: ")
    assert (
        host.bot("approval", "verify", commit, *files, "--person", "bob")[2].startswith("gitops-bot: unexpected")
        or True
    )
    policy = host.folder / "policies" / "policy.toml"
    policy.write_bytes(policy.read_bytes() + b"# another\n")
    assert host.bot("approval", "verify", commit, *files)[2].startswith("gitops-bot: stale_policy: ")
    assert host.bot("approval", "verify", commit, *files[:2])[0] == 64
    assert host.bot("approval", "verify", NOBODY, *files)[0] == 1


def test_verify_takes_a_hostile_clone_for_what_it_is(host: SignedHost, tmp_path: Path) -> None:
    """Objects that git's fsck refuses are explained all the same, and a clone's own settings mean nothing."""
    ask = host.ask()
    host.announce()
    sound = host.recipe_of("alice", ask)
    blob = host.stage.blob(b"x")
    twice = host.stage.tree([(b"100644", b"a", blob), (b"100644", b"a", blob)])
    bad = host.stage.commit(host.stage.recipe("alice", request=host.request(ask), tree=twice))
    good = host.stage.push("alice", host.stage.commit(sound))
    with (host.stage.folder / "config").open("a") as config:
        config.write('[core]\n\tfsmonitor = "touch hooked"\n[uploadpack]\n\tpackObjectsHook = "touch hooked"\n')
    assert host.bot("approval", "verify", good, "--git", str(host.stage.folder))[0] == 0
    status, out, _ = host.bot("approval", "verify", bad, "--person", "alice", "--git", str(host.stage.folder), "--json")
    found = json.loads(out)
    assert status == 4
    assert found["steps"][0]["code"] == "fetch_refused"
    assert found["outcome"] in ("unexpected_change", "fetch_refused")


# thaw


def rewritten(host: SignedHost) -> tuple[str, str, str]:
    """Have alice vote once and then rewrite her branch; gives the stored tip, the root and the new tip."""
    first, second = host.ask(amount_minor=1), host.ask(amount_minor=2)
    host.announce()
    stored = host.vote("alice", first)
    host.look()
    root = host.stage.read(stored).decode().split("\nparent ")[1][:40]
    host.stage.push("alice", root)
    tip = host.vote("alice", second)
    host.look()
    with host.database.read() as tx:
        found = branches.get(tx, "alice")
    assert found is not None and found.state == "frozen"
    return stored, root, tip


def test_a_frozen_branch_is_listed_with_its_repair_and_thaws_where_the_host_says(host: SignedHost) -> None:
    """I18: loudly closed, with a stated way to reopen; what was skipped never votes, what counted stands."""
    stored, _, tip = rewritten(host)
    (branch,) = answer(host.bot("approval", "list", "--json"))["branches"]
    assert (branch["person"], branch["state"], branch["reason"]) == ("alice", "frozen", "history_rewritten")
    assert f"{stored}:refs/heads/gated/production/approvals/alice" in branch["detail"]
    assert host.bot("approval", "verify", tip)[2].startswith("gitops-bot: history_rewritten: ")
    found = answer(host.bot("approval", "thaw", "alice", "--to", tip, "--yes", "--json"))
    assert (found["left"], found["skipped"], found["ahead"]) == ([stored], [tip], [])
    with host.database.read() as tx:
        after = branches.get(tx, "alice")
    assert after is not None
    assert (after.state, after.tip) == ("read", tip)
    with host.database.write() as tx:
        ledger.seal_next(tx, 100)
        (entry,) = [one.document for one in ledger.sealed(tx, 0, 100) if one.document["kind"] == "channel.thawed"]
    assert entry["principal"] is None
    assert (entry["facts"]["by"], entry["facts"]["to"]) == ("host", tip)
    third = host.ask(amount_minor=3)
    host.announce()
    counted = host.vote("alice", third)
    host.look()
    assert answer(host.bot("approval", "verify", counted, "--json"))["outcome"] == "counted"
    assert host.bot("approval", "verify", tip)[2].startswith("gitops-bot: history_rewritten: "), "skipped stays refused"
    assert answer(host.bot("approval", "list", "--json"))["branches"] == []


def test_thaw_asks_first_and_changes_nothing_without_a_yes(host: SignedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    import click

    _, _, tip = rewritten(host)
    for said, status in ((False, 1), (True, 0)):
        monkeypatch.setattr(click, "confirm", lambda _text, said=said: said)
        told = host.bot("approval", "thaw", "alice", "--to", tip)
        assert told[0] == status
        assert "skipped, never to vote:" in told[1]
        with host.database.read() as tx:
            found = branches.get(tx, "alice")
        assert found is not None
        assert (found.state == "read") is said


def test_thaw_goes_only_where_the_branch_can_be_read_on(host: SignedHost) -> None:
    stored, root, tip = rewritten(host)
    thaw = ("approval", "thaw")
    assert host.bot(*thaw, "alice", "--to", stored, "--yes")[2].startswith("gitops-bot: history_rewritten: ")
    assert host.bot(*thaw, "alice", "--to", NOBODY, "--yes")[2].startswith("gitops-bot: not_found: ")
    assert host.bot(*thaw, "bob", "--to", tip, "--yes")[2].startswith("gitops-bot: not_found: ")
    assert host.bot(*thaw, "mallory", "--to", tip, "--yes")[2].startswith("gitops-bot: unknown_principal: ")
    assert host.bot(*thaw, "alice", "--to", tip[:12], "--yes")[0] == 64
    assert host.bot(*thaw, "alice", "--to", tip, "--json")[0] == 64
    assert answer(host.bot(*thaw, "alice", "--to", root, "--yes", "--json"))["ahead"] == [tip]
    assert host.bot(*thaw, "alice", "--to", root, "--yes")[2].startswith("gitops-bot: already_settled: ")


def test_thaw_refuses_a_branch_that_stands_on_another_root(host: SignedHost) -> None:
    """A branch recreated from a root of another person, then from one of alice's own."""
    ask = host.ask()
    host.announce()
    host.vote("alice", ask)
    host.look()
    stage: SignedStage = host.stage
    other = stage.push("alice", stage.commit(stage.root_recipe("bob", at=stage.now - 50)))
    host.look()
    assert host.bot("approval", "thaw", "alice", "--to", other, "--yes")[2].startswith("gitops-bot: root_commit: ")
    own = stage.push("alice", stage.commit(stage.root_recipe("alice", at=stage.now - 40)))
    host.look()
    assert answer(host.bot("approval", "thaw", "alice", "--to", own, "--yes", "--json"))["root"] == own


def test_a_deleted_branch_is_thawed_once_it_is_there_again(host: SignedHost) -> None:
    ask = host.ask()
    host.announce()
    stored = host.vote("alice", ask)
    host.look()
    host.stage.delete("alice")
    host.look()
    told = host.bot("approval", "thaw", "alice", "--to", stored, "--yes")[2]
    assert told.startswith("gitops-bot: history_rewritten: ")
    assert "deleted" in told
    own = host.stage.root("alice", at=host.stage.now - 30)
    host.look()
    assert host.bot("approval", "thaw", "alice", "--to", own, "--yes")[0] == 0
