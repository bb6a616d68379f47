"""What a team's console is told of addresses: none with which others read along."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from services.console.settings import TeamConsoleSettings


def told(**others: object) -> TeamConsoleSettings:
    """Settings of a console that logs people in."""
    return TeamConsoleSettings.model_validate(
        {
            "gateway_target": "ipv4:127.0.0.1:1",
            "public_url": "https://console.example",
            "oidc_issuer": "https://login.example",
            "oidc_client_id": "console",
            "session_keys_file": Path("keys"),
            **others,
        }
    )


@pytest.mark.parametrize(
    "url", ["https://login.example/realm", "http://localhost:80", "http://127.0.0.1", "http://[::1]/"]
)
def test_an_issuer_is_asked_over_tls_or_on_this_machine(url: str) -> None:
    assert told(oidc_issuer=url).oidc_issuer == url


@pytest.mark.parametrize("url", ["http://login.example", "http://10.0.0.1", "http://localhost.example", "http://[::2]"])
def test_an_issuer_elsewhere_without_tls_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="SIGNALBOX_OIDC_ISSUER has to be https"):
        told(oidc_issuer=url)
    assert told(oidc_issuer=url, login="proxy").login == "proxy"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://Console.Example.COM:443/", "https://console.example.com"),
        ("https://console.example:8443", "https://console.example:8443"),
        ("https://console.example:80", "https://console.example:80"),
        ("http://LOCALHOST:80/", "http://localhost"),
        ("http://[0:0:0:0:0:0:0:1]:8080", "http://[::1]:8080"),
    ],
)
def test_the_address_is_what_browsers_make_of_it(url: str, said: str) -> None:
    assert told(public_url=url).public_url == said


@pytest.mark.parametrize(
    "url", ["https://:443", "https://console.example:99999", "https://bücher.example", "https://a,b"]
)
def test_an_address_that_no_browser_sends_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="public_url"):
        told(public_url=url)
