"""cases/lifecycle 13: the policy changes while an ask is open: old and new ask are one transaction, captures go on."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from gitops_bot.authority.rules import Rules
from gitops_bot.authority.settling import Settled
from gitops_bot.broker.captures import VERB
from gitops_bot.broker.successors import policy_moved
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.canonical import Digest
from gitops_bot.core.captures import CaptureState
from gitops_bot.store import asks, bundles, settings, threads
from gitops_bot.store.roles import Role
from tests.capture_stage import CaptureStage
from tests.decisions import reason_of
from tests.store_fixtures import FreshDatabase

NEXT = Digest("sha256:" + "ef" * 32)


@pytest.fixture
def stage(database: FreshDatabase, tmp_path: Path) -> Iterator[CaptureStage]:
    return CaptureStage(database.open(Role.BROKER), folder=tmp_path)


def adopt(stage: CaptureStage, *, without: str | None = None) -> Rules:
    """Give the rules of another bundle, which knows one verb less."""
    old = stage.rules.policy
    verbs = MappingProxyType({name: rule for name, rule in old.verbs.items() if name != without})
    return replace(stage.rules, policy=replace(old, digest=NEXT, version=old.version + 1, verbs=verbs))


def ask_of(stage: CaptureStage, capture: str) -> Ask:
    found = stage.read(lambda tx: asks.get(tx, capture))
    assert found is not None
    return found


def test_13_a_captures_ask_is_replaced_with_its_pull_request(stage: CaptureStage) -> None:
    """What people said on the old pull request binds the old ask; the new one carries the new ask."""
    capture = stage.requested()
    stage.settle()
    before = stage.capture(capture)
    assert before.ask is not None and before.pull_request == 1
    now = adopt(stage)
    stage.write(lambda tx: policy_moved(tx, now, stage.place, before.ask or ""))
    after = stage.capture(capture)
    old = ask_of(stage, before.ask)
    assert (old.state, old.end_reason, old.superseded_by) == (AskState.SUPERSEDED, "stale_policy", after.ask)
    assert after.ask is not None and ask_of(stage, after.ask).binding.policy == NEXT
    assert (after.state, after.moved_heads) == (CaptureState.REQUESTED, before.moved_heads)
    assert reason_of(stage.answer(old, "bob", "approve")) == "stale_policy"
    stage.settle()
    assert stage.capture(capture).pull_request == 2
    pulls = [stage.on_forge.pull_request("acme/ops", number) for number in (1, 2)]
    assert [pull.state for pull in pulls if pull is not None] == ["closed", "open"]
    stage.rules = now
    assert isinstance(stage.answer(ask_of(stage, after.ask), "bob", "approve"), Settled)


def test_13_a_verb_that_vanished_goes_to_the_backlog_and_its_capture_ends(stage: CaptureStage) -> None:
    capture = stage.requested()
    stage.settle()
    before = stage.capture(capture)
    assert before.ask is not None
    now = adopt(stage, without=VERB)
    stage.write(lambda tx: policy_moved(tx, now, stage.place, before.ask or ""))
    assert ask_of(stage, before.ask).state is AskState.WITHDRAWN
    assert stage.read(lambda tx: threads.is_in_backlog(tx, before.ask or ""))
    stage.settle()
    assert stage.capture(capture).state is CaptureState.CANCELLED


def test_13_from_the_pointer_on_an_old_ask_is_stale(stage: CaptureStage) -> None:
    """Before any process reads its rules anew; but a pointer that nobody could follow moves nothing."""
    capture = stage.requested()
    before = stage.capture(capture)
    assert before.ask is not None
    ask = ask_of(stage, before.ask)

    def moved(tx: object) -> None:
        bundles.keep(tx, bundles.Bundle(NEXT, 9, b""))  # type: ignore[arg-type] # the stage's own Tx
        bundles.put_in_force(tx, NEXT, None)  # type: ignore[arg-type] # the stage's own Tx

    stage.write(moved)
    assert reason_of(stage.answer(ask, "bob", "approve")) == "stale_policy"
    stage.write(lambda tx: settings.set_cursor(tx, "policy.not_followed", NEXT))
    assert isinstance(stage.answer(ask, "bob", "approve"), Settled)
