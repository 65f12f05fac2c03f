"""Kafka's message formats 0 and 1, as producers and brokers before 0.11 wrote them; encoded by kafka-python."""

import struct
import zlib
from typing import NamedTuple

from kafka.record.legacy_records import LegacyRecordBatchBuilder

from tidegate.servers.batches import CODECS

LOG_APPEND_TIME = 0x08


class Message(NamedTuple):
    timestamp: int = 1_000
    key: bytes | None = None
    value: bytes | None = b"v"


def sealed(message, offset, attributes):
    """The message with another offset and other attributes, and a checksum that fits."""
    checked = message[16:17] + bytes([attributes]) + message[18:]
    return struct.pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


def plain(magic, offset, message, *, stamped=False):
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 30)
    builder.append(offset, message.timestamp, message.key, message.value)
    return sealed(bytes(builder.build()), offset, LOG_APPEND_TIME * stamped)


def wrapper(
    magic,
    messages,
    codec,
    *,
    offset=None,
    stamped_ms=None,
):
    """Messages in one block; in format 1 their offsets count from the first one, and the wrapper's is the last one's.

    offset: of the wrapper, if it is another.
    stamped_ms: the time that the broker gave it.
    """
    messages = list(messages)
    first = messages[0][0] if magic else 0
    block = CODECS[codec](b"".join(plain(magic, at - first, message) for at, message in messages))
    whole = plain(magic, 0, Message(messages[0][1].timestamp if stamped_ms is None else stamped_ms, None, block))
    attributes = [*CODECS].index(codec) | LOG_APPEND_TIME * (stamped_ms is not None)
    return sealed(whole, messages[-1][0] if offset is None else offset, attributes)


def row(topic, partition, magic, offset, message, stamped_ms=None):
    """Return the row that Spark's own source makes of it."""
    timestamp = message.timestamp if stamped_ms is None else stamped_ms
    return {
        "key": message.key,
        "value": message.value,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp if magic else -1,
        "timestampType": (0 if stamped_ms is None else 1) if magic else -1,
        "headers": None,
    }
