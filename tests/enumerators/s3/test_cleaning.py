"""Cleaning of objects of a real endpoint: only the version that was read, bounded, and never the end of a query."""

import json
import threading
from contextlib import ExitStack, closing

import pytest

from tests.enumerators.s3.objects import CHUNK_BYTES, Endpoint, chunk_table
from tests.support.command import await_that
from tidegate.enumerators.s3 import cleaning as source_cleaning
from tidegate.enumerators.s3.cleaning import ObjectCleaner, SourceCleaning
from tidegate.enumerators.s3.manifest import Manifest
from tidegate.errors import CheckpointError, ConnectorError, DeadlineError, OptionError
from tidegate.readers.objects.values import Chunk
from tidegate.readers.s3.config import S3Address
from tidegate.readers.s3.store import ObjectStore

KEYS = ["in/a.json", "in/dt=2026-11-21/ünï +%41&b.json"]


@pytest.fixture
def endpoint(server):
    with closing(server.client()) as client:
        yield Endpoint(client)


@pytest.fixture
def store(bucket, endpoint):
    for key in KEYS:
        bucket.write(key, key.encode())
    return ObjectStore(endpoint, bucket.name)


@pytest.fixture(params=["delete", "archive"])
def cleaner(request, store):
    return ObjectCleaner(store, S3Address(store.bucket, "archive/here") if request.param == "archive" else None)


def content(bucket):
    return {key: body.decode() for key, body in bucket.bodies().items()}


@pytest.mark.parametrize("prefix", ["archive/here", ""])
def test_objects_are_moved_to_the_archive_under_their_own_keys(bucket, s3, store, prefix):
    s3.create_bucket(f"{bucket.name}-archive")
    archive = S3Address(f"{bucket.name}-archive", prefix)
    for key in KEYS:
        assert ObjectCleaner(store, archive).clean(store.find(key).obj)
    assert content(bucket) == {}
    for key in KEYS:
        response = bucket.client.get_object(Bucket=archive.bucket, Key=f"{prefix}/{key}" if prefix else key)
        assert response["Body"].read() == key.encode()


def test_an_object_beyond_what_one_request_copies_is_copied_in_parts(bucket, store, monkeypatch):
    monkeypatch.setattr(source_cleaning, "MOST_COPIED_BYTES", 5 << 20)
    monkeypatch.setattr(source_cleaning, "PART_BYTES", 5 << 20)
    body = bytes(range(256)) * (24 << 10)
    bucket.write("in/large", body)
    assert ObjectCleaner(store, S3Address(bucket.name, "old")).clean(store.find("in/large").obj)
    assert bucket.body("old/in/large") == body
    assert store.find("in/large") is None


def test_what_is_gone_is_clean_and_once_more_does_no_harm(bucket, store, cleaner):
    obj = store.find(KEYS[0]).obj
    assert [cleaner.clean(obj), cleaner.clean(obj)] == [True, True]
    assert KEYS[0] not in content(bucket)
    assert ("archive/here/" + KEYS[0] in content(bucket)) == (cleaner._archive is not None)


@pytest.mark.parametrize("body", ["new", "in/b.json"])  # another size, and the same
def test_another_version_stays_and_is_not_archived(bucket, store, cleaner, body):
    obj = store.find(KEYS[0]).obj
    bucket.write(KEYS[0], body.encode())
    assert not cleaner.clean(obj)
    assert content(bucket) == {KEYS[0]: body, KEYS[1]: KEYS[1]}


def test_a_version_that_comes_in_the_last_moment_stays(bucket, endpoint, store, cleaner):
    def overwrite():
        bucket.write(KEYS[0], b"new")

    obj = store.find(KEYS[0]).obj
    endpoint.before_delete = overwrite
    assert not cleaner.clean(obj)
    assert content(bucket)[KEYS[0]] == "new"


def test_without_etags_size_and_time_tell_versions_apart(bucket, endpoint, store, monkeypatch):
    def without(key, head=endpoint._client.head_object):
        return {name: value for name, value in head(Bucket=bucket.name, Key=key).items() if name != "ETag"}

    monkeypatch.setattr(endpoint, "head_object", lambda **request: without(request["Key"]), raising=False)
    obj = store.find(KEYS[0]).obj
    assert obj.etag == ""
    for other in (obj._replace(size=1), obj._replace(modified_ms=obj.modified_ms - 60_000)):
        assert not ObjectCleaner(store).clean(other)
    assert endpoint.deletes == 0
    assert ObjectCleaner(store).clean(obj._replace(modified_ms=obj.modified_ms + 999))
    assert KEYS[0] not in content(bucket)


def test_an_endpoint_that_does_not_know_conditions_is_told_without(bucket, endpoint, store):
    endpoint.conditions = "refused"
    cleaner = ObjectCleaner(store)
    for key in KEYS:
        assert cleaner.clean(store.find(key).obj)
    assert content(bucket) == {}
    assert endpoint.deletes == 3  # one of them was refused


def test_a_request_whose_answer_was_lost_is_sent_again(bucket, endpoint, store, cleaner):
    endpoint.answers_lost = 1
    assert cleaner.clean(store.find(KEYS[0]).obj)
    assert KEYS[0] not in content(bucket)


