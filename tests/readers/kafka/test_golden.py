"""The reader, compared with kafka-python's consumer in every field of every record, compressed or not."""

import random
from itertools import pairwise

import pytest

from tests.support.kafka.lab import Record, encode, rows

CORNERS = [
    Record(0, None, None),
    Record(1, b"", b""),
    Record(-1, b"k", None),
    Record(1_700_000_000_000, None, b"v"),
    Record(5, b"\x00\xff", b"\xff" * 300, [("one", b"1")]),
    Record(6, b"k", b"v", [("a", None), ("b", b""), ("", b"c"), ("ü", b"\x00" * 200)]),
    Record(7, b"k" * 200, b"v" * 20_000, [("again", b"1"), ("again", b"2")]),
]


@pytest.mark.parametrize("codec", ["none", "gzip"])  # the consumer decompresses no other without more packages
def test_every_field_is_what_the_consumer_reads(lab, codec):
    topic = lab.new_topic()
    some = random.Random(codec)
    for _ in range(30):
        lab.append(topic, encode(some.choices(CORNERS, k=some.randrange(1, 40)), codec))
    end = lab.end(topic)

    expected = lab.consume(topic, 0, end)
    assert lab.read(topic, 0, end) == expected
    assert [row["offset"] for row in expected] == list(range(end))

    cuts = [0, *sorted(some.sample(range(end), 6)), end]
    pieces = [lab.read(topic, start, stop) for start, stop in pairwise(cuts)]
    assert [row for piece in pieces for row in piece] == expected


def test_the_broker_may_stamp_the_time(lab):
    topic = lab.new_topic(message_timestamp_type="LogAppendTime")
    lab.append(topic, encode(CORNERS), encode(CORNERS, "gzip"))
    end = lab.end(topic)
    expected = lab.consume(topic, 0, end)
    assert lab.read(topic, 0, end) == expected
    assert {row["timestampType"] for row in expected} == {1}


def test_values_may_exceed_every_limit(lab):
    topic = lab.new_topic(max_message_bytes="10000000")
    sizes = [10, 3_000_000, 20, 200_000, 30]
    for size in sizes:
        lab.append(topic, encode([Record(value=bytes([size % 251]) * size, headers=[("h" * 1000, b"x" * 1000)])]))
    config = lab.config(fetch_max_bytes=1000, max_partition_fetch_bytes=1000)
    batches = [*lab.batches(topic, 0, len(sizes), config=config, include_headers=True, max_batch_bytes=10_000)]
    assert rows(batches) == lab.consume(topic, 0, len(sizes))
    assert [batch.num_rows for batch in batches] == [1] * len(sizes)
