"""How effects leave: drafts, comments and reactions on the forge, the terminal signal on a loop's bridge, job ends.

Each delivery may be called twice for one effect. What the forge does not dedupe is looked for before it is written
again (by stored id, else marker and own author), and what a person sees is rendered from the rows as they are now.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitops_bot.authority.outbox import Delivered, Deliverer, Delivery, Impossible, Route
from gitops_bot.authority.rules import Rules, rule_of
from gitops_bot.authority.settling import quorum_of
from gitops_bot.broker import captures as moves
from gitops_bot.broker import mirror, pulls, sightings
from gitops_bot.broker.pacing import admit
from gitops_bot.core.asks import Ask, AskState
from gitops_bot.core.captures import CaptureState, slug
from gitops_bot.core.errors import Refused, Unavailable
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.readings import Reaction
from gitops_bot.forge import drafts, replies
from gitops_bot.ports import Capturer, Forge, LoopLink
from gitops_bot.store import agents, asks, captures, due, ledger, votes
from gitops_bot.store.captures import Capture, PullRequestRow
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.outbox import StoredEffect
from gitops_bot.store.states import SeatState

_FOREIGN_BRANCHES: Final = 5
"""So many branches of somebody else's are stepped over before an opening waits for a person to clear the way."""

_GONE: Final = Impossible("the rows moved on before it left")


def final(deliver: Deliverer) -> Deliverer:
    """Take what the forge refuses for good (a locked thread, a deleted branch) as the end of an effect: what waits
    behind it in its lane goes on, and nothing that it told of is undone. What a person can give back (a suspended
    installation) names a time, and is waited for."""

    def delivered(effect: StoredEffect) -> Delivery:
        try:
            return deliver(effect)
        except Unavailable as error:
            if error.refused and error.retry_after is None:
                return Impossible(str(error)[:300])
            raise

    return delivered


