"""What became of the bot's pull requests, seen at a slower pace than comments: one conditional request a round.

A moved head or base re-asks at once. Closing one unmerged is a deny of whoever may vote; closed by anybody else, merged
or marked ready, it decides nothing and the status says so. Each state is acted on once (`sightings`).
"""

import json
from dataclasses import dataclass
from typing import Final, assert_never

from gitops_bot.authority import hearing, voters
from gitops_bot.authority.comments import Moved, standing
from gitops_bot.authority.duties import Again, Outcome
from gitops_bot.authority.rules import Rules
from gitops_bot.authority.settling import Counted, Revoked, Settled, Voice, answer
from gitops_bot.broker import captures as moves
from gitops_bot.broker import sightings
from gitops_bot.broker.sightings import sighting
from gitops_bot.core.asks import DENY, Ask, AskState
from gitops_bot.core.errors import Fact, Reason, Refused
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.readings import Closing, PullRequest
from gitops_bot.core.verdicts import Answer, Channel, Decision
from gitops_bot.policy.lookup import NeedsPermission
from gitops_bot.ports import Forge
from gitops_bot.store import asks, captures, due, ledger, outbox, settings
from gitops_bot.store.captures import PullRequestRow
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx

DUTY: Final = hearing.PULLS_DUTY
OVERLAP_MS: Final = 60_000
CLOSED: Final = "closed the pull request"
"""The reason of a deny that was given by closing."""

_LIVE: Final = (AskState.OPEN, AskState.APPROVED)


@dataclass(frozen=True, slots=True)
class Pace:
    """How often to look, in ms: while pull requests of the bot's are open, and else."""

    fast: int
    slow: int


class Pulls:
    """Watches pull requests; `one` is the handler of the duty `pulls`, whose key is a repository."""

    def __init__(self, database: Database, forge: Forge, rules: Rules, moved: Moved, pace: Pace) -> None:
        self._database = database
        self._forge = forge
        self._rules = rules
        self._moved = moved
        self._pace = pace

    def arm(self, repositories: tuple[str, ...]) -> None:
        """Make sure that every repository is watched."""
        with self._database.write() as tx:
            for repository in repositories:
                due.ensure(tx, DUTY, repository)

    def one(self, claimed: Claimed) -> Outcome:
        """Look at one repository once; without an open pull request of the bot's nothing is asked."""
        repository = claimed.key
        with self._database.read() as tx:
            rows = captures.open_pull_requests(tx, repository)
            stored = settings.cursor(tx, cursor(repository))
        if not rows:
            return Again(self._pace.slow)
        known = {"since": None, "etag": None} if stored is None else json.loads(stored)
        page = self._forge.pulls_since(repository, known["since"], known["etag"])
        if not page.unchanged:
            changed = {pull.number: pull for pull in page.pulls}
            for row in rows:
                if row.number in changed:
                    self._look(row, changed[row.number])
            since = known["since"] if page.newest is None else page.newest - OVERLAP_MS
            with self._database.write() as tx:
                if settings.cursor(tx, cursor(repository)) == stored:  # else a draft was opened meanwhile: look again
                    settings.set_cursor(tx, cursor(repository), json.dumps({"since": since, "etag": page.etag}))
        return Again(self._pace.fast)

    def _look(self, row: PullRequestRow, pull: PullRequest) -> None:
        with self._database.read() as tx:
            seen = sightings.last(tx, row.repository_id, row.number)
            ask = asks.get(tx, row.ask)
            if outbox.get(tx, f"record:{row.capture}") is not None:
                return  # from here on the bot itself changes it
        unchanged = seen is not None and sighting(pull, seen.closed_by) == seen
        if unchanged or ask is None or ask.state not in _LIVE:
            return
        if pull.state != "open" and not pull.merged:
            self._closed(row, ask, pull)
            return
        gone = standing(pull, row)
        with self._database.write() as tx:
            sightings.keep(tx, row.repository_id, row.number, sighting(pull))
            if seen is None and gone is None:
                return
            note(tx, row, pull, None)
            if gone is not None and gone.reason is Reason.STALE_HEAD:
                capture = captures.get(tx, row.capture, lock=True)
                if capture is not None and capture.ask == row.ask:
                    self._moved(tx, row.capture)
                    return
            _show(tx, row)

    def _closed(self, row: PullRequestRow, ask: Ask, pull: PullRequest) -> None:
        closing = self._forge.closing(row.repository, row.number)
        if closing is not None and closing.account_id == self._forge.self_id():
            return  # the bot's own, whose effect is about to land
        held: voters.Held | Refused | None = None
        if closing is not None and closing.account_type == "User":
            held = voters.read(
                self._forge, self._rules, row.repository, ask, closing.account_id, closing.login, Decision.DENY
            )
        with self._database.write() as tx:
            by = None if closing is None else closing.login
            sightings.keep(tx, row.repository_id, row.number, sighting(pull, by))
            note(tx, row, pull, closing)
            if closing is not None and isinstance(held, voters.Held):
                self._deny(tx, ask, closing, held)
            _show(tx, row)

    def _deny(self, tx: Tx, ask: Ask, closing: Closing, held: voters.Held) -> None:
        voice = Voice(
            principal=voters.principal(self._rules, closing.account_id),
            channel=Channel.FORGE,
            evidence=closing.raw,
            account=closing.account_id,
            permission=held.permission,
            in_team=held.in_team,
        )
        result = answer(tx, self._rules, ask.id, Answer(DENY, CLOSED, ask.binding), voice)
        match result:
            case Settled() | Counted() | Revoked() | Refused():
                return  # a refusal is in the ledger, and the status says that nothing was decided
            case NeedsPermission():
                raise RuntimeError("the policy in force changed inside a process")
            case _:
                assert_never(result)


def cursor(repository: str) -> str:
    """Name the cursor of a repository's pull requests."""
    return f"pulls:{repository}"


def look_again(tx: Tx, repository: str) -> None:
    """Let the next round be answered whole: a pull request was opened that the last one did not look at."""
    stored = settings.cursor(tx, cursor(repository))
    if stored is not None:
        settings.set_cursor(tx, cursor(repository), json.dumps({**json.loads(stored), "etag": None}))


def note(tx: Tx, row: PullRequestRow, pull: PullRequest, closing: Closing | None) -> None:
    """Tell the ledger what was seen."""
    facts: dict[str, Fact] = {
        "number": row.number,
        "state": "merged" if pull.merged else pull.state,
        "draft": pull.draft,
        "head": pull.head_sha,
        "base": pull.base_ref,
        "closed_by": None if closing is None else closing.account_id,
    }
    entry = Entry(
        EventKind.PULL_REQUEST_SEEN,
        tx.now,
        ask=row.ask,
        capture=row.capture,
        channel=Channel.FORGE.value,
        facts=facts,
    )
    ledger.append(tx, entry)


def _show(tx: Tx, row: PullRequestRow) -> None:
    capture = captures.get(tx, row.capture)
    if capture is not None and capture.pull_request == row.number:
        moves.show(tx, capture, f"seen:{tx.now}")
