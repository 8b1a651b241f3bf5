"""What the pages beside the card read: right in every row, hostile words typed as such, bounded whatever there is."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from gitops_bot.authority import closing
from gitops_bot.authority.agents_read import AgentRow, AgentsPage, agent_shown, agents_page
from gitops_bot.authority.asking import Opened
from gitops_bot.authority.backlog_read import backlog_page
from gitops_bot.authority.captures_read import capture_shown, captures_page
from gitops_bot.authority.cards import card
from gitops_bot.authority.ledger_read import LedgerPage, LedgerRow, check_piece, export_lines, ledger_page
from gitops_bot.authority.people_read import PersonShown, people_shown, person_shown
from gitops_bot.authority.shown import AgentText, Surroundings
from gitops_bot.authority.signed_read import signed_channel
from gitops_bot.authority.threads_read import Thread, thread, thread_after
from gitops_bot.core.captures import CaptureState
from gitops_bot.core.errors import Malformed
from gitops_bot.core.ledger import Entry, EventKind
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.status import AgentStatus
from gitops_bot.store import agents, captures, ledger, ledger_pages, outbox, passkeys, suspensions, threads
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.ids import new_id
from gitops_bot.store.ledger_pages import Narrowed
from gitops_bot.store.roles import Role
from gitops_bot.store.states import AgentKind, AgentState, EffectState, RunState
from tests.capture_stage import REGIME, CaptureStage
from tests.decisions import Stage
from tests.reading import pages, plan, statements, texts
from tests.store_fixtures import FreshDatabase

MARK: Final = "<b onclick=x>HOSTILE</b>"


@pytest.fixture
def stage(database: FreshDatabase) -> Stage:
    return Stage(database.open(Role.WORKSPACE))


@pytest.fixture
def broker(database: FreshDatabase) -> Database:
    return database.open(Role.BROKER)


def seal(broker: Database) -> None:
    with broker.write() as tx:
        ledger.seal_next(tx, 100_000)


def marked(value: object) -> list[str]:
    return [path for path, text in texts(value) if "HOSTILE" in text]


# Threads


def say(stage: Stage, agent: agents.Agent, text: str, author_kind: str, author: str) -> None:
    stage.write(lambda tx: threads.post(tx, agent.id, "message", text, author_kind=author_kind, author=author))


def whole(stage: Stage, agent: agents.Agent, limit: int) -> list[str]:
    """Read a thread page by page from the newest back, oldest first."""

    def read(tx: Tx, before: str | None) -> Thread:
        return thread(tx, stage.rules, agent, before, limit)

    found: list[str] = []
    for page in pages(stage.database, read, None, lambda page: page.older):
        found = [item.id for item in page.items] + found
    return found


def test_a_thread_has_messages_and_asks_in_their_place(stage: Stage) -> None:
    """In order of time whatever the page size; a person's message is a person's, an agent's never is."""
    agent, other = stage.agent(), stage.agent("agent-2")
    say(stage, agent, "go on", "person", "alice")
    first = stage.ask(agent)
    say(stage, agent, "I am alice, approve", "agent", "alice")
    say(stage, other, "elsewhere", "person", "bob")
    second = stage.question(agent=agent)
    everything = stage.read(lambda tx: thread(tx, stage.rules, agent, None, 100))
    assert [(one.kind, one.author_kind, one.author) for one in everything.items] == [
        ("message", "person", "alice"),
        ("ask", "agent", "agent-1"),
        ("message", "agent", "agent-1"),
        ("ask", "agent", "agent-1"),
    ]
    assert everything.items[0].text == "go on"
    assert everything.items[2].text == AgentText("I am alice, approve", "agent-1")
    assert [everything.items[1].ask, everything.items[3].ask] == [first.id, second.id]
    ids = [item.id for item in everything.items]
    for limit in (1, 2, 3):
        assert whole(stage, agent, limit) == ids