@dataclass(frozen=True, slots=True)
class OnForge:
    """Deliveries to the forge. `by_app`: the bot is a GitHub App, so that check runs mirror the status."""

    database: Database
    forge: Forge
    rules: Rules
    cost: str
    by_app: bool = False

    def routes(self) -> dict[str, Route]:
        """Give the routes of every effect of the forge."""
        mirrored = mirror.Mirror(self.database, self.forge, self._shown, self.by_app)
        return {
            "forge.open_draft": Route(self.open_draft, self.opened, most_attempts=None, admit=admit),
            "forge.status": Route(final(self.status), self.shown, admit=admit),
            "forge.react": Route(final(self.react), admit=admit),
            "forge.reply": Route(final(self.reply), admit=admit),
            "forge.supersede": Route(final(self.supersede), admit=admit),
            "forge.close": Route(final(self.close), self.closed, admit=admit),
            "forge.record": Route(final(self.record), self.recorded, admit=admit),
            mirror.KIND: Route(final(mirrored.deliver), admit=admit),
        }

    def _rows(self, effect: StoredEffect) -> tuple[Capture, Ask] | None:
        with self.database.read() as tx:
            capture = captures.get(tx, effect.payload["capture"])
            ask = asks.get(tx, capture.ask) if capture is not None and capture.ask else None
        return None if capture is None or ask is None else (capture, ask)

    def open_draft(self, effect: StoredEffect) -> Delivery:
        """Publish the branch and open the draft; a branch and a pull request that are there already are taken."""
        rows = self._rows(effect)
        if rows is None or rows[1].id != effect.payload["ask"] or rows[1].state is not AskState.OPEN:
            return _GONE
        capture, ask = rows
        with self.database.read() as tx:
            turn = captures.turns(tx, capture.repository, f"capture/{slug(capture.trace_id)}") + 1
        proposal = self._proposal(capture, ask)
        repository = self.forge.repository(capture.repository)
        for number in range(turn, turn + _FOREIGN_BRANCHES):
            draft = drafts.draft(proposal, number)
            try:
                head = self.forge.publish_branch(capture.repository, draft.branch, draft.files, draft.message)
            except Unavailable as error:
                if not error.refused or error.retry_after is not None or number + 1 == turn + _FOREIGN_BRANCHES:
                    raise
                continue  # a branch of that name is there, and not ours
            pull = self.forge.open_draft(capture.repository, draft.branch, draft.title, draft.body)
            break
        return Delivered(
            {
                "repository_id": repository.id,
                "number": pull.number,
                "url": pull.url,
                "branch": draft.branch,
                "head": head,
                "base": pull.base_ref,
            }
        )

    def _proposal(self, capture: Capture, ask: Ask) -> drafts.Proposal:
        rule = rule_of(self.rules, ask)
        return drafts.Proposal(
            ask=ask.id,
            regime=capture.regime,
            why=capture.why,
            requester=capture.requester,
            cost=self.cost,
            may_vote=self._voters(ask),
            needed=1 if isinstance(rule, Refused) else rule.approve,
            expires_at=ask.expires_at,
        )

    def _voters(self, ask: Ask) -> tuple[str, ...]:
        with self.database.read() as tx:
            quorum = quorum_of(tx, self.rules, ask)
        return () if isinstance(quorum, Refused) else (*quorum.approved_by, *quorum.may_still)

    def opened(self, tx: Tx, effect: StoredEffect, result: Mapping[str, Any]) -> None:
        """Remember the pull request, its head and base as the bot made them, and show the first status."""
        capture = captures.get(tx, effect.payload["capture"], lock=True)
        assert capture is not None
        row = PullRequestRow(
            repository=capture.repository,
            number=result["number"],
            repository_id=result["repository_id"],
            capture=capture.id,
            ask=effect.payload["ask"],
            branch=result["branch"],
            head=result["head"],
            base=result["base"],
            closed=False,
        )
        captures.add_pull_request(tx, row)
        pulls.look_again(tx, row.repository)
        facts = {"number": row.number, "url": result["url"], "head": row.head}
        entry = Entry(EventKind.PULL_REQUEST_OPENED, tx.now, ask=row.ask, capture=capture.id, facts=facts)
        ledger.append(tx, entry)
        if capture.ask != effect.payload["ask"]:
            return
        captures.change(
            tx,
            capture,
            pull_request=row.number,
            url=result["url"],
            branch=row.branch,
            head=row.head,
            base=row.base,
            status_comment=None,
        )
        changed = captures.get(tx, capture.id)
        assert changed is not None
        moves.show(tx, changed)
        due.set_due(tx, moves.DUTY, capture.id, tx.now)

    def status(self, effect: StoredEffect) -> Delivery:
        """Write or update the one status comment of a pull request, from the rows as they are now."""
        rows = self._rows(effect)
        number = effect.payload["number"]
        if rows is None or rows[0].pull_request != number:
            return _GONE
        capture, ask = rows
        self._mirror(effect, capture, ask.id)
        text = replies.status(self._card(capture, ask))
        return Delivered({"comment": self._write(capture, number, ask, capture.status_comment, text)})

    def _write(self, capture: Capture, number: int, ask: Ask, known: int | None, text: str) -> int:
        """Bring a status comment up to date: by its stored id, else by its marker and author, else as a new one."""
        if known is not None:
            try:
                self.forge.edit_comment(capture.repository, known, text)
                return known
            except Unavailable as error:
                if not error.refused:
                    raise
        found = self.forge.find_comment(capture.repository, number, replies.ask_marker(ask.id))
        if found is None or found == known:
            return self.forge.create_comment(capture.repository, number, text)
        self.forge.edit_comment(capture.repository, found, text)
        return found

    def supersede(self, effect: StoredEffect) -> Delivery:
        """Let the status of a pull request that was replaced point to its successor, which was opened before."""
        said = effect.payload
        with self.database.read() as tx:
            capture, ask = captures.get(tx, said["capture"]), asks.get(tx, said["ask"])
        if capture is None or ask is None:
            return _GONE
        self._mirror(effect, capture, ask.id)
        card = self._replaced(capture, ask)
        return Delivered({"comment": self._write(capture, said["number"], ask, said["comment"], replies.status(card))})

    def _mirror(self, effect: StoredEffect, capture: Capture, ask: str) -> None:
        if self.by_app:
            with self.database.write() as tx:
                mirror.show(tx, effect, capture.id, ask, effect.payload["number"])

    def _shown(self, capture: Capture, ask: Ask) -> replies.Card:
        return self._card(capture, ask) if capture.ask == ask.id else self._replaced(capture, ask)

    def _replaced(self, capture: Capture, ask: Ask) -> replies.Card:
        with self.database.read() as tx:
            follower = captures.pull_request_of(tx, capture.id, capture.ask) if capture.ask else None
        number = None if follower is None else follower.number
        return replies.Card(ask.id, capture.trace_id, AskState.SUPERSEDED, CaptureState.REQUESTED, 0, successor=number)

    def shown(self, tx: Tx, effect: StoredEffect, result: Mapping[str, Any]) -> None:
        """Remember the status comment by its id."""
        capture = captures.get(tx, effect.payload["capture"], lock=True)
        assert capture is not None
        if capture.pull_request == effect.payload["number"] and capture.status_comment is None:
            captures.change(tx, capture, status_comment=result["comment"])

    def _card(self, capture: Capture, ask: Ask) -> replies.Card:
        with self.database.read() as tx:
            quorum = quorum_of(tx, self.rules, ask)
            verdict = votes.verdict(tx, ask.id)
            row = captures.pull_request_of(tx, capture.id, ask.id)
            seen = None if row is None else sightings.last(tx, row.repository_id, row.number)
        remark = seen.remark() if seen is not None and ask.state is AskState.OPEN else ""
        known = not isinstance(quorum, Refused)
        return replies.Card(
            ask=ask.id,
            trace_id=capture.trace_id,
            state=ask.state,
            capture=capture.state,
            needed=quorum.approve_needed if not isinstance(quorum, Refused) else 1,
            approved_by=tuple(quorum.approved_by) if not isinstance(quorum, Refused) else (),
            may_vote=self._voters(ask) if known else (),
            by=tuple(verdict.by) if verdict is not None else (),
            note=(verdict.text if verdict is not None and verdict.text else "") or capture.error or remark,
            expires_at=ask.expires_at,
        )

    def react(self, effect: StoredEffect) -> Delivery:
        """Leave a reaction; the forge keeps one of a kind."""
        said = effect.payload
        self.forge.react(said["repository"], said["comment"], Reaction(said["reaction"]))
        return Delivered({})

    def reply(self, effect: StoredEffect) -> Delivery:
        """Write one reply; after an unclear attempt look for it first."""
        said = effect.payload
        comment = None
        if effect.attempted_before:
            comment = self.forge.find_comment(said["repository"], said["number"], said["marker"])
        if comment is None:
            comment = self.forge.create_comment(said["repository"], said["number"], said["body"])
        return Delivered({"comment": comment})

    def close(self, effect: StoredEffect) -> Delivery:
        """Close the pull request of an ask that is over."""
        rows = self._rows(effect)
        if rows is None:
            return _GONE
        self.forge.close(rows[0].repository, effect.payload["number"])
        return Delivered({"number": effect.payload["number"]})

    def closed(self, tx: Tx, effect: StoredEffect, result: Mapping[str, Any]) -> None:
        """Remember that it is closed."""
        captures.close_pull_request(tx, effect.payload["capture"], result["number"])

    def record(self, effect: StoredEffect) -> Delivery:
        """Commit the calibration and take the pull request out of draft; merging it is the record, not an authority."""
        rows = self._rows(effect)
        if rows is None or rows[0].pull_request is None or rows[0].branch is None:
            return _GONE
        capture = rows[0]
        content = drafts.calibration_json(capture.knobs or {}, capture.digest or "", f"captures/{capture.job}")
        path = drafts.calibration_path(capture.trace_id)
        message = f"Record the calibration of {capture.trace_id}"
        assert capture.branch is not None and capture.pull_request is not None
        head = self.forge.commit_file(capture.repository, capture.branch, path, content, message)
        self.forge.mark_ready(capture.repository, capture.pull_request)
        return Delivered({"head": head, "number": capture.pull_request})

    def recorded(self, tx: Tx, effect: StoredEffect, result: Mapping[str, Any]) -> None:
        """Tell the ledger, and let go of the pull request: what becomes of it from here on decides nothing."""
        captures.close_pull_request(tx, effect.payload["capture"], result["number"])
        facts = {"number": result["number"], "head": result["head"]}
        entry = Entry(EventKind.PULL_REQUEST_READY, tx.now, capture=effect.payload["capture"], facts=facts)
        ledger.append(tx, entry)


