"""A workspace with runs whose agents call its tools over bare HTTP."""

import json
from dataclasses import dataclass
from typing import Any, Final

import requests

from gitops_bot.store import agents
from gitops_bot.store.states import RunState, TokenScope
from tests.served_stage import Served

REGIME: Final = {
    "model": "Qwen/Qwen3-0.6B",
    "concurrency": 48,
    "prefixes": 8,
    "max_tokens": 8,
    "long_tokens": 0,
    "long_frac": 0.0,
}
REVISIONS: Final = ("2025-06-18", "2025-11-25", "2026-07-28")
NOBODYS: Final = "01arz3ndektsv4rrffq69g5fav"


@dataclass(frozen=True)
class Run:
    """A run of an agent's, with its token."""

    agent: str
    id: str
    token: str


def hire(served: Served, slug: str) -> str:
    """Add an agent beside those that are there, which may ask anew for as much as any; give its slug."""
    with served.host.write() as tx:
        like = agents.by_slug(tx, "shell")
        assert like is not None
        agents.add(tx, slug, like.kind, like.principal, like.owner, "")
    return slug


def begin(served: Served, slug: str = "shell") -> Run:
    """Open a run of an agent that is known, and mint its token, as the registration of a loop does."""
    with served.host.write() as tx:
        found = agents.by_slug(tx, slug)
        assert found is not None
        run = agents.add_run(tx, found.id, "agent", RunState.PARKED)
        return Run(found.id, run.id, agents.issue_token(tx, found.id, TokenScope.RUN, run=run.id))


def settle(served: Served, run: Run) -> None:
    """Let a run end."""
    with served.host.write() as tx:
        agents.end_run(tx, run.id, "done")


def frame(method: str, params: dict[str, Any], revision: str) -> dict[str, Any]:
    """Give a request as a client of that revision sends it."""
    if revision == REVISIONS[-1]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {**params, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def post(
    served: Served, token: str | None, sent: object, revision: str | None = REVISIONS[0], **more: str
) -> requests.Response:
    """Send a frame, or bytes as they are."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
    headers |= {} if revision is None else {"MCP-Protocol-Version": revision}
    if revision == REVISIONS[-1] and isinstance(sent, dict):
        headers["Mcp-Method"] = sent["method"]
        if "name" in sent["params"]:
            headers["Mcp-Name"] = sent["params"]["name"]
    body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    return requests.post(f"{served.url}/mcp", data=body, headers={**headers, **more}, timeout=120)


def call(served: Served, token: str, tool: str, arguments: Any, revision: str = REVISIONS[0]) -> dict[str, Any]:
    """Call a tool over bare HTTP; give its result."""
    answer = post(served, token, frame("tools/call", {"name": tool, "arguments": arguments}, revision), revision)
    assert answer.status_code == 200, answer.text
    result = answer.json()["result"]
    assert isinstance(result, dict)
    return result


def refusal(result: dict[str, Any]) -> str:
    """Give the code of a refused call; insist that it is one."""
    assert result["isError"] is True
    assert (result.get("structuredContent") or {"status": "error"})["status"] == "error"
    return str(result["content"][0]["text"]).partition(":")[0]
