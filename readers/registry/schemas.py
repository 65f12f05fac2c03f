"""Requests schemas from a registry.  A schema never changes under its id, so the newest ones are kept.

A missing schema may come: a replica of the registry may be behind the primary that the producer used.  So it is
requested twice.  But broken values may name schemas that never existed, and must not cause a pause each.

Confluent's own client (2.16) is not used, because nothing that it offers bounds it.  Its time-out is for each read of a
socket, so a registry that sends a byte a second holds it for hours.  It decompresses answers of any length, and its
HTTP session can be replaced through a private name only.  Of its 60 methods three would be used, all of them a GET.
"""

from __future__ import annotations

import base64
import logging
import ssl
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import pyarrow as pa

from tidegate.errors import ConnectorError, CorruptDataError, OptionError, TransientError
from tidegate.readers.arrow.conform import position_of
from tidegate.readers.http import Answer, NoAnswerError, ask
from tidegate.readers.registry.config import RegistryConfig
from tidegate.readers.retry import Deadline

MOST_BYTES = 16 << 20  # of a schema with all that it refers to, as the registry answers
MOST_REFERENCES = 1000
MOST_LEVELS = 64  # of references within references
_NO_SCHEMA = {40401, 40402, 40403}  # no such subject, version, schema
_TRY_AGAIN = {408, 429, 500, 502, 503, 504}
_KEPT = 10_000  # missing schemas
_MOST_MEMORY = 256 << 20  # of all schemas that are kept, with their decoders; the newest one is kept in any case
# How much memory they take, in bytes, as measured with Avro and with Protobuf.
OF_A_SCHEMA, OF_A_BYTE, OF_A_TYPE = 2_000, 30, 500
_MISSING_S = 10.0  # seconds until a missing schema is requested again, and until the next one is requested twice
_REPLICA_S = 1.0  # the assumed delay of a replica
_LOG = logging.getLogger("tidegate.reader")

_Made = TypeVar("_Made", bound="Decoder")


class Decoder(Protocol):
    """Decodes values of one schema, or a part of their decoding; ``memory``: the bytes that it takes."""

    memory: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of a registry.

    kind: "AVRO", "PROTOBUF" or "JSON".  Empty: it is larger than MOST_BYTES, refers to too many others or to itself, or
        its text is none.  So no value of it can be decoded.
    references: the sources of the schemas that it refers to, directly or not, by the names that references use.  Each
        comes before the schemas that refer to it.
    """

    kind: str
    text: str
    references: Mapping[str, str] = field(default_factory=dict)
    _decoders: dict[Hashable, Decoder | None] = field(default_factory=dict, compare=False, repr=False)

    @property
    def memory(self) -> int:
        """The memory in bytes that it takes with its decoders, as far as can be estimated."""
        characters = len(self.text) + sum(map(len, self.references.values()))
        return OF_A_SCHEMA + OF_A_BYTE * characters + self._memory_of_decoders

    @property
    def _memory_of_decoders(self) -> int:
        return sum(decoder.memory for decoder in self._decoders.values() if decoder is not None)

    def require(self, form: str) -> None:
        """Raise CorruptDataError if it is not of the form "avro" or "protobuf"."""
        if self.kind != form.upper():
            raise CorruptDataError(f"its schema is of the type {self.kind}, not {form.upper()}")

    def decoder(self, key: Hashable, make: Callable[[], _Made]) -> _Made | None:
        """Return what decodes its values; it is made once, and kept as long as the schema.

        None: its making has raised CorruptDataError or OptionError, so no value can be decoded.
        """
        if key not in self._decoders:
            if self._memory_of_decoders > _MOST_MEMORY:
                self._decoders.clear()
            made = None
            with suppress(CorruptDataError, OptionError):
                made = make()
            self._decoders[key] = made
        return self._decoders[key]  # type: ignore[return-value]  # what it made


def wanted(fields: Sequence[str], names: Sequence[str] | None) -> list[str]:
    """Return those of a schema's fields that have these names, whatever their case; None: all.

    Raises CorruptDataError if several fields match a name.
    """
    if names is None:
        return [*fields]
    places = {position_of(name, fields) for name in names}
    return [field for place, field in enumerate(fields) if place in places]


def memory_of(kind: pa.DataType) -> int:
    """Return the memory in bytes of what decodes to a type."""
    return OF_A_TYPE + sum(memory_of(kind.field(number).type) for number in range(kind.num_fields))


class SchemaRegistry:
    """The schemas of one registry.  Each request has its own connection, because requests are few.

    All methods raise OptionError for a file of certificates that cannot be used.
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
        if len(self._missing_until) >= _KEPT:
            self._missing_until.clear()
        asking = self._asking(f"schema {schema_id}")
        path = f"schemas/ids/{schema_id}"
        found = asking.schema(path)
        if found is None and self._clock() >= self._is_believed_until:
            self._sleep(_REPLICA_S)
            found = asking.schema(path)
            if found is None:
                self._is_believed_until = self._clock() + _MISSING_S
        if found is None:
            _LOG.warning(
                "the schema registry at %s has no schema %d: values that name it cannot be decoded",
                self._config.url,
                schema_id,
            )
            self._missing_until[schema_id] = self._clock() + _MISSING_S
            return None
        self._keep(schema_id, found[1])
        return found[1]

    def _keep(self, schema_id: int, schema: RegisteredSchema) -> None:
        """Keep a schema, and forget the oldest ones: whoever may write to a topic may register any number."""
        self._schemas[schema_id] = schema
        memory = sum(kept.memory for kept in self._schemas.values())
        while memory > _MOST_MEMORY and len(self._schemas) > 1:
            memory -= self._schemas.pop(next(iter(self._schemas))).memory

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        """Return the newest schema of a subject, and its id.

        Raises OptionError if the registry has no such subject, and CorruptDataError if no value of its schema can be
        decoded; also raises the errors of ``schema``.
        """
        newest = self._asking(f"the subject {subject!r}").schema(f"{_of(subject)}/latest")
        if newest is None:
            raise OptionError(f"the schema registry at {self._config.url} has no subject {subject!r}")
        if not newest[1].kind:
            raise CorruptDataError(f"the schema of {subject!r} cannot be used; the log of this process says why")
        return newest

    def _asking(self, what: str) -> _Asking:
        return _Asking(self._config, self._tls, what)

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


