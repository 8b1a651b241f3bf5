"""One of eight processes that end the same asks at the same instants; prints what it was told, one JSON line a round.

Arguments: database URL, role, options as JSON, which deed, worker number. A line on standard input is a batch of
rounds: asks, their action hashes, and the instant of each by the monotonic clock, which all processes here share. The
four deeds take turns in being one millisecond ahead, so that each wins now and then on a machine that is busy.
"""

import json
import sys
import time
from typing import Any

from gitops_bot.authority import closing, settling
from gitops_bot.authority.rules import Rules
from gitops_bot.core.asks import Binding
from gitops_bot.core.errors import Refused, Unavailable
from gitops_bot.core.principals import PrincipalName
from gitops_bot.core.verdicts import Answer, Channel
from gitops_bot.store import asks
from gitops_bot.store.engine import Database, Tx
from gitops_bot.store.roles import Role
from tests.asserted import asserted
from tests.decisions import rules_of

PATCH: dict[str, Any] = {"verbs/release.cut/approve": 1}
VOTERS = ("alice", "bob")
DEEDS = ("approve", "deny", "withdraw", "expire")


def deed(database: Database, rules: Rules, what: str, number: int, ask: str, bound: Binding) -> object:
    """Do one deed in one transaction, as its surface would, and give what came of it."""
    who = rules.policy.people[PrincipalName(VOTERS[number])].principal

    def work(tx: Tx) -> object:
        match what:
            case "approve" | "deny":
                found = asks.get(tx, ask)
                assert found is not None
                said = asserted(found, VOTERS[number], what)
                voice = settling.Voice(who, Channel.WORKSPACE, b'{"race":true}', asserted=said)
                return settling.answer(tx, rules, ask, Answer(what, None, bound), voice)
            case "withdraw":
                return closing.withdraw(tx, ask, f"agent-{number}", "raced")
            case _:
                return closing.expire(tx, ask)

    while True:
        try:
            with database.write() as tx:
                return work(tx)
        except Unavailable:
            continue  # a deadlock that PostgreSQL resolved: the surface tries again


def main() -> None:
    """Take part in every round."""
    url, role, options, what, number = sys.argv[1:]
    database, rules = Database.open(url, Role(role), **json.loads(options)), rules_of(PATCH)
    with database.read():
        pass  # connected before the first round
    print("ready", flush=True)
    for line in sys.stdin:
        for turn, (ask, bound, at) in enumerate(json.loads(line)):
            wait = at + (DEEDS.index(what) - turn) % len(DEEDS) / 1000 - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            result = deed(database, rules, what, int(number), ask, Binding(bound, rules.policy.digest, 1))
            told = {"ask": ask, "what": what, "kind": type(result).__name__}
            told["repeated"] = getattr(result, "repeated", None)
            if isinstance(result, Refused):
                told["reason"] = result.reason.value
                told |= {name: result.facts.get(name) for name in ("by", "at", "state")}
            print(json.dumps(told))
        print("done", flush=True)
    database.close()


if __name__ == "__main__":
    main()
