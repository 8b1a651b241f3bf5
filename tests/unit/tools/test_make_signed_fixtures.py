"""The keys of the signed channel's tests are made once: a second run replaces nothing by accident."""

from collections.abc import Iterator
from pathlib import Path

import make_signed_fixtures as fixtures
import pytest
from click.testing import CliRunner


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    def one() -> Iterator[tuple[str, bytes]]:
        yield "alice", b"new"

    monkeypatch.setattr(fixtures, "openpgp", one)
    monkeypatch.setattr(fixtures, "ssh_lines", one)


def test_keys_that_are_there_stay(tmp_path: Path) -> None:
    (tmp_path / "openpgp").mkdir()
    (tmp_path / "openpgp" / "alice").write_bytes(b"old")
    done = CliRunner().invoke(fixtures.main, ["--into", str(tmp_path)])
    assert done.exit_code == 1
    assert "--force" in done.output
    assert (tmp_path / "openpgp" / "alice").read_bytes() == b"old"


def test_keys_are_replaced_by_force_and_made_where_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "openpgp").mkdir()
    (tmp_path / "openpgp" / "alice").write_bytes(b"old")
    done = CliRunner().invoke(fixtures.main, ["--into", str(tmp_path), "--force"])
    assert done.exit_code == 0, done.output
    assert {path.read_bytes() for path in tmp_path.glob("*/alice")} == {b"new"}


def test_every_name_of_the_script_is_in_the_repository() -> None:
    """What the tests sign with is what the script would make today."""
    ssh = fixtures.SSH.keys() | fixtures.SECURITY_KEYS.keys()
    openpgp = {*fixtures.PRIMARY_ALONE, *fixtures.WITH_SUBKEY, *fixtures.REVOCATIONS, *fixtures.SUBKEY_REVOCATIONS}
    found = {kind: {path.name for path in (fixtures.FOLDER / kind).iterdir()} for kind in ("ssh", "openpgp")}
    assert found["ssh"] == {*ssh, *(f"{name}.pub" for name in ssh)}
    assert {f"{name}.asc" for name in openpgp} <= found["openpgp"]
