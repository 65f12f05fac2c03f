"""Record batches as bytes, and message formats 0 and 1, as bytes and from a broker that still has them."""

import gzip
import itertools
import struct

import pytest

from tests.readers.kafka.test_decoder import decode
from tests.support.kafka.lab import Message, Record, encode, plain, row, sealed, wrapper
from tidegate.errors import CorruptDataError
from tidegate.readers.kafka import batches as kafka_batches
from tidegate.readers.kafka.batches import split_batches, visible_batches
from tidegate.readers.kafka.client import KafkaClient
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.peek import peek
from tidegate.readers.kafka.reader import KafkaDetails

ORDERS = TopicPartition("orders", 3)
COMPRESSED = [["gzip", "snappy"], ["gzip", "snappy", "lz4"]]  # by format


def test_one_short_message_is_a_row():
    data = plain(1, 0, Message())
    assert len(data) < kafka_batches.HEADER.size
    assert decode(split_batches(memoryview(data))) == [row(*ORDERS, 1, 0, Message())]
    assert split_batches(memoryview(data[:-1])) == []


def test_a_wrapper_without_an_offset_counts_from_zero():
    some = [(0, Message(value=b"a")), (1, Message(value=b"b"))]
    (batch,) = split_batches(memoryview(wrapper(1, some, "gzip", offset=0)))
    assert [message["offset"] for message in decode([batch])] == [0, 1]
    assert batch.last_offset == 1


LAST = [(offset, Message()) for offset in range(5)]


WITHOUT_END = gzip.compress(struct.pack(">qiIbbqii", 0, -12, 0, 1, 0, 0, -1, -1), mtime=0)  # it ends where it begins
TOO_LARGE = "the message at offset 5 has a timestamp too large for Spark; its producer may write nanoseconds where"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (sealed(plain(1, 7, Message()), 7, 5), "the message at offset 7 has an impossible field"),
        (sealed(plain(0, 7, Message(value=None)), 7, 1), "the message at offset 7 has an impossible field"),
        (sealed(plain(1, 7, Message()), 7, 1), "the block of messages up to offset 7 cannot be decompressed by gzip"),
        (sealed(plain(1, 7, Message(value=WITHOUT_END)), 7, 1), "the message at offset 7 has an impossible field"),
        (sealed(plain(1, 7, Message(value=b"abc"))[:-1], 7, 0), "the message at offset 7 has an impossible field"),
        (wrapper(1, LAST, "gzip", offset=3), "the message at offset 3 has an impossible field"),
        (wrapper(0, LAST, "gzip", offset=3), "the message at offset 3 has an impossible field"),
        (plain(1, -1, Message()), "the record batch at offset -1 has an impossible header"),
        (plain(1, 5, Message(2**62)), TOO_LARGE),
        (plain(1, 5, Message(-(2**63))), TOO_LARGE),
        (plain(1, 5, Message())[:-1] + b"x", "the checksum of the message at offset 5 does not fit"),
        (struct.pack(">qiib", 5, 13, 0, 0) + b"\0" * 8, "the record batch at offset 5 has an impossible header"),
    ],
)
def test_what_cannot_be_is_corrupt(data, sentence):
    with pytest.raises(CorruptDataError, match=f"^{sentence}"):
        split_batches(memoryview(data))


def test_a_damaged_message_is_reported_once_it_is_the_next():
    good, bad = plain(1, 0, Message()), plain(1, 1, Message())[:-1] + b"x"
    assert [message["offset"] for message in decode(split_batches(memoryview(good + bad)))] == [0]
    with pytest.raises(CorruptDataError, match="offset 1"):
        split_batches(memoryview(bad + good))


def test_a_few_wrappers_are_unpacked_at_a_time(monkeypatch):
    monkeypatch.setattr(kafka_batches, "OLD_BYTES", 100)
    data = b"".join(wrapper(1, [(at, Message(value=bytes(60)))], "gzip") for at in range(10))
    assert [part.last_offset for part in split_batches(memoryview(data))] == [1]


def test_a_wrapper_that_becomes_too_large_names_the_option():
    data = wrapper(1, [(at, Message(value=bytes(1_000))) for at in range(100)], "gzip")
    assert len(decode(split_batches(memoryview(data), most_bytes=110_000))) == 100
    sentence = "takes more than 90000 bytes decompressed; if it is sound, raise kafka.max.decompressed.bytes$"
    with pytest.raises(CorruptDataError, match=sentence):
        split_batches(memoryview(data), most_bytes=90_000)


