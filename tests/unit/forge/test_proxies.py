"""The way to the forge through the proxy and with the certificates that the environment names, asked for once."""

import pytest
import responses

from gitops_bot.forge.transport import Transport

API = "https://forge.invalid/api/v3"
PROXY = "http://proxy.invalid:3128"


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "requests_ca_bundle", "curl_ca_bundle"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def way_of(transport: Transport) -> tuple[dict[str, str], object]:
    """Send a request; the proxies that it was sent by, and what certificates were held to."""
    with responses.RequestsMock() as wire:
        wire.get(f"{API}/user", json={})
        transport.send("GET", "/user")
        how = wire.calls[0].request.req_kwargs
    transport.close()
    return dict(how["proxies"]), how["verify"]


def test_requests_go_by_the_proxy_and_certificates_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/ours.pem")
    transport = Transport(API, "token")
    monkeypatch.delenv("HTTPS_PROXY")
    proxies, verify = way_of(transport)
    assert (proxies["https"], verify) == (PROXY, "/etc/ours.pem"), "asked when it was made"


def test_requests_go_straight_where_the_environment_says_so_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert way_of(Transport(API, "token")) == ({}, True)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("NO_PROXY", "invalid")
    assert "https" not in way_of(Transport(API, "token"))[0]
