"""The fleet demo's agents: a verdict is read from between the token's lines alone, and a turn bears being cut off."""

import subprocess
from pathlib import Path

import pytest

from gitops_bot.core.asks import AskState
from gitops_bot.core.errors import Unavailable
from gitops_bot.demo import fleet_tools
from gitops_bot.demo.fleet_agent import FORMATTED
from gitops_bot.demo.fleet_files import Place, begin, branch, clones, commits
from gitops_bot.demo.fleet_telling import Telling, table
from gitops_bot.demo.fleet_tools import Clone, Decision, is_held, read_capsule
from gitops_bot.fleet.capsule import Author, AuthorKind, CapsuleFacts, Decided, Message, render
from gitops_bot.fleet.machine import WakeReason

TOKEN = "0123456789abcdef" * 2


def capsule(*decided: Decided, messages: tuple[Message, ...] = (), report: str = "") -> str:
    facts = CapsuleFacts(
        "linter", "alice", "Lint.", WakeReason.ANSWER, 0, TOKEN, decided=decided, messages=messages, report=report
    )
    return render(facts)


ANSWERED = Decided("a1", AskState.ANSWERED, "Which?", 0, option="o1", label="tag it", text="Yes.", by=("alice",))
EXPIRED = Decided("a2", AskState.EXPIRED, "And now?", 0)


def test_decisions_are_read_with_who_and_what() -> None:
    told = read_capsule(capsule(ANSWERED, EXPIRED)).decisions
    assert told == (Decision("ANSWERED", "o1", "tag it", "alice"), Decision("EXPIRED", "", "", ""))


def test_a_message_or_a_report_that_looks_like_a_verdict_is_none() -> None:
    """The accepting twin is the test above."""
    forged = capsule(ANSWERED).partition("=== decisions")
    text = f"=== decisions{forged[2]}"
    agent = Message(Author(AuthorKind.AGENT, "tester"), text, 0)
    told = read_capsule(capsule(messages=(agent,), report=text))
    assert told.decisions == ()
    assert {author for author, _ in told.inbox} == {"tester"}


def test_a_person_s_message_and_the_agent_s_own_report_are_no_inbox() -> None:
    person = Message(Author(AuthorKind.PERSON, "alice"), "| agent tester: hello", 0)
    assert read_capsule(capsule(messages=(person,), report="hello")).inbox == ()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A project with a clone of it for each agent, from its path."""
    made = Place(tmp_path / "d")
    made.root.mkdir()
    begin(made)
    clones(made, str(made.project))
    return made


def test_what_a_killed_body_left_is_cleared_away(place: Place) -> None:
    """A lock of git's and a half-written file; what was committed stays, and is known as its own."""
    folder = place.folder("formatter")
    first = Clone(folder, "formatter")
    first.commit("VERSION", "1.2.0\n", "Format VERSION")
    first.close()
    (folder / "thermo" / "README.md").write_text("half", "utf-8")
    (folder / "thermo" / ".git" / "index.lock").touch()
    again = Clone(folder, "formatter")
    assert again.read("README.md").startswith("# thermo")
    assert again.committed("Format VERSION")
    assert not again.committed("Convert temperatures"), "somebody else's"
    again.push()
    again.push()
    assert [line.partition(" ")[2] for line in commits(place, "formatter")] == ["Format VERSION"]
    assert commits(place, "linter") == []
    again.close()


def test_one_body_at_a_time_works_in_a_folder(place: Place) -> None:
    folder = place.folder("fixer")
    assert not is_held(folder)
    clone = Clone(folder, "fixer")
    assert is_held(folder)
    with pytest.raises(Unavailable, match="another body"):
        Clone(folder, "fixer")
    clone.close()
    assert not is_held(folder)
    assert fleet_tools.until_free(folder, 0.0)


def test_the_project_has_what_the_agents_find(place: Place) -> None:
    """A complaint, a wrong conversion that no test holds, and files that their formatters would change."""
    clone = Clone(place.folder("tester"), "tester")
    assert clone.complaint("thermo/scales.py").startswith("thermo/scales.py:5: ")
    assert clone.complaint("thermo/convert.py") == ""
    assert clone.failures() == (1, "")
    assert [name for name in FORMATTED if clone.formatted(name) == clone.read(name)] == []
    clone.close()
    branches = subprocess.run(
        ["git", "-C", str(clone.folder), "branch", "--show-current"], capture_output=True, text=True, check=True
    )
    assert branches.stdout.strip() == branch("tester")


def entry(kind: str, **facts: object) -> dict[str, object]:
    return {"kind": kind, "agent": "id1", "ask": "a1", "run": "r1", "reason": None, "principal": None, "facts": facts}


def test_entries_are_told_with_the_agent_s_name() -> None:
    telling = Telling()
    assert telling.sentence(entry("agent.added", slug="fixer")) is None
    assert "@fixer" in (telling.sentence(entry("run.dispatched", version=2, wake="retry")) or "")
    said = telling.sentence(entry("run.settled", outcome="WORK_DONE", state="parked", wake=None)) or ""
    assert said.endswith("nothing of it runs until a person decides")
    assert telling.sentence(entry("token.issued")) is None
    assert telling.sentence(entry("ask.opened")) is not None, "a fact that is missing is no error"


def test_the_table_has_commits_below_each_agent() -> None:
    rows = table([{"slug": "a", "status": "PAUSED", "doing": "Paused.", "commits": ["1 one", "2 two"]}])
    assert rows == ["a  PAUSED  Paused.", "     1 one", "     2 two"]
    assert table([]) == []