def old_segment():
    """Return a segment with messages of all formats, and its messages with their formats."""
    counter = itertools.count()
    log, held = b"", []

    def next_ones(count):
        return [
            (at, Message(10_000 + at, b"k%d" % at if at % 3 else None, b"v" * at))
            for at, _ in zip(counter, range(count), strict=False)
        ]

    for magic in (0, 1):
        for offset, message in next_ones(3):
            log += plain(magic, offset, message)
            held.append((magic, offset, message, None))
        for codec in COMPRESSED[magic]:
            some = [pair for pair in next_ones(6) if pair[0] % 4]  # compaction has taken the others
            log += wrapper(magic, some, codec)
            held += [(magic, offset, message, None) for offset, message in some]
    some = next_ones(3)
    log += wrapper(1, some, "gzip", stamped_ms=77_777)
    held += [(1, offset, message, 77_777) for offset, message in some]
    return log, held


def read_of_a_broker(lab, topic, held):
    """Read old messages of a broker, and new ones behind them.  ``test_holes`` has such a broker."""
    end = held[-1][1] + 1
    assert lab.end(topic) == end
    lab.append(topic, encode([Record(99_000, value=b"new")] * 2))
    expected = [row(topic, 0, *message) for message in held]
    read_rows = lab.read(topic, 0, end + 2)
    assert read_rows[:-2] == expected
    assert [message["value"] for message in read_rows[-2:]] == [b"new"] * 2
    planned = KafkaDetails(leader_epoch=0)
    for start in (0, 4, 11, end - 1):
        assert lab.read(topic, start, end, details=planned) == [
            message for message in expected if message["offset"] >= start
        ]
    at = TopicPartition(topic, 0)
    with KafkaClient(lab.config()) as client:
        for position in range(end):
            head = next(message for message in expected if message["offset"] >= position)
            assert peek(client, {at: position}) == {at: (head["offset"], head["timestamp"])}


TRANSACTIONAL, CONTROL = 0x10, 0x20
RECORDS = [Record(value=b"v" * 1000)] * 50


def batch(base_offset, count, producer_id=-1, flags=0, key=None):
    return encode([Record(key=key)] * count, "none", base_offset, producer_id, flags)


def marker(offset, producer_id, *, commit):
    return batch(offset, 1, producer_id, TRANSACTIONAL | CONTROL, key=struct.pack(">hh", 0, commit))


def test_whole_batches_are_found_and_the_cut_one_is_left():
    whole = batch(10, 3) + batch(13, 2)
    for cut in range(len(batch(15, 4))):
        batches = split_batches(memoryview(whole + batch(15, 4)[:cut]))
        assert [(split.base_offset, split.last_offset) for split in batches] == [(10, 12), (13, 14)]
    assert split_batches(memoryview(b"")) == []


def test_a_transaction_is_aborted_from_its_first_offset_to_its_marker():
    log = [
        batch(0, 2, 7, TRANSACTIONAL),  # committed by the marker at 2
        marker(2, 7, commit=True),
        batch(3, 2, 7, TRANSACTIONAL),  # aborted
        batch(5, 2, 8, TRANSACTIONAL),  # another producer
        batch(7, 1, 7),  # the same producer, but outside any transaction
        marker(8, 7, commit=False),
        batch(9, 2, 7, TRANSACTIONAL),
        batch(11, 1),
    ]
    batches = split_batches(memoryview(b"".join(log)))
    assert [visible.base_offset for visible in visible_batches(batches, [(7, 3)])] == [0, 5, 7, 9, 11]
    assert [visible.base_offset for visible in visible_batches(batches, [])] == [0, 3, 5, 7, 9, 11]
    assert [visible.base_offset for visible in visible_batches(batches, [(8, 5), (7, 9)])] == [0, 3, 7, 11]


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [(16, b"\x03", "message format 3"), (8, b"\x00\x00\x00\x05", "impossible"), (23, b"\xff", "impossible")],
)
def test_an_impossible_header_is_corrupt(at, value, message):
    data = encode(RECORDS)
    data = data[:at] + value + data[at + len(value) :]
    with pytest.raises(CorruptDataError, match=message):
        split_batches(memoryview(data))


@pytest.mark.parametrize("base_offset", [-1, -(2**63), 2**63 - 1, 2**63 - 50])
def test_offsets_that_no_log_has_are_corrupt(base_offset):
    with pytest.raises(CorruptDataError, match=f"the record batch at offset {base_offset} has an impossible header"):
        split_batches(memoryview(encode(RECORDS, "none", base_offset)))


def test_batches_that_go_back_are_corrupt():
    with pytest.raises(CorruptDataError, match="the record batch at offset 12 has an impossible header"):
        split_batches(memoryview(batch(10, 3) + batch(12, 2)))


@pytest.mark.parametrize("flag", [CONTROL, TRANSACTIONAL])
def test_a_batch_is_not_left_out_by_a_flag_that_no_checksum_vouches_for(flag):
    damaged = bytearray(batch(0, 3, 7))
    damaged[22] ^= flag
    with pytest.raises(CorruptDataError, match="checksum of the record batch at offset 0"):
        list(visible_batches(split_batches(memoryview(damaged)), [(7, 0)]))