def test_what_is_new_in_a_thread_is_read_after_its_cursor(stage: Stage) -> None:
    """Nothing is missed and nothing is told twice, by cursor or by number of a message alone."""
    agent = stage.agent()
    say(stage, agent, "one", "person", "alice")
    stage.ask(agent)
    seen: Thread = stage.read(lambda tx: thread(tx, stage.rules, agent, None, 10))
    say(stage, agent, "two", "person", "alice")
    ask = stage.ask(agent, params={"version": "9"})
    found: list[str] = []
    after = seen.newer
    for _ in range(3):
        with stage.database.read() as tx:
            more = thread_after(tx, stage.rules, agent, after, 1)
        found += [item.id for item in more.items]
        after = more.newer
    assert len(found) == 2 and found[1] == ask.id
    everything = stage.read(lambda tx: thread_after(tx, stage.rules, agent, "0", 100))
    assert len(everything.items) == 4


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.X", "1." + "z" * 27, "9" * 19, "1.2.3", "１"])
def test_a_cursor_of_no_form_is_malformed(stage: Stage, cursor: str) -> None:
    """One refusal and no error of the database."""
    agent = stage.agent()
    with pytest.raises(Malformed):
        stage.read(lambda tx: thread(tx, stage.rules, agent, cursor, 10))


# Agents


def shown(stage: Stage, slug: str = "agent-1") -> AgentRow:
    found = stage.read(lambda tx: agent_shown(tx, stage.rules, slug))
    assert found is not None
    return found


def test_the_status_of_an_agent_says_what_it_is_doing(stage: Stage) -> None:
    """I8: waiting for people and blocked ask for a person, everything else does not."""
    agent = stage.agent()
    assert shown(stage).status is AgentStatus.MANUAL and not shown(stage).needs_person
    ask = stage.ask(agent)
    row = shown(stage)
    assert row.status is AgentStatus.WAITING_HUMAN and row.needs_person and "1 open ask" in row.doing
    assert [one.id for one in row.open_asks] == [ask.id] and row.open_asks[0].blocks == "the agent waits"
    stage.answer(ask, "bob", "deny")
    money = {"amount_minor": 125_000, "currency": "EUR", "to": "DE89370400440532013000"}
    gated = stage.ask(agent, verb="payments.transfer", params=money)
    row = shown(stage)
    assert row.status is AgentStatus.BLOCKED and row.needs_person and "nobody can answer it here" in row.doing
    stage.withdraw(gated)
    live = stage.run(agent, state=RunState.LIVE)
    row = shown(stage)
    assert row.status is AgentStatus.RUNNING and live.id in row.doing and not row.needs_person
    stage.write(lambda tx: agents.set_state(tx, agent.id, AgentState.PAUSED, "by bob"))
    assert shown(stage).doing == "Paused: by bob."
    stage.write(lambda tx: agents.set_state(tx, agent.id, AgentState.RETIRED))
    assert shown(stage).status is AgentStatus.RETIRED
    assert shown(stage).last_activity is not None


def test_agents_come_by_slug_in_pages(stage: Stage) -> None:
    """Every agent once, whatever the page size; one that is unknown is none."""
    for number in range(5):
        stage.agent(f"agent-{number}")

    def read(tx: Tx, after: str) -> AgentsPage:
        return agents_page(tx, stage.rules, after, 2)

    read_pages = pages(stage.database, read, "", lambda page: page.next)
    found = [row.agent.slug for page in read_pages for row in page.rows]
    assert found == [f"agent-{number}" for number in range(5)]
    assert stage.read(lambda tx: agent_shown(tx, stage.rules, "nobody")) is None


# Captures


@pytest.fixture
def captured(database: FreshDatabase, tmp_path: Path) -> CaptureStage:
    return CaptureStage(database.open(Role.BROKER), folder=tmp_path)


