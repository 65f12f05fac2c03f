"""Where a value names its schema, and the schema registry that has it, by the REST interface of Confluent's.

In Confluent's wire format, the value begins with a byte 0 and the id of the schema in four bytes, big-endian.  Or a
header of its record holds these, or a byte 1 and the schema's GUID, and the value is the bare payload.  After the id,
wherever it is, Protobuf has the place of its message in the schema: the number of indexes and each index, as zigzag
varints.  A single 0 means the first message.

A schema never changes under its id, so it is kept.  A missing schema may come: a replica of the registry may be behind
the primary that the producer used, so it is requested twice.  But broken values may name schemas that never existed,
and must not cause a pause each.
"""

from __future__ import annotations

import base64
import logging
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlsplit

import numpy as np
import pyarrow as pa

from tidegate.errors import ConnectorError, CorruptDataError, OptionError, TransientError
from tidegate.kafka_private import decode_varint
from tidegate.readers.arrow import compute as pc
from tidegate.readers.http import Answer, NoAnswerError, ask
from tidegate.readers.retry import Deadline

VALUE_SCHEMA_ID = "__value_schema_id"
"""The header that holds the id of the value's schema (Confluent: HeaderSchemaIdSerializer)."""

KEY_SCHEMA_ID = "__key_schema_id"
"""The same for the schema of the key."""

_ID_BYTES, _GUID_BYTES = 5, 17
_MOST_INDEXES = 64  # more levels than any schema has

SchemaId: TypeAlias = int | str
"""An id, or a GUID as text."""


class Framed(NamedTuple):
    """A value in the wire format.

    message: the indexes of the message from the top of a Protobuf schema down; empty for other forms.
    """

    schema: SchemaId
    message: tuple[int, ...]
    payload: bytes


def framed(value: bytes | None, header: bytes | None, form: str) -> Framed | None:
    """Return a value's schema and payload; None: it names no schema.

    header: what the header for the id holds; None: the record has none.
    form: "avro" or "protobuf".
    """
    if value is None:
        return None
    named = value if header is None else header
    schema: SchemaId
    if len(named) >= _ID_BYTES and named[0] == 0:
        schema, at = int.from_bytes(named[1:_ID_BYTES], "big"), _ID_BYTES
    elif header is not None and len(named) >= _GUID_BYTES and named[0] == 1:
        schema, at = str(uuid.UUID(bytes=named[1:_GUID_BYTES])), _GUID_BYTES
    else:
        return None
    message: tuple[int, ...] = ()
    if form == "protobuf":
        try:
            message, at = _message(named, at)
        except (ValueError, IndexError):
            return None
    return Framed(schema, message, value[at:] if header is None else value)


def without_id(value: bytes | None) -> bytes | None:
    """Return the JSON of a value, which may begin with the id of its schema: JSON itself never begins with a byte 0."""
    return value[_ID_BYTES:] if value and value[0] == 0 else value


def last_header(headers: pa.ListArray, name: str) -> pa.BinaryArray:
    """Return the value of each record's last header of a name (Kafka: Headers.lastHeader); null without one."""
    pairs = headers.flatten()
    places = np.flatnonzero(pc.equal(pc.struct_field(pairs, "key"), name))
    last = np.full(len(headers), -1)
    # If a row occurs repeatedly, NumPy keeps its last value.
    last[pc.list_parent_indices(headers).to_numpy()[places]] = places
    return pc.struct_field(pairs, "value").take(pa.array(last, mask=last < 0))


