"""Cards and read models as the workspace shows them: the rows from `authority`, and what only the signed channel can
render, put together. Nothing is written, and nothing here leads to a grant.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from gitops_bot.authority.card_history import attempts_on, voted_on
from gitops_bot.authority.card_values import plain
from gitops_bot.authority.cards import card as read_card
from gitops_bot.authority.ledger_read import Anchor, anchor_of
from gitops_bot.authority.queries import AskView
from gitops_bot.authority.remedies import remedy_of
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.shown import Attempt, Card, Gated, SignedFile, Surroundings, Voted
from gitops_bot.authority.signed_read import SignedChannelShown
from gitops_bot.authority.signed_read import signed_channel as read_channel
from gitops_bot.authority.suspension import standing_rules
from gitops_bot.bootstrap.trust import read_trust
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.core.asks import AskId
from gitops_bot.core.errors import ConfigError
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.signed import by_hand
from gitops_bot.signed.announcing import decisions_of
from gitops_bot.signed.looking import LOOKED_AT
from gitops_bot.signed.publication import request_folder
from gitops_bot.signed.remedies import remedy as signed_remedy
from gitops_bot.signed.rendering import Request, read_request, render_file, render_message, request_bytes, short_code
from gitops_bot.store import requests
from gitops_bot.store import settings as stored
from gitops_bot.store.engine import Tx

NO_REMOTE: Final = "<address of the approvals repository>"
SUFFIX: Final = "<8 to 32 of a-z and 0-9>"
_FLAGS: Final = {Decision.APPROVE: "", Decision.DENY: " --deny", Decision.REVOKE: " --revoke"}


def remedy(code: str) -> str:
    """Say what to do about a code, whichever channel refused it."""
    return remedy_of(code)


def signer_remedy(code: str) -> str:
    """Say what whoever signed does about a code."""
    return signed_remedy(code) or remedy_of(code)


def surroundings_of(services: Services) -> Surroundings:
    """Say what this process knows for its cards."""
    return Surroundings(services.approvals, services.shared_uid)


def show(services: Services, tx: Tx, ask_id: str, person: PrincipalName | None) -> Card | None:
    """Give one ask as a card for one person, with the files to sign where it is gated; None where there is no such ask.

    The files are the person's own where they may vote; otherwise those of whose vote is missing.

    Raises:
        Unavailable: the policy cannot be read.
    """
    rules = services.rules
    found = read_card(tx, rules, ask_id, person, surroundings_of(services))
    if found is None or found.gated is None:
        return found
    content = requests.get(tx, found.view.ask.id)
    request = None if content is None else read_request(content)
    signed = found.summary if request is None else request.summary
    return replace(
        found,
        # What is signed, whatever the policy in force would write now.
        summary=signed,
        title=found.title if signed is None else plain(signed),
        gated=_with_files(tx, rules, found, found.gated, request, person),
        attempts=_for_signers(found.attempts),
    )


def history_of(services: Services, tx: Tx, view: AskView) -> tuple[tuple[Voted, ...], tuple[Attempt, ...]]:
    """Give the votes on an ask and the answers that were refused, as its card shows them."""
    attempts = attempts_on(tx, view.ask, surroundings_of(services))
    return voted_on(tx, view), _for_signers(attempts)


def _for_signers(attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    return tuple(replace(one, remedy=signer_remedy(one.reason)) if one.commit is not None else one for one in attempts)


def signed_channel(services: Services, tx: Tx) -> SignedChannelShown:
    """Give the signed channel as people see it.

    Raises:
        Unavailable: the policy cannot be read.
    """
    looked = stored.cursor(tx, LOOKED_AT)
    around = Surroundings(services.approvals, services.shared_uid, signer_remedy)
    return read_channel(tx, services.rules, around, None if looked is None else int(looked))


def anchors(services: Services, tx: Tx) -> tuple[Anchor, ...]:
    """Hold the heads of the ledger that this process can read outside of the database against the chain; where there is
    none it says so."""
    where = "this host's trust file"
    if services.trust_file is None:
        return (Anchor(where, None, None, None, "This process keeps no trust file."),)
    try:
        head = read_trust(services.trust_file).ledger_head
    except ConfigError:
        return (Anchor(where, None, None, None, f"{where.capitalize()} cannot be read by this process."),)
    if head is None:
        return (Anchor(where, None, None, None, "This host has seen no head of the ledger yet."),)
    return (anchor_of(tx, where, head.seq, head.hash),)


def _with_files(
    tx: Tx, rules: Rules, card: Card, gated: Gated, request: Request | None, person: PrincipalName | None
) -> Gated:
    if request is None:
        return gated
    may = decisions_of(standing_rules(tx, rules), card.view.ask)
    shown = person if person in may else next(iter((*card.missing_people, *may)), None)
    files = () if shown is None else tuple(_files(request, gated.repository, shown, may[shown]))
    return replace(gated, request=request_bytes(request).decode("utf-8"), files=files)


def _files(
    request: Request, repository: str | None, person: PrincipalName, decisions: Iterable[Decision]
) -> Iterable[SignedFile]:
    folder = request_folder(request.ask).removeprefix("asks/")
    remote = repository or NO_REMOTE
    for decision in decisions:
        file = render_file(request, person, decision)
        named = by_hand.assignments(
            remote, request.repository, request.environment, person, AskId(request.ask), decision
        )
        yield SignedFile(
            person=person,
            decision=decision.value,
            path=f"approvals/{folder}/{person}.{decision.value}.{SUFFIX}",
            file_text=file.decode("ascii"),
            message_text=render_message(request, person, decision).decode("ascii"),
            sha256=hashlib.sha256(file).hexdigest(),
            short_code=short_code(file),
            command=f"gitops-bot approval sign {request.ask}{_FLAGS[decision]}",
            by_hand=named + by_hand.TAKE + by_hand.VOTE,
            begin=named + by_hand.ROOT,
        )
