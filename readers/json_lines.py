"""Lines of JSON as Arrow batches of a schema.

pyarrow.json reads most lines, a block at once.  What it cannot read as Spark does, or would read
wrongly, is taken line by line, to the same values.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json

from tidegate.errors import CorruptDataError
from tidegate.readers.conform import conform
from tidegate.readers.json_values import MisfitError, binary_of, converter_of, json_object
from tidegate.readers.line_ranges import LineBlock, lines_of

__all__ = ["BATCH_BYTES", "JsonLines"]

BATCH_BYTES = 16 << 20
_CAREFUL_BYTES = 64 << 10
_NEWLINE, _RETURN, _OPENING, _CLOSING = b"\n\r{}"


class JsonLines:
    """Makes batches of a schema from lines.

    Raises OptionError for a type that JSON cannot be read as.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        # Whether a field may be null is for conform to judge, once it is read.
        self._fields = [pa.field(field.name, _nullable(field.type)) for field in schema]
        self._converts = [converter_of(field.name, field.type) for field in self._fields]
        self._row_bytes = sum(_width(field.type) for field in self._fields)
        raw = [(field.name, _raw(field.type)) for field in self._fields]
        self._raw = None if any(kind is None for _, kind in raw) else pa.schema(raw)

    def batches(self, name: str, block: LineBlock) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a block, in order; no batch is larger than BATCH_BYTES but one of a single row.

        name: of the object, for errors.
        """
        # As if all columns were missing: then next to no text makes many bytes.
        rows = block.data.count(b"\n") + 1
        for part in _parts(block, 1 + (rows * self._row_bytes + len(block.data)) // BATCH_BYTES):
            for batch in self._rows(name, part):
                if batch.num_rows:
                    same = batch.schema.equals(self._schema)
                    yield from _bounded(batch if same else conform(batch, self._schema))

    def _rows(self, name: str, block: LineBlock) -> Iterator[pa.RecordBatch]:
        batch = self._quick(block.data)
        if batch is None:
            # Perhaps there are only blank lines, or blanks around.
            batch = self._quick(b"\n".join(line for _, line in lines_of(block)))
        if batch is not None:
            yield batch
        elif self._raw is not None and len(block.data) > _CAREFUL_BYTES:
            # One odd line is not to slow down all the others.
            for part in _parts(block, 1 + len(block.data) // _CAREFUL_BYTES):
                quick = self._quick(part.data)
                yield self._careful(name, part) if quick is None else quick
        else:
            yield self._careful(name, block)

    def _quick(self, data: bytes) -> pa.RecordBatch | None:
        """Return the rows as pyarrow.json reads them; None: it cannot, or might not read one row a line."""
        lines = _objects(data)
        if self._raw is None or not lines or not _is_utf8(data):
            return None
        try:
            table = arrow_json.read_json(
                pa.BufferReader(data),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=arrow_json.ParseOptions(explicit_schema=self._raw, unexpected_field_behavior="ignore"),
            )
            if table.num_rows != lines:
                return None
            columns = [column.combine_chunks() for column in table.columns]
            arrays = [_parsed(column, field.type) for column, field in zip(columns, self._fields, strict=True)]
            batch = self._batch_of(arrays, lines)
            batch.validate(full=True)  # to pyarrow.json, 10000 is a decimal(6, 2)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        return batch

    def _careful(self, name: str, block: LineBlock) -> pa.RecordBatch:
        """Return the rows, read line by line; raises CorruptDataError for the first line that is amiss."""
        columns: list[list[object]] = [[] for _ in self._fields]
        convert_into = [*zip(self._fields, self._converts, columns, strict=True)]
        rows = 0
        for offset, line in lines_of(block):
            record = json_object(name, offset, line)
            rows += 1
            for field, convert, column in convert_into:
                value = record.get(field.name)
                try:
                    column.append(None if value is None else convert(value))
                except MisfitError:
                    raise CorruptDataError(
                        f"{name}: the line at byte {offset} has no {field.type} in {field.name!r}"
                    ) from None
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._fields, strict=True)]
        return self._batch_of(arrays, rows)

    def _batch_of(self, arrays: list[pa.Array], rows: int) -> pa.RecordBatch:
        if not arrays:
            # Only so do rows without columns keep their number.
            return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(self._fields))


def _objects(data: bytes) -> int:
    """Return the number of lines if each begins with ``{`` and ends with ``}``, else 0.

    Between ``}`` and ``{`` JSON has a comma, so then no value goes on in the next line, and as many
    rows as lines mean one a line: pyarrow.json also takes several values in a line, and one in
    several lines.  It crashes where the first value is null (apache/arrow#47409).
    """
    text = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(text == _NEWLINE)
    begins = np.concatenate(([0], breaks + 1))
    ends = np.concatenate((breaks, [len(data)]))
    if data.endswith(b"\n"):
        begins, ends = begins[:-1], ends[:-1]
    # A blank line has neither; of one at the very beginning, the last byte of all is looked at.
    if not data or (text[begins] != _OPENING).any():
        return 0
    last = text[ends - 1]
    last = np.where(last == _RETURN, text[ends - 2], last)
    return 0 if (last != _CLOSING).any() else len(begins)


def _parts(block: LineBlock, count: int) -> Iterator[LineBlock]:
    """Cut a block into parts of whole lines, about ``count`` and about equal."""
    offset, data = block
    begin = 0
    for number in range(1, count + 1):
        target = max(len(data) * number // count - 1, begin)
        end = len(data) if number == count else data.find(b"\n", target) + 1 or len(data)
        if end > begin:
            yield LineBlock(offset + begin, data[begin:end] if count > 1 else data)
            begin = end


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    ends = pa.py_buffer(len(data).to_bytes(4, "little").rjust(8, b"\0"))
    try:
        pa.StringArray.from_buffers(1, ends, pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows > 1 and batch.nbytes > BATCH_BYTES:
        half = batch.num_rows // 2
        yield from _bounded(batch.slice(0, half))
        yield from _bounded(batch.slice(half))
    else:
        yield batch


def _nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _nullable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _nullable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, pa.field(kind.item_field.name, _nullable(kind.item_type)))
    return kind


def _width(kind: pa.DataType) -> int:
    """Return how many bytes a null takes."""
    if pa.types.is_struct(kind):
        return 1 + sum(_width(field.type) for field in kind)
    return 1 + (kind.bit_width // 8 if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) else 4)


def _raw(kind: pa.DataType) -> pa.DataType | None:
    """Return the type as which pyarrow.json is to read what becomes one of ``kind``; None: it cannot."""
    if pa.types.is_struct(kind):
        raw = [(field.name, _raw(field.type)) for field in kind]
        return None if any(inner is None for _, inner in raw) else pa.struct(raw)
    if pa.types.is_list(kind):
        inner = _raw(kind.value_type)
        return inner and pa.list_(pa.field(kind.value_field.name, inner))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_binary(kind):
        return pa.string()
    # Any value is no null to Arrow, and to Spark it is.
    return None if pa.types.is_map(kind) or pa.types.is_null(kind) else kind


def _parsed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of the type's raw type as one of the type; raises ArrowInvalid where a text is none."""
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        inner = [_parsed(column.field(number), field.type) for number, field in enumerate(kind)]
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=column.is_null())
    if pa.types.is_list(kind):
        values = _parsed(column.values, kind.value_type)
        return pa.ListArray.from_arrays(column.offsets, values, kind, mask=column.is_null())
    if pa.types.is_timestamp(kind):
        return _timestamps(column, kind)
    if pa.types.is_binary(kind):
        try:
            return pa.array([None if text is None else binary_of(text) for text in column.to_pylist()], kind)
        except MisfitError as error:
            raise pa.ArrowInvalid("not Base64") from error
    return column.cast(kind)


def _timestamps(texts: pa.StringArray, kind: pa.DataType) -> pa.Array:
    """Parse ISO 8601, without a zone in UTC; raises ArrowInvalid for anything else, and where only some have a zone."""
    zones = [None] if kind.tz is None else ["UTC", None]
    for unit in ("us", "ns"):
        for zone in zones:
            try:
                times = texts.cast(pa.timestamp(unit, zone))
            except pa.ArrowInvalid:
                continue
            if unit == "ns":
                numbers = times.view(pa.int64())
                # NumPy rounds down, where Arrow's division rounds towards zero.
                whole = numbers.fill_null(0).to_numpy() // 1000
                times = pa.array(whole, mask=numbers.is_null().to_numpy(zero_copy_only=False)).view(pa.timestamp("us"))
            return times.view(pa.int64()).view(pa.timestamp("us", kind.tz)).cast(kind)
    raise pa.ArrowInvalid("these are not all times, or some have a zone and some have none")
