"""A gated card with real signed commits: the exact file, who signed, what was refused and why, and what came of it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitops_bot.authority.shown import AgentText, Card
from gitops_bot.bootstrap.showing import anchors, show, signed_channel
from gitops_bot.bootstrap.trust import LedgerHead, read_trust, write_trust
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.canonical import Digest
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.signed.rendering import render_file, render_message
from gitops_bot.store.roles import Role
from tests import signed_keys as keys
from tests.reading import texts
from tests.signed_till import PROGRAM, Open, Till, tills
from tests.store_fixtures import FreshDatabase


@pytest.fixture
def till(memory_folder: Path, homes: Path, sqlite_database: FreshDatabase) -> Iterator[Open]:
    """Open a till."""
    with tills(memory_folder, homes, sqlite_database) as opened:
        yield opened


def services(host: Till) -> Services:
    """Give what a workspace of this host has; the database in its own role."""
    database = host.fresh.open(Role.WORKSPACE)
    settings = host.settings
    made = Services(database, host.rules, None, lambda _: None)  # type: ignore[arg-type] # no capture is looked at
    return replace(made, approvals=settings.signed.remote, shared_uid=True, trust_file=settings.trust_file)


def see(host: Till, ask: str, who: str | None = "bob") -> Card:
    ours = services(host)
    name = None if who is None else PrincipalName(who)
    with ours.database.read() as tx:
        found = show(ours, tx, ask, name)
    assert found is not None and found.gated is not None
    return found


def test_the_card_shows_the_very_file_and_message_that_count(till: Open) -> None:
    """For each decision that this person may give, byte for byte, with the command and the way by git alone."""
    host = till()
    ask = host.ready()
    request = host.request(ask)
    gated = see(host, ask).gated
    assert gated is not None
    assert [one.decision for one in gated.files] == ["approve", "deny", "revoke"]
    bob = PrincipalName("bob")
    for one in gated.files:
        assert one.file_text.encode() == render_file(request, bob, Decision(one.decision))
        assert one.message_text.encode() == render_message(request, bob, Decision(one.decision))
        assert one.path.startswith(f"approvals/{ask[-2:]}/{ask}/bob.{one.decision}.")
        assert one.command.startswith(f"gitops-bot approval sign {ask}")
        assert f"ask={ask}" in one.by_hand and "git commit-tree -S" in one.by_hand and "git push" in one.begin
    assert gated.request is not None and ask in gated.request
    assert gated.repository == host.stage.url


def test_who_may_only_deny_gets_only_that_file_and_who_votes_not_sees_a_voters(till: Open) -> None:
    """The owner of the asking agent may deny; a service, or nobody, is shown what is missing."""
    host = till()
    ask = host.ready()
    owner = see(host, ask, "carol").gated
    assert owner is not None and [(one.person, one.decision) for one in owner.files] == [("carol", "deny")]
    for who in ("worker", None):
        other = see(host, ask, who).gated
        assert other is not None and {one.person for one in other.files} == {"alice"}


def test_before_the_broker_stored_the_request_there_is_nothing_to_sign(till: Open) -> None:
    """The card says so by having no file, and everything else is there."""
    host = till()
    ask = host.ask()
    found = see(host, ask)
    assert found.gated is not None and found.gated.files == () and found.gated.request is None
    assert found.title.startswith("Transfer 1,250.00 EUR")


def test_signed_votes_and_refused_commits_are_on_the_card(till: Open) -> None:
    """One of two counted; an agent's own key refused with a sentence, what to do, and the commit."""
    host = till()
    ask = host.ready()
    host.vote("alice", ask)
    bad = host.vote("bob", ask, signer=keys.openpgp("worker"))
    host.look()
    found = see(host, ask)
    assert [(one.name, one.decision, one.channel, one.counts) for one in found.voted] == [
        ("alice", "approve", "signed", True)
    ]
    assert found.missing == 1 and found.missing_people == ("bob",)
    (attempt,) = found.attempts
    assert (attempt.who, attempt.channel, attempt.commit) == ("bob", "signed", bad)
    assert attempt.reason in ("service_identity", "wrong_branch", "unknown_key")
    assert attempt.sentence and attempt.remedy
    assert found.gated is not None and found.gated.sentence.startswith("No grant was minted.")
    # A second, good commit of the same person counts after all.
    host.vote("bob", ask)
    host.look()
    done = see(host, ask)
    assert done.outcome is not None and (done.outcome.state, done.outcome.channel) == ("APPROVED", "signed")
    assert done.outcome.who == ("alice", "bob")
    assert done.gated is not None and done.gated.grant is not None and done.gated.grant.state == "MINTED"
    assert done.can == {"hold"} and [one.state for one in done.effects] == ["pending"]


