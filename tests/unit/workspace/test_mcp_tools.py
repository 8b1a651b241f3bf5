"""Of the tools without a server: their schemas stand alone, and the library is loaded when first needed."""

import json
import subprocess
import sys

import pytest
from jsonschema import Draft202012Validator

from tests.unit.workspace.conftest import REGIME, Workplace
from workspace.mcp_tools.offered import TOOLS, Given


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


def test_what_a_tool_gives_fits_its_schema(workplace: Workplace) -> None:
    """For a run that asks and looks."""
    token = workplace.register()

    def called(name: str, arguments: bytes) -> Given:
        given = TOOLS[name].call(workplace.services, token, arguments)
        Draft202012Validator(TOOLS[name].gives).validate(given.document)
        return given

    asked = called("request_trace", json.dumps(REGIME).encode()).document
    assert asked["status"] == "pending_approval"
    handle = json.dumps({"handle": asked["handle"]}).encode()
    assert called("check_capture", handle).document == {"state": "pending"}
    shown = called("check_ask", json.dumps({"ask": asked["approval"]}).encode())
    assert shown.document["state"] == "OPEN"
    assert "do not poll" in shown.said
