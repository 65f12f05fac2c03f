"""The policy for bad records, which is the same for all formats of text.

A record is *malformed* if nothing can be read from it, such as a line that is not JSON.  It is a *misfit* if one of its
values is not of its column's type.  Both are *bad*.  Values outside the columns of the schema are *surplus*.

Modes are Spark's.  Spark's default is PERMISSIVE; here it is FAILFAST, because no value may silently turn null or
vanish.  Rescued data and the path of bad records are as in Databricks' readers.  Rescued values make no record bad, so
with a rescued-data column only malformed records are bad.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.errors import BadRecordError, OptionError
from tidegate.readers.arrow.conform import conform
from tidegate.readers.arrow.ddl import ddl_of
from tidegate.readers.objects.values import SetAside

CORRUPT_COLUMN = "_corrupt_record"
"""The column for the text of a bad record, null for good ones.  It is filled with PERMISSIVE if the schema has it."""

FILE_PATH = "_file_path"  # the name of the object's address in rescued data

Mode: TypeAlias = Literal["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]


@dataclass(frozen=True, slots=True)
class BadRecordPolicy:
    """The policy for bad records and for surplus; picklable.

    mode: FAILFAST ends the query at the first bad record.  DROPMALFORMED leaves bad records out.  PERMISSIVE makes
        unreadable values null, and keeps the rest.
    rescued_column: the column for surplus and misfits: a JSON object of their values by column, with the object's
        address as ``_file_path``.  It is null if all values fit.  None: surplus is left out.
    path: a folder, or ``s3://bucket/prefix``.  Bad records are written there and left out, whatever the mode.
    """

    mode: Mode = "FAILFAST"
    rescued_column: str | None = None
    path: str | None = None

    @property
    def fails(self) -> bool:
        """Whether a bad record ends the query."""
        return self.mode == "FAILFAST" and self.path is None

    @property
    def keeps_corrupt(self) -> bool:
        """Whether bad records become rows, with their texts in CORRUPT_COLUMN."""
        return self.mode == "PERMISSIVE" and self.path is None

    @property
    def keeps_misfits(self) -> bool:
        """Whether records with values that do not fit become rows, with null in their place."""
        return self.keeps_corrupt or self.rescued_column is not None

    @property
    def of_survey(self) -> BadRecordPolicy:
        """The policy for a survey, which reads only event times: the same rows, but nothing is written."""
        return BadRecordPolicy("PERMISSIVE" if self.keeps_misfits else "FAILFAST" if self.fails else "DROPMALFORMED")

    def data_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a schema that come from the data: all but the two for bad records.

        Raises OptionError if one of the two is not a string.
        """
        own = {CORRUPT_COLUMN, self.rescued_column}
        if own.isdisjoint(schema.names):
            return schema
        for field in schema:
            if field.name in own and not pa.types.is_string(field.type):
                raise OptionError(
                    f"the column {field.name!r} is of the type {ddl_of(field.type)}; it has to be a STRING"
                )
        return pa.schema([field for field in schema if field.name not in own])


def refused(sentence: str) -> BadRecordError:
    """Return the error for a record that FAILFAST refuses, with the options that let the query continue."""
    return BadRecordError(f"{sentence}; to continue, set mode to PERMISSIVE or DROPMALFORMED, or set badRecordsPath")


FAIL = BadRecordPolicy()
"""The default: the first bad record ends the query."""


class OddRecord(NamedTuple):
    """A record that is bad, or has surplus.

    offset: the offset of its first byte in the decompressed object.
    record: its bytes, or its best representation.
    reason: the fault, as a clause after "the line", without the record's content; None: the record is good.
    rescued: surplus and misfits: JSON texts by column; used if ``rescues``.
    malformed: nothing could be read from the record, so its row is null.  False: only its misfits are null.
    """

    offset: int
    record: bytes
    reason: str | None
    rescued: Mapping[str, str] | None = None
    malformed: bool = False


def is_bad(record: OddRecord, *, rescues: bool) -> bool:
    """Return whether an odd record is bad, if surplus and values that do not fit are rescued or not."""
    return record.reason is not None and (record.malformed or not rescues)


