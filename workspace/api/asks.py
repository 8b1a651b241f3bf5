"""Asks over the API: listed, shown and withdrawn by their agent and by people; answered and handled by people alone.

No GET decides anything. An agent's token that answers is refused with its reason, and the ledger keeps that.
"""

from typing import Final

from flask import Blueprint, Response, jsonify, request

from gitops_bot.api.grammar import parse_page, parse_reason, parse_wait
from gitops_bot.api.person.grammar import (
    parse_answer,
    parse_batch,
    parse_claim,
    parse_delegate,
    parse_given,
    parse_hold,
    parse_snooze,
)
from gitops_bot.authority import queries
from gitops_bot.authority.queries import AskView
from gitops_bot.authority.sessions import Person
from gitops_bot.core.errors import Malformed, Reason, Refusal, refuse
from workspace import asking
from workspace.api import bodies, documents
from workspace.api import inbox_shapes as shapes
from workspace.api import requests as here
from workspace.api.described import AGENT, PERSON, described
from workspace.api.shapes import FLAG, PAGE, WAIT, page_of, ref
from workspace.auth.people import again, has_agent_token
from workspace.inbox import acting
from workspace.serving import services, waiting
from workspace.waiting import GONE

asks: Final = Blueprint("api_asks", __name__, url_prefix="/api/v1")
_DECIDED: Final = (403, 409, 410)


@asks.get("/asks")
@described(
    "List asks, oldest first: an agent's own, or for a person all.",
    by=(PERSON, AGENT),
    query={**PAGE, "open": FLAG},
    answers={200: page_of(ref("AskShort"))},
)
def list_asks() -> Response:
    """List asks."""
    if has_agent_token():
        token = here.agent_token()
        found, following = asking.list_asks(services(), token, parse_page(here.query()))
    else:
        here.person()
        page = parse_page(here.query())
        with services().database.read() as tx:
            everything, following = queries.page(tx, page.after, page.limit, only_open=page.only_open)
            found = list(everything)
    return here.listed([documents.ask_short(ask) for ask in found], following)


@asks.get("/asks/<ask_id>")
@described(
    "Show an ask; with `wait` as soon as it ended or somebody voted, or after so many seconds.",
    by=(PERSON, AGENT),
    query={"wait": WAIT},
    answers={200: ref("Ask")},
)
def show_ask(ask_id: str) -> Response:
    """Show one ask."""
    token = here.agent_token() if has_agent_token() else None
    person = here.person() if token is None else None
    wait = parse_wait(here.query())
    view = _look(here.ask_id(ask_id), token, person)
    if wait and view.ask.ended_at is None:
        mine = services()
        gone = request.environ.get(GONE, lambda: False)
        signed = asking.signed_on(mine, view)
        waiting().until(lambda: asking.has_moved(mine, view, signed), wait, gone)
        view = _look(ask_id, token, person)
    return jsonify(here.whole(view))


def _look(ask_id: str, token: str | None, person: Person | None) -> AskView:
    """Read an ask for whoever asks, who is looked at again each time."""
    if token is not None:
        return asking.show_ask(services(), token, ask_id)
    assert person is not None
    with services().database.read() as tx:
        again(tx, person)
        found = queries.view(tx, services().rules, ask_id)
    if found is None:
        raise Refusal(refuse(Reason.NOT_FOUND, ask=ask_id))
    return found


@asks.post("/asks/<ask_id>/cancel")
@described(
    "Withdraw an ask; it approves nothing, and withdrawn is not denied.",
    by=(PERSON, AGENT),
    body=bodies.REASON,
    optional_body=True,
    answers={200: ref("Ask")},
    refusals=_DECIDED,
)
def cancel_ask(ask_id: str) -> Response:
    """Withdraw an ask as its requester, or as the owner of its agent."""
    if has_agent_token():
        token = here.agent_token()
        reason = parse_reason(here.body(optional=True))
        return jsonify(here.whole(asking.cancel_ask(services(), token, here.ask_id(ask_id), reason)))
    person = here.person()
    reason = parse_reason(here.body(optional=True))
    return jsonify(here.whole(acting.withdraw(services(), person, here.ask_id(ask_id), reason)))


def _answerer(ask_id: str | None) -> Person:
    """Give the person who answers; an agent's token is refused, and the ledger keeps that it tried."""
    if has_agent_token():
        token = here.agent_token()
        if ask_id is not None:
            raise Refusal(asking.refuse_answer(services(), token, here.ask_id(ask_id)))
    return here.person()


