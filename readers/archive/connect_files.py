"""Reads the files of Kafka Connect's S3 sink: values, keys or headers of records, as lines, Parquet or Avro."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from functools import partial
from typing import Any

from tidegate.alignment.durations import epoch_ms
from tidegate.errors import CorruptDataError
from tidegate.readers.archive.parquet import opened_parquet
from tidegate.readers.avro.container import blocks_of, read_header
from tidegate.readers.avro.records import AvroRecords
from tidegate.readers.decompression import SizeLimit
from tidegate.readers.places.place import Place

_MOST_BYTES = 256 << 20  # of a file that is not Parquet, which is read as a whole
_BOUND = SizeLimit(_MOST_BYTES, "nothing: no record may be so large")
_BATCH_ROWS = 16_384
_EPOCH = date(1970, 1, 1)
_WHOLE = "tidegate_whole"
_MISFITS = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


def items_in(place: Place, path: str, size: int, count: int, column: str) -> Iterator[Any]:
    """Yield what a file holds of each record, as the column has it.

    count: how many records it must have.
    column: ``value``: lines and texts come as they are, and others as JSON; ``key``: so do they, but texts in JSON come
        without quotes; ``headers``.

    Raises CorruptDataError, before the first item if their number is another one, and the errors of
    ``Place.fetch``.
    """
    convert = {"value": _as_bytes, "key": _key, "headers": _headers}[column]
    address = place.address(path)
    if not path.endswith(".parquet") and size > _MOST_BYTES:
        raise CorruptDataError(
            f"the archived object {address} has {size} bytes, and at most {_MOST_BYTES} are read at once; "
            "lower the connector's flush.size"
        )
    with _named(address):
        yield from map(convert, _items(place, path, size, count))


def _items(place: Place, path: str, size: int, count: int) -> Iterator[Any]:
    """Yield the bytes of each line, or what Parquet or Avro holds of each record."""
    if path.endswith(".parquet"):
        with opened_parquet(place, path, size) as (file, _):
            _check(file.metadata.num_rows, count)
            for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
                yield from batch.to_pylist(maps_as_pydicts="lossy")
        return
    data = place.fetch(path, size, 0, size)
    if path.endswith(".avro"):
        yield from _of_avro(data, count)
        return
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    _check(len(lines), count)
    yield from lines


def _of_avro(data: bytes, count: int) -> Iterator[Any]:
    def fetch(start: int, end: int) -> bytes:
        return data[start:end]

    header = read_header(fetch, len(data))
    blocks = partial(blocks_of, fetch, len(data), header, 0, len(data), request_bytes=len(data), bound=_BOUND)
    _check(sum(block.rows for block in blocks()), count)
    # A record of one field has the bytes of the field, which may be no record itself.
    records = AvroRecords({"type": "record", "name": _WHOLE, "fields": [{"name": "it", "type": header.schema}]}, _BOUND)
    for batch in records.batches(blocks(), ["it"]):
        yield from batch.column(0).to_pylist(maps_as_pydicts="lossy")


def _check(found: int, count: int) -> None:
    if found != count:
        raise CorruptDataError(
            f"it holds {found} records, but the next object begins {count} offsets later: compaction or transactions "
            "have left out some, or records are missing, so it does not tell the offset of each record"
        )


@contextmanager
def _named(address: str) -> Iterator[None]:
    try:
        yield
    except CorruptDataError as problem:
        if address in str(problem):
            raise
        raise CorruptDataError(f"the archived object {address} cannot be read: {problem}") from None
    except _MISFITS as problem:
        raise CorruptDataError(f"the archived object {address} has another form than Connect writes") from problem


def _key(item: Any) -> bytes | None:
    if isinstance(item, dict) and item.keys() == {"key"}:  # Parquet has no values but records
        return _as_bytes(item["key"])
    return _as_bytes(json.loads(item) if isinstance(item, bytes) and item.startswith(b'"') else item)


def _headers(item: Any) -> list[dict[str, Any]]:
    found = json.loads(item) if isinstance(item, bytes) else item
    listed = found["headers"] if isinstance(found, dict) else found
    return [{"key": header["key"], "value": _as_bytes(header["value"])} for header in listed]


def _as_bytes(item: Any) -> bytes | None:
    if item is None or isinstance(item, bytes):
        return item
    return item.encode() if isinstance(item, str) else json.dumps(item, default=_plain).encode()


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes, times and dates as Connect's JsonConverter writes them, others as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return epoch_ms(value)
    if isinstance(value, date):
        return (value - _EPOCH).days
    return str(value)  # such as a decimal
