"""Converts JSON objects to Arrow batches of a schema: the lines of a text, or a column of texts.

Most are read a block at once, by a compiled loop.  What it leaves is read by pyarrow.json, but for maps, and what that
cannot read, or would not read as Spark does, is read one by one.  The values are the same in any case.
"""

from __future__ import annotations

import functools
import re
import resource
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json

from tidegate.errors import BadRecordError
from tidegate.readers.arrow import compute as pc
from tidegate.readers.arrow.arrays import BATCH_BYTES, ends_of, null_bytes, one_text, within_bounds
from tidegate.readers.arrow.conform import MOST_DIGITS, batch_of, mask_of, with_leaves
from tidegate.readers.arrow.ddl import ddl_of
from tidegate.readers.arrow.text_values import LONG_FRACTION, timestamps
from tidegate.readers.formats.bad_records import ChunkRecords, OddRecord
from tidegate.readers.formats.json_values import (
    MalformedError,
    MisfitError,
    binary_of,
    json_object,
    json_text,
    record_converter,
)
from tidegate.readers.formats.lines import LineBlock, lines_of

if TYPE_CHECKING:
    from tidegate.readers.formats.json_columns import JsonColumns
    from tidegate.readers.formats.json_loop import Ints

_CAREFUL_BYTES = 64 << 10
_bytes_left = 64 << 20  # what pyarrow.json reads in about the time in which Numba and the loops load
_SLOWER = 16  # are maps without the loop, because pyarrow.json has none

# The number must be a whole value, perhaps in quotes or with escapes.  An identifier may also contain 1e-20.
# What has more than so many digits before the point, Arrow reads as another number.
_LONG_FRACTION = (
    rf"""(?:{LONG_FRACTION})[0-9]*[\s,}}\]"eE]|\\u00(?:2[dDeE]|3[0-9]|[46]5)""".encode()
    + rb"""|[:\[,\s"][+-]?(?:0*[1-9][0-9]{%d}|[0-9.]+[eE][+]?0*[1-9])|[0-9.]{39}"""
)
_NO_NUMBER = re.compile(rb"Inf\s*[,}\]]|-NaN")  # pyarrow.json reads both as numbers
_NEWLINE, _RETURN, _OPENING, _CLOSING = b"\n\r{}"
_NOTHING, _LINE_END = one_text(b""), one_text(b"\n")


