"""`gitops-bot db`: upgrade, check and backup, on the engines that they are for."""

import json
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import URL, insert, make_url, select, text

from gitops_bot.bootstrap import backup as backups
from gitops_bot.bootstrap.backup import backup
from gitops_bot.bootstrap.database import check, open_database, upgrade
from gitops_bot.cli import run
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.store import schema, sqlite
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role
from gitops_bot.store.schema import metadata
from tests.store_fixtures import Cluster, FreshDatabase, sqlite_options
from tests.store_rows import contents, seed

META = metadata.tables["meta"]
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Run the command line in an empty folder; gives status, output and errors."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        try:
            status = run(["db", *arguments])
        except SystemExit as ended:
            status = int(str(ended.code))
        told = capsys.readouterr()
        return status, told.out, told.err

    return call


def url_file(folder: Path, url: str) -> str:
    path = folder / "url"
    path.write_text(url + "\n")
    path.chmod(0o600)
    return str(path)


# upgrade


def test_upgrade_makes_the_folder_and_file_for_their_user_alone(cli: Cli, tmp_path: Path) -> None:
    status, out, _ = cli("upgrade")
    assert (status, out) == (0, f"schema {schema.HEAD}, sha256:{schema.SQLITE_DIGESTS[schema.HEAD]}\n")
    path = tmp_path / ".gitops-bot" / "gitops-bot.db"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert cli("upgrade") == (status, out, "")  # again: nothing changes
    open_database(f"sqlite:///{path}", Role.BROKER).close()


def test_upgrade_refuses_a_schema_that_another_hand_changed(cli: Cli, sqlite_database: FreshDatabase) -> None:
    with sqlite_database.open(Role.OWNER).write() as tx:
        tx.execute(text("CREATE TRIGGER mine AFTER UPDATE ON due BEGIN DELETE FROM grants; END"))
    status, _, err = cli("upgrade", "--database", str(sqlite_database.path))
    assert status == 1
    assert "another hand" in err


def test_two_places_at_once_are_a_usage_error(cli: Cli) -> None:
    assert cli("upgrade", "--database", "a", "--url-file", "b")[0] == 64


def test_a_url_file_that_others_may_read_is_refused(cli: Cli, tmp_path: Path, sqlite_database: FreshDatabase) -> None:
    named = url_file(tmp_path, sqlite_database.owner_url)
    assert cli("upgrade", "--url-file", named)[0] == 0
    Path(named).chmod(0o644)
    assert cli("upgrade", "--url-file", named)[0] == 1


@pytest.mark.postgresql
def test_upgrade_by_a_service_login_changes_nothing(postgresql_database: FreshDatabase) -> None:
    with pytest.raises(ConfigError, match="owner_url_file"):
        upgrade(postgresql_database.url(Role.BROKER))
    upgrade(postgresql_database.owner_url)  # the twin


# check


def test_a_sound_database_passes_the_check(database: FreshDatabase) -> None:
    found = check(database.url(Role.BROKER), database.owner_url)
    assert [finding for finding in found if not finding.ok] == []
    assert {"schema", "login"} <= {finding.name for finding in found} or database.kind != "postgresql"
    assert {"sqlite", "content"} <= {finding.name for finding in found} or database.kind == "postgresql"


def test_check_prints_a_line_each_and_exits_by_them(cli: Cli, sqlite_database: FreshDatabase) -> None:
    named = str(sqlite_database.path)
    status, out, _ = cli("check", "--database", named)
    assert status == 0
    assert sqlite.choose_library().name in out
    assert all(line.startswith("ok  ") for line in out.splitlines())
    status, out, _ = cli("check", "--json", "--database", named)
    assert status == 0
    assert json.loads(out)["ok"] is True
    sqlite_database.path.chmod(0o644)
    status, out, _ = cli("check", "--json", "--database", named)
    assert status == 1
    assert any(item["fix"] == f"chmod 600 {named}" for item in json.loads(out)["findings"])


