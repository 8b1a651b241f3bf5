"""The tools by the protocol's official clients, Python and TypeScript, at each revision that they speak: what each tool
gives, and what it gives whom it should not."""

from typing import Any

import pytest

from gitops_bot.core.asks import AskState
from gitops_bot.store import agents, asks
from tests.mcp_clients import CLIENTS, Call, drive
from tests.mcp_stage import NOBODYS, REGIME, REVISIONS, Run, begin, call, hire, settle
from tests.served_stage import Served

pytestmark = [
    pytest.mark.xdist_group("mcp"),
    pytest.mark.parametrize("client", CLIENTS, ids="-".join),
]
TRACE_ID = "model=Qwen/Qwen3-0.6B;c=48;p=8;mt=8;lt=0;lf=0.0000"
TOOLS = ("request_trace", "check_capture", "request_verb", "check_ask")


def asked(served: Served, run: Run, version: str) -> tuple[str, str]:
    """Let a run ask for a trace and for an action; give the handle and the ask."""
    trace = call(served, run.token, "request_trace", REGIME)["structuredContent"]
    ask = call(served, run.token, "request_verb", {"verb": "release.cut", "params": {"version": version}})
    return trace["handle"], ask["structuredContent"]["id"]


def of_all(token: str | None, handle: str, ask: str, version: str) -> list[Call]:
    """Call every tool with a token."""
    given: dict[str, dict[str, Any]] = {
        "request_trace": REGIME,
        "check_capture": {"handle": handle},
        "request_verb": {"verb": "release.cut", "params": {"version": version}},
        "check_ask": {"ask": ask},
    }
    return [Call(token, tool, given[tool]) for tool in TOOLS]


def named(client: tuple[str, str], what: str) -> str:
    return f"{what} by {'-'.join(client)}"


def known(served: Served) -> list[str]:
    """List all asks there are."""
    with served.host.read() as tx:
        return [ask.id for ask in asks.page(tx, "", 10_000)]


def test_every_tool_is_called(served: Served, client: tuple[str, str]) -> None:
    """It negotiates a revision, reads the list, and checks each result against the tool's own schema."""
    version = named(client, "all")
    run = begin(served, hire(served, f"caller-{'-'.join(client)}"))
    handle, ask = asked(served, run, version)
    unknown = Call(run.token, "request_verb", {"verb": "no.such", "params": {}})
    seen = drive(client, served, run.token, [*of_all(run.token, handle, ask, version), unknown])
    assert seen.revision == {"legacy": REVISIONS[1], "auto": REVISIONS[2]}.get(client[1], client[1])
    assert sorted(seen.tools) == sorted(TOOLS)
    assert seen.ends == ["given"] * 4 + ["unknown_verb"]
    trace, capture, opened, shown = (one["given"] for one in seen.outcomes[:4])
    assert (trace["status"], trace["trace_id"], trace["handle"]) == ("pending_approval", TRACE_ID, handle)
    said = seen.outcomes[0]["said"]
    assert "Write the marker" in said
    assert "a mode" in said
    assert said.endswith("then end the turn. Do not poll.")
    assert capture == {"state": "pending"}
    assert (opened["id"], opened["state"]) == (ask, "OPEN")
    assert shown == opened


def test_no_tool_serves_who_has_no_standing_token(served: Served, client: tuple[str, str]) -> None:
    """None, a wrong one, a settled run's and a revoked one get 401; an agent's and a loop's own get 403. Connected they
    all were, with the token of a run that goes on, which is the accepting twin before and after; nothing was asked."""
    slug = hire(served, f"leaver-{'-'.join(client)}")
    run, settled, revoked = (begin(served, slug) for _ in range(3))
    handle, ask = asked(served, run, named(client, "mine"))
    unasked = named(client, "unasked")
    calls = of_all(run.token, handle, ask, named(client, "mine"))
    theirs = [asked(served, one, named(client, one.id)) for one in (settled, revoked)]
    settle(served, settled)
    with served.host.write() as tx:
        agents.revoke_run_tokens(tx, revoked.id)
    refused: list[Call] = []
    for token in (None, "gbt_" + "x" * 43, served.token, served.loop_token):
        refused += of_all(token, handle, ask, unasked)
    for other, (its_handle, its_ask) in zip((settled, revoked), theirs, strict=True):
        refused += of_all(other.token, its_handle, its_ask, unasked)
    before = known(served)
    seen = drive(client, served, run.token, [*calls, *refused, *calls])
    assert seen.ends[:4] == seen.ends[-4:] == ["given"] * 4
    assert seen.ends[4:-4] == [401] * 8 + [403] * 8 + [401] * 8
    assert known(served) == before


def test_another_runs_token_sees_and_moves_nothing_of_this_one(served: Served, client: tuple[str, str]) -> None:
    """Of the same agent or of another: neither handle nor ask is there, in the words for what never was; what it asks
    for is its own. The owner sees both."""
    mine, other_agent = (hire(served, f"{what}-{'-'.join(client)}") for what in ("owner", "stranger"))
    run = begin(served, mine)
    handle, ask = asked(served, run, named(client, "kept"))
    for slug in (mine, other_agent):
        other = begin(served, slug)
        words = named(client, f"asked by {slug}")
        seen = drive(
            client,
            served,
            other.token,
            [
                Call(other.token, "check_ask", {"ask": ask}),
                Call(other.token, "check_ask", {"ask": NOBODYS}),
                Call(other.token, "check_capture", {"handle": handle}),
                Call(other.token, "check_capture", {"handle": NOBODYS}),
                Call(other.token, "request_verb", {"verb": "release.cut", "params": {"version": words}}),
                *of_all(run.token, handle, ask, named(client, "kept")),
            ],
        )
        assert seen.ends == ["not_found"] * 4 + ["given"] * 5
        assert seen.outcomes[0] == seen.outcomes[1]
        assert seen.outcomes[2] == seen.outcomes[3]
        assert seen.outcomes[4]["given"]["id"] != ask
    with served.host.read() as tx:
        kept = asks.get(tx, ask)
    assert kept is not None
    assert kept.state is AskState.OPEN
