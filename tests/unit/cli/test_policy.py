"""`policy check`, `explain` and `diff` say what a bundle does, with the exit codes of the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gitops_bot.cli.policy import policy
from tests.policy_bundles import CAPTURE, GOOD, TRANSFER, document, patched

SAMPLE = Path(__file__).parents[3] / "policies"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.toml").write_bytes(document(GOOD))
    return tmp_path


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(policy, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


def test_the_sample_bundle_loads_and_alice_and_bob_approve_captures() -> None:
    """The bundle that the demo runs on is a working one."""
    code, out, _ = run("check", SAMPLE, "--json")
    found = json.loads(out)
    assert (code, found["ok"], found["version"]) == (0, True, 1)
    people = {person["name"]: (person["kind"], person["owner"]) for person in found["people"]}
    assert people == {"alice": ("human", None), "bob": ("human", None), "demo-agent": ("service", "alice")}
    code, out, _ = run("explain", "capture.approve", "--dir", SAMPLE, "--json")
    rule = json.loads(out)["rules"][0]
    assert rule["channels"] == ["forge", "workspace"]
    assert rule["voters"] == [{"name": "alice", "obstacle": None}, {"name": "bob", "obstacle": None}]
    assert (rule["expires_ms"], rule["reuse_ms"]) == (7 * 86_400_000, 30 * 86_400_000)


def test_a_bundle_that_does_not_load_is_named_with_its_rule(folder: Path) -> None:
    """Exit 1, the rule's code for programs and its sentence for people."""
    (folder / "policy.toml").write_bytes(document(patched({f"{CAPTURE}/approve": 0})))
    code, out, err = run("check", folder)
    assert (code, out) == (1, "")
    assert "verbs.capture.approve: approve must be from 1" in err
    code, out, _ = run("check", folder, "--json")
    assert (code, json.loads(out)["code"]) == (1, "threshold")
    (folder / "policy.toml").write_bytes(document(GOOD))
    assert run("check", folder)[0] == 0


def test_explain_names_the_tier_and_the_sentence(folder: Path, tmp_path: Path) -> None:
    """With parameters it is their tier, their money and what is missing; without, every tier."""
    params = tmp_path / "params.json"
    params.write_text('{"amount_minor": 125000001, "currency": "EUR", "to": "DE89370400440532013000"}')
    assert run("explain", "payments.transfer", "--dir", folder, "--params", params)[0] == 4
    params.write_text('{"amount_minor": 1250000, "currency": "EUR", "to": "DE89370400440532013000"}')
    code, out, _ = run("explain", "payments.transfer", "--dir", folder, "--params", params)
    assert code == 0
    assert "payments.transfer, tier 1: gated, answered through signed" in out
    assert "reads: Transfer 12,500.00 EUR to DE89370400440532013000" in out
    assert "missing: 2 to approve; 1 to deny" in out
    code, out, _ = run("explain", "payments.transfer", "--dir", folder, "--json")
    assert [rule["tier"] for rule in json.loads(out)["rules"]] == [None, 1]


def test_explain_says_that_a_verb_takes_care(folder: Path) -> None:
    """A high risk is told, with what it means at the keyboard; a normal one is not."""
    assert "high risk" not in run("explain", "capture.approve", "--dir", folder)[1]
    (folder / "policy.toml").write_bytes(document(patched({f"{CAPTURE}/risk": "high"})))
    assert "high risk: an answer takes a second key" in run("explain", "capture.approve", "--dir", folder)[1]
    code, out, _ = run("explain", "capture.approve", "--dir", folder, "--json")
    assert (code, json.loads(out)["rules"][0]["risk"]) == (0, "high")


def test_explain_refuses_an_unknown_verb(folder: Path) -> None:
    """Exit 4 with the code on the error stream."""
    code, out, err = run("explain", "payments.transfr", "--dir", folder)
    assert (code, out) == (4, "")
    assert err.startswith("unknown_verb: ")


@pytest.mark.parametrize("content", ["[]", "{", "[" * 100_000, "\x00"])
def test_parameters_that_are_no_object_are_a_usage_error(folder: Path, tmp_path: Path, content: str) -> None:
    """Exit 64: the caller's file, not the policy, is at fault."""
    params = tmp_path / "params.json"
    params.write_text(content)
    assert run("explain", "payments.transfer", "--dir", folder, "--params", params)[0] == 64


def test_diff_tells_what_changes(folder: Path, tmp_path: Path) -> None:
    """Plain sentences, escaped for a terminal."""
    new = tmp_path / "new"
    new.mkdir()
    (new / "policy.toml").write_bytes(document(patched({"version": 4, f"{TRANSFER}/approve": 1})))
    code, out, _ = run("diff", folder, new)
    assert code == 0
    assert "For payments.transfer approving takes 1 instead of 2." in out
    assert run("diff", folder, folder)[1] == "Nothing changes.\n"


def test_it_imports_nothing_heavy() -> None:
    """The command starts without the database, web and forge libraries."""
    script = (
        "import sys; import gitops_bot.cli.policy; "
        "print([name for name in ('sqlalchemy', 'flask', 'github', 'requests') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"
