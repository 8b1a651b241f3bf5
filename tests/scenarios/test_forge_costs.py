"""What the forge channel costs, counted at the local GitHub: requests by repository and round, not by pull request."""

from collections import Counter
from dataclasses import replace

import pytest

from gitops_bot.broker import captures as moves
from gitops_bot.broker import pacing, polling, pulls
from gitops_bot.broker.captures import Answered, Request
from gitops_bot.core.captures import CaptureState
from gitops_bot.store import agents, due
from gitops_bot.store.states import AgentKind
from tests.capture_stage import REGIME, REPOSITORY
from tests.forge_stage import APPROVE, REPOSITORY_ID, ForgeStage, populate

COMMENTS = "/repos/{owner}/{repo}/issues/comments"
PULLS = "/repos/{owner}/{repo}/pulls"
LISTINGS = {("GET", COMMENTS), ("GET", PULLS)}


def is_read(method: str, route: str) -> bool:
    """GraphQL goes by POST; here it carries one mutation only, to mark a pull request ready, which has no twin."""
    return method == "GET" or route == "/graphql"


def test_one_approval_from_the_comment_to_the_acknowledged_rescope(forge: ForgeStage) -> None:
    """At most 6 reads, the poll that finds it among them, and 6 writes; the record comes after and is not counted."""
    capture = forge.opened()
    forge.say(capture, "mallory", APPROVE)  # the repository's number is looked up once in the life of a process
    forge.look()
    forge.say(capture, "alice", APPROVE)
    forge.github.reset_counters()
    with forge.database.write() as tx:
        due.set_due(tx, polling.DUTY, REPOSITORY, tx.now)
    duties = forge.duties()
    for _ in range(200):
        for duty in duties:
            duty.step()
            if forge.link.taken():
                break
        if forge.link.taken():
            break
    assert forge.link.taken() == [f"loop-1:1 rescope:{capture.ask}"]
    made = forge.github.requests
    reads = sum(count for (method, route), count in made.items() if is_read(method, route))
    writes = sum(count for (method, route), count in made.items() if not is_read(method, route))
    assert reads <= 6, made
    assert writes <= 6, made


def test_the_whole_approval_with_its_record_stays_small(forge: ForgeStage) -> None:
    capture = forge.opened()
    forge.say(capture, "alice", APPROVE)
    forge.github.reset_counters()
    forge.look()
    assert forge.capture(capture).state is CaptureState.RESCOPED
    assert forge.github.requests.total() <= 20, forge.github.requests


@pytest.mark.slow
def test_two_hundred_open_requests_in_four_repositories_cost_four_free_requests_a_round(forge: ForgeStage) -> None:
    names = [REPOSITORY, *(f"acme/ops-{index}" for index in (1, 2, 3))]
    for index, name in enumerate(names[1:], 1):
        populate(forge.github, name, REPOSITORY_ID + index)
    forge.names = tuple(names)
    agent = forge.agent("fleet", AgentKind.APPLICATION)
    rules = replace(forge.rules)
    for index in range(200):
        run = forge.write(lambda tx: agents.add_run(tx, agent.id, "request"))
        regime = replace(REGIME, concurrency=index)
        place = replace(forge.place, repository=names[index % 4])
        answered = forge.write(
            lambda tx, run=run, regime=regime, place=place: moves.request(
                tx, rules, place, Request(agent, run, regime, ""), hit=None
            )
        )
        assert isinstance(answered, Answered), answered
    unpaced(forge)
    assert [len(forge.github.threads(name)) for name in names] == [50] * 4
    for _ in range(3):  # what the bot itself wrote is listed once, then everything is known
        forge.look()
    forge.github.reset_counters()
    for _ in range(5):
        with forge.database.write() as tx:
            for name in names:
                due.set_due(tx, polling.DUTY, name, tx.now)
        forge.settle()
    assert forge.github.answers == Counter({("GET", COMMENTS, 304): 20})
    forge.github.reset_counters()
    with forge.database.write() as tx:
        for name in names:
            due.set_due(tx, pulls.DUTY, name, tx.now)
    forge.settle()
    assert forge.github.answers == Counter({("GET", PULLS, 304): 4})


def unpaced(forge: ForgeStage) -> None:
    """Let all drafts be opened now: the pace of writing is another test's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pacing, "WINDOWS", tuple(replace(window, most=10**6) for window in pacing.WINDOWS))
        forge.settle(rounds=5_000)
