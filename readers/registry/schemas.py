"""Requests schemas from a registry by Confluent's client.  A schema never changes under its id, so each is kept.

A missing schema may come: a replica of the registry may be behind the primary that the producer used.  So it is
requested twice.  But broken values may name schemas that never existed, and must not cause a pause each.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConnectorError, OptionError, TransientError
from tidegate.readers.registry.config import RegistryConfig
from tidegate.readers.retry import Deadline

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

__all__ = ["RegisteredSchema", "SchemaRegistry", "registry_of"]

_NO_SCHEMA = {40401, 40402, 40403}  # no such subject, version, schema
_TRY_AGAIN = {408, 429, 500, 502, 503, 504}
_KEPT = 10_000
_MISSING_S = 10.0  # seconds until a missing schema is requested again, and until the next one is requested twice
_REPLICA_S = 1.0  # the assumed delay of a replica
_LOG = logging.getLogger("tidegate.reader")


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a registry.

    kind: "AVRO", "PROTOBUF" or "JSON".
    text: the source of the schema.
    references: the sources of the schemas that it refers to, directly or not, by the names that references use.  Each
        comes before the schemas that refer to it.
    """

    kind: str
    text: str
    references: Mapping[str, str] = field(default_factory=dict)


class SchemaRegistry:
    """The schemas of one registry.  Each request has its own connection, because requests are few.

    All methods raise OptionError if the packages of tidegate[registry] are missing, and for a malformed address.

    clock: returns monotonic seconds.
    sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        config: RegistryConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._config, self._clock, self._sleep = config, clock, sleep
        self._is_believed_until = float("-inf")
        self._schemas: dict[int, RegisteredSchema] = {}
        self._missing_until: dict[int, float] = {}

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """Return a schema; None: the registry has none of that id, or had none some seconds ago.

        Raises ConnectorError if the registry refuses, and DeadlineError if it does not answer in time.
        """
        if (known := self._schemas.get(schema_id)) is not None:
            return known
        if self._clock() < self._missing_until.get(schema_id, float("-inf")):
            return None
        for kept in (self._schemas, self._missing_until):
            if len(kept) >= _KEPT:
                kept.clear()
        registered = self._asked(f"schema {schema_id}", lambda client: client.get_schema(schema_id))
        if registered is None and self._clock() >= self._is_believed_until:
            self._sleep(_REPLICA_S)
            registered = self._asked(f"schema {schema_id}", lambda client: client.get_schema(schema_id))
            if registered is None:
                self._is_believed_until = self._clock() + _MISSING_S
        if registered is None:
            _LOG.warning(
                "the schema registry at %s has no schema %d: values that name it cannot be decoded",
                self._config.url,
                schema_id,
            )
            self._missing_until[schema_id] = self._clock() + _MISSING_S
            return None
        schema = self._schemas[schema_id] = self._with_references(registered)
        return schema

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        """Return the newest schema of a subject, and its id.

        Raises OptionError if the registry has no such subject; also raises the errors of ``schema``.
        """
        newest = self._asked(f"the subject {subject!r}", lambda client: client.get_latest_version(subject))
        if newest is None:
            raise OptionError(f"the schema registry at {self._config.url} has no subject {subject!r}")
        return newest.schema_id, self._with_references(newest.schema)

    def _with_references(self, schema: Schema) -> RegisteredSchema:
        references: dict[str, str] = {}
        self._gather(schema, references)
        return RegisteredSchema(schema.schema_type or "AVRO", schema.schema_str or "", references)

    def _gather(self, schema: Schema, references: dict[str, str]) -> None:
        for reference in schema.references or ():
            name, subject, version = reference.name, reference.subject, reference.version
            if name is None or name in references:
                continue
            referred = self._asked(
                f"version {version} of the subject {subject!r}",
                lambda client, of=subject, number=version: client.get_version(of, number),
            )
            if referred is None:
                raise ConnectorError(
                    f"the schema registry at {self._config.url} has no version {version} of {subject!r}, "
                    "to which a schema refers"
                )
            self._gather(referred.schema, references)
            references[name] = referred.schema.schema_str or ""

    def _asked(self, what: str, ask: Any) -> Any:
        try:
            from confluent_kafka.schema_registry.error import SchemaRegistryError
        except ImportError:
            raise OptionError(
                "'schema.registry.url' needs packages that are missing: pip install 'tidegate[registry]'"
            ) from None
        deadline = Deadline(f"ask the schema registry at {self._config.url} for {what}", self._config.deadline_s)
        while True:
            try:
                with _client(self._config) as client:
                    return ask(client)
            except SchemaRegistryError as error:  # noqa: PERF203 - a request takes far longer
                if error.error_code in _NO_SCHEMA:
                    return None
                # The registry's message may repeat what was sent to it.
                sentence = f"it answers with the HTTP status {error.http_status_code}"
                if error.http_status_code not in _TRY_AGAIN:
                    raise ConnectorError(f"cannot {deadline.operation}: {sentence}") from None
                deadline.pause(TransientError(sentence))
            except json.JSONDecodeError:
                raise ConnectorError(
                    f"cannot {deadline.operation}: it answers with something that is no JSON"
                ) from None
            except Exception as error:
                if not type(error).__module__.startswith("http"):
                    raise
                deadline.pause(TransientError(f"{type(error).__name__}: {error}"))


@lru_cache(maxsize=16)
def registry_of(config: RegistryConfig) -> SchemaRegistry:
    """Return this process's registry for a configuration."""
    return SchemaRegistry(config)


def _client(config: RegistryConfig) -> SchemaRegistryClient:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    settings = {
        "url": config.url,
        "basic.auth.user.info": config.user_info,
        "ssl.ca.location": config.ca_file,
        "ssl.certificate.location": config.certificate_file,
        "ssl.key.location": config.key_file,
        "max.retries": 0,  # the Deadline repeats requests
        "timeout": config.deadline_s,
    }
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    if config.token is not None:
        given |= {
            "bearer.auth.credentials.source": "CUSTOM",
            "bearer.auth.custom.provider.function": _static_token,
            "bearer.auth.custom.provider.config": {"token": config.token},
        }
    try:
        return SchemaRegistryClient(given)
    except (ValueError, TypeError, OSError) as error:
        # The client's message is never shown, because it may contain the login.
        raise OptionError(
            f"the client of the schema registry refuses the options 'schema.registry.*': {type(error).__name__}"
        ) from None


def _static_token(config: Mapping[str, str]) -> dict[str, str]:
    return {
        "bearer.auth.token": config["token"],
        "bearer.auth.logical.cluster": "",
        "bearer.auth.identity.pool.id": "",
    }
