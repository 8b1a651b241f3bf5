"""The inbox with a hundred thousand open asks beside the same with a thousand, and answers over HTTP beside bare ones.

Both inboxes are pages of the real application (Flask's client, a signed-in person, no network), taken in turns in one
run on both engines. Bounds: the page under 50 ms at the 95th percentile, and no slower with a hundred times as much
open (ratio of medians at most 1.5); an answer under 15 ms at the 95th percentile, without the person's gesture, beside
a bare transaction that writes the same rows (`bench_answer`). An answer is a plain one, and a bound one whose
assertion is verified; what the person signed was made before the clock starts.

INBOX_OPEN and INBOX_ROUNDS in the environment make it smaller.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import insert

from benchmarks.bench_answer import on_postgresql, on_sqlite
from benchmarks.machine import median, timed
from gitops_bot.bootstrap.workspace import Services
from gitops_bot.broker.captures import Place
from gitops_bot.core.asks import Ask
from gitops_bot.core.canonical import action_bytes, action_hash, question_hash
from gitops_bot.store.engine import Tx
from gitops_bot.store.roles import Role
from gitops_bot.store.schema import metadata
from tests.decisions import VERB, Stage, rules_of
from tests.policy_bundles import GONE, Patch
from tests.signed_in import PersonClient, enrolled
from tests.store_fixtures import FreshDatabase
from workspace import create_app
from workspace.auth.limits import Limits, Rate, Rates

MANY: Final = int(os.environ.get("INBOX_OPEN", "100000"))
FEW: Final = MANY // 100
ROUNDS: Final = int(os.environ.get("INBOX_ROUNDS", "200"))
WARM: Final = 5
PAGE_BOUND: Final = 50.0
RATIO_BOUND: Final = 1.5
ANSWER_BOUND: Final = 15.0
AGENTS: Final = 40
POLICY: Final[Patch] = {"people/alice/passkey": GONE, f"verbs/{VERB}/approve": 1}
# Nothing waits here for a person who is too fast.
_ANY: Final = Rate(1_000_000, 1_000_000.0)
UNHURRIED: Final = Rates(_ANY, _ANY, _ANY, _ANY)


@dataclass(frozen=True)
class Inbox:
    """A workspace with so much open, and a browser of alice in it. `plain` and `bound` are hers to answer."""

    client: PersonClient
    plain: list[Ask]
    bound: list[Ask]
    stage: Stage


def fill(stage: Stage, count: int) -> tuple[list[str], list[str]]:
    """Open so many asks of several agents by copying the rows of two: each third a plain question of alice's agents,
    the rest of a verb that she votes on; give the ids of both kinds."""
    tables = metadata.tables
    agents = [stage.agent(f"agent-{number}") for number in range(AGENTS)]
    runs = [stage.run(agent) for agent in agents]
    question, approval = stage.question(), stage.ask(agents[0], runs[0])
    kept = {
        ask.id: dict(
            stage.read(
                lambda tx, ask=ask: tx.execute(  # type: ignore[misc] # bound now
                    tables["asks"].select().where(tables["asks"].c.id == ask.id)
                ).one()
            )._mapping
        )
        for ask in (question, approval)
    }
    plain, bound = [], []
    rows, options, waits = [], [], []
    for number in range(count):
        of, one = number % AGENTS, f"{number:07d}{approval.id[7:]}"
        if number % 3 == 0:
            row = {**kept[question.id], "text": f"Which way? {number}", "action_hash": question_hash(str(number), [])}
            plain.append(one)
        else:
            action = action_bytes(stage.rules.repository, stage.rules.environment, VERB, {"version": f"n{number}"})
            row = {**kept[approval.id], "action": action, "action_hash": action_hash(action)}
            bound.append(one)
            options += [
                {"ask": one, "id": o.id, "label": o.label, "position": place}
                for place, o in enumerate(approval.options)
            ]
        rows.append({**row, "id": one, "agent": agents[of].id, "run": runs[of].id})
        waits.append({"ask": one, "kind": "run", "id": runs[of].id})

    def work(tx: Tx) -> None:
        for table, values in (("asks", rows), ("ask_options", options), ("waiters", waits)):
            for start in range(0, len(values), 10_000):
                tx.execute(insert(tables[table]), values[start : start + 10_000])

    stage.write(work)
    return plain, bound


def inbox_of(fresh: FreshDatabase, count: int) -> Inbox:
    """Open a workspace over a database, fill it, and sign alice in."""
    rules = rules_of(POLICY)
    stage = Stage(fresh.open(Role.HOST), rules)
    services = Services(fresh.open(Role.WORKSPACE), rules, Place("test", "acme/ops"), lambda _path: None)
    app = create_app(services, tries=Limits(UNHURRIED))
    client = enrolled(app, services, stage.database, "alice")
    plain, bound = fill(stage, count)
    wanted = ROUNDS + WARM
    return Inbox(
        client, [stage.get(one) for one in plain[-wanted:]], [stage.get(one) for one in bound[-2 * wanted :]], stage
    )


def worst(values: list[float]) -> float:
    """Give the 95th percentile."""
    return sorted(values)[max(0, int(len(values) * 0.95) - 1)]


def pages(many: Inbox, few: Inbox) -> bool:
    """Measure the page with much and with little open, in turns."""
    took: dict[str, list[float]] = {"many": [], "few": []}
    for number in range(ROUNDS + WARM):
        for name, place in (("many", many), ("few", few)):
            spent = timed(lambda place=place: look(place))  # type: ignore[misc] # bound now
            if number >= WARM:
                took[name].append(spent)
    ratio = median(took["many"]) / median(took["few"])
    print(
        f"    page: {MANY} open p95 {worst(took['many']):.1f} ms, median {median(took['many']):.1f} ms; {FEW} open p95"
        f" {worst(took['few']):.1f} ms, median {median(took['few']):.1f} ms; ratio {ratio:.2f} (bounds {PAGE_BOUND:.0f}"
        f" ms, {RATIO_BOUND})"
    )
    return worst(took["many"]) <= PAGE_BOUND and ratio <= RATIO_BOUND


def look(place: Inbox) -> None:
    """Open the inbox."""
    response = place.client.get("/needs-you")
    assert response.status_code == 200, response.status_code


def echoed(ask: Ask, option: str | None, text: str | None) -> dict[str, Any]:
    """Write the body of an answer, without an assertion."""
    bound = ask.binding
    given = {"option": option, "text": text}
    echo = {"action_hash": bound.action_hash, "policy": bound.policy, "run_version": bound.run_version}
    return {**{name: value for name, value in given.items() if value is not None}, **echo}


def asserted(place: Inbox, ask: Ask) -> dict[str, Any]:
    """Write the body of a bound answer with what the person signed for it."""
    body = echoed(ask, "approve", None)
    begun = place.client.ok("POST", f"/asks/{ask.id}/statement", body)
    # The names of the ceremony's members are the API's.
    made = place.client.passkey.get(begun["options"])
    return {**body, "assertion": {"ceremony": begun["id"], "credential": made}}


def answers(place: Inbox, bare: Callable[[Ask], None]) -> bool:
    """Measure plain and bound answers beside bare transactions, in turns."""
    took: dict[str, list[float]] = {"plain": [], "bound": [], "bare": []}
    for number, plain in enumerate(place.plain):
        bound, beside = place.bound[2 * number], place.bound[2 * number + 1]
        body = asserted(place, bound)
        spent = {
            "plain": timed(lambda plain=plain: post(place, plain, echoed(plain, None, "left"))),  # type: ignore[misc] # bound now
            "bound": timed(lambda bound=bound, body=body: post(place, bound, body)),  # type: ignore[misc] # bound now
            "bare": timed(lambda beside=beside: bare(beside)),  # type: ignore[misc] # bound now
        }
        for name, value in spent.items() if number >= WARM else ():
            took[name].append(value)
    told = ", ".join(
        f"{name} p95 {worst(took[name]):.1f} ms (median {median(took[name]):.1f})"
        for name in ("plain", "bound", "bare")
    )
    ratio = median(took["bound"]) / median(took["bare"])
    print(f"    answer: {told}; a bound one takes {ratio:.1f} bare ones (bound {ANSWER_BOUND:.0f} ms)")
    return max(worst(took["plain"]), worst(took["bound"])) <= ANSWER_BOUND


def post(place: Inbox, ask: Ask, body: dict[str, Any]) -> None:
    """Answer."""
    response = place.client.call("POST", f"/asks/{ask.id}/answer", body)
    assert response.status_code == 200, response.get_data(as_text=True)


@contextmanager
def both(engine: Any) -> Iterator[tuple[Inbox, Inbox, Callable[[Ask], None]]]:
    """Give an inbox with much open, one with little, and the bare side of the first."""
    with engine() as (fresh, bare), engine() as (small, _):
        few = inbox_of(small, FEW)
        yield inbox_of(fresh, MANY), few, bare


def main() -> bool:
    """Measure both engines and tell whether the bounds hold."""
    held = True
    for name, engine in (("sqlite", on_sqlite), ("postgresql", on_postgresql)):
        print(f"  {name}", flush=True)
        try:
            with both(engine) as (many, few, bare):
                held = pages(many, few) and held
                held = answers(many, bare) and held
        except LookupError as error:
            print(f"    not measured ({error})")
    return held
