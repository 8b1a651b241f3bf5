"""People come in by passkeys: by the host's code at first, then by the key alone; and what they opened, they end."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from tests.browser_house import House
from tests.browser_stage import Seat


def test_the_host_lets_somebody_in_who_then_signs_in_by_the_key(seat: Callable[..., Seat], house: House) -> None:
    """The code that the host's command prints enrols a key, a second is offered, the key alone signs in again."""
    printed = house.command("person", "enrol", "carol")
    carol = seat().open("/enrol")
    carol.page.get_by_label("Code").fill(printed.split()[0])
    carol.page.get_by_label("Name of this key").fill("blue key")
    carol.page.get_by_role("button", name="Create the passkey").click()
    carol.page.wait_for_url("**/enrol/second")
    expect(carol.page.get_by_role("heading", name="Add a second one")).to_be_visible()

    carol.open("/people")
    carol.page.get_by_role("button", name="Sign out", exact=True).click()
    carol.page.wait_for_url("**/sign-in")
    carol.open("/needs-you")
    expect(carol.page).to_have_url(re.compile(r"/sign-in\?next="))
    carol.page.get_by_role("button", name="Sign in with a passkey").click()
    carol.page.wait_for_url("**/needs-you")
    expect(carol.page.get_by_role("link", name="carol", exact=True)).to_be_visible()


def test_a_code_lets_in_once(seat: Callable[..., Seat], house: House) -> None:
    """A code that was used is refused in words that say what to do; its first use enrolled the key."""
    first = seat().enrol("bob")
    second = seat().open("/enrol")
    code = house.code("bob")
    for window, comes_in in ((first, True), (second, False)):
        window.open("/enrol")
        window.page.get_by_label("Code").fill(code)
        window.page.get_by_label("Name of this key").fill("phone")
        if comes_in:
            window.forget()
        window.page.get_by_role("button", name="Create the passkey").click()
        if comes_in:
            window.page.wait_for_url("**/enrol/second")
        else:
            expect(window.page.locator("[data-say].refused")).to_contain_text(re.compile("code", re.I))
    assert second.credentials() == []


def test_a_second_key_goes_in_beside_the_first(seat: Callable[..., Seat], house: House) -> None:
    """A second authenticator is enrolled after the first one confirmed; both are listed, and everybody was told."""
    alice = seat().enrol("alice")
    alice.page.get_by_label("Name of the new key").fill("phone")
    # The first key confirms and is on the device; the new one comes from another authenticator.
    other = {"authenticatorId": alice.authenticator}
    alice.page.get_by_role("button", name="Add a passkey").click()
    refused = alice.page.locator("[data-say].refused")
    expect(refused).to_contain_text("already holds a passkey")
    alice.devtools.send("WebAuthn.setAutomaticPresenceSimulation", {**other, "enabled": True})
    added = {
        "protocol": "ctap2",
        "transport": "usb",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    alice.devtools.send("WebAuthn.addVirtualAuthenticator", {"options": added})
    alice.page.get_by_role("button", name="Add a passkey").click()
    expect(alice.page.get_by_role("heading", name="You have 2 passkeys")).to_be_visible()
    alice.open("/people")
    mine = alice.page.get_by_role("region", name="Your passkeys")
    expect(mine).to_contain_text("laptop")
    expect(mine).to_contain_text("phone")
    told = alice.page.get_by_role("region", name=re.compile("Told to you"))
    expect(told).to_be_visible()
    told.get_by_role("button", name="I have read this").click()
    expect(told).to_have_count(0)


def test_who_is_not_verified_does_not_come_in(seat: Callable[..., Seat], house: House) -> None:
    """A key whose user the authenticator does not know signs nobody in, says so in words; verified, it does."""
    bob = seat().enrol("bob")
    bob.context.clear_cookies()
    bob.verify(False)
    bob.open("/sign-in")
    bob.page.get_by_role("button", name="Sign in with a passkey").click()
    expect(bob.page.locator("[data-say].refused")).to_contain_text("Nothing was done; try again.")
    bob.open("/needs-you")
    expect(bob.page).to_have_url(re.compile("/sign-in"))
    bob.verify(True)
    bob.page.get_by_role("button", name="Sign in with a passkey").click()
    bob.page.wait_for_url("**/needs-you")


def test_a_session_that_is_ended_closes_its_stream(seat: Callable[..., Seat], house: House) -> None:
    """Ending a session elsewhere ends its open pages within seconds, and leaves the one that ended it alone."""
    here = seat().enrol("alice")
    there = seat()
    for credential in here.credentials():
        there.devtools.send(
            "WebAuthn.addCredential", {"authenticatorId": there.authenticator, "credential": credential}
        )
    there.open("/sign-in")
    there.page.get_by_role("button", name="Sign in with a passkey").click()
    there.page.wait_for_url("**/needs-you")
    there.live()
    here.open("/people")
    sessions = here.page.get_by_role("region", name="Where you are signed in")
    sessions.get_by_role("button", name="End all others").click()
    expect(sessions.get_by_role("button", name="Press again to end all others")).to_be_visible()
    sessions.get_by_role("button", name="Press again to end all others").click()
    expect(there.page.locator('[data-live="ended"]')).to_have_count(1)
    expect(sessions.get_by_role("button", name="End all others")).to_have_count(0)
    there.open("/needs-you")
    expect(there.page).to_have_url(re.compile("/sign-in"))
    here.open("/needs-you").live()


def test_a_shell_is_let_in_by_its_code(seat: Callable[..., Seat], house: House, tmp_path: Path) -> None:
    """`gitops-bot login` waits until its code is confirmed on the page with a passkey, and then answers as her."""
    alice = seat().enrol("alice")
    ask = house.question("Shall the shell answer?", "yes", "no")
    environment = house.environment(HOME=str(tmp_path), XDG_STATE_HOME=str(tmp_path / "state"))
    argv = house.argv("gitops_bot.cli", "login", "--url", house.origin, "--label", "the shell of alice")
    shell = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert shell.stdout is not None
        lines = iter(shell.stdout.readline, "")
        code = next(found[0] for line in lines if (found := re.findall(r"^ {4}(\S.*)$", line.rstrip())))
        alice.open("/shell")
        alice.page.get_by_label("Code shown in the shell").fill(code)
        alice.page.get_by_role("button", name="Show the shell").click()
        expect(alice.page.get_by_text("the shell of alice")).to_be_visible()
        assert shell.poll() is None
        alice.page.get_by_role("button", name="The codes are the same: let it in").click()
        alice.page.wait_for_url("**/people#sessions")
        said = shell.communicate(timeout=60)[0]
        assert shell.returncode == 0, said
    finally:
        shell.kill()
        shell.wait()
    assert "Logged in as alice" in said
    answer = house.argv("gitops_bot.cli", "ask", "answer", ask, "--option", "o1")
    done = subprocess.run(answer, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert house.state(ask) == "ANSWERED"


def test_a_code_of_no_shell_lets_nothing_in(seat: Callable[..., Seat]) -> None:
    """A code under which no shell waits says so, and offers nothing to confirm."""
    alice = seat().enrol("alice")
    alice.open("/shell?code=ABCDEFGH")
    expect(alice.page.get_by_role("alert")).to_contain_text("No shell waits under this code")
    expect(alice.page.get_by_role("button", name=re.compile("let it in"))).to_have_count(0)
