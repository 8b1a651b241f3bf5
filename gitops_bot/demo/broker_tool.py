"""One call of a broker's tool, as a client of the Model Context Protocol makes it over streamable HTTP.

The handshake, and then the call, on one connection, which is closed after it. It is the smallest client there is: no
stream, no session, no library, for an agent that is started anew each turn.
"""

import http.client
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from gitops_bot.core.errors import Unavailable
from gitops_bot.demo.grammar import MAX_FILE, Reply, read_agreed, read_reply

REVISION: Final = "2025-11-25"
_CLIENT: Final = {"name": "gitops-bot-demo", "version": "1"}


def call_tool(url: str, token: str, name: str, arguments: Mapping[str, Any], timeout: float) -> Reply:
    """Call a tool of the broker at `url`; `timeout` in seconds for each of three requests.

    Raises:
        Unavailable: the broker cannot be asked, serves another revision, or its answer is no.
        Malformed: it answered nonsense.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise Unavailable("GITOPS_BOT_URL names no broker")
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout)
    try:
        wish = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": _CLIENT}
        agreed = read_agreed(_post(connection, token, {"id": 0, "method": "initialize", "params": wish}))
        if agreed != REVISION:
            raise Unavailable(f"the broker serves revision {agreed}, not {REVISION}")
        _post(connection, token, {"method": "notifications/initialized"})
        call = {"name": name, "arguments": dict(arguments)}
        reply = read_reply(_post(connection, token, {"id": 1, "method": "tools/call", "params": call}))
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"the broker does not answer ({type(error).__name__})") from error
    finally:
        connection.close()
    if isinstance(reply, str):
        raise Unavailable(f"the broker's answer is no: {reply}")
    return reply


def _post(connection: http.client.HTTPConnection, token: str, message: Mapping[str, Any]) -> bytes:
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": REVISION,
    }
    connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}).encode("ascii"), headers)
    response = connection.getresponse()
    body = response.read(MAX_FILE + 1)
    if not 200 <= response.status < 300:
        raise Unavailable(f"the broker answered {response.status}")
    return body
