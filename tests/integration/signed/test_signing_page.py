"""docs/signing.md does what it says: its commands are taken out of the page and run, and the vote counts."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from gitops_bot.process import run
from gitops_bot.signed import by_hand
from gitops_bot.store import signed_votes
from tests import signed_keys as keys
from tests.signed_host import SignedHost
from tests.signed_stage import ENVIRONMENT, REPOSITORY
from tests.store_fixtures import FreshDatabase

PAGE = (Path(__file__).parents[3] / "docs" / "signing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh ?([a-z-]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
KINDS = [("openpgp", "ssh"), ("ssh", "openpgp")]


def blocks(kind: str, bot: str) -> Iterator[str]:
    """Give the blocks that somebody with a kind of key runs, the first one with values of this test."""
    for name, text in BLOCKS:
        if name in ("", kind, f"bot-{bot}"):
            yield text


def shell(folder: Path, home: Path, *texts: str) -> str:
    """Run commands as a person's shell would, and give what they print."""
    env = {"HOME": str(home), "GNUPGHOME": str(home)}
    done = run(("sh", "-eu", "-c", "\n".join(texts)), cwd=folder, env=env, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize(("kind", "bot"), KINDS)
def test_the_commands_of_the_page_make_a_vote_that_counts(
    tmp_path: Path, sqlite_database: FreshDatabase, kind: str, bot: str
) -> None:
    host = SignedHost(tmp_path / "host", sqlite_database, bot_kind=bot)
    ask = host.ask()
    host.announce()
    mine = tmp_path / "mine"
    mine.mkdir()
    shutil.copy(keys.KEYS / "openpgp" / "bot.asc", mine)
    shutil.copy(keys.KEYS / "ssh" / "bot.pub", mine)
    (mine / "key").touch(mode=0o600)
    (mine / "key").write_bytes(keys.ssh_path("alice").read_bytes())
    key = keys.fingerprint("alice") if kind == "openpgp" else str(mine / "key")
    first, *rest = blocks(kind, bot)
    values = {
        "remote": host.stage.url,
        "repository": REPOSITORY,
        "environment": ENVIRONMENT,
        "person": "alice",
    }
    assert set(re.findall(r"^([a-z]+)=[^$\n]*$", first, re.MULTILINE)) == values.keys()
    for name, value in values.items():
        first = re.sub(rf"^{name}=.*$", f"{name}={value}", first, flags=re.MULTILINE)
    given = f"{first}\nkey={key}\nask={ask}\ndecision=approve\n"
    *signing, receipt = rest
    there = next(place for place, text in enumerate(signing) if "bot." in text)
    signing.insert(there, "cp ../bot.asc ../bot.pub .")
    with keys.gpg_home("alice", secret=True) if kind == "openpgp" else nullcontext(mine) as home:
        printed = shell(mine, home, given, *signing)
        host.look()
        host.announce()
        told = shell(mine / "signing.git", home, given, 'shard=${ask#"${ask%??}"}', receipt)
    with host.database.read() as tx:
        (vote,) = signed_votes.of_ask(tx, ask)
    assert (vote.principal, vote.decision, vote.key_kind) == ("alice", "approve", kind)
    (said,) = json.loads(told)["receipts"]
    assert (said["code"], said["votes"], said["needed"]) == ("counted", ["alice"], 2)
    shown = json.loads(host.bot("approval", "show", ask, "--person", "alice", "--json")[1])["file"]
    assert shown["content"].encode() == vote.raw_blob
    assert shown["content"] in printed
    assert f"\n{shown['short_code']}\n" in printed
    host.close()


def test_the_command_line_shows_the_commands_of_the_page() -> None:
    for part in (by_hand.ROOT, by_hand.TAKE, by_hand.VOTE):
        assert f"```sh\n{part}```\n" in PAGE


def test_a_page_that_differs_by_one_word_makes_no_vote(host: SignedHost, tmp_path: Path) -> None:
    """The twin: with a message of one's own the same commands give a refusal that says what to do."""
    ask = host.ask()
    host.announce()
    (tmp_path / "key").touch(mode=0o600)
    (tmp_path / "key").write_bytes(keys.ssh_path("alice").read_bytes())
    shown = json.loads(host.bot("approval", "show", ask, "--person", "alice", "--json")[1])["file"]["commands"]
    setup = next(text for name, text in BLOCKS if "git init" in text)
    ours = f"git config gpg.format ssh\ngit config user.signingKey {tmp_path / 'key'}\n"
    variables, _, rest = shown.partition("git fetch")
    wrong = rest.replace("< message", "< own-words")
    shell(tmp_path, tmp_path, variables, setup, ours, by_hand.ROOT, "echo agreed > own-words", "git fetch" + wrong)
    host.look()
    (attempt,) = json.loads(host.bot("approval", "list", "--attempts", "1", "--json")[1])["attempts"]
    assert attempt["code"] == "message_differs"
    shell(tmp_path / "signing.git", tmp_path, shown)
    host.look()
    assert json.loads(host.bot("approval", "show", ask, "--json")[1])["approved_by"] == ["alice"]
