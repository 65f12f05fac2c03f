"""Objects that are rows."""

from __future__ import annotations

import gzip
from datetime import datetime, timezone

import pyarrow as pa
import pytest

from tests.support.objects.lab import Memory, chunk
from tidegate.errors import CorruptDataError
from tidegate.readers.formats.binary import format as binary_file_format
from tidegate.readers.formats.binary.format import BINARY_FILE_SCHEMA, BinaryFileFormat
from tidegate.readers.objects.values import SMALL_BYTES, ChunkSurvey, TimeRange


def rows_of(memory: Memory, schema: pa.Schema = BINARY_FILE_SCHEMA) -> list[dict]:
    (survey,) = BinaryFileFormat(memory).survey(memory.object, None)
    (batch,) = BinaryFileFormat(memory).read(chunk(memory.object, survey.start, survey.end), schema)
    assert batch.schema.equals(schema)
    return batch.to_pylist()


@pytest.mark.parametrize("content", [b"\x00", gzip.compress(b"a", mtime=0), b"x" * (2 * SMALL_BYTES + 1)])
def test_an_object_is_a_row_of_what_it_holds(content):
    memory = Memory(content, "a/b.gz")
    memory.object = memory.object._replace(modified_ms=1_700_000_000_123)
    modified = datetime(2023, 11, 14, 22, 13, 20, 123_000, timezone.utc)
    assert rows_of(memory) == [
        {"path": "a/b.gz", "modificationTime": modified, "length": len(content), "content": content}
    ]
    assert max(memory.requests) <= SMALL_BYTES


def test_content_is_fetched_only_for_its_column():
    memory = Memory(b"abc")
    schema = pa.schema([("LENGTH", pa.int64()), ("x", pa.string())])
    assert rows_of(memory, schema) == [{"LENGTH": 3, "x": None}]
    assert memory.requests == []
    assert rows_of(memory, pa.schema([("Content", pa.binary())])) == [{"Content": b"abc"}]


def test_an_object_that_no_row_can_hold_is_refused(monkeypatch):
    monkeypatch.setattr(binary_file_format, "LARGEST", 2)
    memory = Memory(b"abc", "x")
    with pytest.raises(CorruptDataError, match=r"^x: it is longer than 2 GiB, which no row can hold$"):
        rows_of(memory)
    assert memory.requests == []


def test_the_event_time_may_be_the_time_of_modification():
    memory = Memory(b"abc")
    memory.object = memory.object._replace(modified_ms=7)
    surveyed = BinaryFileFormat(memory).survey(memory.object, "ModificationTime")
    assert surveyed == [ChunkSurvey(0, 3, 1, TimeRange(7, 7))]
    assert BinaryFileFormat(memory).survey(Memory(b"").object, None) == []
