"""Schedules in named zones: five fields, both changes of the clock, and always later than now."""

import contextlib
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops_bot.core.errors import Malformed
from gitops_bot.fleet.schedule import check, next_after


def ms(text: str, zone: str = "Europe/Berlin", fold: int = 0) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()) * 1_000


@pytest.mark.parametrize(
    ("cron", "now", "expected"),
    [
        pytest.param("30 7 * * MON-FRI", ("2026-12-04T08:00", 0), ("2026-12-07T07:30", 0), id="over a weekend"),
        pytest.param("30 7 * * *", ("2026-12-04T07:30", 0), ("2026-12-05T07:30", 0), id="later than now"),
        pytest.param("30 2 * * *", ("2026-03-29T00:00", 0), ("2026-03-29T03:00", 0), id="at the end of a gap"),
        pytest.param("30 2 * * *", ("2026-10-25T00:00", 0), ("2026-10-25T02:30", 0), id="a repeated hour, once"),
        pytest.param("50 2 * * *", ("2026-10-25T02:45", 1), ("2026-10-26T02:50", 0), id="not again in its second"),
        pytest.param("*/20 * * * *", ("2026-10-25T02:45", 0), ("2026-10-25T02:00", 1), id="keeping its pace"),
    ],
)
def test_the_next_time_is_by_the_wall_of_its_zone(cron: str, now: tuple[str, int], expected: tuple[str, int]) -> None:
    assert next_after(cron, "Europe/Berlin", ms(now[0], fold=now[1])) == ms(expected[0], fold=expected[1])


@pytest.mark.parametrize("cron", ["0 0 * * *", "*/5 * * * *", "0 9 1 JAN,JUL *", "0 0 L * *", "0 0 29 2 *"])
def test_an_expression_that_names_days_is_taken(cron: str) -> None:
    check(cron, "UTC")


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "* * * *",
        "* * * * * *",
        "@daily",
        "60 * * * *",
        "0 0 30 2 *",
        "0 0 */28 2 1#2",
        "0 0 * * *\n",
        "0\u00a00 * * *",
        "\u0660 0 * * *",
        "0 0 * * " + "1," * 200 + "1",
    ],
)
def test_another_form_or_a_day_that_never_comes_is_refused(cron: str) -> None:
    with pytest.raises(Malformed):
        check(cron, "UTC")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"])
def test_a_zone_of_the_database_is_taken(zone: str) -> None:
    check("0 0 * * *", zone)


@pytest.mark.parametrize("zone", ["", "Mars/Base", "America", "../UTC", "/etc/passwd", "localtime", "UTC\0", "a/" * 99])
def test_another_zone_is_refused(zone: str) -> None:
    """A name is never a path out of the database's folder."""
    with pytest.raises(Malformed):
        check("0 0 * * *", zone)


@given(st.lists(st.text("0123456789*/,-#LWMONabc ", max_size=8), min_size=4, max_size=6), st.text(max_size=12))
def test_nothing_but_its_typed_error_leaves_it(fields: list[str], zone: str) -> None:
    for name in (zone, "UTC", "Europe/Berlin"):
        with contextlib.suppress(Malformed):
            check(" ".join(fields), name)


ZONES = ["UTC", "Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe", "America/Santiago", "Pacific/Apia"]
FIELD = st.sampled_from(["0", "30", "*/15", "*", "59"])


@given(FIELD, st.sampled_from(["0", "2", "*/3", "*", "1,2,3"]), st.sampled_from(ZONES), st.integers(0, 4 * 10**12))
def test_what_comes_next_is_later_than_now(minute: str, hour: str, zone: str, now: int) -> None:
    """A wake that is not later would be due again and again."""
    for _ in range(4):
        after = next_after(f"{minute} {hour} * * *", zone, now)
        assert after > now
        now = after
