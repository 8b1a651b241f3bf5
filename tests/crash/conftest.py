"""Says at the end how long a run of the whole job took; a report, not a bound, for it hangs on the machine."""

import statistics

from _pytest.terminal import TerminalReporter

MATRIX = "tests/crash/test_whole_job.py::"
MEASURES = "test_with_a_capture_that_measures"


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the median and the slowest run of the matrix, set-up shared by all left out."""
    took = {
        report.nodeid.removeprefix(MATRIX): report.duration
        for report in terminalreporter.stats.get("passed", [])
        if report.when == "call" and report.nodeid.startswith(MATRIX) and MEASURES not in report.nodeid
    }
    if took:
        slowest = max(took, key=lambda name: took[name])
        terminalreporter.write_line(
            f"whole job: {len(took)} runs, median {statistics.median(took.values()):.2f} s, "
            f"slowest {took[slowest]:.2f} s ({slowest})"
        )
