"""Objects in memory, for tests of formats."""

import pyarrow as pa

from tidegate.errors import ObjectGoneError
from tidegate.readers.objects.values import Chunk, S3Object
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.store import ObjectStore

GONE = "s3://data/x was overwritten after it was found"


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


def held(content):
    """Return what a listing shows of an object in memory."""
    return S3Object("x", len(content), "", 0)


def chunk(found, start=0, end=None):
    return Chunk(*found, start, found.size if end is None else end, 1, None, None)


def read(made, found, schema, start=0, end=None, set_aside=None):
    return pa.Table.from_batches(made.read(chunk(found, start, end), schema, set_aside), schema)
