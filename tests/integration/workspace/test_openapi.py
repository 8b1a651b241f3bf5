"""The running workspace does what docs/openapi.json says.

Each operation is called with what fits its schemas and with what does not, by whom it is for and by nobody: no 5xx, no
status, content type or member that the document does not name.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from tests.served_person import ServedPerson, enrolled
from tests.served_stage import POLICIES, Served, serve
from tests.store_fixtures import SqliteTemplates

pytestmark = pytest.mark.xdist_group("openapi")
DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "openapi.json"
CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
VERBS: Final = """
[verbs."release.cut"]
channels = ["workspace"]
voters = { people = ["alice", "bob"] }
approve = 1
expires = "1h"
risk = "low"
"""
ENDS_SESSIONS: Final = ("/auth/sign-out", "/auth/sessions/others/revoke")
"""Called last, by somebody whose sessions nobody else uses."""
LOOP: Final = ("/loops",)
EXAMPLES: Final = {"quick": 6, "full": 16, "long": 400}
SHELLS: Final = 4

loaded = schemathesis.openapi.from_path(DOCUMENT)
# Too large is refused before it is read; who asks, and how often, before what.
loaded.config.checks.negative_data_rejection.expected_statuses = [
    "400",
    "401",
    "403",
    "404",
    "409",
    "410",
    "413",
    "414",
    "422",
    "429",
]
OPERATIONS: Final = sorted(
    (one.ok() for one in loaded.get_all_operations() if one.ok().path != "/api/v1/events"),
    key=lambda one: (one.path.endswith(ENDS_SESSIONS), one.path, one.method),
)


class Stage:
    """A workspace with people, their shells, and asks of every kind."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.url = f"http://localhost:{served.port}"
        self.alice: ServedPerson = enrolled(served, "alice")
        self.shells = [self.alice.shell() for _ in range(SHELLS)]
        self.leaving = enrolled(served, "bob").shell()
        self.calls = 0
        self.asks = self._asks()

    def _asks(self) -> list[str]:
        question = {"question": "Which?", "options": ["a", "b"]}
        opened = [self.served.call("POST", "/asks", json=question).json()["id"] for _ in range(3)]
        path = "/verbs/release.cut/requests"
        for version in ("1", "2"):
            opened.append(self.served.call("POST", path, json={"params": {"version": version}}).json()["id"])
        self.served.call("POST", f"/asks/{opened[2]}/cancel", json={})
        return opened

    def headers(self, path: str, security: list[dict[str, Any]]) -> dict[str, str]:
        """Give the credential of whom an operation is for; shells take turns, for each has its own rate."""
        names = {name for way in security for name in way}
        if "personBearer" in names:
            self.calls += 1
            shell = self.leaving if path.endswith(ENDS_SESSIONS) else self.shells[self.calls % SHELLS]
            return {"Authorization": f"Bearer {shell}"}
        if "agentBearer" in names:
            return {"Authorization": f"Bearer {self.served.loop_token if path.endswith(LOOP) else self.served.token}"}
        return {}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, sqlite_templates: SqliteTemplates) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("openapi")
    policies = folder / "policies"
    shutil.copytree(POLICIES, policies)
    for file in policies.glob("*.toml"):
        # Nobody asks a forge here for somebody's permission.
        text = file.read_text("utf-8").replace(', github_permission = "write"', "")
        file.write_text(text + (VERBS if "[verbs." in text else ""), "utf-8")
    for served in serve(folder, sqlite_templates, 'passkey_rest = "0"\n', policies=policies):
        yield Stage(served)


def examples() -> int:
    """Give how many calls an operation gets: few in each run, many in the long one."""
    known = settings.default.max_examples if settings.default is not None else 0
    return EXAMPLES["quick"] if known <= 50 else EXAMPLES["full"] if known <= 300 else EXAMPLES["long"]


def cases(operation: Any, asks: list[str]) -> st.SearchStrategy[Any]:
    """Draw calls that fit and calls that do not; where an ask is named, one that is there every other time."""
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    takes = bool(list(operation.iter_parameters())) or bool(operation.body)
    drawn = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in (modes if takes else modes[:1])))

    def place(pair: tuple[Any, str | None]) -> Any:
        case, ask = pair
        if ask is not None and "ask_id" in (case.path_parameters or {}):
            case.path_parameters["ask_id"] = ask
        if str((case.query or {}).get("wait", "")).isdecimal():
            # A long poll that is right is really waited for.
            case.query["wait"] = min(int(case.query["wait"]), 1)
        return case

    return st.tuples(drawn, st.none() | st.sampled_from(asks)).map(place)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_each_operation_answers_as_the_document_says(stage: Stage, operation: Any) -> None:
    security = operation.definition.raw["security"]

    @settings(
        max_examples=examples(),
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases(operation, stage.asks))
    def call(case: Any) -> None:
        headers = stage.headers(operation.path, security)
        response = case.call(base_url=stage.url, headers=headers, timeout=60)
        case.validate_response(response, checks=CHECKS)

    call()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_nobody_is_let_in_without_a_credential(stage: Stage, operation: Any) -> None:
    """What is for a person or an agent is 401 without either, before anything is read."""
    path = operation.path.replace("{ask_id}", stage.asks[0]).replace("{slug}", "shell")
    response = stage.alice.http.request(
        operation.method, f"{stage.url}{path}", timeout=60, **({} if operation.method == "get" else {"json": {}})
    )
    anyone = {} in operation.definition.raw["security"]
    assert (response.status_code == 401) is not anyone, response.text


def test_the_process_serves_the_document_that_is_kept(stage: Stage) -> None:
    served = stage.alice.http.get(f"{stage.url}/api/v1/openapi.json", timeout=60)
    assert served.json() == json.loads(DOCUMENT.read_text("utf-8"))
