"""Avro objects in chunks give each row once, by no more requests than needed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.readers.formats.avro.files import MILLIS, avro, moment
from tests.support.objects.lab import InMemory, chunk, held, read
from tidegate.readers.formats.avro.format import AvroFormat
from tidegate.readers.objects.values import SMALL_BYTES, TimeRange


@pytest.fixture(scope="module")
def large() -> bytes:
    """An object of more than SMALL_BYTES, in order of time."""
    count = 150_000
    rows = ({"n": n, "at": n * 10, "pad": b"x" * 60} for n in range(count))
    content = avro(rows, n="long", at={"type": "long", "logicalType": "timestamp-millis"}, pad="bytes")
    assert len(content) > SMALL_BYTES
    return content


def test_only_the_ends_of_large_chunks_are_looked_at(large) -> None:
    store, obj = InMemory(large), held(large)
    surveys = AvroFormat(store, chunk_bytes=obj.size // 2 + 1).survey(obj, "at")
    assert len(surveys) == 2
    assert sum(end - start for start, end in store.asked) < obj.size / 8
    assert len(store.asked) == 5  # the header, and both ends of both chunks
    tables = [
        read(AvroFormat(store), obj, pa.schema([("n", pa.int64())]), survey.start, survey.end) for survey in surveys
    ]
    for survey, table in zip(surveys, tables, strict=True):
        numbers = table.column("n").to_pylist()
        assert survey.times == TimeRange(numbers[0] * 10, numbers[-1] * 10)
        assert survey.rows == pytest.approx(len(numbers), rel=0.02)
    assert sum(table.num_rows for table in tables) == 150_000


def test_a_chunk_costs_little_more_than_its_bytes(large) -> None:
    store, obj = InMemory(large), held(large)
    start, end = obj.size // 3, obj.size * 2 // 3
    read(AvroFormat(store), obj, pa.schema([("n", pa.int64())]), start, end)
    assert sum(end - start for start, end in store.asked) < end - start + (200 << 10)


def test_blocks_larger_than_what_is_looked_at_are_looked_for() -> None:
    rows = [{"at": moment(n), "pad": bytes(200_000)} for n in range(9)]
    content = avro(rows, sync_interval=1, at=MILLIS, pad="bytes")
    obj = held(content)
    surveys = AvroFormat(InMemory(content), chunk_bytes=obj.size // 2 + 1).survey(obj, "at")
    assert [survey.times for survey in surveys] == [TimeRange(0, 4), TimeRange(5, 8)]
    assert not any(survey.exact for survey in surveys)


def test_a_header_may_be_long() -> None:
    content = avro([{"c": n} for n in range(3)], c={"type": "long", "doc": "x" * 300_000})
    obj = held(content)
    made = AvroFormat(InMemory(content), chunk_bytes=100_000)
    surveys = made.survey(obj, "at")
    assert [(survey.rows, survey.exact) for survey in surveys] == [(0, True), (0, True), (0, True), (3, True)]
    assert read(made, obj, made.infer([obj]), surveys[-1].start).to_pylist() == [{"c": n} for n in range(3)]


def test_batches_are_bounded_whatever_the_blocks_are() -> None:
    rows = [{"s": "x" * 3_000} for _ in range(3_000)]
    for sync_interval in (1, 10**8):
        store = InMemory(avro(rows, "deflate", sync_interval, s="string"))
        batches = list(AvroFormat(store).read(chunk(store.listed()), pa.schema([("s", pa.string())])))
        assert sum(batch.num_rows for batch in batches) == 3_000
        assert max(batch.nbytes for batch in batches) <= 2 << 20
    store = InMemory(avro(({"n": 1} for _ in range(40_000)), n="long"))
    assert max(batch.num_rows for batch in AvroFormat(store).read(chunk(store.listed()), pa.schema([]))) <= 16_384


def _asked(content: bytes, end: int | None = None) -> list[tuple[int, int]]:
    store = InMemory(content)
    assert read(AvroFormat(store), held(content), pa.schema([]), 0, end).num_rows
    assert max(stop - start for start, stop in store.asked) <= 8 << 20
    header, *asked = store.asked
    assert header == (0, 64 << 10)
    return asked


@pytest.mark.parametrize("block_bytes", [60_000, 9 << 20])
def test_no_byte_of_a_large_chunk_is_asked_for_twice(block_bytes) -> None:
    content = avro(
        ({"pad": bytes(block_bytes)} for _ in range((20 << 20) // block_bytes)), sync_interval=1, pad="bytes"
    )
    asked = _asked(content)
    assert len(asked) == 3
    assert [start for start, _ in asked[1:]] == [stop for _, stop in asked[:-1]]


def test_little_more_than_the_last_block_of_a_chunk_is_asked_for() -> None:
    content = avro(({"pad": bytes(6 << 20)} for _ in range(3)), sync_interval=1, pad="bytes")
    asked = _asked(content, 5 << 20)
    assert asked[-1][1] < len(content) // 3 + (200 << 10)
    assert len(asked) == 3  # the chunk, the rest of the block, and the marker after it
