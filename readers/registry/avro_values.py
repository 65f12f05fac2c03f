"""Decodes Avro values of one schema by the decoder of Avro objects, many at once, within a bound of memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidegate.errors import CorruptDataError
from tidegate.readers.avro.container import AvroBlock
from tidegate.readers.avro.records import AvroRecords
from tidegate.readers.avro.skipping import full_name
from tidegate.readers.decompression import DEFAULT_MOST_BYTES, SizeLimit
from tidegate.readers.registry.schemas import RegisteredSchema

_BOUND = SizeLimit(DEFAULT_MOST_BYTES, "nothing: no value may be so large")


class AvroValues:
    """The values of one schema.

    wanted: fields that will be asked for; the others may have more types than are converted.

    Raises CorruptDataError for a schema that is not a record, and OptionError for a union that Spark cannot hold.
    """

    def __init__(self, schema: RegisteredSchema, wanted: Collection[str] = ()) -> None:
        try:
            parts = [json.loads(text) for text in schema.references.values()]
            defined = {full_name(part["name"], part.get("namespace")): part for part in parts}
            whole = _inlined(json.loads(schema.text), defined, set())
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise CorruptDataError("its schema is no Avro schema") from None
        self._records = AvroRecords(whole, _BOUND, wanted)
        self.names = [field.name for field in self._records.fields]

    def kind(self, names: Collection[str]) -> pa.StructType:
        """Return the type of these fields; raises OptionError or CorruptDataError for one that Spark cannot hold."""
        return self._records.kind_of(names)

    def decode(self, payloads: Sequence[bytes], names: Collection[str]) -> pa.StructArray:
        """Return the named fields of each value; null if the bytes do not fit the schema; raises as ``kind``."""
        kind = self.kind(names)
        blocks = [AvroBlock(number, number + 1, 1, payload) for number, payload in enumerate(payloads)]
        try:
            batches = [*self._records.batches(blocks, names)]
        except CorruptDataError:
            # One bad value makes its whole batch fail, so halves are decoded until the bad values are alone.
            if len(payloads) == 1:
                return pa.nulls(1, kind)
            half = len(payloads) // 2
            return pa.concat_arrays([self.decode(payloads[:half], names), self.decode(payloads[half:], names)])
        arrays = [batch.to_struct_array() for batch in batches]
        return pa.concat_arrays(arrays) if arrays else pa.nulls(0, kind)


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
