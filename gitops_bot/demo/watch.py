"""Somebody follows a demo: the ledger as it is sealed, the loop's log, a capture's progress, each told once.

With a desk a scripted alice answers as a person would: the first ask by a comment on the sandbox forge, the second in
the workspace with her passkey, the plain question there too. The transfer she can only look at.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib import request as http

from gitops_bot.demo import files, telling
from gitops_bot.demo.agent import WANTED
from gitops_bot.demo.desk import Desk
from gitops_bot.demo.files import Layout
from gitops_bot.demo.scores import lines, session
from gitops_bot.demo.stage import Actor, Stage
from gitops_bot.store import captures, ledger
from gitops_bot.store.captures import Capture
from gitops_bot.store.engine import Database

GRANTED: Final = (
    {"ask.opened"},
    {"forge.pull_request_opened", "loop.parked"},
    {"forge.comment_seen"},
    {"ask.answered"},
    {"capture.submitted"},
    {"capture.ready"},
    {"bridge.rescope_acknowledged"},
    {"loop.segment"},
)
"""What must have happened for the first ask, in this order."""
DENIED: Final = (
    {"bridge.rescope_acknowledged"},
    {"ask.opened"},
    {"forge.pull_request_opened"},
    {"ask.answered"},
    {"bridge.deny_acknowledged"},
)
"""The same for the second, which alice denies."""
AUTO_SECONDS: Final = 180.0
SEALED_SECONDS: Final = 10.0
APPROVE: Final = f"/approve-capture {WANTED.trace_id}"
WHY_NOT: Final = "The endpoint runs 16 at once; more of them would only queue."

Tell = Callable[[str], None]
Timeline = tuple[Mapping[str, Any], ...]


def missing(timeline: Sequence[Mapping[str, Any]], wanted: Sequence[set[str]]) -> str:
    """Name what did not happen in its order; '' when all did."""
    names, place = [entry["event"] for entry in timeline], 0
    for group in wanted:
        rest = names[place:]
        absent = [name for name in group if name not in rest]
        if absent:
            return f"{', '.join(sorted(absent))} did not happen in order"
        place += max(rest.index(name) for name in group) + 1
    return ""


def comment(forge: str, token: str, number: int, body: str) -> None:
    """Write a comment on the sandbox forge as a person would, through its API."""
    asked = http.Request(  # noqa: S310 # the address is our own sandbox's on loopback
        f"{forge}/repos/{files.REPOSITORY}/issues/{number}/comments",
        data=json.dumps({"body": body}).encode("utf-8"),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with http.urlopen(asked, timeout=10):  # noqa: S310 # as above
        return


class Watch:
    """Follows one demo from its loop's start to its end."""

    def __init__(
        self,
        stage: Stage,
        database: Database,
        loop: Actor,
        layout: Layout,
        forge: str,
        tell: Tell,
        *,
        desk: Desk | None,
    ) -> None:
        self._stage, self._database, self._loop = stage, database, loop
        self._layout, self._forge, self._tell, self._desk = layout, forge, tell, desk
        self._seen: list[Mapping[str, Any]] = []
        self._seq = 0
        self._turns = 0
        self._read_to: dict[Path, int] = {}
        self.pull_requests: list[str] = []

    def until_done(self) -> str:
        """Follow until the loop ends; gives what went wrong, or ''."""
        began = time.monotonic()
        while self._loop.process.poll() is None:
            self._stage.check()
            self._look()
            if self._desk is not None and time.monotonic() - began > AUTO_SECONDS:
                return f"not done after {AUTO_SECONDS:g} s"
            time.sleep(0.1)
        if self._loop.process.returncode not in (0, 1):
            return f"the loop ended with {self._loop.process.returncode}: {self._stage.tail(self._loop)}"
        return ""

    def timeline(self, *, complete: bool) -> Timeline:
        """Give what happened, in sealed order, with `complete` once the broker has read the loop's last lines."""
        until = time.monotonic() + SEALED_SECONDS
        while complete and self.problem() and time.monotonic() < until:
            self._look()
            time.sleep(0.1)
        self._look()
        return tuple(self._seen)

    def problem(self) -> str:
        """Name what has not happened as it must; a person may answer the second ask as they like."""
        return missing(self._seen, GRANTED) or (missing(self._seen, DENIED) if self._desk is not None else "")

    def _look(self) -> None:
        for line in self._progress():
            self._tell(f"{'':<28} {line}")
        self._turned()
        with self._database.read() as tx:
            entries = ledger.sealed(tx, self._seq, 500)
        for entry in entries:
            self._seq = entry.seq
            document = entry.document
            self._seen.append(
                {"at": document["at"], "event": document["kind"], "seq": entry.seq, "facts": document["facts"]}
            )
            if (said := telling.sentence(document)) is not None:
                self._tell(said)
            if document["kind"] == "forge.pull_request_opened":
                self._opened(document)

    def _turned(self) -> None:
        rows = [line["row"] for line in lines(session(self._layout)) if line.get("kind") == "row"]
        for row in rows[self._turns :]:
            self._tell(f"{'':<28} {telling.turn(row)}")
        self._turns = len(rows)

    def _progress(self) -> Iterator[str]:
        """Give the new lines that capture programs wrote to standard error."""
        for path in sorted((self._layout.root / ".gitops-bot" / "captures").glob("*/stderr")):
            text = path.read_text("utf-8", "replace")
            whole = text[: text.rfind("\n") + 1]
            yield from whole[self._read_to.get(path, 0) :].splitlines()
            self._read_to[path] = len(whole)

    def _opened(self, document: Mapping[str, Any]) -> None:
        with self._database.read() as tx:
            capture = captures.get(tx, str(document["capture"]))
        assert capture is not None
        number = document["facts"]["number"]
        address = f"{self._forge}/{files.REPOSITORY}/pull/{number}"
        self.pull_requests.append(address)
        if self._desk is not None:
            self._decide(self._desk, capture, number)
            return
        self._tell(f"{'decide here':<28} {address}")
        self._tell(f"{'by a comment, first line':<28} /approve-capture {capture.trace_id}")
        self._tell(f"{'or':<28} /deny-capture {capture.trace_id} why not")
        self._tell(f"{'or in the workspace':<28} with your passkey, where a question and a transfer wait as well")

    def _decide(self, desk: Desk, capture: Capture, number: int) -> None:
        """Approve the first capture by a comment; deny the second in the workspace, and answer the question there."""
        if capture.trace_id == WANTED.trace_id:
            comment(self._forge, self._layout.person_token("alice"), number, APPROVE)
            self._tell(f"{'alice comments':<28} {APPROVE}")
            return
        assert capture.ask is not None
        for row in desk.needs_me():
            if row["kind"] == "question":
                first = desk.ask(row["id"])["options"][0]
                desk.answer(row["id"], first["id"])
                self._tell(f"{'alice answers':<28} {row['text']} {first['label']}")
            elif row["kind"] == "gated":
                self._tell(f"{'alice can only look at':<28} {row['summary']}; signed commits alone answer it")
        desk.answer(capture.ask, "deny", WHY_NOT)
        self._tell(f"{'alice denies':<28} {capture.trace_id}, with her passkey: {WHY_NOT}")
