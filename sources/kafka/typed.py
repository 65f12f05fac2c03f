"""The options for typed topics: how values and keys are decoded, and which rows and columns are delivered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args

import pyarrow as pa
from pydantic import BeforeValidator, ConfigDict, Field
from typing_extensions import Self

from tidegate.errors import OptionError
from tidegate.readers.arrow.conform import position_of, spark_schema
from tidegate.readers.arrow.ddl import EXAMPLE, columns_of_ddl
from tidegate.readers.formats.bad_records import BadRecordPolicy
from tidegate.readers.formats.json_values import record_converter
from tidegate.readers.formats.options import upper_case
from tidegate.readers.kafka.rows import arrow_schema
from tidegate.readers.kafka.typed import TypedRecords
from tidegate.readers.models import Model
from tidegate.readers.registry.client import KEY_SCHEMA_ID, VALUE_SCHEMA_ID
from tidegate.readers.registry.columns import Form, Mode, column_of_subject
from tidegate.readers.values.decoders import JsonValues, RegistryValues, StringValues, ValueFormat
from tidegate.readers.values.where import condition_of
from tidegate.sources.kafka.option_types import Location
from tidegate.sources.options import as_schema, lower_case

if TYPE_CHECKING:
    from tidegate.readers.registry.client import RegistryConfig
    from tidegate.readers.values.decoders import ValueDecoder

_FORMS = get_args(Form)
_ID_HEADERS = {"value": VALUE_SCHEMA_ID, "key": KEY_SCHEMA_ID}


def _schema(value: Any) -> Any:
    value = as_schema(value)
    if not isinstance(value, str | pa.Schema) and value is not None:
        raise ValueError("expected a text, in Python also a StructType or a pyarrow.Schema")
    return value


def _names(value: Any) -> Any:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError("expected names of columns, separated by commas")
    return tuple(name.strip() for name in names)


Format: TypeAlias = Annotated[ValueFormat, BeforeValidator(lower_case)]
Schema: TypeAlias = Annotated[str | pa.Schema, BeforeValidator(_schema)]


class TypedTopicOptions(Model):
    """The options for typed topics.

    value_format: the form of values, which decides the type of the column ``value``: ``json`` and ``protobuf`` make it
        a struct, ``avro`` the type of its schema, ``string`` a text.  Default: bytes.
    value_schema: of ``json``, the fields that are read, in Spark's DDL, in Python also a StructType or pyarrow.Schema;
        of ``avro`` and ``protobuf``, the subject whose newest schema counts.  Default: ``TOPIC-value``.
    key_format, key_schema: the same for keys, and the column ``key``.  Default subject: ``TOPIC-key``.
    mode: the policy for values and keys that cannot be decoded.  ``FAILFAST`` ends the query.  With ``PERMISSIVE``, the
        fields that cannot be read are null, as in ``from_json``; of Avro and Protobuf, all fields are.
    bad_records_path: a folder that all executors share, or ``s3://bucket/prefix``.  Records whose value or key cannot
        be decoded, or that ``bad_event_time`` refuses, are written there, and the query continues without them.
    rescued_data_column: a column for what a value of ``json`` has beyond its fields, and for what does not fit them, as
        JSON.
    columns: the columns to deliver, such as ``value,timestamp``.  Default: all.
    where: a condition in SQL over all columns, such as ``value.amount > 5 AND key IS NOT NULL``.  Rows for which it is
        not true are not delivered.  It has comparisons, ``IN``, ``IS NULL``, ``AND``, ``OR`` and ``NOT``, with columns
        and literals.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)  # for pyarrow's schema

    value_format: Format | None = None
    value_schema: Schema | None = None
    key_format: Format | None = None
    key_schema: Schema | None = None
    mode: Annotated[Mode, BeforeValidator(upper_case)] = "FAILFAST"
    bad_records_path: Location | None = None
    rescued_data_column: Annotated[str | None, Field(min_length=1)] = None
    columns: Annotated[tuple[str, ...] | None, Field(min_length=1), BeforeValidator(_names)] = None
    where: Annotated[str | None, Field(min_length=1)] = None

    def untyped(self) -> Self:
        """Return the source with all rows and columns as Kafka has them."""
        source = self.model_copy(update={field: None for field in TypedTopicOptions.model_fields if field != "mode"})
        source.__dict__.pop("typed", None)
        return source

    @property
    def sets_bad_records_aside(self) -> bool:
        """Whether a place for bad records is set."""
        return self.bad_records_path is not None

    @property
    def selects_rows(self) -> bool:
        """Whether ``where`` is set."""
        return self.where is not None

    @property
    def is_typed(self) -> bool:
        """Whether values or keys are decoded."""
        return self.value_format is not None or self.key_format is not None

    @property
    def decodes_registered(self) -> bool:
        """Whether the registry has the types of columns, so that these are known only once it was asked."""
        return self.value_format in _FORMS or self.key_format in _FORMS

    def check_typed(self, registry: RegistryConfig | None, topics: tuple[str, ...], watermark_from: str | None) -> None:
        """Raise ValueError for contradictory options; asks nobody.

        topics: the only ones that are read, if their names are known.
        watermark_from: the origin of the watermark in rows, which has to be left of them.
        """
        origin = (watermark_from or "").partition(":")[0]
        if origin in {"json", *_FORMS} and self.value_format is not None:
            raise ValueError(
                f"watermarkFrom is {watermark_from!r}, but valueFormat decodes these bytes; use header:NAME"
            )
        needed = "headers" if origin == "header" else "value"
        if origin and self.columns is not None and needed not in self.columns:
            raise ValueError(f"watermarkFrom is {watermark_from!r}, so columns has to name {needed}")
        for name in ("value", "key"):
            self._check_format(name, registry, topics)
        if "mode" in self.model_fields_set and not self.is_typed:
            raise ValueError(f"mode is {self.mode!r}, but nothing is decoded: valueFormat and keyFormat are not set")
        if "mode" in self.model_fields_set and self.bad_records_path is not None:
            raise ValueError(f"badRecordsPath is set, which leaves bad records out, but mode is {self.mode!r}")
        if self.rescued_data_column is not None and self.value_format != "json":
            raise ValueError(
                f"rescuedDataColumn is {self.rescued_data_column!r}, which needs valueFormat 'json', but it is "
                f"{self.value_format!r}"
            )

    def _check_format(self, name: str, registry: RegistryConfig | None, topics: tuple[str, ...]) -> None:
        form, schema = getattr(self, f"{name}_format"), getattr(self, f"{name}_schema")
        if schema is not None and form in {None, "string"}:
            raise ValueError(f"{name}Schema is set, but {name}Format is {form!r}, which has no schema")
        if form == "json":
            if schema is None:
                raise ValueError(f"{name}Format is 'json', so {name}Schema has to name its fields, such as {EXAMPLE!r}")
            _json_schema(f"{name}Schema", schema)
        if form in _FORMS:
            if registry is None:
                raise ValueError(f"{name}Format is {form!r}, which needs a schema registry; set schema.registry.url")
            if isinstance(schema, pa.Schema):
                raise ValueError(f"{name}Format is {form!r}, so {name}Schema has to be the name of a subject")
            if schema is None and len(topics) != 1:
                raise ValueError(
                    f"{name}Format is {form!r}, and its subject is TOPIC-{name}, but not one topic is named: set "
                    f"{name}Schema to a subject"
                )

    def typed_records(
        self, registry: RegistryConfig | None, topics: tuple[str, ...], columns: pa.Schema, event_time: str | None
    ) -> TypedRecords | None:
        """Return what decodes records, and selects rows and columns; None: rows stay as Kafka has them.

        columns: the rows' own, before anything is decoded.
        event_time: the column of the event time, such as ``value.at``; None: it is not decoded.

        Raises OptionError for a schema, a column or a condition that cannot be, and the errors of the registry.
        """
        if not self.is_typed and self.columns is None and self.where is None:
            return None
        # Tasks have all columns at times, also those that rows lack.
        of_kafka = arrow_schema(include_headers=True, include_event_time=True).names
        if position_of(self.rescued_data_column or "", of_kafka) is not None:
            raise OptionError(f"rescuedDataColumn is {self.rescued_data_column!r}, which is another column's name")
        typed = TypedRecords(
            value=self._decoder("value", registry, topics),
            key=self._decoder("key", registry, topics),
            mode=self.mode,
            sets_aside=self.bad_records_path is not None,
            rescued_column=self.rescued_data_column,
            columns=self.columns,
        )
        typed.delivered_schema(columns)
        if self.where is None:
            return typed
        try:
            where = condition_of(self.where, typed.schema(columns))
        except ValueError as problem:
            raise OptionError(f"the option 'where' is {self.where!r}: {problem}") from None
        return typed.selecting(where, event_time)

    def _decoder(self, name: str, registry: RegistryConfig | None, topics: tuple[str, ...]) -> ValueDecoder | None:
        form, schema = getattr(self, f"{name}_format"), getattr(self, f"{name}_schema")
        if form == "string":
            return StringValues()
        if form == "json":
            rescues = name == "value" and self.rescued_data_column is not None
            return JsonValues(_json_schema(f"{name}Schema", schema), rescues=rescues)
        if form is None or registry is None:
            return None
        column = column_of_subject(registry, form, schema or f"{topics[0]}-{name}")
        return RegistryValues(replace(column, id_header=_ID_HEADERS[name]))


def _json_schema(option: str, given: str | pa.Schema) -> pa.Schema:
    """Return the fields of JSON values.  Raises OptionError, which names the option, if they cannot be read."""
    try:
        schema = columns_of_ddl(given) if isinstance(given, str) else given
        schema = spark_schema(schema)
        record_converter(BadRecordPolicy("PERMISSIVE").data_schema(schema), surplus=False)
    except ValueError as problem:
        shown = f"is {given!r}" if isinstance(given, str) else "cannot be read"
        raise OptionError(f"the option {option!r} {shown}: {problem}") from None
    return schema