def test_check_finds_a_damaged_page_and_a_reference_to_nothing(sqlite_database: FreshDatabase) -> None:
    owner = sqlite_database.open(Role.OWNER)
    with owner.write() as tx:
        seed(tx)
    connection = owner.engine.raw_connection()
    connection.cursor().execute("PRAGMA foreign_keys = OFF")
    connection.cursor().execute("DELETE FROM runs")
    connection.close()
    sqlite_database.close()
    broken = {finding.name: finding for finding in check(sqlite_database.owner_url) if not finding.ok}
    assert set(broken) == {"content"}
    assert "points to nothing" in broken["content"].detail

    damaged = bytearray(sqlite_database.path.read_bytes())
    damaged[4096 * 30 : 4096 * 60] = b"\xff" * (4096 * 30)
    sqlite_database.path.write_bytes(damaged)
    assert any(not finding.ok for finding in check(sqlite_database.owner_url))


def test_check_of_no_database_says_how_to_make_one(cli: Cli) -> None:
    status, out, _ = cli("check")
    assert status == 1
    assert "fix: gitops-bot db upgrade" in out


@pytest.mark.postgresql
def test_check_finds_a_login_that_is_no_service(postgresql_database: FreshDatabase) -> None:
    (finding,) = check(postgresql_database.owner_url)
    assert not finding.ok
    assert "without further rights" in finding.detail


@pytest.mark.postgresql
def test_check_finds_a_server_that_does_not_answer() -> None:
    (finding,) = check("postgresql://nobody@/x?host=/nowhere")
    assert not finding.ok
    assert "did not answer" in finding.detail


# backup


