"""Objects in memory, for the discovery of tests; their format knows their event times."""

import json
from collections import Counter

import pyarrow as pa

from tidegate.enumerators.s3.discovery.rounds import ObjectDiscovery
from tidegate.enumerators.s3.enumerator import S3Enumerator
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.enumerators.s3.times.chunks import ObjectTimes
from tidegate.enumerators.s3.times.origin import ColumnTimes
from tidegate.readers.event_time.policy import LEAST_MS, EventTimePolicy
from tidegate.readers.objects.values import CHUNK_SCHEMA, ChunkSurvey, ObjectFormat, S3Object, TimeRange
from tidegate.readers.s3.listing import Listed

MODIFIED = 1_700_000_000_000
CHUNK_BYTES = 10
COLUMN = ObjectTimes(ColumnTimes("t"), policy=EventTimePolicy("ignore", earliest_ms=LEAST_MS))


class Store(ObjectFormat):
    """A bucket and its format: an object is a list of chunks, and a chunk is a list of event times.

    on_survey: called with each object before it is looked at; on_page: before each page is listed.
    """

    bucket = "memory"

    def __init__(self):
        self.objects, self.times = {}, {}
        self.page_size = 3
        self.on_survey = self.on_page = lambda *_: None
        self.surveyed = []
        self.rounds = 0

    def put(self, key, *chunks, etag=None, modified_ms=MODIFIED):
        self.objects[key] = S3Object(key, CHUNK_BYTES * len(chunks), etag or json.dumps(chunks), modified_ms)
        self.times[key] = chunks

    def pages(self):
        self.rounds += 1
        objects = [self.objects[key] for key in sorted(self.objects)]
        for at in range(0, len(objects), self.page_size):
            self.on_page(objects[at : at + self.page_size])
            yield objects[at : at + self.page_size]

    def pages_below(self, prefix):
        yield [obj for key, obj in sorted(self.objects.items()) if key.startswith(prefix)]

    def find(self, key):
        return Listed(self.objects[key]) if key in self.objects else None

    def infer(self, samples):
        raise AssertionError("discovery was told the columns")

    def read(self, chunk, schema, write=None):
        raise AssertionError("discovery reads no rows")

    def survey(self, obj, column):
        self.surveyed.append(obj.key)
        self.on_survey(obj)
        return [
            ChunkSurvey(
                CHUNK_BYTES * number,
                CHUNK_BYTES * (number + 1),
                len(times),
                TimeRange(min(known), max(known)) if (known := [t for t in times if t is not None]) else None,
                times.count(None),
            )
            for number, times in enumerate(self.times[obj.key])
        ]

    def chunks(self):
        """Return all chunks that there ever were, as sorted (key, start)."""
        return sorted((key, CHUNK_BYTES * n) for key, chunks in self.times.items() for n in range(len(chunks)))

    def chunks_of(self, key):
        return Counter((key, CHUNK_BYTES * n) for n in range(len(self.times[key])))


def chunk_table(chunks):
    """Return chunks as a round returns them."""
    return pa.Table.from_pylist([chunk._asdict() for chunk in chunks], CHUNK_SCHEMA)


def discovery(store, times=None, max_age_ms=None, **settings):
    return ObjectDiscovery(
        store.pages,
        store,
        times or COLUMN,
        SeenObjects(max_age_ms),
        **settings,
    )


def enumerator(store, ledger, state=None, **settings):
    return S3Enumerator(discovery(store), ledger, state, **settings)
