"""What the requests branch must say is due work: requests, receipts, bundles, heads of the ledger; one push for many.

Each piece is a due row that names it; its bytes are rendered from the database when it is published, so that a row
written twice, or published and not finished, changes nothing. What others did to the branch is told once.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from gitops_bot.authority.duties import IDLE_SECONDS
from gitops_bot.authority.rules import Rules, rule_of
from gitops_bot.authority.suspension import standing_policy
from gitops_bot.core.asks import Ask, AskId
from gitops_bot.core.canonical import Digest
from gitops_bot.core.errors import SENTENCES, Malformed, Reason, Refused, Unavailable
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Decision
from gitops_bot.policy.bundles import unpack
from gitops_bot.policy.model import Policy
from gitops_bot.policy.people import REQUESTS_ROLE
from gitops_bot.policy.rules import excluded, tally, voters_of
from gitops_bot.signed import publication, requesting
from gitops_bot.signed.bot_key import BotKey
from gitops_bot.signed.channel import Place
from gitops_bot.signed.evidence import ObjectId, Signed, Window
from gitops_bot.signed.grammar import read_commit
from gitops_bot.signed.keys import Keys, holder_of
from gitops_bot.signed.looking import PUBLISH
from gitops_bot.signed.publication import Receipt
from gitops_bot.signed.publishing import Foreign, Publisher
from gitops_bot.signed.rendering import DECISIONS, Request
from gitops_bot.signed.repository import Repository
from gitops_bot.store import asks, bundles, due, ledger, signed_commits, signed_votes
from gitops_bot.store.due import Claimed
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.signed_commits import COUNTED, REVOCATION
from gitops_bot.store.states import CommitState

BATCH: Final = 200
LEASE_MS: Final = 30_000
"""So long a piece waits after a broker that was killed with it; published twice, it changes nothing."""
HEAD: Final = "head"
HEAD_EVERY: Final = 600_000
"""Milliseconds between anchored heads of the ledger."""

_FIXES: Final[Mapping[str, str]] = {
    Reason.BYTES_DIFFER.value: "Take the file from the requests branch, or use `gitops-bot approval sign`.",
    Reason.MESSAGE_DIFFERS.value: "Take the message from the requests branch, or use `gitops-bot approval sign`.",
    Reason.WEAK_KEY_KIND.value: "Sign with a security key that the policy names for you.",
    Reason.SIGNATURE_TIME.value: "Set the clock right and sign again.",
    Reason.UNSIGNED.value: "Sign the commit: `git commit-tree -S`, or `gitops-bot approval sign`.",
    Reason.HISTORY_REWRITTEN.value: "Push the stored tip again, or ask for `gitops-bot approval thaw` on the host.",
    Reason.FROZEN.value: "Push the stored tip again, or ask for `gitops-bot approval thaw` on the host.",
}


class Announcer:
    """The duty that writes the requests branch; implements `ports.Duty`."""

    name = PUBLISH

    def __init__(
        self,
        database: Database,
        rules: Rules,
        place: Place,
        repository: Repository,
        bot: BotKey,
        recognise: Callable[[ObjectId, bytes], bool],
    ) -> None:
        """Take what is published and by which key; `recognise` as `Publisher` has it."""
        self._database = database
        self._rules = rules
        self._place = place
        self._publisher = Publisher(repository, bot, place.environment, recognise=recognise)

    def arm(self) -> None:
        """Make what every environment publishes due: its bundle, its requests, the ledger's head."""
        with self._database.write() as tx:
            due.ensure(tx, self.name, f"bundle:{self._rules.policy.digest}")
            due.ensure(tx, self.name, HEAD)

    def step(self) -> float:
        """Publish one batch of what is due. Gives the seconds until there may be more."""
        try:
            stored = requesting.store_missing(self._database, self._rules, self._place)
            if stored.stored:
                with self._database.write() as tx:
                    for ask in stored.stored:
                        due.ensure(tx, self.name, f"request:{ask}")
            with self._database.read() as tx:
                soonest = due.next_due(tx, self.name)
                now = tx.now
            if soonest is None or soonest > now:
                return IDLE_SECONDS if soonest is None else min(IDLE_SECONDS, (soonest - now) / 1000)
            return self._batch()
        except Unavailable:
            return IDLE_SECONDS

    def _batch(self) -> float:
        with self._database.write() as tx:
            batch = due.claim(tx, self.name, BATCH, LEASE_MS)
            at = tx.now
        if not batch:
            return IDLE_SECONDS
        files: dict[str, bytes] = {}
        with self._database.read() as tx:
            for claimed in batch:
                files |= self._files(tx, claimed.key)
        try:
            published = self._publisher.publish(files, at)
        except Unavailable as error:
            with self._database.write() as tx:
                for claimed in batch:
                    due.again(tx, claimed, tx.now + due.back_off(claimed.attempts, most_ms=60_000), error=str(error))
            return IDLE_SECONDS
        with self._database.write() as tx:
            for claimed in batch:
                self._finish(tx, claimed)
            for foreign in published.foreign:
                self._tell(tx, foreign)
        for foreign in published.foreign:
            self._publisher.reported(foreign)
        return 0.0 if len(batch) == BATCH else IDLE_SECONDS

    def _finish(self, tx: Tx, claimed: Claimed) -> None:
        if claimed.key == HEAD:
            due.again(tx, claimed, tx.now + HEAD_EVERY, firm=True)
        else:
            due.done(tx, claimed)

    def _tell(self, tx: Tx, foreign: Foreign) -> None:
        facts = {"finding": foreign.finding.value, "commit": foreign.commit}
        ledger.append(tx, Entry(EventKind.REQUESTS_FOREIGN, tx.now, channel="signed", facts=facts))

    def _files(self, tx: Tx, key: str) -> dict[str, bytes]:
        kind, _, rest = key.partition(":")
        match kind:
            case "request":
                return self._request(tx, AskId(rest))
            case "receipts":
                ask, _, person = rest.partition(":")
                return receipts_of(tx, self._rules, AskId(ask), PrincipalName(person))
            case "bundle":
                found = bundles.get(tx, rest)
                return {} if found is None else _bundle(Digest(rest), found.content)
            case "head":
                return self._head(tx)
            case _:
                raise Malformed("no piece of the requests branch", where=ascii(key)[:80])

    def _head(self, tx: Tx) -> dict[str, bytes]:
        head = ledger.head(tx)
        # The time of the seal, not of now: the same head again is the same file.
        at = ledger.sealed_at(tx, head.seq)
        return {} if at is None else publication.ledger_file(head.seq, head.hash, self._place.epoch, at)

    def _request(self, tx: Tx, ask_id: AskId) -> dict[str, bytes]:
        found = requesting.known(tx, ask_id)
        if found is None:
            return {}
        return request_files(self._rules, found.ask, found.request)


