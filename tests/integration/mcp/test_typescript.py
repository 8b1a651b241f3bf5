"""The tools by the protocol's TypeScript SDK, at each revision that it speaks."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.mcp_stage import REGIME, REVISIONS, begin
from tests.served_stage import Served

pytestmark = pytest.mark.xdist_group("mcp")
CLIENT = Path(__file__).parents[2] / "node" / "tools-client.mjs"


@pytest.mark.parametrize("revision", REVISIONS[:2])
def test_the_typescript_client_calls_every_tool(served: Served, revision: str) -> None:
    """It checks each result against the tool's own schema."""
    arguments = [f"{served.url}/mcp", begin(served).token, revision, json.dumps(REGIME)]
    done = subprocess.run(["node", str(CLIENT), *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert sorted(seen.pop("tools")) == ["check_ask", "check_capture", "request_trace", "request_verb"]
    expected = {"status": "pending_approval", "capture": "pending", "ask": "OPEN", "refused": True}
    assert seen == {"revision": revision, **expected}