@pytest.mark.parametrize("database", ["sqlite", "sqlite-truncate"], indirect=True)
def test_a_backup_of_sqlite_is_the_whole_database_for_its_user_alone(
    database: FreshDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = sqlite.choose_library(bool(database.options))
    monkeypatch.setattr(sqlite, "choose_library", lambda force=False: library)
    with database.open(Role.OWNER).write() as tx:
        seed(tx)
    target = tmp_path / "copy.db"
    backup(database.owner_url, target)
    assert [found.name for found in tmp_path.iterdir()] == ["copy.db"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    # either library opens it
    for kind in ("sqlite", "sqlite-truncate"):
        monkeypatch.undo()
        copy = Database.open(f"sqlite:///{target}", Role.OWNER, **sqlite_options(kind))
        schema.check(copy.engine)
        assert contents(copy) == contents(database.open(Role.OWNER))
        copy.close()


def test_a_backup_while_writers_write_is_one_moment(sqlite_database: FreshDatabase, tmp_path: Path) -> None:
    broker, stop = sqlite_database.open(Role.BROKER), threading.Event()

    def write() -> None:
        count = 0
        while not stop.is_set():
            with broker.write() as tx:  # two rows a transaction: a torn copy would hold an odd number
                for _ in range(2):
                    count += 1
                    tx.execute(insert(META), {"key": f"k{count}", "value": "x" * 2000})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for index in range(5):
            backup(sqlite_database.owner_url, tmp_path / f"{index}.db")
    finally:
        stop.set()
        thread.join()
    counts = []
    for index in range(5):
        copy = open_database(f"sqlite:///{tmp_path / f'{index}.db'}", Role.BROKER)
        with copy.read() as tx:
            counts.append(len(tx.execute(select(META.c.key)).all()))
        copy.close()
    assert all(count % 2 == 0 for count in counts)
    assert counts == sorted(counts)


def test_a_backup_never_overwrites(cli: Cli, sqlite_database: FreshDatabase, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    target.write_text("mine")
    status, _, err = cli("backup", str(target), "--database", str(sqlite_database.path))
    assert status == 1
    assert "never overwrites" in err
    assert target.read_text() == "mine"
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert cli("backup", str(tmp_path / "link"), "--database", str(sqlite_database.path))[0] == 1
    assert not (tmp_path / "elsewhere").exists()
    assert cli("backup", str(tmp_path / "new.db"), "--database", str(sqlite_database.path))[0] == 0


def test_a_backup_that_fails_leaves_no_file(
    sqlite_database: FreshDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsound(_: object) -> None:
        raise Unavailable("the copy is not sound: x")

    monkeypatch.setattr(backups, "_sound", unsound)
    with pytest.raises(Unavailable):
        backup(sqlite_database.owner_url, tmp_path / "copy.db")
    with pytest.raises(ConfigError):
        backup(f"sqlite:///{tmp_path / 'none.db'}", tmp_path / "copy.db")
    with pytest.raises(ConfigError):
        backup(sqlite_database.owner_url, tmp_path / "no" / "copy.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.postgresql
def test_a_backup_of_postgresql_restores_to_the_same_database(
    postgresql_database: FreshDatabase, cluster: Cluster, tmp_path: Path
) -> None:
    owner = postgresql_database.open(Role.OWNER)
    with owner.write() as tx:
        seed(tx)
    target = tmp_path / "copy.dump"
    backup(postgresql_database.owner_url, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600

    second = cluster.clone()
    url = make_url(second.owner_url)
    with second.open(Role.OWNER).write() as tx:
        tx.execute(text("DROP OWNED BY CURRENT_USER"))
    second.close()
    login = ["-h", str(url.query["host"]), "-U", str(url.username), "-d", str(url.database)]
    subprocess.run(["pg_restore", "--exit-on-error", *login, str(target)], check=True)
    restored = open_database(second.url(Role.BROKER), Role.BROKER)
    restored.close()
    assert contents(second.open(Role.OWNER)) == contents(owner)
    second.close()
    cluster.release(second)


@pytest.mark.postgresql
def test_a_backup_by_a_login_without_rights_fails_and_leaves_no_file(
    postgresql_database: FreshDatabase, tmp_path: Path
) -> None:
    with pytest.raises(Unavailable, match="pg_dump failed"):
        backup(postgresql_database.url(Role.WORKSPACE), tmp_path / "copy.dump")
    assert list(tmp_path.iterdir()) == []


def test_no_password_reaches_an_argument_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def note(argv: list[str], *, cwd: Path, env: dict[str, str], timeout: float) -> object:
        passwords = Path(env["PGPASSFILE"])
        seen.update(argv=argv, env=env, service=Path(env["PGSERVICEFILE"]).read_text(), passwords=passwords.read_text())
        seen["modes"] = {stat.S_IMODE(found.stat().st_mode) for found in cwd.iterdir()}
        return backups.process.Completed(0, b"", b"")

    monkeypatch.setattr(backups.process, "run", note)
    url = URL.create(
        "postgresql", "own", r"hun:ter\2 ", "db.example", 5433, "bot", {"sslmode": "verify-full", "sslrootcert": "/ca"}
    )
    backup(url.render_as_string(hide_password=False), tmp_path / "copy.dump")
    assert seen["passwords"] == "*:*:*:*:hun\\:ter\\\\2 \n"
    assert seen["service"] == (
        "[gitops-bot]\nhost=db.example\nport=5433\ndbname=bot\nuser=own\nsslmode=verify-full\nsslrootcert=/ca\n"
    )
    assert seen["modes"] == {0o600}
    assert "hun" not in f"{seen['argv']}{seen['env']}{seen['service']}"


@pytest.mark.parametrize("query", ({"service": "other"}, {"password": "x"}, {"host": "a\nb"}, {"SSL MODE": "x"}))
def test_a_url_that_would_write_another_service_line_is_refused(query: dict[str, str], tmp_path: Path) -> None:
    url = URL.create("postgresql", "own", None, None, None, "bot", query).render_as_string(hide_password=False)
    with pytest.raises(ConfigError):
        backup(url, tmp_path / "copy.dump")
    assert list(tmp_path.iterdir()) == []
