"""An object in memory, whole or in parts, for formats that read lines."""

from __future__ import annotations

import bz2
import gzip

import cramjam
import pyarrow as pa

from tidegate.readers.formats.json.format import JsonFormat
from tidegate.readers.objects.values import Chunk, S3Object, SetAside

BOM = b"\xef\xbb\xbf"
COMPRESSED = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda text: bytes(cramjam.zstd.compress(text)),
    ".lz4": lambda text: bytes(cramjam.lz4.compress(text)),
}


class Memory:
    """A store of one object that counts what is asked for."""

    def __init__(self, content: bytes, key: str = "a/b.json") -> None:
        self.content = content
        self.object = S3Object(key, len(content), "etag", 0)
        self.requests: list[int] = []

    def address(self, key: str) -> str:
        return key

    def fetch(self, found: S3Object, start: int, end: int) -> bytes:
        assert found == self.object
        assert 0 <= start < end <= len(self.content)
        self.requests.append(end - start)
        return self.content[start:end]


def chunk_of(found: S3Object, start: int, end: int) -> Chunk:
    return Chunk(*found, start, end, rows=1, min_ms=None, max_ms=None)


def read_all(made: JsonFormat, found: S3Object, schema: pa.Schema, set_aside: SetAside | None = None) -> list[dict]:
    surveys = made.survey(found, None)
    assert [0, *(survey.end for survey in surveys)] == [*(survey.start for survey in surveys), found.size]
    rows = []
    for survey in surveys:
        for batch in made.read(chunk_of(found, survey.start, survey.end), schema, set_aside):
            assert batch.schema.equals(schema)
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows
