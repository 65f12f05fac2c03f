"""Objects in memory, for the discovery of tests, and an endpoint that keeps its promises as far as a test wants."""

import json
from collections import Counter

import pyarrow as pa
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.support.buckets import OwnClient
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


class Endpoint(OwnClient):
    """Keeps, ignores or refuses conditions, loses answers to writes, and lets others act before it deletes."""

    def __init__(self, client, conditions="kept"):
        super().__init__(client)
        self.conditions, self.answers_lost, self.deletes = conditions, 0, 0
        self.before_delete = lambda: None

    def put_object(self, **request):
        return self._write("put_object", request)

    def delete_object(self, **request):
        self.before_delete()
        self.deletes += 1
        return self._write("delete_object", request)

    def _write(self, operation, request):
        conditions = {"IfMatch", "IfNoneMatch"} & request.keys()
        if conditions and self.conditions == "refused":
            answer = {"Error": {"Code": "NotImplemented"}, "ResponseMetadata": {"HTTPStatusCode": 501}}
            raise ClientError(answer, operation)
        if self.conditions == "ignored":
            request = {key: value for key, value in request.items() if key not in conditions}
        answer = getattr(self._client, operation)(**request)
        if self.answers_lost:
            self.answers_lost -= 1
            raise ReadTimeoutError(endpoint_url="lost")
        return answer
