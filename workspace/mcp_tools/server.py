"""The protocol's side, on its official library, which nothing else here imports and which is loaded when first needed.

Every request stands for itself: no session is kept, the answer is one JSON document, and nothing is sent unasked.
"""

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from werkzeug.exceptions import Unauthorized

from gitops_bot import __version__
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.errors import Malformed, Reason, Refusal, Unavailable
from workspace.asgi import Application, Receive, Scope, Send
from workspace.mcp_tools.offered import INSTRUCTIONS, TOOLS, Given, Tool, told, written

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

BEARER: Final = "gitops_bot.bearer"
"""Key of a scope: the bearer token of the request, which its headers no longer hold."""
Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs something in a thread."""


def build(services: Services, run: Run) -> Application:
    """Load the library and make the application that answers a request whose frame was read and whose sender is known.

    It takes about a second the first time; call it in a thread.
    """
    from mcp import MCPError
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp_types import INVALID_PARAMS, ListToolsResult

    listed = ListToolsResult(tools=[_described(tool) for tool in TOOLS.values()])

    async def on_list(
        _context: "ServerRequestContext[Any, Any]", _params: "PaginatedRequestParams | None"
    ) -> "ListToolsResult":
        return listed

    async def on_call(context: "ServerRequestContext[Any, Any]", params: "CallToolRequestParams") -> "CallToolResult":
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"There is no tool of that name; there are {', '.join(TOOLS)}.")
        token: str = context.request.scope[BEARER]  # type: ignore[union-attr] # every request came over HTTP
        arguments = json.dumps(params.arguments or {}).encode("ascii")
        found = await run(lambda: _called(tool, services, token, arguments))
        return _result(found)

    server: Server[Any] = Server(
        "gitops-bot",
        version=__version__,
        title="gitops-bot",
        instructions=INSTRUCTIONS,
        on_list_tools=on_list,
        on_call_tool=on_call,
    )

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    return serve


def _called(tool: Tool, services: Services, token: str, arguments: bytes) -> Given | str:
    """Call a tool; what went wrong is a word of the closed list and a sentence."""
    try:
        return tool.call(services, token, arguments)
    except Refusal as error:
        return told(error)
    except Malformed as error:
        return f"{Reason.BAD_PARAMS.value}: {error}."
    except Unauthorized as error:
        return f"{Reason.NOT_AUTHORISED.value}: {error.description}"
    except Unavailable:
        return "unavailable: The database did not answer; nothing was done that is not told. Try again."


def _result(found: Given | str) -> "CallToolResult":
    from mcp_types import CallToolResult, TextContent

    if isinstance(found, str):
        return CallToolResult(content=[TextContent(text=found)], is_error=True)
    texts = [TextContent(text=found.said), TextContent(text=written(found.document))]
    return CallToolResult(content=[*texts], structured_content=found.document, is_error=found.refused)


def _described(tool: Tool) -> Any:
    from mcp_types import Tool as Described
    from mcp_types import ToolAnnotations

    return Described(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.takes),
        output_schema=dict(tool.gives),
        annotations=ToolAnnotations(
            read_only_hint=tool.reads, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )
