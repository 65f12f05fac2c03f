"""Converts CSV records to batches of a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tidegate.readers.arrow.conform import batch_of
from tidegate.readers.formats.bad_records import ChunkRecords, OddRecord
from tidegate.readers.formats.csv.columns import column_name, column_position, odd_width
from tidegate.readers.formats.csv.quotes import ODD_QUOTES
from tidegate.readers.formats.csv.records import CsvRecords, CsvTexts
from tidegate.readers.formats.csv.values import converter_of
from tidegate.readers.formats.row_groups import BATCH_BYTES, null_bytes, within_bounds


class CsvBatches:
    """Makes batches from the records of a chunk.

    names: the names of a record's values, in their order; None: values have no names, and a record may have any number.

    Raises OptionError for a type that CSV cannot be read as.
    """

    def __init__(self, records: ChunkRecords, names: Sequence[str] | None) -> None:
        self._records = records
        self._names = names
        # Fields are nullable here, because ChunkRecords checks for nulls once the batch is complete.
        self._fields = [pa.field(field.name, field.type) for field in records.data_schema]
        self._converters = [converter_of(field.name, field.type) for field in self._fields]
        positions = [column_position(field.name, names) for field in self._fields]
        self._surplus = [p for p in range(len(names or ())) if p not in positions] if records.rescues else []
        self._read = sorted({position for position in positions if position is not None} | {*self._surplus})
        self._places = [None if position is None else self._read.index(position) for position in positions]
        self._row_bytes = sum(null_bytes(field.type) for field in self._fields)

    @property
    def finds_none(self) -> bool:
        """Whether there are columns, and none of them is among the names."""
        return bool(self._fields) and all(place is None for place in self._places)

    def of(self, csv_records: CsvRecords) -> Iterator[pa.RecordBatch]:
        """Yield the records as batches, in order; no batch is larger than 8 MiB unless it has a single row.

        Raises BadRecordError for the first bad record that ends the query.
        """
        rows = len(csv_records)
        count = min(1 + (rows * self._row_bytes + len(csv_records.lines)) // BATCH_BYTES, rows)
        for number in range(count):
            for texts in csv_records.texts(self._read, rows * number // count, rows * (number + 1) // count):
                batch = self._batch(csv_records, texts)
                if batch.num_rows:
                    yield from within_bounds(batch)

    def _batch(self, csv_records: CsvRecords, texts: CsvTexts) -> pa.RecordBatch:
        rows = len(texts.widths)
        reasons, rescued = self._odd_records(csv_records, texts)
        arrays = []
        for field, place, convert in zip(self._fields, self._places, self._converters, strict=True):
            if place is None:
                arrays.append(pa.nulls(rows, field.type))
                continue
            array, missed = convert(texts.columns[place])
            arrays.append(array)
            for row in () if missed is None else np.flatnonzero(missed).tolist():
                reasons.setdefault(row, f"has no {field.type} in {field.name!r}")
                rescued.setdefault(row, {})[field.name] = _json(texts.columns[place][row].as_py())
        for position in self._surplus:
            column = texts.columns[self._read.index(position)]
            for row in np.flatnonzero(column.is_valid()).tolist():
                rescued.setdefault(row, {})[(self._names or ())[position]] = _json(column[row].as_py())
        values = batch_of(arrays, pa.schema(self._fields), rows)
        odd = {
            row: OddRecord(
                csv_records.place(texts.first + row),
                csv_records.raw(texts.first + row),
                reasons.get(row),
                rescued.get(row),
                malformed=bool(texts.odd[row]),
            )
            for row in sorted({*reasons, *rescued})
        }
        return self._records.batch(values, odd)

    def _odd_records(
        self, csv_records: CsvRecords, texts: CsvTexts
    ) -> tuple[dict[int, str], dict[int, dict[str, str]]]:
        """Return by row the reasons and surplus values of records with odd quotes, or not as many values as names."""
        reasons = dict.fromkeys(np.flatnonzero(texts.odd).tolist(), ODD_QUOTES)
        rescued: dict[int, dict[str, str]] = {}
        if self._names is None:
            return reasons, rescued
        width = len(self._names)
        for row in np.flatnonzero((texts.widths != width) & ~texts.odd).tolist():
            reasons[row] = odd_width(width, texts.widths[row])
            if self._records.rescues and texts.widths[row] > width:
                values = enumerate(csv_records.values(texts.first + row))
                rescued[row] = {column_name(at): _json(value) for at, value in values if at >= width and value}
        return reasons, rescued


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
