"""The values of the ``kafka.*`` properties, from their texts.

Each function returns the value of a text, or raises ValueError, which says what is expected.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from tidegate.errors import did_you_mean
from tidegate.sources.kafka.java.login import either

_VERSIONS = ("TLSv1.2", "TLSv1.3")
_OLDER_VERSIONS = ("SSLv3", "TLSv1", "TLSv1.1")
_LARGEST_INT, _LARGEST_LONG = 2**31 - 1, 2**63 - 1  # of Java, and of Kafka's protocol


def natural(text: str, largest: int = _LARGEST_INT, least: int = 1) -> int:
    """Read a whole number from ``least`` on, up to ``largest``."""
    number = int(text) if text.strip().isdecimal() else -1
    if number < least:
        raise ValueError(f"expected a whole number {'above zero' if least else 'of 0 or more'}")
    if number > largest:
        raise ValueError(f"expected a whole number up to {largest}")
    return number


def long(text: str) -> int:
    """Read a whole number above zero, up to Java's greatest long."""
    return natural(text, _LARGEST_LONG)


def seconds(text: str) -> float:
    """Read milliseconds above zero as seconds."""
    return long(text) / 1000


def seconds_or_none(text: str) -> float:
    """Read milliseconds, including 0, as seconds."""
    return natural(text, _LARGEST_LONG, least=0) / 1000


def tls_versions(text: str) -> tuple[str, ...]:
    """Leave out old versions, which OpenSSL no longer speaks, if there is a newer one."""
    listed = [name.strip() for name in text.split(",") if name.strip()]
    if wrong := next((name for name in listed if name not in (*_VERSIONS, *_OLDER_VERSIONS)), None):
        raise ValueError(f"expected {either(_VERSIONS)}, or both with a comma{did_you_mean(wrong, _VERSIONS)}")
    versions = tuple(version for version in _VERSIONS if version in listed)
    if not versions:
        raise ValueError(f"expected {either(_VERSIONS)}: older versions are not safe")
    return versions


def identification(text: str) -> str:
    """Java's algorithm is https, in any case of letters; empty switches the check off."""
    algorithm = text.strip().lower()
    if algorithm not in {"", "https"}:
        raise ValueError("expected https, or nothing to accept a certificate of any host")
    return algorithm


def token_url(text: str) -> str:
    """Read the URL of a token endpoint, which holds no login."""
    # Python's client for HTTP takes a login for a part of the host, and shows it in its error.
    expected = "expected a URL of https, http or file with a host or a path, such as https://login.example.com/token"
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError:
        raise ValueError(expected) from None
    if url.scheme not in {"https", "http", "file"} or not (url.path if url.scheme == "file" else host):
        raise ValueError(expected)
    if "@" in url.netloc:
        raise ValueError(f"{expected}; a login goes into kafka.sasl.oauthbearer.client.credentials.*")
    if not text.isprintable() or " " in text:
        raise ValueError(f"{expected}, without blanks")
    return text


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return a function that accepts one of these texts, and suggests the nearest one for any other."""

    def check(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected {either(allowed)}{did_you_mean(text, allowed)}")
        return text

    return check
