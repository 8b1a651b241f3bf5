"""The OpenID provider that people may sign in through, where the settings name one."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from gitops_bot.config import Settings, secret
from gitops_bot.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider by its issuer, exactly as its tokens name it, and this workspace's name and secret there."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)

    @property
    def name(self) -> str:
        """What people know it by: its host."""
        return urlsplit(self.issuer).hostname or self.issuer


def provider_of(settings: Settings) -> Provider | None:
    """Read the provider of the settings; None when people sign in with passkeys alone.

    Raises:
        ConfigError: an issuer that is no https address, no name or secret there, or the library is
            not installed.
    """
    kept = settings.workspace
    if not kept.oidc_issuer:
        return None
    parts = urlsplit(kept.oidc_issuer)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ConfigError("[workspace] oidc_issuer is no issuer", fix='oidc_issuer = "https://id.example.org"')
    if not kept.oidc_client_id:
        raise ConfigError("[workspace] oidc_issuer without oidc_client_id", fix="register this workspace there")
    try:
        import authlib  # type: ignore[import-untyped] # noqa: F401 # ships no types; only whether it is there
    except ImportError:
        raise ConfigError("[workspace] oidc_issuer needs Authlib", fix="pip install 'gitops-bot[oidc]'") from None
    return Provider(
        kept.oidc_issuer, kept.oidc_client_id, secret(kept.oidc_client_secret_file, "oidc_client_secret").strip()
    )
