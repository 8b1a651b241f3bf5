"""What an agent may leave behind to mislead its loop, each beside what the page says becomes of it."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

PENDING = "PROVISIONING_PENDING.json"


def script(loop: Any, text: str) -> None:
    """Let the agent be a shell script; `$MARKER` is a sound marker of mode block, `$LATER` one of mode continue."""
    loop.agent = ["sh", "-c", text]


def with_markers(loop: Any, ask: Any, text: str) -> None:
    block, later = shlex.quote(ask()), shlex.quote(ask(mode="continue"))
    script(loop, f"MARKER={block}; LATER={later}; {text}")


def test_the_same_marker_in_every_turn_is_one_ask(loop: Any, ask: Any) -> None:
    with_markers(loop, ask, f'printf %s "$LATER" > {PENDING}')
    loop.start(iterations=3)
    loop.end()
    assert len(loop.kinds("approval_wait")) == 1
    assert sum("asked for already" in line["msg"] for line in loop.kinds("note")) == 2


@pytest.mark.parametrize(
    ("left", "note"),
    [
        pytest.param(f"truncate -s 1G {PENDING}", "larger than", id="a sparse gigabyte"),
        pytest.param(f"mkfifo {PENDING}", "no plain file", id="a pipe"),
        pytest.param(f"mkdir -p {PENDING}/a/b", "no plain file", id="a folder"),
        pytest.param(f"ln -s /dev/zero {PENDING}", "no readable plain file", id="a link to a device"),
        pytest.param(f"ln -s {PENDING} {PENDING}", "no readable plain file", id="a link to itself"),
        pytest.param(f'printf %s "$MARKER" > m; ln -s m {PENDING}', "no readable plain file", id="a link to a marker"),
        pytest.param(f'printf "%s%s" "$MARKER" "$MARKER" > {PENDING}', "malformed", id="two markers in one"),
        pytest.param(f'printf %s "$MARKER" | head -c 60 > {PENDING}', "malformed", id="half a marker"),
        pytest.param(f'printf %s "$MARKER" | sed s/48/49/ > {PENDING}', "do not say the same", id="another regime"),
        pytest.param(f"head -c 60000 /dev/zero | tr '\\0' '[' > {PENDING}", "malformed", id="nesting"),
        pytest.param(f"printf '\\377\\376' > {PENDING}", "malformed", id="no UTF-8"),
        pytest.param(f"touch {PENDING}; chmod 000 {PENDING}; : > {PENDING}", "", id="an empty file"),
    ],
)
def test_whatever_has_the_marker_s_name_costs_one_note_and_the_run_goes_on(
    loop: Any, ask: Any, left: str, note: str
) -> None:
    with_markers(loop, ask, f"{left}; echo 9 > value")
    loop.start(iterations=1)
    assert loop.end() == 0, loop.log()
    assert loop.kinds("approval_wait") == []
    assert any(note in line["msg"] and PENDING in line["msg"] for line in loop.kinds("note"))
    assert not (loop.workspace / PENDING).is_symlink()
    assert not (loop.workspace / PENDING).exists()
    assert loop.kinds("row")[-1]["row"]["decision"] == "keep"


def test_the_accepting_twin_of_all_these_is_an_ask(loop: Any, ask: Any) -> None:
    with_markers(loop, ask, f'printf %s "$LATER" > {PENDING}; echo 9 > value')
    loop.start(iterations=1)
    loop.end()
    assert len(loop.kinds("approval_wait")) == 1


@pytest.mark.parametrize("tool", ["judge", "rig"])
@pytest.mark.parametrize("how", ["rewritten", "replaced", "removed", "untouched"])
def test_a_tool_that_the_agent_changed_escalates(loop: Any, wanted: str, ask: Any, tool: str, how: str) -> None:
    """The judge is compared before each measurement, the rig before each baseline."""
    rig = loop.home / "rig.py"
    rig.write_text("print('set up')")
    target = loop.home / f"{tool}.py"
    change = {
        "rewritten": f"echo '# better' >> {target}",
        "replaced": f"cp {target} {target}.new; echo pass >> {target}.new; mv {target}.new {target}",
        "removed": f"rm {target}",
        "untouched": f"touch {target}",
    }[how]
    with_markers(
        loop, ask, f'{change}; [ "$LOOP_REGIME" = default ] && printf %s "$MARKER" > {PENDING}; echo 9 > value'
    )
    loop.start("--rig", f"python3 {rig}", iterations=1)
    loop.parked()
    loop.connect("broker").ask({"cmd": "rescope", "regime": wanted, "id": "r"})
    if how == "untouched":
        loop.end()
        assert loop.kinds("escalation") == []
        assert len(loop.kinds("segment")) == 2
        return
    assert loop.end() == 2
    (escalation,) = loop.kinds("escalation")
    assert (escalation["category"], escalation["reason"]) == ("tampered", f"the {tool} changed while the loop ran")
    assert json.loads((loop.workspace / "ESCALATION.json").read_text())["category"] == "tampered"
    assert [line["regime"] for line in loop.kinds("segment")] == ["default"]


def test_a_judge_that_was_changed_between_two_runs_escalates_at_the_resume(loop: Any) -> None:
    loop.plan(i1={"files": {"value": "9"}})
    loop.start(iterations=1)
    assert loop.end() == 0
    judge: Path = loop.home / "judge.py"
    judge.write_text(judge.read_text() + "# kinder\n")
    loop.start("--resume", iterations=2)
    assert loop.end() == 2
    assert loop.kinds("escalation")[0]["category"] == "tampered"


def test_an_escalation_of_the_agent_s_own_ends_the_run_and_a_forged_one_costs_a_note(loop: Any) -> None:
    loop.plan(i1={"files": {"ESCALATION.json": "[]"}}, i2={"files": {"ESCALATION.json": '{"reason": "no data"}'}})
    loop.start(iterations=3)
    assert loop.end() == 2
    assert any("malformed escalation" in line["msg"] for line in loop.kinds("note"))
    assert [line["reason"] for line in loop.kinds("escalation")] == ["no data"]
