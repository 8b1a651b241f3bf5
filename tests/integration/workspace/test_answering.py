"""A person answers from a shell that they let in, over HTTP, to a running workspace; an agent's token never does."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gitops_bot.api.client import Client
from gitops_bot.core.errors import Refusal
from tests.served_person import ServedPerson, enrolled
from tests.served_stage import BOT, POLICIES, Served, serve
from tests.store_fixtures import SqliteTemplates

pytestmark = pytest.mark.xdist_group("answering")
VERB = """
[verbs."release.cut"]
channels = ["workspace"]
voters = { people = ["alice", "bob"] }
approve = 1
expires = "1h"
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, sqlite_templates: SqliteTemplates) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("answering")
    policies = folder / "policies"
    shutil.copytree(POLICIES, policies)
    for file in policies.glob("*.toml"):
        text = file.read_text("utf-8")
        file.write_text(text + (VERB if "[verbs." in text else ""), "utf-8")
    yield from serve(folder, sqlite_templates, 'passkey_rest = "0"\n', policies=policies)


@pytest.fixture(scope="module")
def alice(served: Served) -> ServedPerson:
    return enrolled(served, "alice")


def shell(home: Path, **more: str) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GITOPS_BOT")}
    return {**kept, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), **more}


def bot(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*BOT, *arguments], capture_output=True, text=True, env=environment, timeout=120)


@pytest.fixture(scope="module")
def logged_in(served: Served, alice: ServedPerson, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """A shell that alice let in, as `gitops-bot login` does it."""
    environment = shell(tmp_path_factory.mktemp("home"))
    waiting = subprocess.Popen(
        [*BOT, "login", "--url", alice.origin],
        stdout=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONUNBUFFERED": "1"},
    )
    assert waiting.stdout is not None
    code = None
    while code is None and (line := waiting.stdout.readline()):
        code = re.fullmatch(r" {4}(.+)", line.rstrip())
    assert code is not None
    alice.ok("/auth/shells/confirm", {"code": code[1]})
    out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, out
    return environment


def asked(served: Served, path: str, body: dict[str, Any]) -> str:
    response = served.call("POST", path, json=body)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def state(served: Served, ask: str) -> str:
    return str(served.call("GET", f"/asks/{ask}").json()["state"])


def test_lifecycle_45_a_shell_answers_with_a_persons_credential_alone(
    served: Served, logged_in: Mapping[str, str], alice: ServedPerson, tmp_path: Path
) -> None:
    """lifecycle 45: without one, and with an agent's token, refused; alice's shell answers the same question."""
    ask = asked(served, "/asks", {"question": "Which?", "options": ["a", "b"]})
    command = ("ask", "answer", ask, "--option", "o2", "--url", alice.origin)
    for environment in (shell(tmp_path), shell(tmp_path, GITOPS_BOT_TOKEN=served.token, GITOPS_BOT_URL=alice.origin)):
        refused = bot(environment, *command)
        assert (refused.returncode, refused.stderr.startswith("gitops-bot: not_authorised: ")) == (4, True)
    assert state(served, ask) == "OPEN"
    listed = json.loads(bot(logged_in, "ask", "list", "--needs-you", "--json").stdout)
    assert ask in [row["id"] for row in listed["items"]]
    done = bot(logged_in, *command)
    assert done.returncode == 0, done.stderr
    assert state(served, ask) == "ANSWERED"
    late = bot(logged_in, "ask", "answer", ask, "--option", "o1")
    assert (late.returncode, late.stderr.startswith("gitops-bot: already_settled: ")) == (4, True)


def test_a_bound_ask_is_waited_for_and_answered_by_the_passkey_on_its_page(
    served: Served, logged_in: Mapping[str, str], alice: ServedPerson
) -> None:
    ask = asked(served, "/verbs/release.cut/requests", {"params": {"version": "1.0"}})
    led = bot(logged_in, "ask", "answer", ask, "--option", "approve")
    assert (led.returncode, f"{alice.origin}/asks/{ask}" in led.stderr) == (3, True)
    assert state(served, ask) == "OPEN"
    waiting = subprocess.Popen(
        [*BOT, "ask", "answer", ask, "--option", "approve", "--wait", "60", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=logged_in,
    )  # fmt: skip
    assert waiting.stderr is not None
    assert "Choose approve" in waiting.stderr.readline(), "it has seen the ask open"
    binding = served.call("GET", f"/asks/{ask}").json()["binding"]
    begun = alice.ok(f"/asks/{ask}/statement", {"option": "approve", **binding})
    given = {"ceremony": begun["id"], "credential": alice.passkey.get(begun["options"])}
    alice.ok(f"/asks/{ask}/answer", {"option": "approve", **binding, "assertion": given})
    out, _ = waiting.communicate(timeout=90)
    assert (waiting.returncode, json.loads(out)["state"]) == (0, "APPROVED")


def test_a_shell_that_its_person_ended_acts_no_more(alice: ServedPerson) -> None:
    client = Client(alice.origin, alice.shell())
    assert client.get("/needs-you")["next"] is None
    client.post("/auth/sign-out")
    with pytest.raises(Refusal):
        client.get("/needs-you")
