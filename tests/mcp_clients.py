"""The protocol's two official clients, driven alike: each connects with one token and calls tools with others."""

import asyncio
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.mcp_stage import REVISIONS
from tests.served_stage import Served

SCRIPT: Final = Path(__file__).parent / "node" / "tools-client.mjs"
CLIENTS: Final = (
    *(("python", mode) for mode in ("legacy", "auto", REVISIONS[-1])),
    *(("typescript", revision) for revision in REVISIONS[:2]),
)
"""Which client, and how it comes to a revision."""


@dataclass(frozen=True)
class Call:
    """A call of a tool with a token, or with none."""

    token: str | None
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """What a client saw: the revision, the tools, and how each call ended, as `given` and `said`, `refused` (the words)
    or `status` (of an answer that the protocol does not know)."""

    revision: str
    tools: list[str]
    outcomes: list[dict[str, Any]]

    @property
    def ends(self) -> list[object]:
        """Tell of each call: `given`, the code of a refusal, or the status."""
        return [
            "given" if "given" in one else str(one["refused"]).partition(":")[0] if "refused" in one else one["status"]
            for one in self.outcomes
        ]


def drive(client: tuple[str, str], served: Served, token: str, calls: Sequence[Call]) -> Seen:
    """Connect with a token, list the tools, and call."""
    kind, how = client
    if kind == "python":
        return asyncio.run(asyncio.wait_for(_python(served, how, token, calls), 240))
    told = json.dumps([one.__dict__ for one in calls])
    command = ["node", str(SCRIPT), f"{served.url}/mcp", token, how, told]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return Seen(**json.loads(done.stdout))


async def _python(served: Served, mode: str, token: str, calls: Sequence[Call]) -> Seen:
    import httpx2
    from mcp import Client, MCPError
    from mcp.client.streamable_http import streamable_http_client

    statuses: list[int] = []

    async def note(response: httpx2.Response) -> None:
        statuses.append(response.status_code)

    carried = httpx2.AsyncClient(
        headers={"Authorization": f"Bearer {token}"}, timeout=60, event_hooks={"response": [note]}
    )
    outcomes: list[dict[str, Any]] = []
    async with carried, Client(streamable_http_client(f"{served.url}/mcp", http_client=carried), mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert all(tool.input_schema["additionalProperties"] is False and tool.output_schema for tool in tools)
        for one in calls:
            carried.headers.pop("Authorization", None)
            if one.token is not None:
                carried.headers["Authorization"] = f"Bearer {one.token}"
            try:
                result = await client.call_tool(one.tool, one.arguments)
            except MCPError:
                outcomes.append({"status": statuses[-1]})
                continue
            said = getattr(result.content[0], "text", "")
            outcomes.append(
                {"refused": said} if result.is_error else {"given": result.structured_content, "said": said}
            )
        return Seen(client.protocol_version, [tool.name for tool in tools], outcomes)
