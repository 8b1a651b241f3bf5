"""gpg homes, one a certificate, under a folder of ours: complete, undamaged and holding that certificate alone.

`Homes.of` gives a home that was whole when it looked. Homes are made beside and moved into place, so that a crash or
two processes leave none half made; what another certificate left there is taken away when the folder grows large.
"""

import contextlib
import hashlib
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gitops_bot import process
from gitops_bot.core.errors import Unavailable
from gitops_bot.signed.openpgp.facts import CertificateFacts

FLAGS: Final = (
    *("--no-options", "--batch", "--no-tty", "--no-verbose", "--no-autostart", "--disable-dirmngr", "--lock-never"),
    *("--no-auto-key-retrieve", "--no-auto-check-trustdb", "--trust-model", "always"),
)
_KEEPING: Final = ("--ignore-time-conflict",)
"""A home holds the certificate whatever this host's clock says; only a verification asks about time."""

ENDED_BY_ITSELF: Final = (0, 1, 2)
"""The exit statuses of a gpg that came to an end of its own: all well, a bad signature, an error that it told."""

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
        """Give the home of a certificate, made or made again where needed; None when gpg does not take the certificate.

        Raises:
            Unavailable: gpg is missing, killed or too slow, or the folder cannot be written.
        """
        home = self._path(certificate)
        if _whole(home):
            return home
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            self._tidy()
            return self._make(certificate, home)
        except OSError as error:
            raise Unavailable(f"gpg's home cannot be made: {error.strerror}") from error

    def stands(self, certificate: CertificateFacts) -> bool:
        """Tell whether the home of a certificate is there and whole at this moment."""
        return _whole(self._path(certificate))

    def _path(self, certificate: CertificateFacts) -> Path:
        return self._folder / hashlib.sha256(_VERSION + certificate.content).hexdigest()

    def _make(self, certificate: CertificateFacts, home: Path) -> Path | None:
        beside = Path(tempfile.mkdtemp(dir=self._folder, prefix="new-"))
        try:
            if not self._import(certificate, beside):
                return None
            (beside / _SEAL).write_text(_seal(beside), encoding="ascii")
            # Another process may have been first; its home is as good, and may be in use.
            if not _whole(home):
                _remove(home)
                beside.rename(home)
            return home
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def _import(self, certificate: CertificateFacts, home: Path) -> bool:
        # Asked first by the guarded way: python-gnupg has no time-out at its start.
        asked = process.run([self._program, "--version"], cwd=home, env={"LC_ALL": "C"}, timeout=self._timeout)
        if asked.returncode != 0:
            raise Unavailable(f"gpg --version ended with status {asked.returncode}")
        with _watched(self._program, home, self._timeout) as gpg:
            result = gpg.import_keys(certificate.content)
            # One that ends well and says nothing of an import is garbled, which is an answer; a failure is none.
            if result.returncode == 0 and not result.count:
                return False
            if result.returncode not in ENDED_BY_ITSELF or result.count != 1:
                raise Unavailable(f"gpg --import did not get as far as the certificate (status {result.returncode})")
            listed = gpg.list_keys()
            if listed.returncode != 0:
                raise Unavailable(f"gpg --list-keys ended with status {listed.returncode}")
            return [key["fingerprint"] for key in listed] == [certificate.fingerprint]

    def _tidy(self) -> None:
        """Take all homes away when there are too many; those still in use are made again when asked for."""
        homes = list(self._folder.iterdir())
        if len(homes) > MAX_HOMES:
            for home in homes:
                _remove(home)


def _remove(path: Path) -> None:
    """Take away whatever stands at a path; what another process takes away meanwhile is gone as well."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _seal(home: Path) -> str:
    return hashlib.sha256((home / _KEYS).read_bytes()).hexdigest()


def _whole(home: Path) -> bool:
    try:
        return (home / _SEAL).read_text(encoding="ascii") == _seal(home)
    except (OSError, UnicodeDecodeError):
        return False


@contextlib.contextmanager
def _watched(program: str, home: Path, timeout: float) -> Iterator[Any]:
    """Open a `gnupg.GPG` on one home; whatever gpg it started is killed when all of it outlasts `timeout` seconds.

    Raises:
        Unavailable: gpg does not start or does not say its version.
    """
    import gnupg  # type: ignore[import-untyped] # ships no types

    children: list[Any] = []

    class Watched(gnupg.GPG):  # type: ignore[misc] # its base has no types
        """python-gnupg, which has no time-out, remembering what it started: this is its one place that starts."""

        def _open_subprocess(self, args: Any, passphrase: Any = False) -> Any:
            child = super()._open_subprocess(args, passphrase)
            children.append(child)
            return child

    def kill() -> None:
        for child in children:
            child.kill()

    timer = threading.Timer(timeout, kill)
    timer.daemon = True
    timer.start()
    try:
        environment = process.clean_environment({"LC_ALL": "C", "GNUPGHOME": str(home)})
        yield Watched(gpgbinary=program, gnupghome=str(home), options=[*FLAGS, *_KEEPING], env=environment)
    except (OSError, ValueError) as error:
        raise Unavailable("gpg does not start or was killed") from error
    finally:
        timer.cancel()