def test_an_archive_that_does_not_exist_is_named_and_nothing_is_deleted(bucket, store):
    with pytest.raises((OptionError, ConnectorError), match="no-such-archive"):
        ObjectCleaner(store, S3Address("no-such-archive", "old")).clean(store.find(KEYS[0]).obj)
    assert len(content(bucket)) == len(KEYS)


MANY = 40


class Ledger:
    """Manifests of objects with one chunk each."""

    def __init__(self):
        self.manifests = {}

    def add(self, *keys):
        return self.build(chunk_table(Chunk(key, CHUNK_BYTES, "e", 0, 0, CHUNK_BYTES, 1, 0, 0) for key in keys))

    def build(self, chunks):
        manifest = Manifest.build(len(self.manifests) + 1, chunks)
        self.manifests[manifest.id] = manifest
        return manifest

    def read(self, split):
        if split not in self.manifests:
            raise CheckpointError(f"the state location has lost {split!r}")
        return self.manifests[split]


class Objects:
    """Objects whose ``clean`` is handed over.

    problem: returns the error of a key; None: the object is cleaned.
    """

    def __init__(self):
        self.cleaned, self.asked, self.problem = [], [], lambda _: None

    def clean(self, obj):
        self.asked.append(obj.key)
        problem = self.problem(obj.key)
        if isinstance(problem, Exception):
            raise problem
        self.cleaned.append(obj.key)
        return True


@pytest.fixture
def ledger():
    return Ledger()


@pytest.fixture
def objects():
    return Objects()


@pytest.fixture
def cleaning(ledger, objects):
    def made(state=()):
        return SourceCleaning(objects.clean, ledger.read, json.loads(json.dumps(dict(state))))

    with ExitStack() as stack:
        yield lambda *state: stack.enter_context(closing(made(*state)))


def test_an_endpoint_that_is_silent_for_long_costs_little_and_is_asked_again(ledger, objects, cleaning, caplog):
    objects.problem = lambda key: DeadlineError(f"cannot delete {key} within 60 s")
    one = cleaning()
    for number in range(MANY):
        one.advance(ledger.add(f"{number:02}"), 1)
        one.go_on(())
        one.merge(ledger.build)
        assert len(one.snapshot()) <= source_cleaning._MOST_MANIFESTS + 1
    await_that(one._run.done)
    assert "objects are cleaned later: cannot delete" in caplog.text
    again = cleaning(one.snapshot())
    objects.problem = lambda _: None
    again.go_on(())
    again.close()
    assert sorted(objects.cleaned) == [f"{number:02}" for number in range(MANY)]
    assert again.snapshot() == {}
    assert again.metrics() == {"numFilesCleaned": MANY, "numFilesNotCleaned": 0}


def test_what_cannot_be_cleaned_is_named_and_counted_and_stays(ledger, objects, cleaning, caplog):
    objects.problem = lambda key: ConnectorError("the endpoint refused: AccessDenied") if key == "b" else None
    one = cleaning()
    one.advance(ledger.add(*"abc"), 3)
    one.go_on(())
    one.close()
    assert sorted(objects.cleaned) == ["a", "c"]
    assert one.metrics() == {"numFilesCleaned": 2, "numFilesNotCleaned": 1}
    assert one.snapshot() == {}
    assert "not cleaned: 1 object, such as 'b': the endpoint refused: AccessDenied" in caplog.text


def test_a_live_manifest_keeps_how_far_it_is_clean(ledger, objects, cleaning):
    manifest = ledger.add(*"abcd")
    one = cleaning()
    one.advance(manifest, 2)
    one.go_on([manifest.id])
    one.close()
    assert one.snapshot() == {manifest.id: [2, 2]}
    again = cleaning(one.snapshot())
    again.advance(manifest, 3)
    again.go_on([manifest.id])
    again.close()
    assert objects.asked == ["a", "b", "c"]


@pytest.mark.parametrize("others", [0, 2 * source_cleaning._MOST_MANIFESTS])
def test_a_manifest_that_is_lost_is_named_and_nothing_else_suffers(ledger, objects, cleaning, caplog, others):
    there = [ledger.add(f"{number}") for number in range(others)]
    one = cleaning({"00000009-lost": [0, 3], **{manifest.id: [0, 1] for manifest in there}})
    if others:
        one.merge(ledger.build)
    one.go_on(())
    one.close()
    assert "the objects of the manifest 00000009-lost are not cleaned" in caplog.text
    assert one.snapshot() == {}
    assert len(objects.cleaned) == others


def test_it_ends_soon_and_leaves_the_rest_to_the_next_run(ledger, objects, cleaning, monkeypatch):
    monkeypatch.setattr(source_cleaning, "_PATIENCE_S", 0.01)
    go_on = threading.Event()
    objects.problem = lambda _: go_on.wait(60) and None
    manifest = ledger.add("a", "b")
    one = cleaning()
    one.advance(manifest, 2)
    one.go_on(())
    await_that(lambda: objects.asked)
    one.close()
    assert one.snapshot() == {manifest.id: [0, 2]}
    go_on.set()
    await_that(lambda: not [t for t in threading.enumerate() if t.name.startswith("tidegate-clean")])
