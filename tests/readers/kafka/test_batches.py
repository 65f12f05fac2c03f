import struct

import pytest

from tests.support.kafka.lab import Record, encode
from tidegate.errors import CorruptDataError
from tidegate.readers.kafka.batches import split_batches, visible_batches

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