def rescued_text(texts: Mapping[str, str]) -> str:
    """Return JSON texts by name as one JSON object, for the rescued-data column."""
    return "{" + ",".join(f"{text_in_json(name)}:{text}" for name, text in texts.items()) + "}"


class ChunkRecords:
    """The records of one chunk, on their way into batches of a schema.

    set_aside: takes the records for the policy's ``path``; None: they are only left out.
    record: the noun for a record, for errors.
    data_schema: the columns that the format itself fills.
    rescues: whether the format has to report surplus, and values that do not fit.
    dropped: the number of bad records so far that are in no batch.
    """

    def __init__(
        self,
        policy: BadRecordPolicy,
        address: str,
        schema: pa.Schema,
        set_aside: SetAside | None = None,
        *,
        record: str = "line",
    ) -> None:
        self.policy = policy
        self.data_schema = policy.data_schema(schema)
        self.rescues = policy.rescued_column in schema.names
        self.dropped = 0
        self.address = address
        self.record = record
        self._set_aside = set_aside
        self._schema = schema

    def batch(self, values: pa.RecordBatch, odd: Mapping[int, OddRecord] | None = None) -> pa.RecordBatch:
        """Return a batch of the schema, without the records that the policy leaves out.

        values: the columns of ``data_schema``, where any value may be null; a row for each record.
        odd: the records that are bad or have surplus, by row, in order.

        Raises BadRecordError, which names the object and the offset, for the first bad record with FAILFAST.  Also
        raises it for a null where the schema allows none.
        """
        corrupt: dict[int, str] = {}
        rescued: dict[int, str] = {}
        kept = np.ones(values.num_rows, bool)
        for row, record in (odd or {}).items():
            if self.rescues and record.rescued:
                rescued[row] = rescued_text({**record.rescued, FILE_PATH: text_in_json(self.address)})
            if not is_bad(record, rescues=self.rescues):
                continue
            if self.policy.fails:
                raise refused(f"{self.address}: the {self.record} at byte {record.offset} {record.reason}")
            if self.policy.keeps_corrupt:
                corrupt[row] = record.record.decode(errors="replace")
            else:
                kept[row] = False
                self._drop(record)
        batch = self._with_texts(values, {CORRUPT_COLUMN: corrupt, self.policy.rescued_column: rescued})
        batch = batch if kept.all() else batch.filter(pa.array(kept))
        if batch.schema.equals(self._schema):
            return batch
        try:
            return conform(batch, self._schema)
        except BadRecordError as problem:
            raise BadRecordError(f"{self.address}: {problem}") from None

    def _drop(self, record: OddRecord) -> None:
        """Leave a record out, and set it aside if the policy has a path.

        It has ``path`` (the object's address), ``position`` (the offset of the record in the decompressed object),
        ``reason`` and ``record`` (its bytes as Base64) then.
        """
        self.dropped += 1
        if self.policy.path is not None and self._set_aside is not None:
            text = base64.b64encode(record.record).decode()
            reason = f"the {self.record} {record.reason}"
            self._set_aside({"path": self.address, "position": record.offset, "reason": reason, "record": text})

    def _with_texts(self, values: pa.RecordBatch, texts: Mapping[str | None, Mapping[int, str]]) -> pa.RecordBatch:
        """Return values with the policy's own columns, if the schema has them."""
        if len(values.schema) == len(self._schema):
            return values
        columns = []
        for name in self._schema.names:
            at = values.schema.get_field_index(name)
            columns.append(values.column(at) if at >= 0 else _texts(texts[name], values.num_rows))
        return pa.RecordBatch.from_arrays(columns, self._schema.names)


def text_in_json(value: str) -> str:
    """Return a text as JSON, with all letters as they are."""
    return json.dumps(value, ensure_ascii=False)


def _texts(texts: Mapping[int, str], rows: int) -> pa.Array:
    return pa.array(map(texts.get, range(rows)), pa.string(), size=rows) if texts else pa.nulls(rows, pa.string())
