"""The page for people, and the forge as a process of its own."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

REPOSITORY = "acme/judge"
NASTY = '<script>alert(1)</script> & "quotes" {{ 7*7 }}'


def test_the_page_shows_everything_escaped_and_runs_nothing(forge) -> None:
    """No text becomes markup or a template; the policy forbids scripts."""
    number = forge.draft().number
    forge.sandbox.comment(REPOSITORY, number, "carol", NASTY)
    shown = requests.get(f"{forge.sandbox.url}/{REPOSITORY}/pull/{number}", timeout=60)
    assert shown.status_code == 200
    assert "<script" not in shown.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#34;quotes&#34; {{ 7*7 }}" in shown.text
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in shown.headers["content-security-policy"]
    index = requests.get(f"{forge.sandbox.url}/", timeout=60)
    assert f"/{REPOSITORY}/pull/{number}" in index.text


def test_a_comment_from_the_page_is_a_comment_of_the_chosen_account(forge) -> None:
    """Posted from the page itself, with its own origin."""
    number = forge.draft().number
    there = f"{forge.sandbox.url}/{REPOSITORY}/pull/{number}"
    form = {"login": "alice", "body": "/capture-status\r\nthanks"}
    posted = requests.post(f"{there}/comment", data=form, headers={"Origin": forge.sandbox.url}, timeout=60)
    assert posted.status_code == 200
    (made,) = forge.sandbox.comments(REPOSITORY, number)
    assert (made.author_id, made.body) == (1001, "/capture-status\r\nthanks")
    assert posted.url == f"{there}?as=alice#issuecomment-{made.id}"


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1:1"])
def test_a_form_from_elsewhere_writes_nothing(forge, origin: str | None) -> None:
    """The refusing twin: no origin, an opaque one, another site, another port."""
    number = forge.draft().number
    headers = {} if origin is None else {"Origin": origin}
    there = f"{forge.sandbox.url}/{REPOSITORY}/pull/{number}/comment"
    posted = requests.post(there, data={"login": "alice", "body": "x"}, headers=headers, timeout=60)
    assert posted.status_code == 403
    assert forge.sandbox.comments(REPOSITORY, number) == ()


def test_an_empty_comment_keeps_the_page_and_says_why(forge) -> None:
    """A refusal of the rules is shown, and what was written is not lost."""
    number = forge.draft().number
    there = f"{forge.sandbox.url}/{REPOSITORY}/pull/{number}/comment"
    headers = {"Origin": forge.sandbox.url}
    posted = requests.post(there, data={"login": "nobody", "body": "kept text"}, headers=headers, timeout=60)
    assert posted.status_code == 404
    assert 'role="alert"' in posted.text
    assert "kept text" in posted.text


def test_an_unknown_pull_request_has_no_page(forge) -> None:
    """404, in HTML."""
    assert requests.get(f"{forge.sandbox.url}/{REPOSITORY}/pull/9", timeout=60).status_code == 404
    assert requests.get(f"{forge.sandbox.url}/acme/nothing/pull/1", timeout=60).status_code == 404


def _seed(folder: Path, mode: int = 0o600) -> Path:
    tokens = folder / "tokens.json"
    tokens.write_text(json.dumps({"alice": "token-of-alice", "gitops-bot[bot]": "token-of-bot"}))
    tokens.chmod(mode)
    seed = folder / "seed.json"
    seed.write_text(
        json.dumps(
            {
                "tokens": "tokens.json",
                "accounts": [
                    {"login": "alice", "id": 1001},
                    {"login": "gitops-bot[bot]", "id": 2001, "type": "Bot"},
                ],
                "repositories": [{"full_name": REPOSITORY, "id": 501, "files": {"a/b.txt": "text"}}],
                "grants": [{"repository": REPOSITORY, "login": "alice", "role_name": "write"}],
            }
        )
    )
    return seed


def _command(folder: Path, seed: Path) -> list[str]:
    return [sys.executable, "-m", "gitops_bot.sandbox", "--root", str(folder / "forge"), "--seed", str(seed)]


def test_the_process_says_where_it_listens_serves_and_ends_on_sigterm(tmp_path: Path) -> None:
    """One JSON line when ready; seeded accounts, repository, file and grant; a clean exit."""
    with subprocess.Popen(_command(tmp_path, _seed(tmp_path)), stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            url = json.loads(child.stdout.readline())["url"]
            headers = {"Authorization": "token token-of-alice"}
            assert requests.get(f"{url}/user", headers=headers, timeout=60).json()["id"] == 1001
            file = requests.get(f"{url}/repos/{REPOSITORY}/contents/a/b.txt", headers=headers, timeout=60).json()
            assert file["content"] == "dGV4dA==\n"
            held = requests.get(f"{url}/repos/{REPOSITORY}", headers=headers, timeout=60).json()["permissions"]
            assert held["push"] is True
            assert "token-of" not in Path(f"/proc/{child.pid}/cmdline").read_text()
        finally:
            child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_tokens_that_others_can_read_start_nothing(tmp_path: Path, mode: int) -> None:
    """The refusing twin: status 2 and the line that fixes it."""
    done = subprocess.run(
        _command(tmp_path, _seed(tmp_path, mode)), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "chmod 600" in done.stderr
    assert done.stdout == ""


def test_a_closed_forge_leaves_no_thread_and_its_port(forge) -> None:
    """Closing twice is closing once, and somebody else may listen there."""
    import threading

    from gitops_bot.sandbox.http import Sandbox

    port = int(forge.sandbox.url.rsplit(":", 1)[1])
    forge.sandbox.close()
    forge.sandbox.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "sandbox"]
    with Sandbox.start(forge.sandbox.world.root, port) as second:
        assert second.url == forge.sandbox.url