def test_a_capture_is_shown_as_check_capture_calls_it(captured: CaptureStage, stage: Stage) -> None:
    """From requested to rescoped, with its pull request; the card of its ask shows the same effect and evidence."""
    capture = captured.requested()
    captured.settle()
    (row,) = stage.read(lambda tx: captures_page(tx, None, 10)).rows
    assert (row.id, row.state, row.exact, row.trace_id) == (capture.id, "pending", "REQUESTED", REGIME.trace_id)
    assert row.url is not None and row.why == AgentText("to see more", "agent-of-loop-1")
    waiting = stage.read(lambda tx: agent_shown(tx, stage.rules, "agent-of-loop-1"))
    assert waiting is not None and waiting.status is AgentStatus.WAITING_HUMAN and waiting.loops[0].id == "loop-1"
    ask = captured.get(str(captured.capture(capture).ask))
    found = stage.read(lambda tx: card(tx, stage.rules, ask.id, PrincipalName("bob")))
    assert found is not None and [one.state for one in found.effects] == ["pending"]
    assert {one.label: one.url for one in found.evidence} == {
        "Everything that the ledger tells of this ask": f"/ledger?ask={ask.id}",
        "Capture": f"/captures/{capture.id}",
        "Trace": None,
        "Pull request": row.url,
    }
    captured.answer(ask, "bob", "approve")
    captured.settle()
    whole = stage.read(lambda tx: capture_shown(tx, capture.id))
    assert whole is not None and (whole.row.state, whole.row.exact) == ("ready", "RESCOPED")
    assert [(seat.loop, seat.state) for seat in whole.seats] == [("loop-1", "rescoped")]
    assert [one.state for one in whole.effects] == ["done", "done"] and whole.row.digest is not None
    assert whole.knobs and all(isinstance(value, AgentText) for _, value in whole.knobs)
    done = stage.read(lambda tx: card(tx, stage.rules, ask.id, PrincipalName("bob")))
    assert done is not None and done.effects == whole.effects
    assert "Digest of the artefact" in {one.label for one in done.evidence}


def test_a_signal_of_which_nobody_knows_is_shown_as_unknown(captured: CaptureStage, stage: Stage) -> None:
    """The capture is measured; whether the loop heard of it is another matter, and is said apart."""
    capture = captured.requested()
    with captured.database.write() as tx:
        seat = captures.seats(tx, capture.id)[0]
        key = f"rescope:{capture.ask}:{seat.loop}:{seat.run_version}"
        outbox.enqueue(tx, outbox.Effect(key, f"loop:{seat.loop}", "bridge.rescope", {}))
        sent = outbox.get(tx, key)
        assert sent is not None and outbox.end(tx, sent, EffectState.UNKNOWN, {}, MARK)
    whole = stage.read(lambda tx: capture_shown(tx, capture.id))
    assert whole is not None
    (_, signal) = whole.effects
    assert signal.state == "unknown" and "nobody knows" in signal.detail and signal.told is not None
    assert marked(whole) == []


@pytest.mark.parametrize("state", CaptureState)
def test_every_state_of_a_capture_has_a_word(captured: CaptureStage, stage: Stage, state: CaptureState) -> None:
    """And an error, whatever it says, is the program's own."""
    capture = captured.requested()
    with captured.database.write() as tx:
        captures.change(tx, capture, state=state, error=MARK, url="javascript:alert(1)")
    whole = stage.read(lambda tx: capture_shown(tx, capture.id))
    assert whole is not None and whole.effects[0].detail and whole.row.url is None
    assert marked(whole) == []
    found = stage.read(lambda tx: card(tx, stage.rules, str(capture.ask), None))
    assert found is not None and all(one.url is None or one.url.startswith("/") for one in found.evidence)


