"""The recorded session of the documents is a recording, and shows a demo that went well."""

import itertools
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import record_demo

DOCS = Path(__file__).parents[3] / "docs"


def test_a_session_is_recorded_with_its_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a command wrote to a terminal, in order, as asciinema reads it; and its last screen as a picture."""
    program = "import sys, time; print('first <&>', sys.stdout.isatty()); time.sleep(0.05); print('last')"
    into = tmp_path / "session"
    assert record_demo.main(["--into", str(into), "--title", "a < b", "--", sys.executable, "-u", "-c", program]) == 0
    header, *events = [json.loads(line) for line in into.with_suffix(".cast").read_text().splitlines()]
    assert (header["version"], header["title"]) == (2, "a < b")
    assert "".join(text for _, _, text in events) == "first <&> True\r\nlast\r\n"
    assert events[-1][0] - events[0][0] >= 0.04
    drawn = [text.text for text in ET.parse(into.with_suffix(".svg")).iter("{http://www.w3.org/2000/svg}text")]
    assert drawn == ["first <&> True", "last"]
    capsys.readouterr()


def test_what_failed_is_not_recorded(tmp_path: Path) -> None:
    """The accepting twin is above: a session that ended badly replaces no good one."""
    assert (
        record_demo.main(["--into", str(tmp_path / "session"), "--", sys.executable, "-c", "raise SystemExit(3)"]) == 3
    )
    assert list(tmp_path.iterdir()) == []


def test_the_recording_of_the_documents_is_whole() -> None:
    """Both asks, both answers, the scores, and the last line of a demo that went well."""
    header, *events = [json.loads(line) for line in (DOCS / "demo.cast").read_text(encoding="utf-8").splitlines()]
    assert header["version"] == 2
    assert all(earlier[0] <= later[0] for earlier, later in itertools.pairwise(events))
    text = "".join(said for _, _, said in events)
    wanted = (
        "ask.opened",
        "loop.parked",
        "/approve-capture",
        "capture.ready",
        "/deny-capture",
        "DENIED",
        "round robin",
    )
    places = [text.index(word) for word in wanted]
    assert places == sorted(places)
    assert "loop.parked" in text
    assert text.rstrip().endswith("in order, ledger intact")
    assert events[-1][0] < 60
    assert "in order, ledger intact" in (DOCS / "demo.svg").read_text(encoding="utf-8")
