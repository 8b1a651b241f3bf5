"""What stands outside of the database, as files: captures, a loop's bridge and a forge that outlive a process.

Each remembers every call in a log, so that a test can tell how often something was done. `broken` makes the next calls
of a method fail as an outside that is away does.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gitops_bot.core.captures import Regime
from gitops_bot.core.errors import Unavailable
from gitops_bot.core.readings import PullRequest, Reaction, Repository
from gitops_bot.ports import BridgeReply, CaptureResult

REPOSITORY_ID = 77


@dataclass
class Outside:
    """A folder with one log and one state for all that is outside."""

    folder: Path
    broken: Counter[str] = field(default_factory=Counter)

    def call(self, method: str, **facts: Any) -> None:
        """Write a call down, then fail it where that was planned."""
        with (self.folder / "calls.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"method": method, **facts}) + "\n")
        if self.broken[method]:
            self.broken[method] -= 1
            raise Unavailable(f"{method}: planned")

    def calls(self, method: str) -> list[dict[str, Any]]:
        """List the calls of a method, over all processes."""
        log = self.folder / "calls.jsonl"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return [call for call in map(json.loads, lines) if call["method"] == method]

    def state(self) -> dict[str, Any]:
        """Read the outside's state."""
        path = self.folder / "state.json"
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return found

    def keep(self, **changes: Any) -> None:
        """Change the outside's state, whole or not at all."""
        new = self.folder / "state.new"
        new.write_text(json.dumps({**self.state(), **changes}), encoding="utf-8")
        new.replace(self.folder / "state.json")


class FileCapturer:
    """Measures at once: a job that was submitted has its artefact at the next poll."""

    def __init__(self, outside: Outside) -> None:
        self.outside = outside

    def submit(self, job: str, regime: Regime) -> None:
        self.outside.call("submit", job=job)
        path = self.outside.folder / f"{job}.trace"
        if not path.exists():
            path.write_text(regime.trace_id, encoding="utf-8")

    def poll(self, job: str) -> CaptureResult | None:
        self.outside.call("poll", job=job)
        path = self.outside.folder / f"{job}.trace"
        digest = self.rehash(path)
        return None if digest is None else CaptureResult(path, digest, {"alpha": "1.5"})

    def cancel(self, job: str) -> None:
        self.outside.call("cancel", job=job)

    def rehash(self, artefact: Path) -> str | None:
        if not artefact.exists():
            return None
        return "sha256:" + hashlib.sha256(artefact.read_bytes()).hexdigest()


class FileLink:
    """A loop's bridge that takes a command once and says `dup` to the same key later."""

    def __init__(self, outside: Outside) -> None:
        self.outside = outside

    def send(self, address: str, token: str, command: Mapping[str, str]) -> BridgeReply:
        self.outside.call("send", address=address, **command)
        seen: list[str] = self.outside.state().get("taken", [])
        key = f"{address} {command['id']}"
        if key in seen:
            return BridgeReply(acknowledged=True, dup=True, error=None)
        self.outside.keep(taken=[*seen, key])
        return BridgeReply(acknowledged=True, dup=False, error=None)

    def taken(self) -> list[str]:
        """List what loops acted on, as `address id`."""
        found: list[str] = self.outside.state().get("taken", [])
        return found

    def read_log(self, address: str, token: str, after: int) -> tuple[tuple[int, Mapping[str, object]], ...]:
        return ()


class FileForge:
    """The part of a forge that captures need. Branches and pull requests are found again, comments are not merged."""

    def __init__(self, outside: Outside) -> None:
        self.outside = outside

    def _pull(self, branch: str) -> PullRequest:
        pull = self.outside.state()["pulls"][branch]
        return PullRequest(
            number=pull["number"],
            node_id="node",
            url=f"https://forge.invalid/acme/ops/pull/{pull['number']}",
            state=pull["state"],
            draft=pull["draft"],
            merged=False,
            locked=False,
            head_sha=pull["head"],
            head_ref=branch,
            base_ref="main",
            base_sha="0" * 40,
            author_id=9,
        )

    def _change(self, branch: str, **values: Any) -> None:
        pulls = self.outside.state().get("pulls", {})
        self.outside.keep(pulls={**pulls, branch: {**pulls.get(branch, {}), **values}})

    def _branch(self, number: int) -> str:
        pulls = self.outside.state().get("pulls", {})
        return next(branch for branch, pull in pulls.items() if pull["number"] == number)

    def repository(self, repository: str) -> Repository:
        return Repository(REPOSITORY_ID, repository, "main")

    def publish_branch(self, repository: str, branch: str, files: Mapping[str, bytes], message: str) -> str:
        self.outside.call("publish_branch", branch=branch)
        head = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        branches = self.outside.state().get("branches", {})
        if branches.get(branch, head) != head:
            raise Unavailable("the branch exists with another content")
        self.outside.keep(branches={**branches, branch: head})
        return head

    def open_draft(self, repository: str, branch: str, title: str, body: str) -> PullRequest:
        self.outside.call("open_draft", branch=branch)
        pulls = self.outside.state().get("pulls", {})
        if branch not in pulls:
            head = self.outside.state()["branches"][branch]
            self._change(branch, number=len(pulls) + 1, head=head, draft=True, state="open")
        return self._pull(branch)

    def pull_request(self, repository: str, number: int) -> PullRequest | None:
        return self._pull(self._branch(number))

    def find_comment(self, repository: str, number: int, marker: str) -> int | None:
        comments = self.outside.state().get("comments", [])
        return next((place for place, body in enumerate(comments, 1) if marker in body), None)

    def create_comment(self, repository: str, number: int, body: str) -> int:
        self.outside.call("create_comment", number=number)
        comments = [*self.outside.state().get("comments", []), body]
        self.outside.keep(comments=comments)
        return len(comments)

    def edit_comment(self, repository: str, comment_id: int, body: str) -> None:
        self.outside.call("edit_comment", comment=comment_id)
        comments = self.outside.state()["comments"]
        comments[comment_id - 1] = body
        self.outside.keep(comments=comments)

    def react(self, repository: str, comment_id: int, reaction: Reaction) -> None:
        self.outside.call("react", comment=comment_id, reaction=reaction.value)

    def commit_file(self, repository: str, branch: str, path: str, content: bytes, message: str) -> str:
        self.outside.call("commit_file", branch=branch)
        head = hashlib.sha1(content).hexdigest()
        self._change(branch, head=head, calibration=content.decode())
        return head

    def mark_ready(self, repository: str, number: int) -> None:
        self.outside.call("mark_ready", number=number)
        self._change(self._branch(number), draft=False)

    def close(self, repository: str, number: int) -> None:
        self.outside.call("close", number=number)
        self._change(self._branch(number), state="closed")

    def push(self, number: int) -> None:
        """Play somebody who pushes to a pull request's branch."""
        self._change(self._branch(number), head="f" * 40)
