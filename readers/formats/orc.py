"""ORC objects, cut at stripes and read by pyarrow.orc, a stripe at a time.

Values are those of Spark's own reader (OrcUtils, OrcDeserializer), whose Java is in UTC.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds
from pyarrow import orc

from tidegate.errors import CorruptDataError
from tidegate.readers.arrow.arrays import MOST_ROWS
from tidegate.readers.arrow.calendars import gregorian
from tidegate.readers.arrow.conform import retyped, spark_schema
from tidegate.readers.formats.surveys import RowGroup
from tidegate.readers.formats.typed import GroupedObject
from tidegate.readers.objects.file import SIGNATURE_BYTES, Fetch, ObjectFile, other_format
from tidegate.readers.objects.partitions import GivenColumns
from tidegate.readers.objects.values import SMALL_BYTES, TAIL_BYTES, Bucket, S3Object

BLOCK_BYTES = 1 << 20  # pyarrow.orc asks for 128 KiB of a column at once, far less than a request should
HELD_BLOCKS = 64

_ACID = ["operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row"]
_OF_HIVE = re.compile("_col[0-9]+")
_ATTRIBUTE = b"spark.sql.catalyst.type"
# orc_proto.proto: the fields of FileTail and Footer, a CalendarKind, and the wire type of bytes
_FOOTER, _STRIPES, _ENCRYPTION, _CALENDAR = 2, 3, 10, 11
_JULIAN, _DELIMITED = 1, 2


class OrcObject(GroupedObject):
    """An object whose tail was read; ``is_far`` unless all its bytes were fetched with it."""

    def __init__(self, source: ObjectFile, size: int, given: Sequence[str] | None, *, is_far: bool) -> None:
        self._file = orc.ORCFile(pa.PythonFile(source, mode="r"))
        self._source, self._is_far = source, is_far
        footer = _message(_message(self._file.reader.serialized_file_tail()).get(_FOOTER, [b""])[0])
        self._stripes = _stripes(footer, size)
        self.groups, self.size = [*self._stripes], size
        self._is_julian = footer.get(_CALENDAR) == [_JULIAN]
        if _ENCRYPTION in footer:
            raise CorruptDataError("some of its columns are encrypted")
        self._stored = self._file.schema
        if [*map(str.lower, self._stored.names)] == _ACID:
            raise CorruptDataError(
                "it belongs to an ACID table of Hive, whose deleted rows are named in other objects; read a copy of "
                "the table that Hive wrote, such as by INSERT OVERWRITE DIRECTORY"
            )
        names = _names(self._stored.names, given)
        self.fields = [pa.field(name, spark_type(field)) for name, field in zip(names, self._stored, strict=True)]

    def spark_schema(self) -> pa.Schema:
        """See TypedObject.spark_schema."""
        return spark_schema(pa.schema(self.fields))

    def decoded(self, groups: Sequence[RowGroup], places: Sequence[int]) -> Iterator[tuple[RowGroup, pa.RecordBatch]]:
        """See GroupedObject.decoded; the columns are in Spark's types."""
        stored = [self._stored.field(place).name for place in places]
        # To pyarrow.orc, a dot in a name leads into a struct.
        has_dots = any("." in name for name in self._stored.names)
        for index, group in enumerate(groups):
            if self._is_far and len(places) == len(self.fields):
                self._source.hold([(held.start, self._stripes[held]) for held in groups[index : index + 2]])
            stripe = self._file.read_stripe(group.number, None if has_dots else stored)
            columns = [stripe.column(stripe.schema.get_field_index(name)) for name in stored]
            fields = [self.fields[place] for place in places]
            arrays = [self._as_spark(column, field.type) for column, field in zip(columns, fields, strict=True)]
            rows = pa.RecordBatch.from_arrays(arrays, [field.name for field in fields])
            for at in range(0, group.rows, MOST_ROWS):
                yield group, rows.slice(at, MOST_ROWS)

    def _as_spark(self, values: pa.Array, wanted: pa.DataType) -> pa.Array:
        values = values if values.type == wanted else retyped(values, wanted)
        return gregorian(values, kinds.is_date) if self._is_julian else values


