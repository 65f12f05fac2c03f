"""Rows of Kafka with decoded values and keys: what is bad, which rows a condition selects, and which columns remain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from tidegate.errors import BadRecordError, OptionError, did_you_mean
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.arrays import BATCH_BYTES, are_true, booleans, integers, null_bytes
from tidegate.readers.arrow.conform import conform, position_of
from tidegate.readers.arrow.ddl import ddl_of
from tidegate.readers.event_time.columns import check_time_type
from tidegate.readers.event_time.units import TimeUnit
from tidegate.readers.formats.bad_records import CORRUPT_COLUMN
from tidegate.readers.kafka.rows import EVENT_TIME, EVENT_TIME_FAULT
from tidegate.readers.registry.columns import Mode
from tidegate.readers.values.decoders import ValueDecoder
from tidegate.readers.values.where import Condition

Refused: TypeAlias = "Callable[[DecodedRows], Collection[int]]"


class DecodedRows(NamedTuple):
    """Rows with decoded columns.

    raw: the same rows, as Kafka has them.
    bad: why the query does not get a record, as a sentence, by row.
    """

    raw: pa.RecordBatch
    rows: pa.RecordBatch
    bad: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class TypedRecords:
    """Decodes the values and keys of records, and delivers some of their rows and columns; picklable.

    value, key: the decoders; None: the column stays bytes.
    mode: FAILFAST ends the query at the first value or key that cannot be decoded.  PERMISSIVE makes null what cannot
        be read of it.
    sets_aside: the query does not get such records, whatever the mode.
    rescued_column: the column for what values have beyond their columns; None: that is left out.
    where: selects rows, by all columns; None: all.
    first: decodes only the columns that a record is looked at for to leave it out, see ``selecting``; None: these are
        all, or there is no condition.
    columns: the names of the columns that remain, in order; None: all.
    """

    value: ValueDecoder | None = None
    key: ValueDecoder | None = None
    mode: Mode = "FAILFAST"
    sets_aside: bool = False
    rescued_column: str | None = None
    where: Condition | None = None
    first: TypedRecords | None = None
    columns: tuple[str, ...] | None = None

    @property
    def _decoders(self) -> dict[str, ValueDecoder]:
        named = {"key": self.key, "value": self.value}
        return {name: decoder for name, decoder in named.items() if decoder is not None}

    @property
    def needs_headers(self) -> bool:
        """Whether headers may name the schemas of values."""
        return any(decoder.needs_headers for decoder in self._decoders.values())

    def _only(self, name: str, *paths: Sequence[str]) -> ValueDecoder:
        """Return the decoder of the value or key, to some of its fields.

        Of a value that is null as a whole if any field cannot be read, all fields have to be read.
        """
        decoder = self._decoders[name]
        return decoder if self.mode == "PERMISSIVE" and decoder.is_whole else decoder.only(*paths)

    def selecting(self, where: Condition, event_time: str | None = None) -> TypedRecords:
        """Return the same with a condition.

        event_time: the column of the event time, which has to be right also in records that are left out; None: it is
            not decoded.
        """
        paths = {*where.paths, *([] if event_time is None else [self._found(event_time)[0]])}
        of_rows = {self.rescued_column, EVENT_TIME, EVENT_TIME_FAULT}  # which all of a record decides
        if any(path[0] in of_rows or CORRUPT_COLUMN in path[1:2] for path in paths):
            return replace(self, where=where)
        inner = {name: [path[1:] for path in paths if path[0] == name] for name in self._decoders}
        few = {name: self._only(name, *inner[name]) for name in self._decoders if inner[name]}
        first = TypedRecords(few.get("value"), few.get("key"), self.mode, self.sets_aside)
        saves = any(few.get(name) is None or few[name].kind != of.kind for name, of in self._decoders.items())
        return replace(self, where=where, first=first if saves else None)

    @property
    def sifts(self) -> bool:
        """Whether it pays to decode the columns of ``first`` first, if ``where`` selects few records."""
        few = (None, None) if self.first is None else (self.first.value, self.first.key)
        return self.first is not None and all(of.skips for of in few if of is not None)

    def schema(self, columns: pa.Schema) -> pa.Schema:
        """Return all columns of rows whose own are ``columns`` before they are decoded; times come last."""
        of = self._decoders
        fields = [field.with_type(of[field.name].kind) if field.name in of else field for field in columns]
        if self.rescued_column is not None:
            place = columns.get_field_index(EVENT_TIME)
            fields.insert(place if place >= 0 else len(fields), pa.field(self.rescued_column, pa.string()))
        return pa.schema(fields)

    def delivered_schema(self, columns: pa.Schema) -> pa.Schema:
        """Return those of all columns that remain.  Raises OptionError for a name that is unknown, or comes twice."""
        schema = self.schema(columns)
        if self.columns is None:
            return schema
        places = [position_of(name, schema.names) for name in self.columns]
        if None in places:
            name = self.columns[places.index(None)]
            hint = "; valueSchema names the fields of a value" if "." in name else did_you_mean(name, schema.names)
            raise OptionError(f"columns names {name!r}, and there is no such column{hint}")
        if twice := next((name for at, name in enumerate(self.columns) if places[at] in places[:at]), None):
            raise OptionError(f"columns names {twice!r} twice")
        return pa.schema([schema.field(place) for place in places])

    def decoded(self, batch: pa.RecordBatch) -> Iterator[DecodedRows]:
        """Yield the rows of a batch, in parts of a bounded size.

        A record that ``where`` leaves out is bad only if the columns of ``first`` are.

        Raises BadRecordError, which names the record and shows nothing of it, for the first bad one with FAILFAST.
        Also raises the errors of decoders.
        """
        row_bytes = sum(null_bytes(decoder.kind) for decoder in self._decoders.values())
        step = max(1, BATCH_BYTES // (row_bytes + 1))
        for start in range(0, max(1, batch.num_rows), step):
            yield self._decoded(batch.slice(start, step))

    def _decoded(self, batch: pa.RecordBatch) -> DecodedRows:
        headers = batch.column("headers") if self.needs_headers and "headers" in batch.schema.names else None
        rows, bad = batch, dict[int, str]()
        for name, decoder in self._decoders.items():
            place = batch.schema.get_field_index(name)
            values, problems, rescued = decoder.decode(batch.column(place), headers)
            bad.update({row: f"the {name} {problem}" for row, problem in problems.items()})
            rows = rows.set_column(place, pa.field(name, values.type), values)
            if name == "value" and self.rescued_column is not None:
                texts = pa.array(map(rescued.get, range(len(values))), pa.string()) if rescued else None
                rows = rows.append_column(self.rescued_column, texts or pa.nulls(len(values), pa.string()))
        if bad and self.first is not None:
            rows, bad = self._as_looked_at(self.first, batch, rows, bad)
        if bad and self.mode == "FAILFAST" and not self.sets_aside:
            row = min(bad)
            topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
            raise BadRecordError(
                f"{topic}-{partition}: the record at offset {offset} is bad: {bad[row]}; to continue, set mode to "
                "PERMISSIVE, or set badRecordsPath"
            )
        return DecodedRows(batch, rows, dict(sorted(bad.items())) if self.sets_aside else {})

    def _as_looked_at(
        self, first: TypedRecords, batch: pa.RecordBatch, rows: pa.RecordBatch, bad: Mapping[int, str]
    ) -> tuple[pa.RecordBatch, dict[int, str]]:
        """Return rows in which a bad record that is left out has what ``first`` reads of it, and the other bad ones."""
        places = np.array(sorted(bad))
        some = batch.take(integers(places, pa.int64()))
        are_wanted = self.wanted(some)
        left = places[~are_wanted]
        if len(left):
            undecoded = [name for name in self._decoders if name not in first._decoders]
            parts = first.decoded(some.filter(booleans(~are_wanted)))
            looked_at = [conform(part.rows.drop_columns(undecoded), rows.schema) for part in parts]
            order = np.arange(rows.num_rows)
            order[left] = rows.num_rows + np.arange(len(left))
            rows = pa.concat_batches([rows, *looked_at]).take(integers(order, pa.int64()))
        return rows, {row: bad[row] for row in places[are_wanted].tolist()}

    def wanted(self, batch: pa.RecordBatch, refused: Refused = lambda _: ()) -> npt.NDArray[np.bool_]:
        """Return which records are not left out: ``where`` selects them, or their columns of ``first`` are bad.

        refused: returns which of decoded rows are to be looked at whatever ``where`` says.

        Raises the errors of ``decoded``.
        """
        parts = []
        for part in (self.first or self).decoded(batch):
            wanted = self.selected(part.rows)
            wanted[[*part.bad, *refused(part)]] = True
            parts.append(wanted)
        return np.concatenate(parts)

    def selected(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return which rows ``where`` selects."""
        return np.ones(rows.num_rows, np.bool_) if self.where is None else are_true(self.where(rows))

    def delivered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns that remain."""
        if self.columns is None:
            return rows
        return rows.select([rows.schema.names[position_of(name, rows.schema.names)] for name in self.columns])

    def column(self, dotted: str, unit: TimeUnit | None = None) -> DecodedColumn:
        """Return a column of the decoded value or key, such as ``value.at``, which alone is decoded where it is read.

        Raises OptionError if there is no such column, or if values of its type are not times by the unit.
        """
        path, kind = self._found(dotted)
        if len(path) == 1 and kinds.is_binary(kind):  # like what is not decoded yet
            raise OptionError(f"eventTime is {dotted!r}, which is of the type {ddl_of(kind)}, and holds no event time")
        has_unit = kinds.is_timestamp(kind) or kinds.is_date(kind)
        check_time_type(dotted, kind, unit or (None if has_unit else "ms"))  # that of numbers is detected
        only = self._only(path[0], path[1:])
        value, key = (only, None) if path[0] == "value" else (None, only)
        zeros_are_missing = bool(path[1:]) and not self._decoders[path[0]].writes_zero(path[1:])
        return DecodedColumn(TypedRecords(value, key, self.mode, self.sets_aside), path, zeros_are_missing)

    def _found(self, dotted: str) -> tuple[tuple[str, ...], pa.DataType]:
        """Return the names that lead to a column of the decoded value or key, and its type."""
        name, *remainder = dotted.split(".")
        decoder = self._decoders.get(name)
        if decoder is None:
            raise OptionError(f"eventTime is {dotted!r}, a column of the decoded {name}, but {name}Format is not set")
        kind, path = decoder.kind, [name]
        for inner in remainder:
            fields = [field.name for field in kind] if kinds.is_struct(kind) else []
            place = position_of(inner, fields)
            if place is None:
                known = [".".join([*path, field]) for field in fields]
                raise OptionError(f"eventTime is {dotted!r}, and there is no such column{did_you_mean(dotted, known)}")
            path.append(fields[place])
            kind = kind.field(place).type
        return tuple(path), kind


@dataclass(frozen=True, slots=True)
class DecodedColumn:
    """A column within the decoded value or key of records; picklable.

    records: decodes that column alone.
    path: the names that lead to it, from ``value`` or ``key`` on.
    zeros_are_missing: a zero is null, because it may stand for a field that is not set.
    """

    records: TypedRecords
    path: tuple[str, ...]
    zeros_are_missing: bool = False

    @property
    def needs_headers(self) -> bool:
        """Whether records that are not decoded yet need their headers."""
        return self.records.needs_headers

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the column of records, decoded already or not.  Raises the errors of ``TypedRecords.decoded``."""
        name, *inner = self.path
        parts = [batch]
        if kinds.is_binary(batch.column(name).type):
            parts = [decoded.rows for decoded in self.records.decoded(batch)]
        columns = [part.column(name) for part in parts]
        column = columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
        column = pc.struct_field(column, inner) if inner else column
        if self.zeros_are_missing and (kinds.is_integer(column.type) or kinds.is_floating(column.type)):
            return pc.if_else(pc.equal(column, 0), pa.nulls(1, column.type)[0], column)
        return column