class _UnusableError(Exception):
    """No value of a schema can be decoded, whatever the registry answers later."""


class _Asking:
    """The requests for one schema and all that it refers to, with one deadline and one bound."""

    def __init__(self, config: RegistryConfig, tls: ssl.SSLContext | None, what: str) -> None:
        self._config, self._tls, self._what = config, tls, what
        self._deadline = Deadline(f"ask the schema registry at {config.url} for {what}", config.deadline_s)
        self._left_bytes, self._left_references = MOST_BYTES, MOST_REFERENCES

    def schema(self, path: str) -> tuple[int, RegisteredSchema] | None:
        """Return the schema at a path of the registry, with its id if the registry shows it, else 0."""
        try:
            found = self._found(path)
            if found is None:
                return None
            references: dict[str, str] = {}
            self._gather(found, references, ())
            kind, number = found.get("schemaType") or "AVRO", found.get("id")
            schema = RegisteredSchema(str(kind).upper(), _text(found["schema"]), references)
            return number if isinstance(number, int) else 0, schema
        except _UnusableError as problem:
            _LOG.warning(
                "%s of the schema registry at %s %s: its values cannot be decoded",
                self._what,
                self._config.url,
                problem,
            )
            return 0, RegisteredSchema("", "")

    def _gather(self, schema: Mapping[str, Any], references: dict[str, str], within: tuple[Any, ...]) -> None:
        for name, subject, version in _references(schema):
            if name in references:
                continue
            self._left_references -= 1
            if (subject, version) in within or len(within) == MOST_LEVELS:
                raise _UnusableError("refers to itself" if (subject, version) in within else "is nested too deeply")
            if self._left_references < 0:
                raise _UnusableError(f"refers to more than {MOST_REFERENCES} others")
            referred = self._found(f"{_of(subject)}/{version}")
            if referred is None:
                raise ConnectorError(
                    f"the schema registry at {self._config.url} has no version {version} of {subject!r}, "
                    "to which a schema refers"
                )
            self._gather(referred, references, (*within, (subject, version)))
            references[name] = _text(referred["schema"])

    def _found(self, path: str) -> Mapping[str, Any] | None:
        while True:
            try:
                answer = self._answer(path)
            except NoAnswerError as problem:
                self._deadline.pause(TransientError(f"it {problem}"))
                continue
            if answer.content is None:
                raise _UnusableError(f"has more than {MOST_BYTES >> 20} MiB with all that it refers to")
            self._left_bytes -= len(answer.content)
            content = answer.json
            if answer.status != 200:
                if isinstance(content, dict) and content.get("error_code") in _NO_SCHEMA:
                    return None
                # The registry's message may repeat what was sent to it.
                sentence = f"it answers with the HTTP status {answer.status}"
                if answer.status not in _TRY_AGAIN:
                    raise ConnectorError(f"cannot {self._deadline.operation}: {sentence}")
                self._deadline.pause(TransientError(sentence))
            elif isinstance(content, dict) and isinstance(content.get("schema"), str):
                return content
            else:
                kind = "JSON" if content is None else "schema"
                raise ConnectorError(f"cannot {self._deadline.operation}: it answers with something that is no {kind}")

    def _answer(self, path: str) -> Answer:
        """Ask each server in turn until one answers; each has its share of the time that is left."""
        *others, last = self._config.urls
        for left, url in zip(range(len(others) + 1, 1, -1), others, strict=True):
            with suppress(NoAnswerError):
                answer = self._answer_of(url, path, self._deadline.remaining_s / left)
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
        until, most_bytes = time.monotonic() + seconds, max(self._left_bytes, 0)
        return ask(f"{url}/{path}", headers, until, most_bytes=most_bytes, tls=self._tls)


def _references(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield the name, the subject and the version of each reference of a schema."""
    try:
        for reference in schema.get("references") or ():
            yield _text(reference["name"]), _text(reference["subject"]), int(reference["version"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise _UnusableError("has references that are none") from None


def _of(subject: str) -> str:
    return f"subjects/{quote(subject, safe='')}/versions"


def _text(text: Any) -> str:
    try:
        text.encode()
    except (AttributeError, UnicodeEncodeError):
        raise _UnusableError("has a text that is not Unicode") from None
    return str(text)


@lru_cache(maxsize=16)
def registry_of(config: RegistryConfig) -> SchemaRegistry:
    """Return this process's registry for a configuration."""
    return SchemaRegistry(config)
