"""Decodes a column of values or keys: texts, JSON, or Avro and Protobuf by the schemas of a registry.

The code is that of JSON objects in files, and of ``from_avro`` and ``from_protobuf``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.arrays import are_null, booleans, ends_of, integers
from tidegate.readers.arrow.conform import by_halves
from tidegate.readers.formats.bad_records import BadRecordPolicy, ChunkRecords, is_bad, rescued_text
from tidegate.readers.formats.json_lines import lines_into
from tidegate.readers.registry.columns import RegistryColumn

ValueFormat: TypeAlias = Literal["string", "json", "avro", "protobuf"]

_BLANKS = " \t\r\n"
_BRACE = ord("{")
_ID = r"(?s)\A\x00.{0,4}"  # before JSON that names its schema in a registry; JSON itself never begins with a byte 0


class DecodedValues(NamedTuple):
    """Decoded values, a row for each.

    problems: by row, why a value cannot be decoded, as a clause after "the value".  The fields that cannot be read are
        null then, all of them if nothing can be.
    rescued: by row, what a value has beyond its columns, as JSON.
    """

    values: pa.Array
    problems: Mapping[int, str]
    rescued: Mapping[int, str] = MappingProxyType({})


class ValueDecoder(Protocol):
    """Decodes values to one type; picklable."""

    @property
    def kind(self) -> pa.DataType:
        """The type."""

    @property
    def needs_headers(self) -> bool:
        """Whether headers may name the schemas of values."""

    @property
    def skips(self) -> bool:
        """Whether some fields take less time than all."""

    @property
    def is_whole(self) -> bool:
        """Whether all fields of a value are null if one cannot be read; otherwise that one is."""

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray | None, /) -> DecodedValues:
        """Return the decoded values.  A null stays null, and so does JSON that is empty or blank."""

    def only(self, *paths: Sequence[str]) -> ValueDecoder:
        """Return a decoder of the same values to some of their fields, within the structs that lead to them."""

    def writes_zero(self, path: Sequence[str], /) -> bool:
        """Return whether a zero in a field was really written; otherwise it may stand for an unset field."""


@dataclass(frozen=True, slots=True)
class StringValues:
    """Texts in UTF-8."""

    kind: pa.DataType = field(default_factory=pa.string)
    needs_headers: bool = False
    skips: bool = False
    is_whole: bool = False

    def decode(self, values: pa.BinaryArray, _: pa.ListArray | None) -> DecodedValues:
        """See ValueDecoder."""
        texts, good = by_halves(_as_texts, values, np.ones(len(values), np.bool_), self.kind)
        return DecodedValues(texts, dict.fromkeys(np.flatnonzero(~good).tolist(), "is not UTF-8"))

    def only(self, *_: Sequence[str]) -> StringValues:
        """See ValueDecoder."""
        return self

    def writes_zero(self, _: Sequence[str]) -> bool:
        """See ValueDecoder."""
        return True


def _as_texts(values: pa.BinaryArray) -> pa.StringArray:
    texts = values.view(pa.string())
    texts.validate(full=True)
    return texts


@dataclass(frozen=True, slots=True)
class JsonValues:
    """JSON objects in UTF-8, perhaps behind the id of their JSON Schema, as Spark's ``from_json`` reads them.

    schema: the fields that are read.
    rescues: values that do not fit, or are in no field, are rescued.
    keeps_misfits: what does not fit makes no value bad; so it is with ``rescues``.
    """

    schema: pa.Schema
    rescues: bool = False
    keeps_misfits: bool = False
    needs_headers: bool = False
    skips: bool = True
    is_whole: bool = False

    @property
    def kind(self) -> pa.DataType:
        """The struct."""
        return pa.struct(list(self.schema))

    def decode(self, values: pa.BinaryArray, _: pa.ListArray | None) -> DecodedValues:
        """See ValueDecoder."""
        texts = _bare(values)
        is_there = (np.diff(ends_of(texts)) > 0) & ~are_null(texts)
        if not is_there.any():
            return DecodedValues(pa.nulls(len(values), self.kind), {})
        if not is_there.all():
            texts = texts.filter(booleans(is_there))
        records = ChunkRecords(BadRecordPolicy("PERMISSIVE"), "", self.schema)
        batch, odd = lines_into(records.data_schema, surplus=self.rescues).rows_of(texts)
        structs = records.batch(batch, odd).to_struct_array()
        rows = np.flatnonzero(is_there).tolist() if odd else []
        keeps = self.rescues or self.keeps_misfits
        if not is_there.all():
            structs = structs.take(integers(np.cumsum(is_there) - 1, pa.int64(), ~is_there))
        return DecodedValues(
            structs,
            {rows[at]: str(one.reason) for at, one in odd.items() if is_bad(one, rescues=keeps)},
            {rows[at]: rescued_text(one.rescued) for at, one in odd.items() if one.rescued},
        )

    def only(self, *paths: Sequence[str]) -> JsonValues:
        """See ValueDecoder."""
        schema = pa.schema(list(_pruned(self.kind, paths)))
        return JsonValues(schema, keeps_misfits=self.rescues or self.keeps_misfits)

    def writes_zero(self, _: Sequence[str]) -> bool:
        """See ValueDecoder."""
        return True


def _bare(values: pa.BinaryArray) -> pa.BinaryArray:
    """Return values without the id of a schema, and without blanks around them unless all begin with a brace."""
    ends = ends_of(values)
    if not values.null_count and np.diff(ends).all():
        begins = np.frombuffer(values.buffers()[2] or b"", np.uint8)[ends[:-1]]
        if (begins == _BRACE).all():
            return values
    without_id = pc.replace_substring_regex(values, pattern=_ID, replacement="", max_replacements=1)
    return pc.ascii_trim(without_id.view(pa.string()), characters=_BLANKS).view(pa.binary())


@dataclass(frozen=True, slots=True)
class RegistryValues:
    """Values in Confluent's wire format; each names its own schema."""

    column: RegistryColumn
    needs_headers: bool = True
    is_whole: bool = True

    @property
    def kind(self) -> pa.DataType:
        """The type of the column."""
        return self.column.kind

    @property
    def skips(self) -> bool:
        """See ValueDecoder; fastavro takes longer to skip most fields than to read them."""
        return self.column.form == "protobuf"

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray | None) -> DecodedValues:
        """See ValueDecoder."""
        decoded, problems = self.column.judged(values, headers)
        if problems and pa.types.is_struct(self.kind):
            # Null is the value of a tombstone, or one that the schema allows.
            are_nulls = are_null(decoded)
            are_nulls[[*problems]] = False
            decoded = pa.StructArray.from_arrays(decoded.flatten(), fields=list(self.kind), mask=booleans(are_nulls))
        return DecodedValues(decoded, problems)

    def only(self, *paths: Sequence[str]) -> RegistryValues:
        """See ValueDecoder."""
        return RegistryValues(self.column.only({path[0] for path in paths}) if all(paths) else self.column)

    def writes_zero(self, path: Sequence[str]) -> bool:
        """See ValueDecoder."""
        return self.column.writes_zero(path)


def _pruned(kind: pa.DataType, paths: Sequence[Sequence[str]]) -> pa.DataType:
    """Return a type with only the fields on some paths."""
    if not all(paths):
        return kind
    within = {field.name: [path[1:] for path in paths if path[0] == field.name] for field in kind}
    return pa.struct([field.with_type(_pruned(field.type, within[field.name])) for field in kind if within[field.name]])
