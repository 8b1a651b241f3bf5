"""Prints what each fuzzed subject did, also where another process ran it."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tallies."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, told in report.user_properties:
                if name == "fuzzed":
                    terminalreporter.write_line(f"fuzzed {told}")
