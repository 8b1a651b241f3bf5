"""Faults are used up in order, and the primary limit counts by account and hour."""

from gitops_bot.sandbox.faults import Fault, Faults
from gitops_bot.sandbox.limits import Limits


def test_a_fault_is_used_as_often_as_planned_and_by_its_route_only() -> None:
    """Other requests pass; after the last use everything does."""
    faults = Faults()
    faults.plan(Fault("POST */comments", 502, 2, after_effect=True))
    assert faults.take("GET /repos/a/b/issues/1/comments") is None
    assert [faults.take("POST /repos/a/b/issues/1/comments") is not None for _ in range(3)] == [True, True, False]


def test_a_fault_matches_the_path_as_sent_or_as_a_route() -> None:
    """Tests name either."""
    faults = Faults()
    faults.plan(Fault("GET /repos/{owner}/{repo}", 503, 1, after_effect=False))
    fault = faults.take("GET /repos/{owner}/{repo}", "GET /repos/acme/judge")
    assert fault is not None
    assert fault.message == "Service Unavailable"


def test_an_allowance_runs_out_and_comes_back_with_the_hour() -> None:
    """Each account has its own; looking uses nothing."""
    limits = Limits(hourly=2)
    assert [limits.use(1, 100).remaining, limits.use(1, 101).remaining] == [1, 0]
    assert limits.allowance(1, 102).remaining == 0
    assert limits.allowance(2, 102).remaining == 2
    assert limits.allowance(1, 100 + 3600).remaining == 2
