"""gpg homes, one a certificate, under a folder of ours: complete, undamaged and holding that certificate alone.

`Homes.of` gives a home that was whole when it looked. Homes are made beside and moved into place, so that a crash or
two processes leave none half made; what another certificate left there is taken away when the folder grows large.
"""

import hashlib
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from gitops_bot import process
from gitops_bot.core.errors import Unavailable
from gitops_bot.signed.openpgp.facts import CertificateFacts

FLAGS: Final = (
    *("--no-options", "--batch", "--no-tty", "--no-verbose", "--no-autostart", "--disable-dirmngr", "--lock-never"),
    *("--no-auto-key-retrieve", "--no-auto-check-trustdb", "--trust-model", "always"),
)
MAX_HOMES: Final = 4_096
_VERSION: Final = b"gitops-bot/gpg-home/v1\0"
_KEYS, _SEAL = "pubring.kbx", "seal"


class Homes:
    """The homes under a folder, which is made 0700 when first needed."""

    def __init__(self, folder: Path, program: str, timeout: float) -> None:
        """Take the folder, gpg's name or path, and how many seconds one call of gpg may take."""
        self._folder = folder
        self._program = program
        self._timeout = timeout

    def of(self, certificate: CertificateFacts) -> Path | None:
        """Give the home of a certificate, made or made again where needed; None when gpg cannot read the certificate.

        Raises:
            Unavailable: gpg is missing, killed or too slow, or the folder cannot be written.
        """
        name = hashlib.sha256(_VERSION + certificate.content).hexdigest()
        home = self._folder / name
        try:
            if _whole(home):
                return home
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            self._tidy()
            return self._make(certificate, home)
        except OSError as error:
            raise Unavailable(f"gpg's home cannot be made: {error.strerror}") from error

    def _make(self, certificate: CertificateFacts, home: Path) -> Path | None:
        beside = Path(tempfile.mkdtemp(dir=self._folder, prefix="new-"))
        try:
            if not self._import(certificate, beside):
                return None
            (beside / _SEAL).write_text(_seal(beside), encoding="ascii")
            shutil.rmtree(home, ignore_errors=True)
            try:
                beside.rename(home)
            except OSError:
                # Another process was first; its home is as good if it is whole.
                if not _whole(home):
                    raise
            return home
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _import(self, certificate: CertificateFacts, home: Path) -> bool:
        # Asked first by the guarded way: python-gnupg has no time-out at its start.
        asked = process.run([self._program, "--version"], cwd=home, env={"LC_ALL": "C"}, timeout=self._timeout)
        if asked.returncode != 0:
            raise Unavailable(f"gpg --version ended with status {asked.returncode}")
        watched = _watched(self._program, home, self._timeout)
        result = watched.import_keys(certificate.content)
        if result.returncode is None or result.returncode < 0 or result.returncode > 2:
            raise Unavailable(f"gpg --import ended with status {result.returncode}")
        if result.count is None or result.count != 1:
            raise Unavailable("gpg --import did not get as far as the certificate")
        return [key["fingerprint"] for key in watched.list_keys()] == [certificate.fingerprint]

    def _tidy(self) -> None:
        """Take all homes away when there are too many; those still in use are made again when asked for."""
        homes = list(self._folder.iterdir())
        if len(homes) > MAX_HOMES:
            for home in homes:
                shutil.rmtree(home, ignore_errors=True)


def _seal(home: Path) -> str:
    return hashlib.sha256((home / _KEYS).read_bytes()).hexdigest()


def _whole(home: Path) -> bool:
    try:
        return (home / _SEAL).read_text(encoding="ascii") == _seal(home)
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return False


def _watched(program: str, home: Path, timeout: float) -> Any:
    """Build a `gnupg.GPG` for one home whose every gpg is killed when it outlasts `timeout` seconds.

    Raises:
        Unavailable: gpg does not start or does not say its version.
    """
    import gnupg  # type: ignore[import-untyped]  # ships no types

    class Watched(gnupg.GPG):  # type: ignore[misc]  # its base has no types
        """python-gnupg with a time-out, which it lacks: the one place where it starts programs."""

        def _open_subprocess(self, args: Any, passphrase: Any = False) -> Any:
            child = super()._open_subprocess(args, passphrase)
            timer = threading.Timer(timeout, child.kill)
            timer.daemon = True
            timer.start()
            return child

    try:
        return Watched(
            gpgbinary=program,
            gnupghome=str(home),
            options=list(FLAGS),
            env=process.clean_environment({"LC_ALL": "C", "GNUPGHOME": str(home)}),
        )
    except (OSError, ValueError) as error:
        raise Unavailable("gpg does not start") from error