def _message(value: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the indexes of the message, and the position after them.  Raises ValueError or IndexError without them."""
    count, at = decode_varint(value, at)
    if not 0 <= count <= _MOST_INDEXES:
        raise ValueError("too many indexes")
    indexes = []
    for _ in range(count):
        index, at = decode_varint(value, at)
        indexes.append(index)
    return tuple(indexes) or (0,), at


_NO_SCHEMA = {40401, 40402, 40403}  # no such subject, version, schema
_TRY_AGAIN = {408, 429, 500, 502, 503, 504}
_MOST_KEPT = 1_000  # schemas, and as many that are missing
_MISSING_S = 10.0  # seconds until a missing schema is requested again, and until the next one is requested twice
_REPLICA_S = 1.0  # the assumed delay of a replica
_CONTEXT = ":."  # begins a subject that is in another context than the default one
_LOG = logging.getLogger("tidegate.reader")


@dataclass(frozen=True, slots=True)
class RegistryConfig:
    """A registry with Confluent's REST interface; picklable, and the same on the driver and the executors.

    url: the URL of the registry, or several separated by commas.
    user_info: ``user:password`` for basic authentication; None: without authentication.
    token: a bearer token; None: without it.
    ca_file: PEM file with the certificates of the trusted CAs; None: the system's.
    certificate_file, key_file: PEM files with the client's certificate and its key.
    deadline_s: seconds for a schema and all that it refers to, retries included.

    The user, the password and the token are in neither ``repr`` nor any error.

    Raises OptionError for a malformed URL, and for one with a login, which errors would show.
    """

    url: str
    user_info: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    deadline_s: float = 30.0

    def __post_init__(self) -> None:
        if "@" in self.url:
            raise OptionError(
                "the option 'schema.registry.url' holds a login; put it into 'schema.registry.basic.auth.user.info'"
            )
        for url in self.urls:
            try:
                parts = urlsplit(url)
                is_sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
            except ValueError:  # a port that is not a number, or half an IPv6 address
                is_sound = False
            if not is_sound:
                raise OptionError(
                    f"the option 'schema.registry.url' names {url!r}: expected http://host:port or https://host:port"
                )

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of the registry's servers; each has the same schemas."""
        return tuple(url.strip().rstrip("/") for url in self.url.split(","))


class RegisteredSchema(NamedTuple):
    """A schema of a registry.

    kind: "AVRO", "PROTOBUF" or "JSON".
    references: the names by which the schema uses others, directly or not, and the sources of these.
    """

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()

    def require(self, form: str) -> None:
        """Raise CorruptDataError if it is not of the form "avro" or "protobuf"."""
        if self.kind != form.upper():
            raise CorruptDataError(f"its schema is of the type {self.kind}, not {form.upper()}")


class SchemaRegistry:
    """The schemas of one registry.  Each request has its own connection, because requests are few.

    All methods raise OptionError for a file of certificates that cannot be used, ConnectorError if the registry
    refuses, and DeadlineError if it does not answer in time.
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
        self._schemas: dict[tuple[SchemaId, str], RegisteredSchema] = {}
        self._missing_until: dict[tuple[SchemaId, str], float] = {}

    def schema(self, schema_id: SchemaId, subject: str = "") -> RegisteredSchema | None:
        """Return a schema; None: the registry has none of that id, or had none some seconds ago.

        subject: one whose context the id belongs to; the same id may name another schema in another context.
        """
        context = subject if subject.startswith(_CONTEXT) else ""
        key = schema_id, context
        if (known := self._schemas.get(key)) is not None:
            return known
        if self._clock() < self._missing_until.get(key, float("-inf")):
            return None
        found = self._requested(schema_id, context)
        if found is None:
            _keep(self._missing_until, key, self._clock() + _MISSING_S)
            _LOG.warning(
                "the schema registry at %s has no schema %s: values that name it cannot be decoded%s",
                self._config.url,
                schema_id,
                LONG_IDS if schema_id == 0 else "",
            )
        else:
            _keep(self._schemas, key, found)
        return found

    def _requested(self, schema_id: SchemaId, context: str) -> RegisteredSchema | None:
        asking = self._asking(f"schema {schema_id}", context)
        kind = "ids" if isinstance(schema_id, int) else "guids"
        path = f"schemas/{kind}/{schema_id}" + (f"?subject={quote(context, safe='')}" if context else "")
        found = asking.schema(path)
        if found is None and self._clock() >= self._is_believed_until:
            self._sleep(_REPLICA_S)
            found = asking.schema(path)
            if found is None:
                self._is_believed_until = self._clock() + _MISSING_S
        return found

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the newest schema of a subject.  Also raises OptionError if the registry has no such subject."""
        context = subject if subject.startswith(_CONTEXT) else ""
        newest = self._asking(f"the subject {subject!r}", context).schema(f"{_of(subject)}/latest")
        if newest is None:
            raise OptionError(f"the schema registry at {self._config.url} has no subject {subject!r}")
        return newest

    def _asking(self, what: str, context: str) -> _Asking:
        return _Asking(self._config, self._tls, what, context)

    @cached_property
    def _tls(self) -> ssl.SSLContext | None:
        config = self._config
        if not any(url.startswith("https:") for url in config.urls):
            return None
        option = "ca"
        try:
            context = ssl.create_default_context(cafile=config.ca_file)
            option = "certificate"
            if config.certificate_file is not None:
                # Without a function for the password, Python would ask for it on the terminal.
                context.load_cert_chain(config.certificate_file, config.key_file, password=str)
        except (OSError, ValueError) as error:
            raise OptionError(
                f"the option 'schema.registry.ssl.{option}.location' names no usable file: {type(error).__name__}"
            ) from None
        return context


LONG_IDS = (
    "; ids of 8 bytes, as Apicurio's serializers can write them, are not read: set their apicurio.registry.id-handler "
    "to Legacy4ByteIdHandler"
)
"""What a value with the id 0 needs, which no registry gives to a schema."""


class _Asking:
    """The requests for one schema and all that it refers to, with one deadline."""

    def __init__(self, config: RegistryConfig, tls: ssl.SSLContext | None, what: str, context: str) -> None:
        self._config, self._tls = config, tls
        # ":.staging:orders-value" is in the context ":.staging:".
        self._context = context[: context.find(":", len(_CONTEXT)) + 1]
        self._deadline = Deadline(f"ask the schema registry at {config.url} for {what}", config.deadline_s)

    def schema(self, path: str) -> RegisteredSchema | None:
        """Return the schema at a path of the registry."""
        found = self._found(path)
        if found is None:
            return None
        references: dict[str, str] = {}
        left = [found]
        while left:
            for name, subject, version in self._references(left.pop()):
                if name not in references:
                    referred = self._found(f"{_of(subject)}/{version}")
                    if referred is None:
                        raise ConnectorError(
                            f"the schema registry at {self._config.url} has no version {version} of {subject!r}, "
                            "to which a schema refers"
                        )
                    references[name] = referred["schema"]
                    left.append(referred)
        kind = str(found.get("schemaType") or "AVRO").upper()
        return RegisteredSchema(kind, found["schema"], tuple(references.items()))

    def _references(self, schema: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
        """Yield the name, the subject and the version of each reference of a schema."""
        try:
            for reference in schema.get("references") or ():
                subject = reference["subject"]
                if not subject.startswith(_CONTEXT):
                    subject = self._context + subject
                yield str(reference["name"]), subject, int(reference["version"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._refused("a schema with malformed references") from None

    def _found(self, path: str) -> Mapping[str, Any] | None:
        while True:
            try:
                answer = self._answer(path)
            except NoAnswerError as problem:
                self._deadline.pause(TransientError(f"it {problem}"))
                continue
            content = answer.json
            if answer.status != 200:
                if isinstance(content, dict) and content.get("error_code") in _NO_SCHEMA:
                    return None
                # The registry's message may repeat what was sent to it.
                if answer.status not in _TRY_AGAIN:
                    raise self._refused(f"the HTTP status {answer.status}")
                self._deadline.pause(TransientError(f"it answers with the HTTP status {answer.status}"))
            elif isinstance(content, dict) and isinstance(content.get("schema"), str):
                return content
            else:
                raise self._refused(f"something that is not {'JSON' if content is None else 'a schema'}")

    def _refused(self, what: str) -> ConnectorError:
        return ConnectorError(f"cannot {self._deadline.operation}: it answers with {what}")

    def _answer(self, path: str) -> Answer:
        """Ask each server in turn until one answers; each has its share of the time that is left."""
        *others, last = self._config.urls
        for left, url in zip(range(len(others) + 1, 1, -1), others, strict=True):
            try:
                answer = self._answer_of(url, path, self._deadline.remaining_s / left)
            except NoAnswerError:
                continue
            if answer.status not in _TRY_AGAIN:
                return answer
        return self._answer_of(last, path, self._deadline.remaining_s)

    def _answer_of(self, url: str, path: str, seconds: float) -> Answer:
        config = self._config
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if config.user_info is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(config.user_info.encode()).decode()}"
        elif config.token is not None:
            headers["Authorization"] = f"Bearer {config.token}"
        return ask(f"{url}/{path}", headers, seconds, tls=self._tls)


def _of(subject: str) -> str:
    return f"subjects/{quote(subject, safe='')}/versions"


def _keep(known: dict[Any, Any], key: Any, value: Any) -> None:
    if len(known) >= _MOST_KEPT:
        known.pop(next(iter(known)))
    known[key] = value


@lru_cache(maxsize=16)
def registry_of(config: RegistryConfig) -> SchemaRegistry:
    """Return this process's registry for a configuration."""
    return SchemaRegistry(config)
