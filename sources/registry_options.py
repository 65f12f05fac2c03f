"""The options ``schema.registry.*``, for the Kafka source and for decoded columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.errors import OptionError, did_you_mean
from tidegate.readers.registry.client import RegistryConfig

_URL = "schema.registry.url"
_USER = "schema.registry.basic.auth.user.info"
_TOKEN = "schema.registry.bearer.auth.token"  # noqa: S105 - a name
_FIELDS = {
    _URL: "url",
    _USER: "user_info",
    _TOKEN: "token",
    "schema.registry.ssl.ca.location": "ca_file",
    "schema.registry.ssl.certificate.location": "certificate_file",
    "schema.registry.ssl.key.location": "key_file",
}


def registry_config(options: Mapping[str, str]) -> RegistryConfig:
    """Return the registry that options name; their names are case-insensitive.

    Raises OptionError, which shows no value, for an unknown, missing or contradictory one.
    """
    given = {name.lower(): value for name, value in options.items()}
    if unknown := next((name for name in given if name not in _FIELDS), None):
        raise OptionError(f"there is no option {unknown!r}{did_you_mean(unknown, _FIELDS)}")
    if not given.get(_URL):
        others = f", and {min(given)!r} needs it" if given.keys() - {_URL} else ""
        raise OptionError(f"the option {_URL!r} is missing{others}")
    if _USER in given and _TOKEN in given:
        raise OptionError(f"the options {_USER!r} and {_TOKEN!r} exclude each other; set one of them")
    if ":" not in given.get(_USER, ":"):
        raise OptionError(f"the option {_USER!r} is malformed: expected user:password")
    fields: dict[str, Any] = {_FIELDS[name]: value for name, value in given.items()}
    return RegistryConfig(**fields)
