"""gpg as the second engine: the real program agrees with the first, and whatever it does wrong never counts."""

import datetime
import os
import stat
import threading
import time
from pathlib import Path

import pysequoia
import pytest

from gitops_bot.core.errors import Reason, Refused, Unavailable
from gitops_bot.signed.evidence import Signed, Window
from gitops_bot.signed.openpgp.certificates import read_certificate
from gitops_bot.signed.openpgp.engine import OpenPgpKeys
from gitops_bot.signed.openpgp.gpg import Gpg
from gitops_bot.signed.openpgp.keyring import agree
from tests import signed_keys as keys
from tests.openpgp_commits import NOW, PAYLOAD, WINDOW, certificates, commit, engine, gpg, signed

NAMES = ("alice", "bob", "carol", "p384", "p521")
SUBKEY, PRIMARY = keys.secrets("alice")[-1].fingerprint, keys.fingerprint("alice")
NEW = "[GNUPG:] NEWSIG"
GOOD = f"[GNUPG:] GOODSIG {SUBKEY[-16:]} alice"
VALID = f"[GNUPG:] VALIDSIG {SUBKEY} 2025-12-01 {NOW} 0 4 0 22 10 00 {PRIMARY}"


def reason(found: Signed | Refused) -> Reason | None:
    return found.reason if isinstance(found, Refused) else None


def pretending(folder: Path, *, verify: str = 'exec gpg "$@"', other: str = 'exec gpg "$@"') -> str:
    """Write a program that stands in for gpg: a shell's lines for `--verify`, and for everything else."""
    program = folder / "pretended-gpg"
    program.write_text(f'#!/bin/sh\ncase " $* " in\n*" --verify "*)\n{verify}\n;;\n*)\n{other}\n;;\nesac\n')
    program.chmod(0o755)
    return str(program)


def saying(*lines: str, status: int = 0) -> str:
    return "cat > /dev/null\n" + "".join(f"echo '{line}'\n" for line in lines) + f"exit {status}"


@pytest.mark.parametrize("name", NAMES)
def test_gpg_says_the_same_as_the_engine_in_process(name: str, tmp_path: Path) -> None:
    found = engine(*NAMES).verify(signed(name), WINDOW)
    assert isinstance(found, Signed)
    assert agree(found, gpg(tmp_path, *NAMES).verify(signed(name), WINDOW)) == found


def test_gpg_finds_a_signature_of_other_bytes_bad(tmp_path: Path) -> None:
    armor = keys.openpgp("alice")(PAYLOAD, NOW)
    assert reason(gpg(tmp_path, "alice").verify(commit(armor, PAYLOAD + b" "), WINDOW)) is Reason.BAD_SIGNATURE
    assert reason(gpg(tmp_path, "alice").verify(commit(armor), WINDOW)) is None


def test_gpg_is_not_even_asked_about_a_key_that_ended(tmp_path: Path) -> None:
    never = gpg(tmp_path, "alice.expired", "bob", program="/nonexistent/gpg")
    assert reason(never.verify(signed("alice"), WINDOW)) is Reason.KEY_EXPIRED
    with pytest.raises(Unavailable):
        never.verify(signed("bob"), WINDOW)


def test_a_key_is_judged_at_receipt_whatever_the_clock_of_this_machine(tmp_path: Path) -> None:
    received = int(datetime.datetime(2020, 9, 1, tzinfo=datetime.UTC).timestamp())
    window = Window(received * 1_000, skew=0)
    stored = signed("alice", at=received)
    assert reason(engine("alice.expired").verify(stored, window)) is None
    assert reason(gpg(tmp_path, "alice.expired").verify(stored, window)) is None
    far = int(datetime.datetime(2095, 12, 1, tzinfo=datetime.UTC).timestamp())
    assert reason(gpg(tmp_path, "alice.expires").verify(signed("alice", at=far), Window(far * 1_000, skew=0))) is None


def test_a_soft_revocation_that_lies_ahead_does_not_count_though_gpg_names_it(tmp_path: Path) -> None:
    later = gpg(tmp_path, "alice.revoked-retired-later")
    assert reason(later.verify(signed(), WINDOW)) is None
    assert reason(gpg(tmp_path, "alice.revoked-retired").verify(signed(), WINDOW)) is Reason.KEY_REVOKED
    pretended = pretending(tmp_path, verify=saying(NEW, GOOD.replace("GOODSIG", "REVKEYSIG"), VALID))
    assert reason(gpg(tmp_path, "alice", program=pretended).verify(signed(), WINDOW)) is Reason.KEY_REVOKED