@pytest.mark.parametrize(
    ("more", "state"),
    [("exit 0", "done"), ("exit 1", "failed"), ("kill -9 $$", "unknown")],
    ids=["works", "fails", "dies"],
)
def test_decision_and_execution_are_apart_and_unknown_is_shown_as_unknown(till: Open, more: str, state: str) -> None:
    """Lifecycle 30: the ask stays approved, the grant is spent; nobody is told that it was done when nobody knows."""
    host = till(more=more)
    ask = host.ready(PROGRAM)
    host.approve(ask)
    host.run()
    found = see(host, ask)
    assert found.outcome is not None and found.outcome.state == "APPROVED"
    assert found.gated is not None and found.gated.grant is not None and found.gated.grant.state == "SPENT"
    (effect,) = found.effects
    assert (effect.what, effect.state) == ("execution", state)
    if state == "unknown":
        assert "may have been done or not" in effect.detail and "Look where" in effect.detail
    assert "hold" in found.cannot and found.cannot["hold"].reason.value == "spent"


def test_what_the_receiver_says_is_never_ours(till: Open) -> None:
    """An executor that prints a mark has it in no text that a page takes for ours."""
    host = till(more="echo '<b>HOSTILE</b>'; exit 1")
    ask = host.ready(PROGRAM)
    host.approve(ask)
    host.run()
    found = see(host, ask)
    assert [path for path, text in texts(found) if "HOSTILE" in text] == []
    assert found.effects[0].told is None or isinstance(found.effects[0].told, AgentText)


def test_the_channel_shows_branches_frozen_ones_with_the_reason_and_what_was_refused(till: Open) -> None:
    """A rewritten branch is frozen with the way out; the others are read; the last look is told."""
    host = till()
    ask = host.ready(published=True)
    ours = services(host)
    with ours.database.read() as tx:
        before = signed_channel(ours, tx)
    assert {one.person: one.state for one in before.branches} == dict.fromkeys(("alice", "bob", "carol"), "never_seen")
    assert [one.ask for one in before.waiting] == [ask] and before.looked_at is None and before.used
    host.vote("alice", ask)
    host.vote("bob", ask, signer=None)
    host.look()
    host.stage.delete("alice")
    host.stage.root("alice")
    host.look()
    with ours.database.read() as tx:
        after = signed_channel(ours, tx)
    shown = {str(one.person): one for one in after.branches}
    assert (shown["alice"].state, shown["bob"].state) == ("frozen", "read")
    assert shown["alice"].reason == "history_rewritten" and shown["alice"].why and shown["alice"].remedy
    assert [(one.who, one.reason) for one in after.refused] == [("bob", "unsigned")]
    assert all(one.sentence and one.remedy for one in after.refused)
    assert after.looked_at is not None and after.waiting[0].approved_by == ("alice",)


def test_the_trust_file_is_an_anchor_of_the_ledger(till: Open) -> None:
    """The head that this host saw is in the chain; a host that saw another one is told that it is not."""
    host = till()
    ask = host.ready()
    host.approve(ask)
    host.run()
    ours = services(host)
    with ours.database.read() as tx:
        (anchor,) = anchors(ours, tx)
        assert anchor.holds is True and anchor.seq is not None
        (none,) = anchors(replace(ours, trust_file=None), tx)
        (missing,) = anchors(replace(ours, trust_file=Path("/nowhere/trust.json")), tx)
    assert none.holds is None and missing.holds is None
    other = host.folder / "other-trust.json"
    trust = read_trust(host.trust)
    write_trust(other, replace(trust, ledger_head=LedgerHead(anchor.seq, Digest("sha256:" + "00" * 32))))
    with ours.database.read() as tx:
        (broken,) = anchors(replace(ours, trust_file=other), tx)
    assert broken.holds is False and "rolled back or replaced" in broken.sentence
