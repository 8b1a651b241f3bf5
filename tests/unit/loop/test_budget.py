"""Budgets are sums of active intervals."""

import pytest

from gitops_bot.loop.budget import MAX_GAP, Budget


def test_active_time_adds_up_over_looks() -> None:
    budget = Budget().started(0.0)
    for now in range(1, 61):
        budget = budget.looked(float(now))
    assert budget.stopped(60.5).elapsed == pytest.approx(60.5)


def test_lifecycle_22_a_day_at_the_gate_moves_nothing() -> None:
    budget = Budget(max_seconds=10, max_usd=1, spent=0.5).started(0.0).stopped(4.0)
    waited = budget.looked(22 * 3600.0)
    assert waited == budget
    assert waited.started(22 * 3600.0).looked(22 * 3600.0 + 1).elapsed == 5.0


@pytest.mark.parametrize("jump", [3600.0, MAX_GAP + 0.1, -50.0])
def test_lifecycle_23_a_suspended_machine_or_a_jumping_clock_moves_nothing(jump: float) -> None:
    budget = Budget().started(100.0).looked(101.0)
    assert budget.looked(101.0 + jump).elapsed == 1.0
    assert budget.looked(101.0 + jump).looked(102.0 + jump).elapsed == 2.0


def test_starting_twice_counts_once() -> None:
    assert Budget().started(0.0).started(1.0).stopped(2.0).elapsed == 2.0


def test_limits_are_said_and_zero_is_none() -> None:
    assert Budget(elapsed=1e9, spent=1e9).exceeded() is None
    assert "time" in (Budget(max_seconds=5, elapsed=5).exceeded() or "")
    assert "cost" in (Budget(max_usd=2).charged(2).exceeded() or "")
    assert Budget(max_usd=2).charged(2).limited(0).exceeded() is None
    assert Budget().charged(-5).spent == 0
