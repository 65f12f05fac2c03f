"""Responses to a fetch of one partition, by the topic's name or by its id."""

import struct
from uuid import UUID

from tests.support.bytes.varints import varint
from tidegate.kafka_private import FetchRequest
from tidegate.readers.kafka.fetch import fetched_partitions
from tidegate.readers.kafka.wire.login import decode_response

BY_NAME, BY_ID = 10, 13
ORDERS_ID = UUID(int=7)


def response(version, records=b"records", topic=b"orders", length=None):
    """One with the records of partition 3; ``length``: another one than they have."""
    length = len(records) if length is None else length
    if version == BY_NAME:
        head = struct.pack(">iihiih", 1, 0, 0, 0, 1, len(topic)) + topic
        return head + struct.pack(">iihqqqiqqi", 1, 3, 0, 100, 90, 0, 1, 7, 15, length) + records
    head = struct.pack(">ixihiB", 1, 0, 0, 0, 2) + ORDERS_ID.bytes
    fields = struct.pack(">BihqqqBqqxi", 2, 3, 0, 100, 90, 0, 2, 7, 15, -1)
    return head + fields + varint(length + 1) + records + bytes(3)


def answered(data, version, topic_id=ORDERS_ID):
    """What a response is read as; the request named a topic by its name and this id."""
    request = FetchRequest()
    request.API_VERSION = version
    request.with_header(correlation_id=1, client_id="any")
    return list(fetched_partitions(decode_response(request, memoryview(data)), {"orders": topic_id}))
