"""The four tools: their names, schemas and words, and the service that each calls for the holder of a token.

What a tool gives is a JSON object that fits its output schema, and sentences for whoever reads it. A refusal leaves
with its code; of a trace it is a status as well. Nothing here knows of a protocol.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.api.tools.grammar import MAX_VERB, parse_id, parse_request, parse_trace
from gitops_bot.authority.queries import AskView
from gitops_bot.bootstrap.showing import history_of
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.captures import CHECK_STATE
from gitops_bot.core.errors import Refusal
from workspace import asking, capturing
from workspace.api import documents
from workspace.api.described import Schema
from workspace.api.schemas import SCHEMAS, WHOLE
from workspace.api.shapes import ANY_OBJECT, STRING, ULID, obj, one_of, text

STATUSES: Final = ("hit", "submitted", "deferred", "pending_approval", "escalate", "error")
INSTRUCTIONS: Final = (
    "Ask for a measured trace or an action, and look how it stands. None of these tools answers an ask: a person does. "
    "What waits for a person is not polled: end the turn, and it goes on when there is an answer."
)
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 9_999_999}
_REF: Final = "#/components/schemas/"
_SAID: Final = {
    "pending_approval": "A person is asked. Write the marker PROVISIONING_PENDING.json with this handle and a mode "
    '("block" to wait, "continue" to go on meanwhile), then end the turn. Do not poll.',
    "submitted": "It was approved and is under way. Write the marker PROVISIONING_PENDING.json with this handle and a "
    "mode, then end the turn. Do not poll.",
    "hit": "It was measured already; the knobs are here.",
    "deferred": "It is put off; go on under the regime at hand.",
    "escalate": "There is nobody to ask here; go on under the regime at hand, and say so.",
}
_STATES: Final = {
    "OPEN": "A person is asked, or several. End the turn; do not poll.",
    "APPROVED": "It is approved. Doing it is not yours: the broker does.",
    "DENIED": "It is denied.",
}


@dataclass(frozen=True, slots=True)
class Given:
    """What a call of a tool gives: the object for programs, and the same in words. `refused`: it is an error's."""

    document: dict[str, Any]
    said: str
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `call` reads the bytes of its arguments; it looks only where `reads`."""

    name: str
    title: str
    description: str
    takes: Schema
    gives: Schema
    reads: bool
    call: Callable[[Services, str, bytes], Given]


def _request_trace(services: Services, token: str, arguments: bytes) -> Given:
    body = parse_trace(arguments)
    try:
        found = capturing.request_capture(services, token, body)
    except Refusal as error:
        said = told(error)
        return Given({"status": "error", "trace_id": body.regime.trace_id, "reason": said}, said, refused=True)
    document = documents.answered(found, body.regime.trace_id)
    return Given({name: member for name, member in document.items() if member is not None}, _SAID[found.status])


def _check_capture(services: Services, token: str, arguments: bytes) -> Given:
    state = CHECK_STATE[capturing.show_capture(services, token, parse_id(arguments, "handle")).state]
    return Given({"state": state}, f"The capture is {state}.")


def _request_verb(services: Services, token: str, arguments: bytes) -> Given:
    verb, body = parse_request(arguments)
    view, _repeated = asking.request_verb(services, token, verb, body)
    return _shown(services, view)


def _check_ask(services: Services, token: str, arguments: bytes) -> Given:
    return _shown(services, asking.show_ask(services, token, parse_id(arguments, "ask")))


def _shown(services: Services, view: AskView) -> Given:
    with services.database.read() as tx:
        voted, attempts = history_of(services, tx, view)
    shown = documents.ask_whole(view, services.rules.environment, services.approvals, voted, attempts)
    state = view.ask.state.value
    return Given(shown, _STATES.get(state, f"The ask is over: {state}."))


def _alone(schema: Schema) -> Schema:
    """Give a schema that holds what it points to."""
    kept: dict[str, Schema] = {}

    def moved(part: Any) -> Any:
        if isinstance(part, list):
            return [moved(one) for one in part]
        if not isinstance(part, Mapping):
            return part
        name = str(part.get("$ref", "")).removeprefix(_REF)
        if name in SCHEMAS and name not in kept:
            kept[name] = {}
            kept[name] = moved(SCHEMAS[name])
        return {key: f"#/$defs/{name}" if key == "$ref" else moved(member) for key, member in part.items()}

    whole = moved(schema)
    return {**whole, "$defs": kept} if kept else dict(whole)


_TRACE: Final = obj(
    {
        "model": text(256, least=1, description="the served model's name"),
        "concurrency": {**_COUNT, "description": "requests at once"},
        "prefixes": {**_COUNT, "description": "distinct prompts' beginnings"},
        "max_tokens": {**_COUNT, "description": "tokens of an answer, at most"},
        "long_tokens": {**_COUNT, "description": "tokens of a long prompt"},
        "long_frac": {"type": "number", "minimum": 0, "description": "share of long prompts"},
    }
)
_STATUS: Final = obj(
    {"status": one_of(STATUSES), "trace_id": STRING},
    {"knobs": ANY_OBJECT, "handle": ULID, "approval": STRING, "reason": STRING},
)
TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        Tool(
            "request_trace",
            "Ask for a measured trace",
            "Ask for a capture under a regime. Gives a finished one at once; else a person is asked: then write the "
            "marker with a mode, end the turn, and do not poll.",
            _TRACE,
            _STATUS,
            reads=False,
            call=_request_trace,
        ),
        Tool(
            "check_capture",
            "Look at a capture",
            "Tell how a capture stands that this run asked for. For a look in between; it is no way to wait.",
            obj({"handle": {**ULID, "description": "as `request_trace` gave it"}}),
            obj({"state": one_of(sorted(set(CHECK_STATE.values())))}),
            reads=True,
            call=_check_capture,
        ),
        Tool(
            "request_verb",
            "Ask for an action",
            "Ask for an action that the policy names: opens the ask that a person answers, and gives it. Asked again "
            "with the same parameters it is the same ask.",
            obj(
                {"verb": text(MAX_VERB, least=1), "params": {**ANY_OBJECT, "description": "as the verb's schema says"}}
            ),
            _alone(obj(WHOLE)),
            reads=False,
            call=_request_verb,
        ),
        Tool(
            "check_ask",
            "Look at an ask",
            "Show an ask of this run: its state, votes and verdict.",
            obj({"ask": {**ULID, "description": "the ask's `id`"}}),
            _alone(obj(WHOLE)),
            reads=True,
            call=_check_ask,
        ),
    )
}
"""All there are, by name."""


def told(error: Refusal) -> str:
    """Tell a refusal: its code, and a sentence."""
    return f"{error.refused.reason.value}: {error.refused.sentence}"


def written(document: Mapping[str, Any]) -> str:
    """Write what a tool gives as JSON in ASCII."""
    return json.dumps(document, ensure_ascii=True)