class JsonLines:
    """Makes batches of the columns of a schema from lines.

    surplus: report values that are in no column of the schema, for the rescued-data column.

    Raises OptionError for a type that JSON cannot be read as.
    """

    def __init__(self, schema: pa.Schema, *, surplus: bool = False) -> None:
        # Fields are nullable here, because ChunkRecords checks for nulls once the batch is complete.
        self._fields = [pa.field(field.name, with_leaves(field.type, lambda leaf: leaf)) for field in schema]
        self._convert = record_converter(schema, surplus=surplus)
        self._row_bytes = sum(null_bytes(field.type) for field in self._fields)
        self._surplus = surplus
        raw = [(field.name, _raw(field.type)) for field in self._fields]
        scale = max((_largest_scale(field.type) for field in self._fields), default=-1)
        self._too_long = re.compile(_LONG_FRACTION % (MOST_DIGITS - scale)) if scale >= 0 else None
        self._raw = None if any(kind is None for _, kind in raw) else pa.schema(raw)
        self._has_map = any(_has_map(field.type) for field in self._fields)

    @cached_property
    def _columns(self) -> JsonColumns | None:
        from tidegate.readers.formats.json_columns import JsonColumns

        return None if self._raw is None else JsonColumns.of(self._raw, strict=self._surplus)

    def batches(self, records: ChunkRecords, block: LineBlock) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a block, in order; no batch is larger than BATCH_BYTES unless it has a single row."""
        for part in self._parts(block):
            for batch in self._rows(records, part):
                if batch.num_rows:
                    yield from within_bounds(batch)

    def plain_batches(self, records: ChunkRecords, data: bytes) -> list[pa.RecordBatch] | None:
        """Return the rows of whole lines as ``batches`` yields them; None: some lines have to be read one by one."""
        batches: list[pa.RecordBatch] = []
        for part in self._parts(LineBlock(0, data)):
            batch = self._plain(part)
            if batch is None:
                return None
            try:
                batches += within_bounds(records.batch(batch))
            except BadRecordError:
                return None
        return batches

    def rows_of(self, texts: pa.BinaryArray) -> tuple[pa.RecordBatch, dict[int, OddRecord]]:
        """Return a row for each of some texts, which may have several lines, and the odd ones by row.

        texts: not null, and not blank.
        """
        batch = self._quick_texts(texts)
        if batch is None:
            texts = pc.ascii_trim(texts.view(pa.string()), characters=" \t\r\n").view(pa.binary())
            batch = self._quick_texts(texts)
        if batch is not None:
            return batch, {}
        if self._raw is None or len(texts) == 1 or _size(texts) <= _CAREFUL_BYTES:
            return self._one_by_one(enumerate(texts.to_pylist()))
        # One odd text must not slow down all the others.
        batches: list[pa.RecordBatch] = []
        odd: dict[int, OddRecord] = {}
        step = max(1, len(texts) * _CAREFUL_BYTES // _size(texts))
        for start in range(0, len(texts), step):
            some = texts.slice(start, step)
            quick = self._quick_texts(some)
            batch, found = (quick, {}) if quick is not None else self._one_by_one(enumerate(some.to_pylist()))
            batches.append(batch)
            odd |= {start + row: record for row, record in found.items()}
        return pa.Table.from_batches(batches).combine_chunks().to_batches()[0], odd

    def _quick_texts(self, texts: pa.BinaryArray) -> pa.RecordBatch | None:
        """Return a row for each text, read as whole columns; None: some have to be read one by one."""
        data, ends = _bytes_of(texts)
        batch = self._looped(data, ends)
        if batch is not None or self._has_map:
            return batch
        # The last line end keeps pyarrow.json from taking what follows an inner one for another block.
        data, ends = _bytes_of(pc.binary_join_element_wise(texts, _NOTHING, _LINE_END))
        return self._by_arrow(data, _framed(data, ends - 1))

    def _quick(self, data: bytes) -> pa.RecordBatch | None:
        """Return a row for each line, read as whole columns; None: some have to be read one by one."""
        ends = _line_ends(data)
        batch = self._looped(data, ends)
        return batch if batch is not None or self._has_map else self._by_arrow(data, _framed(data, ends))

    def _parts(self, block: LineBlock) -> Iterator[LineBlock]:
        # Very short lines may lack all columns.  Then the rows take more bytes than the text.
        rows = int(np.count_nonzero(np.frombuffer(block.data, np.uint8) == _NEWLINE)) + 1
        return _parts(block, 1 + (rows * self._row_bytes + len(block.data)) // BATCH_BYTES)

    def _rows(self, records: ChunkRecords, block: LineBlock) -> Iterator[pa.RecordBatch]:
        batch = self._plain(block)
        if batch is not None:
            yield records.batch(batch)
        elif self._raw is not None and len(block.data) > _CAREFUL_BYTES:
            # One odd line must not slow down all the others.
            for part in _parts(block, 1 + len(block.data) // _CAREFUL_BYTES):
                quick = self._quick(part.data)
                yield self._careful(records, part) if quick is None else records.batch(quick)
        else:
            yield self._careful(records, block)

    def _plain(self, block: LineBlock) -> pa.RecordBatch | None:
        batch = self._quick(block.data)
        if batch is not None:
            return batch
        # Perhaps only blank lines, or blanks around lines, hindered the quick way.
        return self._quick(b"\n".join(line for _, line in lines_of(block)))

    def _looped(self, data: bytes, ends: Ints) -> pa.RecordBatch | None:
        """Return a row for each text that ends at some place, read by the loop; None: it does not read them all."""
        size = len(data) * (_SLOWER if self._has_map else 1)
        if not len(ends) or not _is_worth_the_loop(size) or self._columns is None or not _is_utf8(data):
            return None
        try:
            columns = self._columns.read(data, ends)
            return None if columns is None else self._batch(columns, len(ends))
        except pa.ArrowInvalid:
            return None

    def _by_arrow(self, data: bytes, rows: int) -> pa.RecordBatch | None:
        """Return so many rows without maps, read by pyarrow.json; None: some objects have to be read one by one.

        rows: how many objects the data has, each on lines of its own; see ``_framed``.
        """
        if not rows or self._raw is None or (self._too_long and self._too_long.search(data)) or not _is_utf8(data):
            return None
        # One byte is found fifty times as fast as three.
        if ((b"I" in data and b"Inf" in data) or (b"N" in data and b"-NaN" in data)) and _NO_NUMBER.search(data):
            return None
        try:
            table = self._table(data, self._raw)
            if table.num_rows != rows:
                return None
            batch = self._batch([column.combine_chunks() for column in table.columns], rows)
            batch.validate(full=True)  # pyarrow.json reads 10000 as a decimal(6, 2), which it does not fit
        except pa.ArrowInvalid:
            return None
        return batch

    def _batch(self, raw: list[pa.Array], rows: int) -> pa.RecordBatch:
        """Return raw columns as rows; raises ArrowInvalid for a text that does not fit."""
        arrays = [_parsed(column, field.type) for column, field in zip(raw, self._fields, strict=True)]
        return batch_of(arrays, pa.schema(self._fields), rows)

    def _table(self, data: bytes, raw: pa.Schema) -> pa.Table:
        return arrow_json.read_json(
            pa.BufferReader(data),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=raw, unexpected_field_behavior="error" if self._surplus else "ignore"
            ),
        )

    def _careful(self, records: ChunkRecords, block: LineBlock) -> pa.RecordBatch:
        """Return the rows, read line by line; raises BadRecordError for the first bad line that ends the query."""
        return records.batch(*self._one_by_one(lines_of(block)))

    def _one_by_one(self, texts: Iterable[tuple[int, bytes]]) -> tuple[pa.RecordBatch, dict[int, OddRecord]]:
        """Return a row for each text, and the odd ones by row; each text comes with what names it."""
        rows: list[dict[str, object]] = []
        odd: dict[int, OddRecord] = {}
        for offset, text in texts:
            try:
                row = self._convert(json_object(text))
            except MalformedError as problem:
                row = {}
                odd[len(rows)] = OddRecord(offset, text, str(problem), malformed=True)
            except MisfitError as misfit:
                row = misfit.partial
                rescued = (
                    {name: json_text(misfits) for name, misfits in misfit.misfits.items()} if self._surplus else None
                )
                odd[len(rows)] = OddRecord(offset, text, self._reason(misfit), rescued)
            rows.append(row)
        return pa.RecordBatch.from_struct_array(pa.array(rows, pa.struct(self._fields))), odd

    def _reason(self, misfit: MisfitError) -> str | None:
        """Return the column that a line does not fit, as the reason of an error; None: the line only has surplus."""
        bad = next((field for field in self._fields if field.name in misfit.misfits), None)
        return bad and f"has no {ddl_of(bad.type)} in {bad.name!r}"


@functools.lru_cache(maxsize=8)
def lines_into(schema: pa.Schema, *, surplus: bool) -> JsonLines:
    """Return the JsonLines of a schema; a new one takes longer to make than a small object to read."""
    return JsonLines(schema, surplus=surplus)


def _is_worth_the_loop(size: int) -> bool:
    """Return whether this process has read so many bytes, with these, that it need not care how long loops load.

    They take 200 MB of address space.  Where that is limited (spark.executor.pyspark.memory), little may be left.
    """
    global _bytes_left  # noqa: PLW0603 - the loops are loaded once per process
    _bytes_left -= size
    is_free = resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    return (_bytes_left < 0 and is_free) or "numba" in sys.modules


def _bytes_of(texts: pa.BinaryArray) -> tuple[bytes, Ints]:
    """Return the bytes of some texts behind each other, and where each ends."""
    ends = ends_of(texts)
    return texts.buffers()[2].slice(ends[0], ends[-1] - ends[0]).to_pybytes(), ends[1:] - ends[0]


def _line_ends(data: bytes) -> Ints:
    """Return where each line ends, before its line end."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE).astype(np.int32)
    return ends if data.endswith(b"\n") or not data else np.append(ends, np.int32(len(data)))


