"""What belongs to the API and is no Flask route of `/api/v1`: the edge's event stream, and how the process does."""

from typing import Final

from workspace.api.described import ANYONE, PERSON, Description, Media, Operation
from workspace.api.shapes import BOOLEAN, COUNT, STRING, obj

ELSEWHERE: Final = (
    Operation(
        "GET",
        "/api/v1/events",
        "edge.events",
        Description(
            "Follow the ledger in sealed order: server-sent events with ids only, resumable by `Last-Event-ID`.",
            by=(PERSON,),
            query={"after": COUNT},
            answers={200: Media("text/event-stream")},
            refusals=(429,),
        ),
    ),
    Operation(
        "GET",
        "/healthz",
        "health.healthz",
        Description("Say that the process answers.", by=(ANYONE,), answers={200: obj({"ok": BOOLEAN})}),
    ),
    Operation(
        "GET",
        "/readyz",
        "health.readyz",
        Description(
            "Say whether the database answers; 503 when not.",
            by=(ANYONE,),
            answers={200: obj({"ok": BOOLEAN, "database": STRING})},
        ),
    ),
)
