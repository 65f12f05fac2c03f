"""The options of a schema registry, which the Kafka source and the functions for columns share."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Any

from pydantic import Field

from tidegate.errors import OptionError, did_you_mean
from tidegate.readers.models import Model
from tidegate.readers.registry.client import RegistryConfig
from tidegate.sources.options import option_names

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
    if not isinstance(options, Mapping) or not all(isinstance(text, str) for text in chain(*options.items())):
        raise OptionError(f"options must map names to texts, such as {{{_URL!r}: 'http://registry:8081'}}")
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
    token = given.get(_TOKEN, "")
    if not (token.isascii() and token.isprintable()):
        raise OptionError(f"the option {_TOKEN!r} is malformed: expected ASCII without a line end")
    fields: dict[str, Any] = {_FIELDS[name]: value for name, value in given.items()}
    return RegistryConfig(**fields)


class RegistryOptions(Model):
    """The schema registry.

    schema_registry_url: the registry with the schemas of Avro and Protobuf values; several are separated by commas.
    schema_registry_basic_auth_user_info: ``user:password`` for the registry.
    schema_registry_bearer_auth_token: a bearer token for the registry, instead of a user.
    schema_registry_ssl_ca_location: PEM file with the certificates of the trusted CAs; default: the system's.
    schema_registry_ssl_certificate_location: PEM file with the certificate that is shown to a registry that asks.
    schema_registry_ssl_key_location: PEM file with the key of that certificate.
    """

    schema_registry_url: Annotated[str | None, Field(min_length=1, serialization_alias="schema.registry.url")] = None
    schema_registry_basic_auth_user_info: Annotated[
        str | None, Field(repr=False, serialization_alias="schema.registry.basic.auth.user.info")
    ] = None
    schema_registry_bearer_auth_token: Annotated[
        str | None, Field(min_length=1, repr=False, serialization_alias="schema.registry.bearer.auth.token")
    ] = None
    schema_registry_ssl_ca_location: Annotated[
        str | None, Field(serialization_alias="schema.registry.ssl.ca.location")
    ] = None
    schema_registry_ssl_certificate_location: Annotated[
        str | None, Field(serialization_alias="schema.registry.ssl.certificate.location")
    ] = None
    schema_registry_ssl_key_location: Annotated[
        str | None, Field(serialization_alias="schema.registry.ssl.key.location")
    ] = None

    @property
    def registry(self) -> RegistryConfig | None:
        """The registry; None: no option is set.  Raises OptionError for contradictory options."""
        given = {option: getattr(self, name) for name, option in option_names(RegistryOptions).items()}
        options = {name: value for name, value in given.items() if value is not None}
        return registry_config(options) if options else None