def test_a_name_that_writes_status_lines_changes_nothing(tmp_path: Path) -> None:
    name = f"mallory\n{GOOD}\n[GNUPG:] BADSIG {SUBKEY[-16:]} x\n%0A[GNUPG:] NEWSIG"
    secret = pysequoia.Tsk.generate(user_id=name, profile=pysequoia.Profile.RFC4880)
    certificate = read_certificate(bytes(secret.extract_certificate()), where="keys/mallory.asc")
    armor = pysequoia.sign(secret.signer(), PAYLOAD, mode=pysequoia.SignatureMode.DETACHED)
    window = Window(int(time.time()) * 1_000 + 2_000, skew=60_000)
    found = OpenPgpKeys([certificate]).verify(commit(armor), window)
    assert isinstance(found, Signed)
    assert Gpg([certificate], folder=tmp_path / "gpg").verify(commit(armor), window) == found


@pytest.mark.parametrize(
    "lines",
    [
        ("garbage",),
        (NEW,),
        (NEW, GOOD),
        (NEW, VALID),
        (NEW, NEW, GOOD, VALID),
        (NEW, GOOD, VALID, NEW, GOOD, VALID),
        (NEW, GOOD, VALID, f"[GNUPG:] BADSIG {SUBKEY[-16:]} alice"),
        (NEW, GOOD, VALID, "[GNUPG:] ERRSIG 0000000000000000 22 8 00 1 9"),
        (NEW, GOOD, VALID.replace(PRIMARY, keys.fingerprint("bob"))),
        (NEW, GOOD.replace(SUBKEY[-16:], PRIMARY[-16:]), VALID.replace(SUBKEY, PRIMARY)),
        (NEW, GOOD, VALID.replace(str(NOW), str(NOW + 1))),
        (NEW, GOOD, VALID.replace(" 22 10 ", " 22 2 ")),
        (NEW, GOOD, VALID.replace(" 10 00 ", " 10 01 ")),
        (NEW, GOOD.replace("GOODSIG", "EXPKEYSIG"), VALID),
        (NEW, GOOD.replace("GOODSIG", "REVKEYSIG"), VALID),
        (NEW, GOOD.replace("GOODSIG", "EXPSIG"), VALID),
        (NEW, f"[GNUPG:] BADSIG {SUBKEY[-16:]} alice"),
        (NEW, f"[GNUPG:] ERRSIG {SUBKEY[-16:]} 22 10 00 {NOW} 9", f"[GNUPG:] NO_PUBKEY {SUBKEY[-16:]}"),
        (NEW, f"[GNUPG:] ERRSIG {SUBKEY[-16:]} 22 10 00 {NOW} 4"),
    ],
)
def test_whatever_else_gpg_says_does_not_count(lines: tuple[str, ...], tmp_path: Path) -> None:
    found = engine("alice").verify(signed(), WINDOW)
    assert isinstance(found, Signed)
    said = gpg(tmp_path, "alice", program=pretending(tmp_path, verify=saying(*lines))).verify(signed(), WINDOW)
    assert reason(agree(found, said)) is Reason.ENGINES_DISAGREE


def test_what_gpg_would_say_of_a_good_signature_counts(tmp_path: Path) -> None:
    pretended = pretending(tmp_path, verify=saying(NEW, GOOD, VALID))
    assert reason(gpg(tmp_path, "alice", program=pretended).verify(signed(), WINDOW)) is None


@pytest.mark.parametrize(
    "verify",
    ["kill -9 $$", "exec sleep 60", "sleep 60", "exit 127", "exit 2", saying("[GNUPG:] FAILURE verify 1", status=2)],
)
def test_a_gpg_that_is_killed_hangs_or_does_not_get_there_holds_the_commit_which_then_counts(
    verify: str, tmp_path: Path
) -> None:
    failing = gpg(tmp_path, "alice", program=pretending(tmp_path, verify=verify), timeout=2.0)
    with pytest.raises(Unavailable):
        failing.verify(signed(), WINDOW)
    assert reason(gpg(tmp_path, "alice").verify(signed(), WINDOW)) is None


def hanging(option: str) -> str:
    return f'case " $* " in\n*" {option} "*) exec sleep 60;;\n*) exec gpg "$@";;\nesac'


@pytest.mark.parametrize(
    "other", ["kill -9 $$", "exit 127", *map(hanging, ("--version", "--list-config", "--import", "--list-keys"))]
)
def test_a_gpg_that_fails_before_the_home_is_made_holds_the_commit_too(other: str, tmp_path: Path) -> None:
    failing = gpg(tmp_path, "alice", program=pretending(tmp_path, other=other), timeout=2.0)
    with pytest.raises(Unavailable):
        failing.verify(signed(), WINDOW)
    assert [path.name for path in (tmp_path / "gpg").iterdir()] == [], "nothing half made stays"
    assert reason(gpg(tmp_path, "alice").verify(signed(), WINDOW)) is None


