"""Faults are used up in order, and the primary limit counts by account and hour."""

from gitops_bot.sandbox.faults import Fault, Faults, Push
from gitops_bot.sandbox.limits import Limits, SecondaryLimits


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


def test_a_push_is_due_once_after_its_reads() -> None:
    """Requests that do not match count for nothing."""
    faults = Faults()
    faults.plan_push(Push("GET */pulls/*", 2, 501, "b", 1001))
    names = ("GET /repos/a/b/pulls/1", "GET /user", "GET /repos/a/b/pulls/1", "GET /repos/a/b/pulls/1")
    assert [len(faults.due_pushes(name)) for name in names] == [0, 0, 1, 0]


def test_secondary_limits_count_nothing_until_they_are_on() -> None:
    secondary = SecondaryLimits()
    ask = {"resource": "core", "points": 5, "creates": True}
    assert all(secondary.retry_after(1, 0, **ask) is None for _ in range(1000))
    secondary.enabled = True
    assert secondary.retry_after(1, 0, **ask) is None


def test_content_is_limited_by_the_hour_too() -> None:
    """500 an hour, however well they are spread; the wait is until the oldest is an hour old."""
    secondary = SecondaryLimits()
    secondary.enabled = True
    ask = {"resource": "core", "points": 5, "creates": True}
    assert [secondary.retry_after(1, second * 2, **ask) for second in range(500)] == [None] * 500
    assert secondary.retry_after(1, 1000, **ask) == 2600
    assert secondary.retry_after(1, 1000, **{**ask, "creates": False}) is None
    assert secondary.retry_after(2, 1000, **ask) is None
    assert secondary.retry_after(1, 3600, **ask) is None
