"""What the edge answers under `/api/v1` before Flask is asked, described as routes are."""

from typing import Final

from workspace.api.described import PERSON, Description, Media, Operation
from workspace.api.shapes import COUNT

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
)
