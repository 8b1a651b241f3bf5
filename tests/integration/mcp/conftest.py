"""One workspace whose policy knows an action, for all tests of its tools."""

import shutil
from collections.abc import Iterator

import pytest

from tests.served_stage import POLICIES, Served, serve
from tests.store_fixtures import SqliteTemplates

_VERB = """
[verbs."release.cut"]
channels = ["workspace"]
voters = { people = ["alice", "bob"] }
approve = 1
expires = "1h"
"""


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory, sqlite_templates: SqliteTemplates) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("mcp")
    policies = folder / "policies"
    shutil.copytree(POLICIES, policies)
    for file in policies.glob("*.toml"):
        text = file.read_text("utf-8")
        file.write_text(text + (_VERB if "[verbs." in text else ""), "utf-8")
    yield from serve(folder, sqlite_templates, policies=policies)
