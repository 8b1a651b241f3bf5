"""The signed channel as a demo: an agent asks for a transfer and cannot sign it; two people do, one OpenPGP, one SSH;
a payee on loopback is called once with the approved bytes. Then a lower limit is adopted by signatures, and holds.

Everything runs as its own process on loopback with keys made for this folder; nothing is special here.
"""

import contextlib
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gitops_bot import process
from gitops_bot.bootstrap import trust
from gitops_bot.core.errors import ConfigError, Unavailable
from gitops_bot.demo import people, transfer_files, transfer_telling
from gitops_bot.demo.people import OPENPGP, SSH, Signer
from gitops_bot.demo.stage import COMMAND, Stage, free_port
from gitops_bot.demo.story import Story, Tell
from gitops_bot.demo.transfer_files import AGENT, Place
from gitops_bot.demo.transfer_scene import Outcome, Scene, variables
from gitops_bot.signed import by_hand
from gitops_bot.store import schema
from gitops_bot.store.engine import Database
from gitops_bot.store.roles import Role

KINDS: Final = {"alice": OPENPGP, "bob": SSH, "carol": SSH, AGENT: SSH, "bot": SSH}
PROGRAMS: Final = {"git": "git", "gpg": "gnupg", "ssh-keygen": "openssh-client"}
TOLD: Final = "what it takes: two of alice, bob and carol; carol owns the agent, so alice and bob must both sign"


def play(root: Path, tell: Tell, *, auto: bool, shown: Callable[[Outcome], None] | None = None) -> Outcome:
    """Run the transfer in an empty folder; with `auto` alice and bob are played at terminals of their own.

    With `shown` the outcome is shown at the end, and everything runs on until Ctrl-C.

    Raises:
        ConfigError: a program that it needs is not there.
        Unavailable: what it needs cannot be made or started.
    """
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=process.SYSTEM_PATH) is None:
            raise ConfigError(f"the transfer needs {program}, which is not here", fix=f"install {package}")
    with contextlib.ExitStack() as ended:
        scene = _set_up(root, tell, ended, auto=auto)
        problem = ""
        try:
            scene.first_transfer()
            scene.lower_the_limit()
            scene.second_transfer()
        except Unavailable as error:
            problem = str(error)
        outcome = scene.outcome(problem)
        if shown is not None:
            shown(outcome)
            _linger(scene.story)
        return outcome


def _set_up(root: Path, tell: Tell, ended: contextlib.ExitStack, *, auto: bool) -> Scene:
    """Make keys, policy and settings, start everything, and let alice begin her branch."""
    place = Place(root)
    tell("making keys for this demo alone: alice OpenPGP, everybody else SSH")
    transfer_files.begin(place)
    signers: dict[str, Signer] = {}
    for name, kind in KINDS.items():
        ended.callback(people.end_agent, place.home(name), kind)
        signers[name] = people.make(place.home(name), name, kind)
    stage = ended.enter_context(Stage(root))
    tell("starting a payee, the broker and the workspace on loopback")
    books = ("--books", str(place.books), "--token-file", str(place.bank_token))
    _, payee = stage.start("payee", (sys.executable, "-m", "gitops_bot.demo.payee", *books), says_url=True)
    port = free_port()
    transfer_files.write_policy(place, signers, payee, version=1, limit=transfer_files.LIMIT)
    transfer_files.write_settings(place, signers["bot"], port)
    url = f"sqlite:///{place.state / 'gitops-bot.db'}"
    owner = Database.open(url, Role.OWNER)
    schema.upgrade(owner.engine)
    owner.close()
    trust.pin(place.policies, place.trust_file)
    scene = Scene(place, signers, payee, f"http://localhost:{port}", tell, stage, url, auto=auto)
    ended.callback(scene.close)
    scene.bot("agent", "add", "payer", "--principal", AGENT, "--token-file", str(place.agent_token))
    stage.start("broker", (*COMMAND, "broker", "--config", str(place.config)))
    workspace, _ = stage.start("workspace", (*COMMAND, "workspace", "--config", str(place.config)))
    _begin_branch(place, signers["alice"])
    stage.answers(workspace, "127.0.0.1", port)
    for line in (*transfer_telling.ANY, TOLD):
        tell(line)
    return scene


def _begin_branch(place: Place, alice: Signer) -> None:
    done = alice.git(variables(place, "alice", "none") + by_hand.ROOT)
    if done.returncode != 0:
        raise Unavailable(f"alice's branch was not begun: {done.stderr.decode('utf-8', 'replace')[-300:]}")


def _linger(story: Story) -> None:
    """Let everything run on, to be looked at, until the person has seen enough."""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            story.look()
            time.sleep(0.5)