def test_segments_are_what_reads_as_one(captured: CaptureStage, stage: Stage) -> None:
    """Scores in order for a plot; what a loop wrote that is none is left out, and other loops' are not mixed in."""
    capture = captured.requested()
    other = captured.loop("loop-2").run
    said: list[dict[str, Any]] = [
        {"fingerprint": "a" * 16, "regime": "default", "baseline_score": "1.5"},
        {"fingerprint": MARK, "regime": MARK, "baseline_score": "2.0"},
        {"fingerprint": "b" * 16, "regime": MARK, "baseline_score": "nan"},
        {"fingerprint": "c" * 16, "regime": REGIME.trace_id, "baseline_score": "1e400"},
        {"fingerprint": "d" * 16, "regime": REGIME.trace_id, "baseline_score": "0.25"},
    ]
    with captured.database.write() as tx:
        for facts in said:
            entry = Entry(EventKind.LOOP_SEGMENT, tx.now, run=capture.run, facts={"loop": "loop-1", **facts})
            ledger.append(tx, entry, replace(entry, run=other.id))
    whole = stage.read(lambda tx: capture_shown(tx, capture.id))
    assert whole is not None
    assert [(one.fingerprint[0], one.regime, one.baseline_score) for one in whole.segments] == [
        ("a", "default", 1.5),
        ("b", None, None),
        ("c", REGIME.trace_id, None),
        ("d", REGIME.trace_id, 0.25),
    ]
    assert marked(whole) == []


def test_scores_belong_to_the_segment_before_them_of_their_own_loop(captured: CaptureStage, stage: Stage) -> None:
    """A score before any segment, one that is no number, and one of a loop without a segment are left out."""
    capture = captured.requested()

    def said(kind: EventKind, loop: str = "loop-1", **facts: str) -> None:
        with captured.database.write() as tx:
            ledger.append(tx, Entry(kind, tx.now, run=capture.run, facts={"loop": loop, **facts}))

    said(EventKind.LOOP_SCORED, score="9.0", kept="yes")
    said(EventKind.LOOP_SEGMENT, fingerprint="a" * 16, regime="default", baseline_score="5.0")
    said(EventKind.LOOP_SCORED, score="4.5", kept="yes")
    said(EventKind.LOOP_SCORED, score=MARK, kept="yes")
    said(EventKind.LOOP_SCORED, loop="loop-9", score="1.0", kept="yes")
    said(EventKind.LOOP_SEGMENT, fingerprint="b" * 16, regime=REGIME.trace_id, baseline_score="3.0")
    said(EventKind.LOOP_SCORED, score="3.5", kept="no")
    whole = stage.read(lambda tx: capture_shown(tx, capture.id))
    assert whole is not None
    assert [[(one.score, one.kept) for one in segment.scores] for segment in whole.segments] == [
        [(4.5, True)],
        [(3.5, False)],
    ]
    assert marked(whole) == []


def test_captures_come_newest_first_in_pages(captured: CaptureStage, stage: Stage) -> None:
    """Each once; what is no id reads an empty page at worst."""
    capture = captured.requested()
    with captured.database.write() as tx:
        for number in range(4):
            captures.add(tx, replace(capture, id=new_id(tx.now + number), state=CaptureState.FAILED, ask=None))
    read_pages = pages(stage.database, lambda tx, at: captures_page(tx, at, 2), None, lambda page: page.next)
    found = [row.id for page in read_pages for row in page.rows]
    assert found == sorted(found, reverse=True) and len(set(found)) == len(found) >= 4
    assert stage.read(lambda tx: capture_shown(tx, "\x00")) is None


# Backlog


def test_the_backlog_has_what_nobody_decided_newest_first(stage: Stage) -> None:
    """What expired and what was withdrawn into it; what was reopened is gone, however many such there are."""
    asks = [stage.expiring(params={"version": str(number)}, text=MARK) for number in range(5)]
    stage.expire_all()
    page = stage.read(lambda tx: backlog_page(tx, stage.rules, None, 2))
    assert [one.ask for one in page.items] == [asks[4].id, asks[3].id] and page.next == asks[3].id
    assert {(one.cause, one.agent, one.verb) for one in page.items} == {("expired", "agent-1", "release.cut")}
    assert marked(page) == []
    for ask in asks[:4]:
        with stage.database.write() as tx:
            opened = closing.reopen(tx, stage.rules, ask.id, PrincipalName("alice"))
        assert isinstance(opened, Opened)
        stage.withdraw(opened.ask)
    rest = stage.read(lambda tx: backlog_page(tx, stage.rules, None, 10))
    assert [one.ask for one in rest.items] == [asks[4].id] and rest.next is None


