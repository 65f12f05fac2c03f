from __future__ import annotations

import struct
import subprocess
import sys

import cramjam
import pytest

from tests.support.kafka.lab import HEADER, Record, encode, reseal
from tidegate.errors import CorruptDataError
from tidegate.readers.kafka.records.batches import split_batches, visible_batches

TRANSACTIONAL, CONTROL = 0x10, 0x20
RECORDS = [Record(value=b"v" * 1000)] * 50


def batch(base_offset: int, count: int, producer_id: int = -1, attributes: int = 0, key: bytes | None = None) -> bytes:
    plain = encode([Record(key=key)] * count)
    plain = struct.pack(">q", base_offset) + plain[8:43] + struct.pack(">q", producer_id) + plain[51:]
    return reseal(plain, attributes)


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    return batch(offset, 1, producer_id, TRANSACTIONAL | CONTROL, key=struct.pack(">hh", 0, commit))


def test_whole_batches_are_found_and_the_cut_one_is_left() -> None:
    whole = batch(10, 3) + batch(13, 2)
    for cut in range(len(batch(15, 4))):
        found = split_batches(memoryview(whole + batch(15, 4)[:cut]))
        assert [(each.base_offset, each.last_offset) for each in found] == [(10, 12), (13, 14)]
    assert split_batches(memoryview(b"")) == []


def test_a_transaction_is_aborted_from_its_first_offset_to_its_marker() -> None:
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
    assert [each.base_offset for each in visible_batches(batches, [(7, 3)])] == [0, 5, 7, 9, 11]
    assert [each.base_offset for each in visible_batches(batches, [])] == [0, 3, 5, 7, 9, 11]
    assert [each.base_offset for each in visible_batches(batches, [(8, 5), (7, 9)])] == [0, 3, 7, 11]


@pytest.mark.parametrize("at", [21, 40, HEADER, HEADER + 500])
def test_a_flipped_bit_is_found(at: int) -> None:
    data = bytearray(encode(RECORDS))
    data[at] ^= 1
    (each,) = split_batches(memoryview(data))
    with pytest.raises(CorruptDataError, match="checksum of the record batch at offset 0"):
        each.records()
    (each,) = split_batches(memoryview(data), check_crc=False)
    each.records()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_cannot_be_decompressed_is_corrupt(codec: str) -> None:
    good = encode(RECORDS, codec)
    (each,) = split_batches(memoryview(good))
    assert each.records().tobytes() == encode(RECORDS)[HEADER:]
    for bad in (good[:-9], good[: HEADER + 20], good[:HEADER], good[:HEADER] + b"\xff" * 40):
        (each,) = split_batches(memoryview(reseal(bad)))
        with pytest.raises(CorruptDataError, match="cannot be decompressed"):
            each.records()


def test_snappy_may_come_without_framing() -> None:
    plain = encode(RECORDS)
    raw = plain[:HEADER] + bytes(cramjam.snappy.compress_raw(plain[HEADER:]))
    (each,) = split_batches(memoryview(reseal(raw, attributes=2)))
    assert each.records().tobytes() == plain[HEADER:]


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [(16, b"\x03", "message format 3"), (8, b"\x00\x00\x00\x05", "impossible"), (23, b"\xff", "impossible")],
)
def test_an_impossible_header_is_corrupt(at: int, value: bytes, message: str) -> None:
    data = encode(RECORDS)
    data = data[:at] + value + data[at + len(value) :]
    with pytest.raises(CorruptDataError, match=message):
        split_batches(memoryview(data))


def test_an_unknown_codec_is_corrupt() -> None:
    (each,) = split_batches(memoryview(reseal(encode(RECORDS), attributes=7)))
    with pytest.raises(CorruptDataError, match="codec 7"):
        each.records()


def field(data: bytes, at: int, layout: str, value: int) -> bytes:
    """The batch with another value in a field of its header, and a checksum that fits."""
    return reseal(data[:at] + struct.pack(layout, value) + data[at + struct.calcsize(layout) :])


@pytest.mark.parametrize("base_offset", [-1, -(2**63), 2**63 - 1, 2**63 - 50])
def test_offsets_that_no_log_has_are_corrupt(base_offset: int) -> None:
    with pytest.raises(CorruptDataError, match=f"the record batch at offset {base_offset} has an impossible header"):
        split_batches(memoryview(struct.pack(">q", base_offset) + encode(RECORDS)[8:]))