@contextmanager
def opened_orc(
    store: Bucket, obj: S3Object, *, whole: bool = False, columns: GivenColumns | None = None
) -> Iterator[OrcObject]:
    """Open an object; see OpenObject.

    columns: the columns of the user's schema, which name those of an object of Hive that has ``_col0`` and so on.
    """
    failures: list[Exception] = []
    given = None if columns is None else columns.of(obj.key)
    start = 0 if whole else max(0, obj.size - TAIL_BYTES)
    tail = store.fetch(obj, start, obj.size)

    def fetch(begin: int, end: int) -> bytes:
        try:
            if begin >= start:
                return tail[begin - start : end - start]
            return (whole_ranges if end - begin >= BLOCK_BYTES else blocks)(begin, end)
        except Exception as problem:
            failures.append(problem)
            raise

    whole_ranges: Fetch = functools.partial(store.fetch, obj)
    blocks = _in_blocks(whole_ranges, start)
    try:
        with closing(ObjectFile(obj.size, fetch, SMALL_BYTES)) as source:
            yield _opened(source, obj.size, given, is_far=start > 0)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        if failures:  # the ORC library keeps only the text of an error of ``fetch``
            raise failures[0] from None
        raise


def _opened(source: ObjectFile, size: int, given: Sequence[str] | None, *, is_far: bool) -> OrcObject:
    try:
        return OrcObject(source, size, given, is_far=is_far)
    except (pa.ArrowException, OSError):
        source.seek(0)
        if other := other_format(source.read(SIGNATURE_BYTES)):
            raise CorruptDataError(f"it does not end as ORC does{other}") from None
        raise


def _in_blocks(fetch: Fetch, end: int) -> Fetch:
    """Return a function that fetches whole blocks of the bytes before ``end``, and keeps the last ones."""

    @functools.lru_cache(HELD_BLOCKS)
    def block(number: int) -> bytes:
        return fetch(number * BLOCK_BYTES, min((number + 1) * BLOCK_BYTES, end))

    def fetched(start: int, stop: int) -> bytes:
        first = start // BLOCK_BYTES
        blocks = b"".join(map(block, range(first, -(-min(stop, end) // BLOCK_BYTES))))
        remainder = fetch(end, stop) if stop > end else b""
        return blocks[start - first * BLOCK_BYTES : stop - first * BLOCK_BYTES] + remainder

    return fetched


def _names(stored: Sequence[str], given: Sequence[str] | None) -> list[str]:
    """Return the names of columns: those of Hive, which has none, are given by position (OrcUtils)."""
    if given is None or not all(map(_OF_HIVE.fullmatch, stored)) or any(map(_OF_HIVE.fullmatch, given)):
        return [*stored]
    return [*given[: len(stored)], *stored[len(given) :]]


def spark_type(field: pa.Field) -> pa.DataType:
    """Return Spark's type of a field: a timestamp is an instant, and a TimestampNTZ is stored as a number."""
    kind = field.type
    if kinds.is_struct(kind):
        return pa.struct([_as_spark(child) for child in kind])
    if kinds.is_map(kind):
        return pa.map_(_as_spark(kind.key_field), _as_spark(kind.item_field))
    if kinds.is_list(kind):
        return pa.list_(_as_spark(kind.value_field))
    if kinds.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC")
    is_local = kinds.is_int64(kind) and (field.metadata or {}).get(_ATTRIBUTE) == b"timestamp_ntz"
    return pa.timestamp("us") if is_local else kind


def _as_spark(field: pa.Field) -> pa.Field:
    return pa.field(field.name, spark_type(field), field.nullable)


def _stripes(footer: dict[int, list[Any]], size: int) -> dict[RowGroup, int]:
    """Return the stripes with rows, which pyarrow.orc shows only in the serialized tail, each with its end."""
    stripes: dict[RowGroup, int] = {}
    at = 0
    for number, stored in enumerate(map(_message, footer.get(_STRIPES, ()))):
        start, index, data, end, rows = (stored.get(field, [0])[0] for field in range(1, 6))
        if start < at or start + index + data + end > size:
            raise CorruptDataError(f"its footer names stripes beyond its {size} bytes")
        at = start + index + data + end
        if rows:
            stripes[RowGroup(number, start, rows)] = at
    return stripes


def _message(data: bytes) -> dict[int, list[Any]]:
    """Return the fields of a message of Protocol Buffers, by number: integers, and bytes.

    Raises CorruptDataError for other bytes.
    """
    fields: dict[int, list[Any]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    try:
        while at < len(data):
            key = varint()
            value: Any = varint()
            if key & 7 == _DELIMITED:
                value, at = data[at : at + value], at + value
            elif key & 7:
                raise CorruptDataError("its tail has a field of a type that ORC has not")
            fields.setdefault(key >> 3, []).append(value)
    except IndexError:
        raise CorruptDataError("its tail is broken") from None
    return fields
