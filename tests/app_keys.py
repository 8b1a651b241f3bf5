"""Keys of GitHub Apps for tests, made once a process, and an App at a local forge under a clock of the test's."""

from collections.abc import Callable
from functools import cache

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from gitops_bot.forge.app import App
from gitops_bot.forge.client import GitHubForge
from gitops_bot.forge.wires import AppWires
from gitops_bot.sandbox.http import Sandbox

APP: int = 77


@cache
def keys(name: str) -> tuple[str, str]:
    """A private and a public key, as PEM."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem.decode(), public.decode()


def app_at(sandbox: Sandbox, clock: Callable[[], float], installation: int = 0) -> App:
    """The App `APP` under the key `ours`; its clock and the time that passes are the test's."""
    return App(sandbox.url, APP, keys("ours")[0], lambda: int(clock()), clock, installation)


def forge_as_app(sandbox: Sandbox, clock: Callable[[], float], *repositories: str) -> GitHubForge:
    """The adapter as that App."""
    return GitHubForge(sandbox.url, AppWires(app_at(sandbox, clock), repositories))
