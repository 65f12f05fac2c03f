"""Fits the rows of typed formats to a schema, under the policy for bad records."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pyarrow as pa

from tidegate.errors import BadRecordError
from tidegate.readers.arrow.conform import conform, conform_each, position_of, surplus_of
from tidegate.readers.formats.bad_records import ChunkRecords, refused


def fitted(records: ChunkRecords, batch: pa.RecordBatch, offset: int) -> pa.RecordBatch:
    """Return the rows of a batch as a batch of the chunk's schema; columns match by name, as in ``conform``.

    batch: has all columns that the schema names, and also the others if surplus is rescued.
    offset: the offset in the object of the bytes that hold the rows.

    A row with a value that does not fit its column is a bad record.  Its text is a JSON object.

    Raises BadRecordError, which names the column and both types, if the record ends the query.
    """
    schema = records.data_schema
    if not records.rescues:
        # Fields are nullable here, because ChunkRecords checks for nulls once the batch is complete.
        nullable = pa.schema([field.with_nullable(nullable=True) for field in schema])
        try:
            values = conform(batch, nullable)
        except BadRecordError as problem:
            if records.policy.fails:
                raise refused(str(problem)) from None
        else:
            return records.batch(values)
    values, misfits = conform_each(batch, schema)
    surplus = surplus_of(batch, schema) if records.rescues else None
    if not misfits and not (surplus and surplus.num_columns):
        return records.batch(values)
    taken = {name.lower() for name in schema.names}
    batch_records = records.begin_batch()
    rests = [{}] * batch.num_rows if surplus is None else surplus.to_pylist()
    kept = []
    for row, rest in enumerate(rests):
        bad = [name for name, misses in misfits.items() if misses[row]]
        reason = f"has no {schema.field(bad[0]).type} in {bad[0]!r}" if bad else None
        if records.rescues:
            # An empty list in a column that is read lacks nothing.
            rescued = {
                name: _text(value)
                for name, value in rest.items()
                if not (_is_nothing(value) if name.lower() in taken else value is None)
            }
            rescued |= {name: _text(_value(batch, name, row)) for name in bad}
            kept.append(batch_records.take(offset, b"", reason, rescued=rescued))
        else:
            shown = _text(batch.slice(row, 1).to_pylist()[0]) if bad else ""
            kept.append(batch_records.take(offset, shown.encode(), reason))
    return records.batch(values if all(kept) else values.filter(pa.array(kept)), batch_records)


def _value(batch: pa.RecordBatch, name: str, row: int) -> Any:
    return batch.column(position_of(name, batch.schema.names))[row].as_py()


def _text(value: Any) -> str:
    return orjson.dumps(value, default=_plain).decode()


def _plain(value: Any) -> str:
    """Return the text of a value that JSON has no type for."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _is_nothing(value: Any) -> bool:
    """Return whether a value is null, or contains only nulls at any depth."""
    inner = value.values() if isinstance(value, dict) else value
    return value is None or (isinstance(value, dict | list) and all(map(_is_nothing, inner)))