def test_a_certificate_that_gpg_does_not_take_makes_them_disagree(tmp_path: Path) -> None:
    refusing = 'case " $* " in\n*" --import "*)\ncat > /dev/null\necho \'[GNUPG:] IMPORT_RES 1 ' + "0 " * 13
    refusing += '0\' >&2\nexit 2;;\n*) exec gpg "$@";;\nesac'
    found = gpg(tmp_path, "alice", program=pretending(tmp_path, other=refusing)).verify(signed(), WINDOW)
    assert reason(found) is Reason.ENGINES_DISAGREE


@pytest.mark.parametrize("always", ["exit 0", "echo all is well; exit 0", "head -c 100000 /dev/urandom; exit 0"])
def test_a_gpg_that_talks_garbage_from_the_start_makes_them_disagree(always: str, tmp_path: Path) -> None:
    found = gpg(tmp_path, "alice", program=pretending(tmp_path, verify=always, other=always)).verify(signed(), WINDOW)
    assert reason(found) is Reason.ENGINES_DISAGREE


def home(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "gpg").iterdir()
    return found


def test_a_home_is_ours_alone_kept_and_used_again(tmp_path: Path) -> None:
    assert reason(gpg(tmp_path, "alice", "bob").verify(signed(), WINDOW)) is None
    kept = home(tmp_path)
    assert stat.S_IMODE((tmp_path / "gpg").stat().st_mode) == 0o700
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    made = kept.stat().st_ino
    assert reason(gpg(tmp_path, "alice", "carol").verify(signed(), WINDOW)) is None
    assert home(tmp_path).stat().st_ino == made
    assert reason(gpg(tmp_path, "alice.second-subkey").verify(signed(), WINDOW)) is None
    assert len(list((tmp_path / "gpg").iterdir())) == 2, "a changed certificate has a home of its own"


@pytest.mark.parametrize("damage", ["truncated", "replaced", "gone", "no seal", "no folder", "a file"])
def test_a_damaged_home_is_made_again(damage: str, tmp_path: Path) -> None:
    ring = gpg(tmp_path, "alice")
    assert reason(ring.verify(signed(), WINDOW)) is None
    kept = home(tmp_path)
    match damage:
        case "truncated":
            (kept / "pubring.kbx").write_bytes((kept / "pubring.kbx").read_bytes()[:100])
        case "replaced":
            (kept / "pubring.kbx").write_bytes(b"")
        case "gone":
            (kept / "pubring.kbx").unlink()
        case "no seal":
            (kept / "seal").unlink()
        case _:
            kept.rename(tmp_path / "away")
            if damage == "a file":
                kept.write_bytes(b"")
    assert reason(ring.verify(signed(), WINDOW)) is None


def test_two_threads_that_need_the_same_home_at_once_both_get_it(tmp_path: Path) -> None:
    found: list[Signed | Refused] = []
    ring = gpg(tmp_path, "alice")
    threads = [threading.Thread(target=lambda: found.append(ring.verify(signed(), WINDOW))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reason(one) for one in found] == [None] * 4
    home(tmp_path)


def test_a_folder_that_cannot_be_made_holds_the_commit(tmp_path: Path) -> None:
    (tmp_path / "gpg").write_bytes(b"")
    with pytest.raises(Unavailable):
        gpg(tmp_path, "alice").verify(signed(), WINDOW)


def test_no_agent_and_no_file_of_ours_is_left_behind(tmp_path: Path) -> None:
    assert reason(gpg(tmp_path, "alice").verify(signed(), WINDOW)) is None
    kept = home(tmp_path)
    assert not list(kept.glob("S.*")), "no socket of an agent"
    mine = os.fsencode(tmp_path)
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = process.read_bytes()
        except OSError:
            continue
        assert mine not in line or b"gpg" not in line


def test_the_homes_of_many_certificates_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitops_bot.signed.openpgp.homes.MAX_HOMES", 2)
    for name in ("alice", "bob", "carol", "p384", "alice"):
        assert reason(gpg(tmp_path, *NAMES).verify(signed(name), WINDOW)) is None
        assert len(list((tmp_path / "gpg").iterdir())) <= 3


def test_only_homes_of_keys_that_signed_are_made(tmp_path: Path) -> None:
    ring = Gpg(certificates(*NAMES, "bot", "outsider"), folder=tmp_path / "gpg")
    assert not (tmp_path / "gpg").exists()
    assert reason(ring.verify(signed("bob"), WINDOW)) is None
    home(tmp_path)