@asks.post("/asks/<ask_id>/statement")
@described(
    "Begin to answer a bound ask: gives the statement that a passkey signs.",
    by=(PERSON,),
    body=shapes.GIVEN,
    answers={200: shapes.STATEMENT},
    refusals=_DECIDED,
)
def begin_answer(ask_id: str) -> Response:
    """Give the statement of one answer and the options for the passkey."""
    person = _answerer(ask_id)
    given = parse_given(here.body())
    return jsonify(shapes.statement(acting.begin(services(), person, [(here.ask_id(ask_id), given)])))


@asks.post("/asks/<ask_id>/answer")
@described(
    "Answer an ask, echoing what binds it; a bound one with a passkey's assertion over its statement.",
    by=(PERSON,),
    body=shapes.ANSWER,
    answers={200: shapes.ANSWERED},
    refusals=_DECIDED,
)
def answer_ask(ask_id: str) -> Response:
    """Answer one ask."""
    person = _answerer(ask_id)
    body = parse_answer(here.body())
    view, result = acting.answer(services(), person, here.ask_id(ask_id), body.given, body.assertion)
    return jsonify({**here.whole(view), **shapes.result(result)})


def _first_ask() -> str | None:
    """Name the ask of a batch that an agent's token is refused for; None where its body names none."""
    try:
        return parse_batch(here.body()).answers[0][0]
    except Malformed:
        return None


@asks.post("/answers/statement")
@described(
    "Begin to answer several bound asks of one verb at once: gives their ordered statements.",
    by=(PERSON,),
    body=shapes.BATCH,
    answers={200: shapes.STATEMENTS},
    refusals=(404, *_DECIDED),
)
def begin_batch() -> Response:
    """Give the statements of a batch and the options for the passkey."""
    person = _answerer(_first_ask() if has_agent_token() else None)
    return jsonify(shapes.statements(acting.begin(services(), person, parse_batch(here.body()).answers)))


@asks.post("/answers")
@described(
    "Answer several bound asks of one verb at once, under one assertion over their ordered list; tells each result.",
    by=(PERSON,),
    body=shapes.BATCH,
    answers={200: shapes.BATCH_ANSWERED},
    refusals=(404, *_DECIDED),
)
def answer_batch() -> Response:
    """Answer a batch."""
    person = _answerer(_first_ask() if has_agent_token() else None)
    body = parse_batch(here.body())
    done = acting.answer_batch(services(), person, body.answers, body.assertion)
    return jsonify({"items": [shapes.batch_item(one) for one in done]})


@asks.post("/asks/<ask_id>/claim")
@described(
    "Take care of an ask, or with `release` give it back. It keeps nobody else from answering.",
    by=(PERSON,),
    body=shapes.CLAIM,
    optional_body=True,
    answers={200: ref("Ask")},
    refusals=_DECIDED,
)
def claim(ask_id: str) -> Response:
    """Claim an ask."""
    person = here.person()
    release = parse_claim(here.body(optional=True))
    return jsonify(here.whole(acting.claim(services(), person, here.ask_id(ask_id), release=release)))


@asks.post("/asks/<ask_id>/delegate")
@described(
    "Hand an ask on to another who may answer it; needs a fresh assertion.",
    by=(PERSON,),
    body=shapes.DELEGATE,
    answers={200: ref("Ask")},
    refusals=_DECIDED,
)
def delegate(ask_id: str) -> Response:
    """Delegate an ask."""
    person = here.person()
    to = parse_delegate(here.body())
    return jsonify(here.whole(acting.delegate(services(), person, here.ask_id(ask_id), to)))


@asks.post("/asks/<ask_id>/snooze")
@described(
    "Put an ask off for oneself alone; null takes it up again. Its deadline stays.",
    by=(PERSON,),
    body=shapes.SNOOZE,
    answers={200: shapes.UNTIL},
    refusals=_DECIDED,
)
def snooze(ask_id: str) -> Response:
    """Snooze an ask."""
    person = here.person()
    view, until = acting.snooze(services(), person, here.ask_id(ask_id), parse_snooze(here.body()))
    return jsonify({**here.whole(view), "until": until})


@asks.post("/asks/<ask_id>/hold")
@described(
    "Stop a gated ask or its grant for up to 72 hours. Any person may; it approves and prolongs nothing.",
    by=(PERSON,),
    body=shapes.HOLD,
    answers={200: shapes.UNTIL},
    refusals=_DECIDED,
)
def hold(ask_id: str) -> Response:
    """Hold a gated ask."""
    person = here.person()
    body = parse_hold(here.body())
    view, until = acting.hold(services(), person, here.ask_id(ask_id), body.lasts, body.reason)
    return jsonify({**here.whole(view), "until": until})