@dataclass(frozen=True, slots=True)
class OnBridge:
    """The terminal signal to loops: sent again with the same key until it was acknowledged (I10)."""

    database: Database
    link: LoopLink

    def routes(self) -> dict[str, Route]:
        """Give the routes of both signals; a wake is tried for ever."""
        return {
            "bridge.rescope": Route(self.rescope, self.rescoped, most_attempts=None),
            "bridge.deny": Route(self.deny, self.denied, most_attempts=None),
        }

    def rescope(self, effect: StoredEffect) -> Delivery:
        """Send `rescope`, unless its authority went away meanwhile. An attempt that failed gives no right to the next:
        a loop that was away while somebody revoked gets the deny that stands behind this in its lane."""
        said = effect.payload
        if not self._may_still(effect, rescope=True):
            return _GONE
        command = {"cmd": "rescope", "regime": said["trace_id"], "id": f"rescope:{said['ask']}"}
        return self._send(said["loop"], command)

    def deny(self, effect: StoredEffect) -> Delivery:
        """Send `deny` to a seat that waits."""
        said = effect.payload
        if not self._may_still(effect, rescope=False):
            return _GONE
        reason = said["reason"] or "rejected"
        command = {"cmd": "deny", "reason": reason, "trace_id": said["trace_id"], "id": f"deny:{said['ask']}"}
        return self._send(said["loop"], command)

    def _may_still(self, effect: StoredEffect, *, rescope: bool) -> bool:
        said = effect.payload
        with self.database.read() as tx:
            capture = captures.get(tx, said["capture"])
            waits = any(
                (seat.loop, seat.run_version, seat.state) == (said["loop"], said["run_version"], SeatState.WAITING)
                for seat in captures.seats(tx, said["capture"])
            )
            revoked = bool(votes.revocations_of(tx, said["ask"]))
        ready = capture is not None and capture.state in (CaptureState.READY, CaptureState.RESCOPED)
        return waits and (not rescope or (ready and not revoked and capture is not None and capture.ask == said["ask"]))

    def _send(self, loop_id: str, command: Mapping[str, str]) -> Delivery:
        with self.database.read() as tx:
            loop, token = agents.loop(tx, loop_id), agents.loop_token(tx, loop_id)
        if loop is None or token is None:
            return Impossible("the loop is not registered")
        reply = self.link.send(loop.address, token, command)
        if not reply.acknowledged:
            return Impossible(f"the loop refused: {reply.error or 'no reason'}"[:300])
        return Delivered({"dup": reply.dup})

    def rescoped(self, tx: Tx, effect: StoredEffect, result: Mapping[str, Any]) -> None:
        """The loop has it: its seat ends, the capture looks whether all were told."""
        self._land(tx, effect, SeatState.RESCOPED, EventKind.RESCOPE_ACKNOWLEDGED, result)

    def denied(self, tx: Tx, effect: StoredEffect, result: Mapping[str, Any]) -> None:
        """The loop has it: its seat ends."""
        self._land(tx, effect, SeatState.DENIED, EventKind.DENY_ACKNOWLEDGED, result)

    def _land(self, tx: Tx, effect: StoredEffect, state: SeatState, kind: EventKind, result: Mapping[str, Any]) -> None:
        said = effect.payload
        seat = captures.Seat(
            said["capture"], said["run"], said["loop"], said["run_version"], "block", SeatState.WAITING
        )
        captures.leave(tx, seat, state)
        facts = {"loop": said["loop"], "trace_id": said["trace_id"], "dup": bool(result.get("dup"))}
        entry = Entry(kind, tx.now, ask=said["ask"], run=said["run"], capture=said["capture"], facts=facts)
        ledger.append(tx, entry)
        due.set_due(tx, moves.DUTY, said["capture"], tx.now)


def job_routes(capturer: Capturer) -> dict[str, Route]:
    """Give the route that ends a job whose authority went away."""

    def cancel(effect: StoredEffect) -> Delivery:
        capturer.cancel(effect.payload["job"])
        return Delivered({})

    return {"capture.cancel": Route(cancel)}
