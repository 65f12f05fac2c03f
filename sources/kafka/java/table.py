"""The ``kafka.*`` properties: those that are understood, those without effect here, and those that are refused.

A function for values returns that of a text, or raises ValueError, which says what is expected.
"""

from __future__ import annotations

from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tidegate.errors import did_you_mean
from tidegate.readers.decompression import parse_most_bytes
from tidegate.sources.kafka.java.login import callback_name, either

_VERSIONS = ("TLSv1.2", "TLSv1.3")
_OLDER_VERSIONS = ("SSLv3", "TLSv1", "TLSv1.1")
_LARGEST_INT, _LARGEST_LONG = 2**31 - 1, 2**63 - 1  # of Java, and of Kafka's protocol


class Property(NamedTuple):
    """A property of the connection or of reading.

    convert: returns the value of a text, None if it has no effect; raises ValueError, which says what is expected.
    kind, default, meaning: texts for the documentation, in Markdown.
    field: the field of KafkaConnectionConfig for a property of reading.  None: the connection takes the property
        under its name, with underscores for dots.
    """

    name: str
    convert: Callable[[str], Any]
    kind: str
    default: str
    meaning: str
    field: str | None = None

    @property
    def unit(self) -> str:
        """The unit of a number, by its name; empty without one."""
        return {"ms": "ms", "bytes": "bytes"}.get(self.name.rpartition(".")[2], "")


def _natural(text: str, largest: int = _LARGEST_INT, least: int = 1) -> int:
    """Read a whole number from ``least`` on, up to ``largest``."""
    number = int(text) if text.strip().isdecimal() else -1
    if number < least:
        raise ValueError(f"expected a whole number {'above zero' if least else 'of 0 or more'}")
    if number > largest:
        raise ValueError(f"expected a whole number up to {largest}")
    return number


def _long(text: str) -> int:
    """Read a whole number above zero, up to Java's greatest long."""
    return _natural(text, _LARGEST_LONG)


def _seconds(text: str) -> float:
    """Read milliseconds above zero as seconds."""
    return _long(text) / 1000


def _seconds_or_none(text: str) -> float:
    """Read milliseconds, including 0, as seconds."""
    return _natural(text, _LARGEST_LONG, least=0) / 1000


def _tls_versions(text: str) -> tuple[str, ...]:
    """Leave out old versions, which OpenSSL no longer speaks, if there is a newer one."""
    listed = [name.strip() for name in text.split(",") if name.strip()]
    if wrong := next((name for name in listed if name not in (*_VERSIONS, *_OLDER_VERSIONS)), None):
        raise ValueError(f"expected {either(_VERSIONS)}, or both with a comma{did_you_mean(wrong, _VERSIONS)}")
    versions = tuple(version for version in _VERSIONS if version in listed)
    if not versions:
        raise ValueError(f"expected {either(_VERSIONS)}: older versions are not safe")
    return versions


def _identification(text: str) -> str:
    """Java's algorithm is https, in any case of letters; empty switches the check off."""
    algorithm = text.strip().lower()
    if algorithm not in {"", "https"}:
        raise ValueError("expected https, or nothing to accept a certificate of any host")
    return algorithm


def _token_url(text: str) -> str:
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


def _one_of(*allowed: str) -> Callable[[str], str]:
    """Return a function that accepts one of these texts, and suggests the nearest one for any other."""

    def check(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected {either(allowed)}{did_you_mean(text, allowed)}")
        return text

    return check


def _read(name: str) -> ConfigParser:
    read = ConfigParser(interpolation=None, delimiters=("=",), allow_no_value=True)
    read.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
    read.read_string(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return read


_VALUES: dict[str, Callable[[str], Any]] = {
    "callback_name": callback_name,
    "identification": _identification,
    "long": _long,
    "most_bytes": parse_most_bytes,
    "natural": _natural,
    "seconds": _seconds,
    "seconds_or_none": _seconds_or_none,
    "text": str,
    "tls_versions": _tls_versions,
    "token_url": _token_url,
}
_WITHOUT_EFFECT = _read("without_effect.ini")

PROPERTIES = {
    name: Property(
        name,
        _one_of(*entry["choices"].split()) if "choices" in entry else _VALUES[entry.get("value", "text")],
        entry["type"],
        entry["default"].replace("\n", " "),
        entry["meaning"].replace("\n", " "),
        entry.get("field"),
    )
    for name, entry in _read("properties.ini").items()
    if name != "DEFAULT"
}
INSTEAD = dict(_WITHOUT_EFFECT.items("instead"))
"""Properties that must not be ignored, with their replacements; a final dot means all with that prefix."""

_REASONS = {name: why for why in _WITHOUT_EFFECT.sections() if why != "instead" for name in _WITHOUT_EFFECT[why]}
NO_GROUP = _REASONS["group.id"]


def why_without_effect(name: str) -> str | None:
    """Return the reason why a property has no effect; None: it has an effect, or is unknown."""
    return next((why for key, why in _REASONS.items() if is_of(name, key)), None)


def is_of(name: str, key: str) -> bool:
    """Return whether a key of the tables is a property's name, or its prefix with a final dot."""
    return name == key or (key[-1] == "." and name.startswith(key))