def test_batches_that_go_back_are_corrupt() -> None:
    with pytest.raises(CorruptDataError, match="the record batch at offset 12 has an impossible header"):
        split_batches(memoryview(batch(10, 3) + batch(12, 2)))


@pytest.mark.parametrize("flag", [CONTROL, TRANSACTIONAL])
def test_a_batch_is_not_left_out_by_a_flag_that_no_checksum_vouches_for(flag: int) -> None:
    damaged = bytearray(batch(0, 3, 7))
    damaged[22] ^= flag
    with pytest.raises(CorruptDataError, match="checksum of the record batch at offset 0"):
        list(visible_batches(split_batches(memoryview(damaged)), [(7, 0)]))
    assert not list(visible_batches(split_batches(memoryview(damaged), check_crc=False), [(7, 0)]))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_becomes_too_large_names_the_option(codec: str) -> None:
    good = encode(RECORDS, codec)
    size = len(encode(RECORDS)) - HEADER
    (each,) = split_batches(memoryview(good), most_bytes=size)
    assert len(each.records()) == size
    (each,) = split_batches(memoryview(good), most_bytes=size - 1)
    sentence = (
        f"^the record batch at offset 0 takes more than {size - 1} bytes decompressed; if it is sound, raise "
        "kafka.max.decompressed.bytes$"
    )
    with pytest.raises(CorruptDataError, match=sentence):
        each.records()


MEASURED = """
import resource, struct, sys, zlib
import cramjam
from tests.support.kafka.lab import HEADER, Record, encode, reseal
from tidegate.errors import CorruptDataError
from tidegate.readers.kafka.records.batches import split_batches

codec = sys.argv[1]
number = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[codec]
zeros = bytes(1 << 20)
if codec == "snappy":  # claims 4 GiB
    block = b"\\xff\\xff\\xff\\xff\\x0f" + bytes(1000)
else:
    made = cramjam.lz4.Compressor(block_linked=False) if codec == "lz4" else getattr(cramjam, codec).Compressor()
    for _ in range(400):
        made.compress(zeros)
    block = bytes(made.finish())
(batch,) = split_batches(memoryview(reseal(encode([Record()])[:HEADER] + block, number)), most_bytes=16 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    batch.records()
except CorruptDataError as problem:
    assert "takes more than" in str(problem), problem
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_bomb_takes_no_more_memory_than_it_may(codec: str) -> None:
    told = subprocess.run([sys.executable, "-c", MEASURED, codec], check=True, capture_output=True, text=True)
    assert int(told.stdout) < 40  # MiB


IN_LITTLE_MEMORY = """
import resource, sys
import cramjam
from pathlib import Path
from tests.support.kafka.lab import HEADER, Record, encode, reseal
from tidegate.readers.decompression import OutOfMemoryError
from tidegate.readers.kafka.records.batches import corruption_named, split_batches

codec, number = sys.argv[1], {"gzip": 1, "lz4": 3, "zstd": 4}[sys.argv[1]]

def batch(size):
    made = cramjam.lz4.Compressor(block_linked=False) if codec == "lz4" else getattr(cramjam, codec).Compressor()
    for _ in range(size >> 20):
        made.compress(bytes(1 << 20))
    block = bytes(made.finish())
    return split_batches(memoryview(reseal(encode([Record()])[:HEADER] + block, number)), most_bytes=1 << 40)[0]

small, large = batch(1 << 20), batch(400 << 20)
limit = (64 << 20) + int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
assert len(small.records()) == 1 << 20
try:
    with corruption_named("orders-0"):
        large.records()
except OutOfMemoryError as problem:
    print(problem)
"""


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_little_memory_is_enough_for_small_batches_and_told_for_large_ones(codec: str) -> None:
    command = [sys.executable, "-c", IN_LITTLE_MEMORY, codec]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert told.stdout == (
        "orders-0: the record batch at offset 0 takes more memory to decode than this process may have; raise "
        "spark.executor.pyspark.memory if it is set, or the limit of the process\n"
    )
