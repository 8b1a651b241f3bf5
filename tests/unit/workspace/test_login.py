"""`gitops-bot login`: it shows a code, its person confirms it, and a file of theirs alone holds the credential."""

import re
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.serving import make_server

from gitops_bot.cli import login as command
from gitops_bot.cli import run
from gitops_bot.cli.remote import connect_person
from gitops_bot.core.errors import Refusal
from tests.signed_in import PersonClient
from tests.unit.workspace.conftest import Workplace


@pytest.fixture
def url(workplace: Workplace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("GITOPS_BOT_URL", raising=False)
    monkeypatch.setattr(command, "_POLL", 0.05)
    server = make_server("127.0.0.1", 0, workplace.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def confirming(alice: PersonClient, capsys: pytest.CaptureFixture[str], seen: list[str]) -> threading.Thread:
    """Let alice read the code where the command shows it, and confirm it."""

    def confirm() -> None:
        while not (found := re.search(r"[0-9A-Z]{4}-[0-9A-Z]{4}", "".join(seen))):
            seen.append(capsys.readouterr().out)
        assert alice.confirmed("POST", "/auth/shells/confirm", {"code": found[0]}).status_code == 200

    thread = threading.Thread(target=confirm)
    thread.start()
    return thread


def test_a_person_logs_in_acts_and_logs_out(
    workplace: Workplace, url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    alice, seen = workplace.person("alice"), [""]
    thread = confirming(alice, capsys, seen)
    assert run(["login", "--url", url, "--label", "ops1\x1b[2J"]) == 0
    thread.join()
    said = "".join(seen) + capsys.readouterr().out
    assert "http://localhost:8480/shell" in said
    assert "Logged in as alice" in said
    assert "gbs_" not in said
    [file] = (tmp_path / "gitops-bot" / "logins").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    shown = connect_person(None).get("/auth/session")
    assert (shown["person"], shown["session"]["kind"]) == ("alice", "shell")
    assert "\x1b" not in shown["session"]["label"]
    client = connect_person(url)
    assert client.post("/auth/preferences", {"single_keys": False}) == {"single_keys": False}
    assert run(["login", "--out"]) == 0
    assert not file.exists()
    with pytest.raises(Refusal, match="gitops-bot login"):
        client.get("/auth/session")
    assert run(["login", "--out"]) == 0
    assert "logged in nowhere" in capsys.readouterr().err


def test_a_code_that_nobody_confirms_ends_the_command(
    workplace: Workplace, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit 4 with what to do, and no file."""
    from gitops_bot.authority import shells

    monkeypatch.setattr(shells, "LASTS", 1)
    assert run(["login", "--url", url]) == 4
    assert "run `gitops-bot login` again" in capsys.readouterr().err
    assert not (tmp_path / "gitops-bot").exists()


def test_a_credential_goes_to_its_own_address_and_only_from_a_file_of_ones_own(
    workplace: Workplace, url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    alice = workplace.person("alice")
    thread = confirming(alice, capsys, [""])
    assert run(["login", "--url", url]) == 0
    thread.join()
    with pytest.raises(Exception, match="logged in nowhere"):
        connect_person("http://127.0.0.1:9")
    [file] = (tmp_path / "gitops-bot" / "logins").iterdir()
    file.chmod(0o644)
    assert run(["login", "--out", "--url", url]) == 1
    assert "others may read" in capsys.readouterr().err
    file.chmod(0o600)
    kept = file.read_text()
    file.write_text(kept.replace(url, "http://127.0.0.1:9"))
    assert run(["login", "--out", "--url", url]) == 1
    file.write_text("{")
    assert run(["login", "--out", "--url", url]) == 1
    file.write_text(kept)
    assert run(["login", "--out", "--url", url]) == 0


def test_an_address_is_needed_and_plain_http_goes_nowhere_else(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["login"]) == 64
    assert run(["login", "--url", "http://ops.example.org"]) == 1
    assert "use https://" in capsys.readouterr().err
