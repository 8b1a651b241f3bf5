"""Agents and loops ask for captures over HTTP: opened, joined or hit; shown to those concerned; taken back."""

from typing import Any

import pytest

from gitops_bot.broker.captures import apply
from gitops_bot.broker.machine import Event
from gitops_bot.core.asks import AskState
from gitops_bot.store import agents, asks, captures
from gitops_bot.store.states import RunState, SeatState
from tests.unit.workspace.conftest import REGIME, Workplace, refused

TRACE = "model=Qwen/Qwen3-0.6B;c=48;p=8;mt=8;lt=0;lf=0.0000"


def wish(**more: Any) -> dict[str, Any]:
    return {**REGIME, "why": "queues", **more}


def finish(workplace: Workplace, capture_id: str, digest: str = "sha256:" + "1" * 64) -> None:
    """Approve a capture and walk it to READY, as the broker would."""
    with workplace.host.write() as tx:
        capture = captures.get(tx, capture_id)
        assert capture is not None
        assert capture.ask is not None
        assert asks.end(tx, asks.AskId(capture.ask), AskState.APPROVED, "alice")
    for event in (Event.APPROVED, Event.SUBMITTED, Event.STARTED, Event.MEASURED):
        with workplace.host.write() as tx:
            capture = captures.get(tx, capture_id)
            assert capture is not None
            values: dict[str, Any] = {}
            if event is Event.MEASURED:
                values = {"artefact": "/artefact", "digest": digest, "knobs": {"a": "1"}, "ready_at": tx.now}
            assert apply(tx, capture, event, **values)


def test_a_new_capture_is_pending_with_its_handle(workplace: Workplace) -> None:
    token = workplace.register()
    response = workplace.call("POST", "/captures", token, wish(mode="block", idempotency_key="k"))
    told = response.get_json()
    assert (response.status_code, told["status"], told["trace_id"]) == (202, "pending_approval", TRACE)
    shown = workplace.ok("GET", f"/captures/{told['handle']}", token)
    assert (shown["state"], shown["exact"], shown["ask"]) == ("pending", "REQUESTED", told["approval"])
    with workplace.host.read() as tx:
        (seat,) = captures.seats(tx, told["handle"])
        assert (seat.loop, seat.mode, seat.state) == ("tuner", "block", SeatState.WAITING)
    assert workplace.woken, "the draft is due, and the broker was nudged"


def test_lifecycle_42_a_second_loop_joins_the_one_ask(workplace: Workplace) -> None:
    """lifecycle 42: two loops wait for one trace id: one ask, one capture, a seat each."""
    first, second = workplace.register(), None
    told = workplace.ok("POST", "/captures", first, wish())
    second = workplace.ok("POST", "/loops", "loop2", {"id": "two", "address": "127.0.0.1:1", "broker_token": "c" * 20})
    joined = workplace.ok("POST", "/captures", second["agent_token"], wish(why="other words"))
    assert (joined["handle"], joined["status"]) == (told["handle"], "pending_approval")
    with workplace.host.read() as tx:
        assert {seat.loop for seat in captures.seats(tx, told["handle"])} == {"tuner", "two"}
    assert workplace.ok("GET", f"/captures/{told['handle']}", second["agent_token"])["id"] == told["handle"]


def test_an_agent_that_joined_sees_the_capture_and_no_third_one_does(workplace: Workplace) -> None:
    told = workplace.ok("POST", "/captures", "shell", wish())
    handle = told["handle"]
    assert refused(workplace.call("GET", f"/captures/{handle}", "other")) == (404, "not_found")
    assert workplace.ok("GET", "/captures", "other")["items"] == []
    assert workplace.ok("POST", "/captures", "other", wish())["handle"] == handle
    assert workplace.ok("GET", f"/captures/{handle}", "other")["id"] == handle
    assert [row["id"] for row in workplace.ok("GET", "/captures", "other")["items"]] == [handle]
    assert refused(workplace.call("GET", f"/asks/{told['approval']}", "other")) == (404, "not_found")


def test_asking_again_is_asking_once(workplace: Workplace) -> None:
    """lifecycle 12: the hash covers the action, not the words; no run is left behind by a repeat."""
    told = [workplace.ok("POST", "/captures", "shell", wish(why=f"{n}", idempotency_key="k")) for n in range(3)]
    assert len({one["handle"] for one in told}) == 1
    with workplace.host.read() as tx:
        capture = captures.get(tx, told[0]["handle"])
        assert capture is not None
        assert len([1 for _ in asks.page(tx, "", 10)]) == 1


