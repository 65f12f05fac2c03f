"""Decompression of record batches: declared sizes are checked, and memory is bounded."""

from __future__ import annotations

import bz2
import lzma
import subprocess
import sys
import zlib
from random import Random

import cramjam
import numpy as np
import pytest

from tests.support.kafka.lab import HEADER, Record, encode, reseal
from tidegate.errors import CorruptDataError
from tidegate.readers.decompression import SizeLimit, decompress
from tidegate.readers.kafka.batches import split_batches

RECORDS = [Record(value=b"v" * 1000)] * 50


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_cannot_be_decompressed_is_corrupt(codec: str) -> None:
    good = encode(RECORDS, codec)
    (batch,) = split_batches(memoryview(good))
    assert batch.records().tobytes() == encode(RECORDS)[HEADER:]
    for bad in (good[:-9], good[: HEADER + 20], good[:HEADER], good[:HEADER] + b"\xff" * 40):
        (batch,) = split_batches(memoryview(reseal(bad)))
        with pytest.raises(CorruptDataError, match="cannot be decompressed"):
            batch.records()


def test_snappy_may_come_without_framing() -> None:
    plain = encode(RECORDS)
    raw = plain[:HEADER] + bytes(cramjam.snappy.compress_raw(plain[HEADER:]))
    (batch,) = split_batches(memoryview(reseal(raw, attributes=2)))
    assert batch.records().tobytes() == plain[HEADER:]


def test_an_unknown_codec_is_corrupt() -> None:
    (batch,) = split_batches(memoryview(reseal(encode(RECORDS), attributes=7)))
    with pytest.raises(CorruptDataError, match="codec 7"):
        batch.records()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_becomes_too_large_names_the_option(codec: str) -> None:
    good = encode(RECORDS, codec)
    size = len(encode(RECORDS)) - HEADER
    (batch,) = split_batches(memoryview(good), most_bytes=size)
    assert len(batch.records()) == size
    (batch,) = split_batches(memoryview(good), most_bytes=size - 1)
    sentence = (
        f"^the record batch at offset 0 takes more than {size - 1} bytes decompressed; if it is sound, raise "
        "kafka.max.decompressed.bytes$"
    )
    with pytest.raises(CorruptDataError, match=sentence):
        batch.records()


def _deflated(content: bytes) -> bytes:
    return zlib.compress(content)[2:-4]


@pytest.mark.parametrize(("codec", "compressed"), [("deflate", _deflated), ("bzip2", bz2.compress)])
def test_a_block_of_similar_rows_is_decompressed_once(codec: str, compressed, monkeypatch) -> None:
    random = Random(7)
    content = b"".join(random.randbytes(1000) * 10 for _ in range(50))
    block = compressed(content)
    assert 5 < len(content) / len(block) < 12
    rooms, empty = [], np.empty
    monkeypatch.setattr(np, "empty", lambda *sizes: rooms.append(sizes) or empty(*sizes))
    assert decompress(codec, memoryview(block), SizeLimit(1 << 20, "an option")).tobytes() == content
    assert len(rooms) == 1


def test_xz_may_have_several_streams_but_no_other_bytes() -> None:
    bound, good = SizeLimit(1 << 20, "an option"), lzma.compress(b"v" * 1000)
    assert decompress("xz", memoryview(good * 2), bound).tobytes() == b"v" * 2000
    for bad, reason in (
        (good[:-1], "ends too early"),
        (good + b"x" * 20, "not supported"),
    ):
        with pytest.raises(CorruptDataError, match=f"^cannot be decompressed by xz: .*{reason}"):
            decompress("xz", memoryview(bad), bound)


MEASURED = """
import resource, struct, sys, zlib
import cramjam
from tests.support.kafka.lab import HEADER, Record, encode, reseal
from tidegate.errors import CorruptDataError
from tidegate.readers.kafka.batches import split_batches

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


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_bomb_takes_no_more_memory_than_it_may(codec: str) -> None:
    measured = subprocess.run([sys.executable, "-c", MEASURED, codec], check=True, capture_output=True, text=True)
    assert int(measured.stdout) < 40  # MiB


IN_LITTLE_MEMORY = """
import resource, sys
import cramjam
from pathlib import Path
from tests.support.kafka.lab import HEADER, Record, encode, reseal
from tidegate.errors import OutOfMemoryError
from tidegate.readers.kafka.batches import corruption_named, split_batches

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


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_little_memory_is_enough_for_small_batches_and_reported_for_large_ones(codec: str) -> None:
    command = [sys.executable, "-c", IN_LITTLE_MEMORY, codec]
    report = subprocess.run(command, check=True, capture_output=True, text=True)
    assert report.stdout == (
        "orders-0: the record batch at offset 0 takes more memory to decode than this process may have; raise "
        "spark.executor.pyspark.memory if it is set, or the limit of the process\n"
    )
