"""Of the tools without a server: their schemas stand alone, and the library is loaded when first needed."""

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gitops_bot.broker.captures import Answered
from gitops_bot.core.captures import CHECK_STATE, CaptureState
from tests.unit.workspace.conftest import REGIME, Workplace
from tests.unit.workspace.test_captures import finish
from workspace.mcp_tools.offered import _SAID, STATUSES, TOOLS, Given


def test_the_protocols_library_is_not_loaded_at_the_start() -> None:
    """It takes about a second and 30 MB, which a workspace whose agents call no tools never pays."""
    look = "import sys, workspace.__main__; sys.exit('mcp' in sys.modules or 'mcp_types' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], timeout=120).returncode == 0


@pytest.mark.parametrize("name", TOOLS)
def test_a_schema_is_one_and_points_to_nothing_outside(name: str) -> None:
    """A client has nothing else to read it by."""
    for schema in (TOOLS[name].takes, TOOLS[name].gives):
        Draft202012Validator.check_schema(schema)
        assert (schema["type"], schema["additionalProperties"]) == ("object", False)
        assert "#/components" not in str(schema)


def called(workplace: Workplace, token: str, name: str, arguments: dict[str, Any]) -> Given:
    """Call a tool; insist that what it gives fits its schema."""
    given = TOOLS[name].call(workplace.services, token, json.dumps(arguments).encode())
    Draft202012Validator(TOOLS[name].gives).validate(given.document)
    return given


def test_what_a_tool_gives_fits_its_schema(workplace: Workplace) -> None:
    """For a run that asks and looks."""
    token = workplace.register()
    asked = called(workplace, token, "request_trace", REGIME).document
    assert asked["status"] == "pending_approval"
    assert called(workplace, token, "check_capture", {"handle": asked["handle"]}).document == {"state": "pending"}
    shown = called(workplace, token, "check_ask", {"ask": asked["approval"]})
    assert shown.document["state"] == "OPEN"
    assert "do not poll" in shown.said


def test_a_finished_trace_is_given_at_once_with_its_knobs(workplace: Workplace) -> None:
    """A hit; the artefact still hashes to what the ledger says."""
    token = workplace.register()
    asked = called(workplace, token, "request_trace", REGIME).document
    finish(workplace, asked["handle"])
    workplace.hashes["/artefact"] = "sha256:" + "1" * 64
    hit = called(workplace, token, "request_trace", REGIME)
    assert (hit.document["status"], hit.document["knobs"]) == ("hit", {"a": "1"})
    assert (hit.document["handle"], hit.refused) == (asked["handle"], False)
    assert called(workplace, token, "check_capture", {"handle": asked["handle"]}).document == {"state": "ready"}


def test_where_there_is_nobody_to_ask_it_says_so(workplace: Workplace) -> None:
    """Without an approval surface: a status, and no handle to wait for."""
    place = replace(workplace.services.place, degraded=True)
    workplace.services = replace(workplace.services, place=place)
    told = called(workplace, workplace.register(), "request_trace", REGIME)
    assert (told.document["status"], "handle" in told.document, told.refused) == ("escalate", False, False)
    assert "nobody to ask" in told.said


@pytest.mark.parametrize("status", sorted({*STATUSES} - {"error"}))
def test_every_status_fits_the_schema_and_is_said(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    """Those too that need a frozen regime: measured again without a person, or put off."""
    answered = Answered(status, None, reason="no place is free" if status == "deferred" else None)
    monkeypatch.setattr("workspace.capturing.request_capture", lambda *_: answered)
    given = called(workplace, "any", "request_trace", REGIME)
    assert (given.document["status"], given.refused) == (status, False)
    assert ("no place" in str(given.document.get("reason"))) is (status == "deferred")
    assert given.said == _SAID[status]


def test_a_refused_trace_has_the_status_error_with_the_code(workplace: Workplace) -> None:
    """An agent that asks for more than twenty at once: those before are the accepting twins."""
    token = workplace.register()
    for prefixes in range(1, 21):
        asked = called(workplace, token, "request_trace", {**REGIME, "prefixes": prefixes})
        assert (asked.document["status"], asked.refused) == ("pending_approval", False)
    more = called(workplace, token, "request_trace", {**REGIME, "prefixes": 21})
    assert (more.document["status"], more.refused) == ("error", True)
    assert ";p=21;" in more.document["trace_id"]
    assert more.said == more.document["reason"]
    assert more.said.partition(": ")[0] == "too_many_open"


def test_each_status_is_said_in_words_and_each_state_has_a_name() -> None:
    """`error` is said as its refusal; the names are the protocol's."""
    assert set(STATUSES) == {*_SAID, "error"}
    assert set(CHECK_STATE) == set(CaptureState)
    assert set(CHECK_STATE.values()) == {"pending", "approved", "running", "ready", "denied", "error"}
