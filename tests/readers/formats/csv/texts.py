"""Texts of CSV, and a function that reads them."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.objects.lab import Memory, read_all
from tidegate.readers.formats.bad_records import BadRecordPolicy
from tidegate.readers.formats.csv.columns import GivenColumns
from tidegate.readers.formats.csv.format import CsvFormat
from tidegate.readers.formats.csv.options import CsvDialect

RFC = {"escape": '"'}


def texts(names: str) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])


def read(
    text: bytes, schema: pa.Schema, key: str = "x.csv", chunk_bytes: int = 64 << 20, set_aside=None, **given
) -> list[tuple]:
    """Read all chunks of an object; settings that are no field of the format are fields of the dialect."""
    fields = {name: given.pop(name) for name in [*given] if name in CsvFormat.__dataclass_fields__}
    fields.setdefault("columns", GivenColumns(tuple(schema.names)))
    memory = Memory(text, key)
    made = CsvFormat(memory, dialect=CsvDialect(**given), chunk_bytes=chunk_bytes, **fields)
    return [tuple(row.values()) for row in read_all(made, memory.object, schema, set_aside)]


def read_kept(text: bytes, schema: pa.Schema, **given) -> list[tuple]:
    """Read an object whose bad records are kept; their texts are the last value of each row."""
    whole = pa.schema([*schema, ("_corrupt_record", pa.string())])
    return read(
        text, whole, bad_records=BadRecordPolicy("PERMISSIVE"), columns=GivenColumns(tuple(schema.names)), **given
    )


def null_for_empty(rows) -> list[tuple]:
    return [tuple(value or None for value in row) for row in rows]


values = st.text(st.sampled_from('ab,";\\ #\tüx|'), max_size=6)