def test_a_finished_capture_that_still_hashes_is_a_hit(workplace: Workplace) -> None:
    told = workplace.ok("POST", "/captures", "shell", wish())
    finish(workplace, told["handle"])
    workplace.hashes["/artefact"] = "sha256:" + "1" * 64
    hit = workplace.call("POST", "/captures", "other", wish())
    assert (hit.status_code, hit.get_json()["status"]) == (200, "hit")
    assert (hit.get_json()["handle"], hit.get_json()["knobs"]) == (told["handle"], {"a": "1"})


@pytest.mark.parametrize("now", [None, "sha256:" + "2" * 64])
def test_a_forged_or_lost_artefact_is_no_hit(workplace: Workplace, now: str | None) -> None:
    """attacks, Forge: a forged artefact file as a hit. It is asked anew instead."""
    told = workplace.ok("POST", "/captures", "shell", wish())
    finish(workplace, told["handle"])
    if now is not None:
        workplace.hashes["/artefact"] = now
    again = workplace.ok("POST", "/captures", "shell", wish())
    assert again["status"] == "pending_approval"
    assert again["handle"] != told["handle"]


def test_a_key_of_a_capture_that_is_over_is_told_so(workplace: Workplace) -> None:
    """A loop that repeated its key after the end would wait for ever; it is refused with how it ended."""
    token = workplace.register()
    told = workplace.ok("POST", "/captures", token, wish(idempotency_key="k"))
    workplace.ok("POST", f"/captures/{told['handle']}/cancel", token)
    assert refused(workplace.call("POST", "/captures", token, wish(idempotency_key="k"))) == (410, "withdrawn")
    fresh = workplace.ok("POST", "/captures", token, wish(idempotency_key="k2"))
    assert fresh["status"] == "pending_approval"


def test_the_last_who_leaves_cancels_and_withdraws(workplace: Workplace) -> None:
    told = workplace.ok("POST", "/captures", "shell", wish())
    joined = workplace.ok("POST", "/captures", "other", wish())
    left = workplace.ok("POST", f"/captures/{told['handle']}/cancel", "shell", {"reason": "enough"})
    assert left["exact"] == "REQUESTED", "the other still waits"
    gone = workplace.ok("POST", f"/captures/{joined['handle']}/cancel", "other")
    assert (gone["state"], gone["exact"]) == ("error", "CANCELLED")
    with workplace.host.read() as tx:
        ask = asks.get(tx, told["approval"])
        assert ask is not None
        assert ask.state is AskState.WITHDRAWN
        run = agents.run(tx, ask.run)
        assert run is not None
        assert run.state is RunState.ENDED


def test_a_loop_that_leaves_does_not_take_it_from_a_shell(workplace: Workplace) -> None:
    token = workplace.register()
    told = workplace.ok("POST", "/captures", token, wish())
    workplace.ok("POST", "/captures", "shell", wish())
    assert workplace.ok("POST", f"/captures/{told['handle']}/cancel", token)["exact"] == "REQUESTED"
    assert workplace.ok("POST", f"/captures/{told['handle']}/cancel", "shell")["exact"] == "CANCELLED"


def test_only_those_concerned_cancel_and_only_in_time(workplace: Workplace) -> None:
    told = workplace.ok("POST", "/captures", "shell", wish())
    assert refused(workplace.call("POST", f"/captures/{told['handle']}/cancel", "other")) == (404, "not_found")
    finish(workplace, told["handle"])
    assert refused(workplace.call("POST", f"/captures/{told['handle']}/cancel", "shell")) == (409, "already_settled")


@pytest.mark.parametrize(
    "change",
    [
        {"concurrency": True},
        {"concurrency": -1},
        {"concurrency": 48.0},
        {"long_frac": "0.1"},
        {"long_frac": 1e999},
        {"model": "../x"},
        {"model": "-x/"},
        {"mode": "later"},
        {"trace_id": TRACE},
        {"idempotency_key": ""},
        {"idempotency_key": "a b"},
        {"why": "\u0000"},
    ],
    ids=str,
)
def test_a_regime_that_no_trace_id_names_is_refused(workplace: Workplace, change: dict[str, Any]) -> None:
    assert refused(workplace.call("POST", "/captures", "shell", wish(**change)))[0] == 422
    assert workplace.ok("GET", "/captures", "shell")["items"] == []


def test_without_any_surface_it_escalates(workplace: Workplace) -> None:
    from dataclasses import replace

    from tests.unit.workspace.conftest import create_app

    degraded = replace(workplace.services, place=replace(workplace.services.place, degraded=True))
    workplace.client = create_app(degraded).test_client()
    told = workplace.call("POST", "/captures", "shell", wish())
    assert (told.status_code, told.get_json()["status"], told.get_json()["handle"]) == (200, "escalate", None)
    assert told.get_json()["reason"]
