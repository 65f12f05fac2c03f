"""Encodes Kafka record batches (magic 2) by NumPy, a whole batch at a time.

The format is that of KIP-98: a header, and records whose numbers are zigzag varints relative to it.  One array has a
row for each record and a column for each possible byte.  A mask marks the real bytes, and a selection by the mask joins
the rows.  That encodes some millions of records a second.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import cramjam
import google_crc32c
import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Column = tuple[Bytes, NDArray[np.bool_]]

# base offset, length, leader epoch, magic, CRC-32C | attributes, last offset delta, first timestamp,
# last timestamp, producer id, producer epoch, first sequence, number of records
BEFORE_CRC = struct.Struct(">qiibI")
AFTER_CRC = struct.Struct(">hiqqqhii")
LENGTH_STARTS_AT = 12
MAGIC = 2
NONE = -1

XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024


def _snappy(records: bytes) -> bytes:
    """Compress as Kafka's Java clients do: blocks of raw Snappy in the framing of snappy-java."""
    blocks = [bytes(cramjam.snappy.compress_raw(records[at : at + XERIAL_BLOCK])) for at in _steps(records)]
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def _steps(records: bytes) -> range:
    return range(0, len(records), XERIAL_BLOCK)


def _lz4(records: bytes) -> bytes:
    """Compress as Kafka's Java clients do: a frame of independent blocks, without a checksum of its content."""
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    compressor.compress(records)
    return bytes(compressor.finish())


# The index of a codec is its number in the attributes of a batch.
CODECS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": lambda records: bytes(cramjam.gzip.compress(records)),
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": lambda records: bytes(cramjam.zstd.compress(records)),
}


def encode_batch(timestamps_ms: NDArray[np.int64], values: Bytes, compression: str) -> bytes:
    """Return one record batch with base offset 0, as a producer sends it.

    timestamps_ms: the event time of each record, in any order.
    values: an array with a row of bytes for each record, whose key is null.
    """
    count = len(timestamps_ms)
    first = timestamps_ms[0]
    body = [
        _constant(count, 0),  # the attributes, which are unused
        _varints(timestamps_ms - first),
        _varints(np.arange(count)),
        _constant(count, 1),  # null has only the length -1
        _varints(np.full(count, values.shape[1])),
        (values, np.ones(values.shape, bool)),
        _constant(count, 0),  # no headers
    ]
    lengths = np.sum([mask.sum(axis=1) for _, mask in body], axis=0)
    columns = [_varints(lengths), *body]
    records = np.hstack([cells for cells, _ in columns])[np.hstack([mask for _, mask in columns])].tobytes()

    attributes = list(CODECS).index(compression)
    checked = AFTER_CRC.pack(attributes, count - 1, first, timestamps_ms.max(), NONE, NONE, NONE, count) + CODECS[
        compression
    ](records)
    length = BEFORE_CRC.size - LENGTH_STARTS_AT + len(checked)
    return BEFORE_CRC.pack(0, length, NONE, MAGIC, google_crc32c.value(checked)) + checked


def _constant(count: int, byte: int) -> Column:
    return np.full((count, 1), byte, np.uint8), np.ones((count, 1), bool)


def _varints(numbers: NDArray[np.int64]) -> Column:
    """Return zigzag varints: seven bits in each byte, the lowest first; the top bit is set if more bytes follow."""
    zigzag = ((numbers << 1) ^ (numbers >> 63)).astype(np.uint64)
    width = max(1, -(-int(zigzag.max()).bit_length() // 7))
    shifted: NDArray[Any] = zigzag[:, None] >> np.arange(0, 7 * (width + 1), 7, dtype=np.uint64)
    more = shifted[:, 1:] != 0
    cells = (shifted[:, :-1] & 0x7F).astype(np.uint8) | (more * np.uint8(0x80))
    mask = shifted[:, :-1] != 0
    mask[:, 0] = True
    return cells, mask