def _framed(data: bytes, ends: Ints) -> int:
    """Return the number of lines if each begins with ``{`` and ends with ``}``, else 0.

    ends: where each ends, before its line end.

    pyarrow.json also takes several values in a line, or one value in several lines.  But in JSON, a comma stands
    between ``}`` and ``{``, so no value goes on after a line that ends with ``}``.  Then as many rows as lines mean
    one row a line.  pyarrow.json crashes if the first value is null (apache/arrow#47409).
    """
    text = np.frombuffer(data, np.uint8)
    begins = np.concatenate(([0], ends[:-1] + 1))
    # A blank line has no ``{``.  If the first line is blank, index -1 is the last byte of the text, which is harmless.
    if not len(text) or (text[begins] != _OPENING).any():
        return 0
    last = text[ends - 1]
    last = np.where(last == _RETURN, text[ends - 2], last)
    return 0 if (last != _CLOSING).any() else len(ends)


def _parts(block: LineBlock, count: int) -> Iterator[LineBlock]:
    """Cut a block into about ``count`` parts of whole lines and of about equal size."""
    offset, data = block
    begin = 0
    for number in range(1, count + 1):
        target = max(len(data) * number // count - 1, begin)
        end = len(data) if number == count else data.find(b"\n", target) + 1 or len(data)
        if end > begin:
            yield LineBlock(offset + begin, data[begin:end] if count > 1 else data)
            begin = end


def _size(texts: pa.BinaryArray) -> int:
    """Return the bytes that some texts have together."""
    return int(pc.sum(pc.binary_length(texts)).as_py())


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    ends = pa.py_buffer(len(data).to_bytes(4, "little").rjust(8, b"\0"))
    try:
        pa.StringArray.from_buffers(1, ends, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _has_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_has_map(kind.field(number).type) for number in range(kind.num_fields))


def _largest_scale(kind: pa.DataType) -> int:
    """Return the largest scale of decimals in a type; -1: it has none."""
    inner = [_largest_scale(kind.field(number).type) for number in range(kind.num_fields)]
    return int(kind.scale) if pa.types.is_decimal(kind) else max(inner, default=-1)


def _raw(kind: pa.DataType) -> pa.DataType | None:
    """Return the type in which a column of ``kind`` is read at once; None: it is read one by one."""
    if pa.types.is_struct(kind):
        raw = [(field.name, _raw(field.type)) for field in kind]
        return None if any(inner is None for _, inner in raw) else pa.struct(raw)
    if pa.types.is_list(kind):
        inner = _raw(kind.value_type)
        return None if inner is None else pa.list_(pa.field(kind.value_field.name, inner))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_binary(kind):
        return pa.string()
    if pa.types.is_map(kind):
        inner = _raw(kind.item_type)
        return None if inner is None else pa.map_(kind.key_field, pa.field(kind.item_field.name, inner))
    # Spark reads any value of a null column as null, and Arrow refuses all values.
    return None if pa.types.is_null(kind) else kind


def _parsed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert a column from its raw type to ``kind``; raises ArrowInvalid for a text that does not fit."""
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        inner = [_parsed(column.field(number), field.type) for number, field in enumerate(kind)]
        # A mask without nulls in a map ends the process with pyarrow 25.
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=mask_of(column))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        inner = _parsed(column.values, kind.field(0).type)
        return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], offset=column.offset, children=[inner])
    if pa.types.is_timestamp(kind):
        return timestamps(column, kind)
    if pa.types.is_binary(kind):
        try:
            return pa.array([None if text is None else binary_of(text) for text in column.to_pylist()], kind)
        except MisfitError as error:
            raise pa.ArrowInvalid("not Base64") from error
    return column.cast(kind)
