"""An OpenID provider of the settings: by https, with a name and a secret there, or not at all."""

from pathlib import Path

import pytest

from gitops_bot.bootstrap.provider import provider_of
from gitops_bot.config import load
from gitops_bot.core.errors import ConfigError

WHOLE = {
    "oidc_issuer": "https://id.example.org/tenant",
    "oidc_client_id": "gitops-bot",
    "oidc_client_secret_file": "secret",
}


def settings(folder: Path, **changed: str) -> Path:
    (folder / "secret").touch(mode=0o600)
    (folder / "secret").write_text("s3cret\n")
    lines = [f'{name} = "{value}"' for name, value in {**WHOLE, **changed}.items() if value]
    file = folder / "gitops-bot.toml"
    file.write_text("[workspace]\n" + "\n".join(lines))
    return file


def test_a_provider_is_read_with_its_secret_which_is_not_shown(tmp_path: Path) -> None:
    found = provider_of(load(settings(tmp_path)))
    assert found is not None
    assert (found.issuer, found.client_id, found.client_secret) == (WHOLE["oidc_issuer"], "gitops-bot", "s3cret")
    assert found.name == "id.example.org"
    assert "s3cret" not in repr(found)


def test_without_an_issuer_there_is_none(tmp_path: Path) -> None:
    assert provider_of(load(settings(tmp_path, oidc_issuer=""))) is None


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"oidc_issuer": "http://id.example.org"}, "no issuer"),
        ({"oidc_issuer": "http://localhost:9400"}, "no issuer"),
        ({"oidc_issuer": "https://"}, "no issuer"),
        ({"oidc_issuer": "https://a@id.example.org"}, "no issuer"),
        ({"oidc_issuer": "https://id.example.org?x=1"}, "no issuer"),
        ({"oidc_issuer": "id.example.org"}, "no issuer"),
        ({"oidc_client_id": ""}, "oidc_client_id"),
        ({"oidc_client_secret_file": ""}, "oidc_client_secret"),
        ({"oidc_client_secret_file": "missing"}, "cannot read"),
    ],
)
def test_half_a_provider_is_refused_at_the_start(tmp_path: Path, changed: dict[str, str], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        provider_of(load(settings(tmp_path, **changed)))
