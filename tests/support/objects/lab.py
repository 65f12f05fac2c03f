"""Objects in memory, for tests of formats."""

import bz2
import gzip

import cramjam
import pyarrow as pa

from tidegate.errors import ObjectGoneError
from tidegate.readers.objects.values import Chunk, S3Object
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.store import ObjectStore

GONE = "s3://data/x was overwritten after it was found"
BOM = b"\xef\xbb\xbf"
COMPRESSED = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda text: bytes(cramjam.zstd.compress(text)),
    ".lz4": lambda text: bytes(cramjam.lz4.compress(text)),
}


class InMemory(ObjectStore):
    """Objects by their keys, which are answered at once, for tests that ask thousands of times.

    content: of the object ``x``.
    asked: the ranges that were asked for.
    gone: the range whose request shows that its object is gone; True: any.
    """

    def __init__(self, content=None, **contents):
        super().__init__(S3ConnectionConfig(), "data")
        self.contents = contents if content is None else {"x": content, **contents}
        self.asked = []
        self.gone = False

    def _fetch(self, found, start, end):
        content = self.contents[found.key]
        assert 0 <= start <= end <= len(content)
        if self.gone in (True, (start, end)):
            raise ObjectGoneError(GONE, overwritten=True)
        self.asked.append((start, end))
        return content[start:end]

    def listed(self, key="x"):
        return held(self.contents[key])._replace(key=key)

    def chunks(self):
        return [chunk(self.listed(key)) for key in self.contents]


class Memory(InMemory):
    """One object, which errors name by its key alone; ``requests``: the sizes of the ranges that were asked for."""

    def __init__(self, content, key="a/b.json"):
        super().__init__(**{key: content})
        self.content, self.object = content, self.listed(key)

    @property
    def requests(self):
        return [end - start for start, end in self.asked]

    def address(self, key):
        return key


def held(content):
    """Return what a listing shows of an object in memory."""
    return S3Object("x", len(content), "", 0)


def chunk(found, start=0, end=None):
    return Chunk(*found, start, found.size if end is None else end, 1, None, None)


def read(made, found, schema, start=0, end=None, set_aside=None):
    return pa.Table.from_batches(made.read(chunk(found, start, end), schema, set_aside), schema)


def read_all(made, found, schema, set_aside=None):
    """Return the rows of all chunks of an object, which cover it without gaps."""
    surveys = made.survey(found, None)
    assert [0, *(survey.end for survey in surveys)] == [*(survey.start for survey in surveys), found.size]
    rows = []
    for survey in surveys:
        for batch in made.read(chunk(found, survey.start, survey.end), schema, set_aside):
            assert batch.schema.equals(schema)
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows
