"""Decodes Avro values of one schema by the decoder of Avro objects, many at once, within a bound of memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidegate.errors import CorruptDataError
from tidegate.readers.avro.container import AvroBlock
from tidegate.readers.avro.records import AvroRecords
from tidegate.readers.avro.skipping import full_name
from tidegate.readers.decompression import DEFAULT_MOST_BYTES, SizeLimit
from tidegate.readers.registry.schemas import RegisteredSchema, memory_of, wanted
from tidegate.readers.registry.wire import HEADER_BYTES

_BOUND = SizeLimit(DEFAULT_MOST_BYTES, "nothing: no value may be so large")


class AvroValues:
    """The values of one schema.

    names: the wanted fields; what the others hold is never converted.  None: all.
    kind: the type of a value, a struct.

    Raises CorruptDataError for a schema that is not a record, or if several fields match a name.  Raises OptionError
    for a field that Spark cannot hold.
    """

    def __init__(self, schema: RegisteredSchema, names: Sequence[str] | None = None) -> None:
        schema.require("avro")
        try:
            parts = [json.loads(text) for text in schema.references.values()]
            defined = {full_name(part["name"], part.get("namespace")): part for part in parts}
            whole = _inlined(json.loads(schema.text), defined, set())
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise CorruptDataError("its schema is no Avro schema") from None
        self._records = AvroRecords(whole, _BOUND, names or ())
        self._names = wanted([field.name for field in self._records.fields], names)
        self.kind = self._records.kind_of(self._names)
        self.memory = memory_of(self.kind)

    def decode(self, values: Sequence[bytes]) -> pa.StructArray:
        """Return the fields of each value, header included; null if the bytes do not fit the schema."""
        blocks = [AvroBlock(number, number + 1, 1, value[HEADER_BYTES:]) for number, value in enumerate(values)]
        try:
            batches = [*self._records.batches(blocks, self._names)]
        except CorruptDataError:
            # One bad value makes its whole batch fail, so halves are decoded until the bad values are alone.
            if len(values) == 1:
                return pa.nulls(1, self.kind)
            half = len(values) // 2
            return pa.concat_arrays([self.decode(values[:half]), self.decode(values[half:])])
        arrays = [batch.to_struct_array() for batch in batches]
        return pa.concat_arrays(arrays) if arrays else pa.nulls(0, self.kind)


def record_names(schema: RegisteredSchema) -> tuple[str, ...]:
    """Return the name of the schema's record and its aliases, without namespaces; empty: it is not a single record."""
    try:
        record = json.loads(schema.text)
        names = [record["name"], *record.get("aliases", ())]
        return tuple(name.rpartition(".")[2] for name in names)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()


def _inlined(schema: Any, defined: Mapping[str, Any], known: set[str]) -> Any:
    """Return a schema with the definition of each referenced type in place of the first use of its name."""
    if isinstance(schema, str) and schema in defined and schema not in known:
        known.add(schema)
        return _inlined(defined[schema], defined, known)
    if isinstance(schema, list):
        return [_inlined(branch, defined, known) for branch in schema]
    if isinstance(schema, dict):
        return {
            name: _inlined(part, defined, known) if name in {"type", "items", "values", "fields"} else part
            for name, part in schema.items()
        }
    return schema