def _bundle(digest: Digest, content: bytes) -> dict[str, bytes]:
    """Give a stored bundle's files; one that another hand damaged is not published, and decides nothing either."""
    try:
        return publication.bundle_files(digest, unpack(content))
    except Malformed:
        return {}


def recogniser(policy: Policy, keys: Keys, place: Place) -> Callable[[ObjectId, bytes], bool]:
    """Make what tells whether a raw commit is signed by the policy's service for requests.

    A key that has ended since is not recognised: what it signed is then built upon as anybody's.
    """

    def recognise(oid: ObjectId, raw: bytes) -> bool:
        commit = read_commit(oid, raw)
        if isinstance(commit, Refused):
            return False
        found = keys.verify(commit, Window(commit.committed_at, place.skew))
        holder = holder_of(policy, found) if isinstance(found, Signed) else None
        return holder is not None and holder.role == REQUESTS_ROLE

    return recognise


def request_files(rules: Rules, ask: Ask, request: Request) -> dict[str, bytes]:
    """Give a request with the files and messages of everybody who may vote on it."""
    return publication.request_files(request, decisions_of(rules, ask))


def decisions_of(rules: Rules, ask: Ask) -> dict[PrincipalName, Collection[Decision]]:
    """Say which decisions each person may give on an ask: who may not approve may still deny."""
    rule = rule_of(rules, ask)
    if isinstance(rule, Refused):
        return {}
    barred = excluded(rule, ask.requester, ask.owner)
    return {
        name: (Decision.DENY,) if name in barred else DECISIONS for name in voters_of(rules.policy, rule, ask.owner)
    }


def receipts_of(tx: Tx, rules: Rules, ask_id: AskId, person: PrincipalName) -> dict[str, bytes]:
    """Give one person's receipts on one ask: what became of each commit that named it."""
    ask = asks.get(tx, ask_id)
    judged = [
        commit
        for commit in signed_commits.of_ask(tx, ask_id)
        if commit.person == person and commit.state is CommitState.JUDGED
    ]
    if ask is None or not judged:
        return {}
    votes, needed, missing = _standing(tx, rules, ask)
    receipts = []
    for commit in judged[-publication.MAX_RECEIPTS :]:
        assert commit.code is not None and commit.judged_at is not None
        receipts.append(
            Receipt(
                ask_id,
                person,
                ObjectId(commit.commit_id),
                commit.code,
                sentence_of(commit.code, commit.detail or ""),
                _FIXES.get(commit.code, ""),
                commit.judged_at,
                votes,
                needed,
                missing,
            )
        )
    return publication.receipt_file(receipts)


def _standing(tx: Tx, rules: Rules, ask: Ask) -> tuple[tuple[PrincipalName, ...], int, tuple[PrincipalName, ...]]:
    rule = rule_of(rules, ask)
    if isinstance(rule, Refused):
        return (), 0, ()
    cast = signed_votes.decisions(signed_votes.of_ask(tx, ask.id))
    policy = standing_policy(tx, rules.policy)
    quorum = tally(policy, rule, cast, requester=ask.requester, agent_owner=ask.owner)
    return quorum.approved_by, quorum.approve_needed, quorum.may_still


def sentence_of(code: str, detail: str) -> str:
    """Say what became of a commit."""
    if code == COUNTED:
        return "Counted."
    if code == REVOCATION:
        return "Taken: what was not executed yet is stopped."
    if code in tuple(Reason):
        return f"{SENTENCES[Reason(code)]} {detail}".strip()
    return "The branch's root."