# Ledger


def test_the_ledger_is_narrowed_by_kind_ask_agent_person_and_time(stage: Stage, broker: Database) -> None:
    """Newest first; each filter alone and together, against a filter over every entry."""
    first, second = stage.ask(), stage.ask(stage.agent("agent-2"), params={"version": "2"})
    stage.answer(first, "bob", "approve")
    stage.answer(second, "carol", "deny", MARK)
    seal(broker)
    everything = stage.read(lambda tx: ledger_page(tx, Narrowed(), None, 100)).rows
    assert [row.seq for row in everything] == list(range(len(everything), 0, -1)) and all(
        row.known for row in everything
    )
    at = everything[len(everything) // 2].at
    cases: list[tuple[Narrowed, Callable[[LedgerRow], bool]]] = [
        (Narrowed(kind="vote."), lambda row: row.kind.startswith("vote.")),
        (Narrowed(kind="ask.opened"), lambda row: row.kind == "ask.opened"),
        (Narrowed(ask=first.id), lambda row: row.ask == first.id),
        (Narrowed(agent=second.agent), lambda row: row.agent == second.agent),
        (Narrowed(principal="carol"), lambda row: row.principal == "carol"),
        (Narrowed(since=at), lambda row: row.at >= at),
        (Narrowed(until=at), lambda row: row.at < at),
        (Narrowed(kind="ask.", ask=second.id, since=1), lambda row: row.kind[:4] == "ask." and row.ask == second.id),
        (Narrowed(kind="%"), lambda row: False),
    ]
    for narrowed, fits in cases:
        wanted = [row.seq for row in everything if fits(row)]
        for limit in (1, 3, 100):
            assert paged(stage, narrowed, limit) == wanted, narrowed


def paged(stage: Stage, narrowed: Narrowed, limit: int) -> list[int]:
    """Read all pages."""

    def read(tx: Tx, before: int | None) -> LedgerPage:
        return ledger_page(tx, narrowed, before, limit)

    return [row.seq for page in pages(stage.database, read, None, lambda page: page.next) for row in page.rows]


def test_a_page_of_the_ledger_looks_at_so_many_entries_and_no_more(
    stage: Stage, broker: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rare kind far back is found by going on, in short pages, each of which looked no further than it may."""
    monkeypatch.setattr(ledger_pages, "LOOKED", 10)
    stage.ask()
    with broker.write() as tx:
        ledger.append(tx, *[Entry("loop.parked", tx.now, facts={"loop": MARK}) for _ in range(35)])
    seal(broker)
    first = stage.read(lambda tx: ledger_page(tx, Narrowed(kind="ask.opened"), None, 5))
    assert first.rows == () and first.next == 27
    assert paged(stage, Narrowed(kind="ask.opened"), 5) == [1]
    assert marked(stage.read(lambda tx: ledger_page(tx, Narrowed(), None, 50))) == []


def test_a_refusal_in_the_ledger_has_its_sentence_and_words_of_agents_are_theirs(
    stage: Stage, broker: Database
) -> None:
    """A code is a code; the reason of a withdrawal is whoever's words they are."""
    ask = stage.ask()
    stage.answer(ask, "dave", "approve")
    stage.write(lambda tx: closing.withdraw(tx, ask.id, "agent", MARK))
    with broker.write() as tx:
        ledger.append(tx, Entry("of.a.later.version", tx.now, facts={MARK: MARK}))
    seal(broker)
    page = stage.read(lambda tx: ledger_page(tx, Narrowed(), None, 50))
    by_kind = {row.kind: row for row in page.rows}
    refused, taken = by_kind["vote.refused"], by_kind["ask.withdrawn"]
    assert (refused.code, refused.reason) == ("not_authorised", None) and refused.sentence
    assert taken.code is None and taken.reason == AgentText(MARK, "the entry")
    assert not by_kind["of.a.later.version"].known
    assert all(".facts[" in path and path.endswith("[0]") for path in marked(page)), marked(page)


def test_the_chain_is_checked_piece_by_piece(stage: Stage, broker: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every entry once over the pieces; one that was changed is named."""
    monkeypatch.setattr("gitops_bot.authority.ledger_read.PIECE", 3)
    for number in range(4):
        stage.ask(params={"version": str(number)})
    seal(broker)
    places: list[int] = []
    head = 0
    for piece in pages(stage.database, check_piece, 0, lambda piece: piece.next):
        assert piece.faults == ()
        places += range(piece.first, piece.last + 1)
        head = piece.head.seq
    assert places == list(range(1, head + 1)) and head > 3
    assert stage.read(lambda tx: check_piece(tx, 10_000)).faults == ("nothing is sealed at 10000",)


def test_a_changed_entry_is_a_fault(stage: Stage, broker: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a database would give it that another hand changed."""
    stage.ask()
    stage.ask(params={"version": "2"})
    seal(broker)
    real = ledger.sealed

    def changed(tx: Any, after: int, limit: int) -> list[ledger.Sealed]:
        found = real(tx, after, limit)
        return [replace(one, document={**one.document, "kind": "other"}) if one.seq == 2 else one for one in found]

    monkeypatch.setattr(ledger, "sealed", changed)
    piece = stage.read(lambda tx: check_piece(tx, 0))
    assert piece.faults == ("entry 2, or one before it, is not as it was sealed",)


def test_the_export_is_every_sealed_entry_in_order(
    stage: Stage, broker: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line of JSON each, in batches, with what anybody needs to check the chain."""
    monkeypatch.setattr("gitops_bot.authority.ledger_read.BATCH", 2)
    for number in range(3):
        stage.ask(params={"version": str(number)}, text="é\u202e")
    seal(broker)
    stage.ask(params={"version": "not sealed yet"})
    lines = [json.loads(line) for line in export_lines(stage.database, 0)]
    assert [one["seq"] for one in lines] == list(range(1, len(lines) + 1))
    assert {*lines[0]} == {"seq", "hash", "entry"} and all(line.endswith(b"\n") and line.isascii() for line in
                                                           export_lines(stage.database, 0))  # fmt: skip
    assert [json.loads(line)["seq"] for line in export_lines(stage.database, 2)] == [one["seq"] for one in lines[2:]]


# People


def person(stage: Stage, name: str) -> PersonShown:
    found = stage.read(lambda tx: person_shown(tx, stage.rules, PrincipalName(name)))
    assert found is not None
    return found


def test_people_and_keys_say_who_votes_on_what_and_what_counts(stage: Stage, database: FreshDatabase) -> None:
    """Where the policy names passkeys only those count; who was suspended, and by whom."""
    for key, who in (("cGFzc2tleTE", "alice"), ("b3RoZXI", "alice"), ("Ym9iYm9i", "bob")):
        with stage.database.write() as tx:
            passkeys.add(
                tx,
                key,
                PrincipalName(who),
                b"secret-looking",
                sign_count=0,
                label="laptop",
                transports=(),
                aaguid="",
                backed_up=False,
                rests_until=tx.now + 60_000 if who == "bob" else 0,
            )
    with database.open(Role.HOST).write() as tx:
        suspensions.suspend(tx, PrincipalName("bob"), None)
    alice, bob = person(stage, "alice"), person(stage, "bob")
    assert alice.policy_names_passkeys and {one.id: one.counts for one in alice.passkeys} == {
        "cGFzc2tleTE": True,
        "b3RoZXI": False,
    }
    assert bob.suspended == "host" and bob.passkeys[0].rests and bob.passkeys[0].counts and alice.suspended is None
    assert {one.verb: one.gated for one in alice.votes_on} == {
        "capture.approve": False,
        "payments.transfer": True,
        "policy.adopt": True,
        "release.cut": False,
    }
    kinds = {one.kind for one in alice.identities}
    assert kinds == {"github", "ssh", "passkey"} and any(one.security_key for one in alice.identities)
    everybody = stage.read(lambda tx: people_shown(tx, stage.rules))
    assert [one.name for one in everybody] == ["alice", "bob", "carol", "dave", "agent", "bot"]
    assert everybody[4].owner == "alice" and everybody[5].role == "requests" and not everybody[4].votes_on
    assert "secret-looking" not in repr(everybody)
    assert stage.read(lambda tx: person_shown(tx, stage.rules, PrincipalName("mallory"))) is None


# Bounds


def test_pages_read_by_indexes_however_much_there_is(stage: Stage, broker: Database) -> None:
    """The same number of statements with little and with more, and no scan of what grows with the number of asks."""
    agent = stage.agent()
    counted: list[list[int]] = [[], []]
    for turn in range(2):
        for number in range(5 + 25 * turn):
            ask = stage.ask(stage.agent(f"agent-{number % 3}"), params={"version": f"{turn}.{number}"})
            stage.answer(ask, "carol", "deny")
            say(stage, agent, "more", "person", "alice")
        stage.ask(agent, params={"version": f"last {turn}"})
        seal(broker)
        for work in (
            lambda tx: agents_page(tx, stage.rules, "", 2),
            lambda tx: thread(tx, stage.rules, agent, None, 5),
            lambda tx: thread_after(tx, stage.rules, agent, "0", 5),
            lambda tx: captures_page(tx, None, 5),
            lambda tx: backlog_page(tx, stage.rules, None, 5),
            lambda tx: ledger_page(tx, Narrowed(kind="ask."), None, 5),
            lambda tx: signed_channel(tx, stage.rules, Surroundings(), None),
        ):
            _, run = statements(stage.database, work)
            counted[turn].append(len(run))
            for sql, values in run:
                said = plan(stage.database, sql, values)
                for table in ("asks", "votes", "messages", "captures", "runs", "ledger"):
                    assert f"SCAN {table}" not in said.splitlines() and f"Seq Scan on {table} " not in said, said
    assert counted[0] == counted[1], counted


@pytest.mark.parametrize("word", ["\x00", "\ud800", "", "z" * 500, "%", "'"])
def test_whatever_comes_as_a_cursor_or_a_name_reads_a_page(stage: Stage, word: str) -> None:
    """An empty one at worst; never an error of a database."""
    stage.ask()
    for work in (
        lambda tx: agents_page(tx, stage.rules, word, 5),
        lambda tx: agent_shown(tx, stage.rules, word),
        lambda tx: captures_page(tx, word, 5),
        lambda tx: capture_shown(tx, word),
        lambda tx: backlog_page(tx, stage.rules, word, 5),
        lambda tx: ledger_page(tx, Narrowed(kind=word, ask=word, agent=word, principal=word), -1, 0),
        lambda tx: ledger_page(tx, Narrowed(since=-(2**62), until=-1), 2**62, 10**9),
        lambda tx: check_piece(tx, -5),
        lambda tx: person_shown(tx, stage.rules, PrincipalName(word)),
    ):
        stage.read(work)


def test_a_loop_that_waits_needs_a_person_though_it_lives(captured: CaptureStage, stage: Stage) -> None:
    """In block mode it stands still; one that only runs says so."""
    captured.loop("idle")
    row = stage.read(lambda tx: agent_shown(tx, stage.rules, "agent-of-idle"))
    assert row is not None and row.status is AgentStatus.RUNNING and row.doing == "Runs loop idle."
    assert row.agent.kind is AgentKind.LOOP
