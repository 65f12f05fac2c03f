"""The bytes of a record within a batch of message format 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tidegate.kafka_private import encode_varint

__all__ = ["Headers", "append_record"]

Bytes: TypeAlias = bytes | memoryview
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


def append_record(
    body: bytearray, offset_delta: int, delta_ms: int, key: Bytes | None, value: Bytes | None, headers: Headers = ()
) -> None:
    """Append a record to the body of a batch.

    offset_delta, delta_ms: its offset and its timestamp, relative to the batch's first record.
    """
    record = bytearray(1)  # the attributes, all unused
    encode_varint(delta_ms, record.append)
    encode_varint(offset_delta, record.append)
    _append_field(record, key)
    _append_field(record, value)
    encode_varint(len(headers), record.append)
    for name, header_value in headers:
        _append_field(record, name.encode(errors="surrogateescape"))
        _append_field(record, header_value)
    encode_varint(len(record), body.append)
    body += record


def _append_field(record: bytearray, data: Bytes | None) -> None:
    if data is None:
        encode_varint(-1, record.append)
    else:
        encode_varint(len(data), record.append)
        record += data
