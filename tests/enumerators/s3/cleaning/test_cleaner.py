"""Archiving and deleting objects of a real endpoint: only the version that was read, and again without harm."""

from contextlib import closing

import pytest

from tests.enumerators.s3.endpoints import Endpoint
from tidegate.enumerators.s3 import cleaning as object_cleaner
from tidegate.enumerators.s3.cleaning import ObjectCleaner
from tidegate.errors import ConnectorError, OptionError
from tidegate.readers.s3.address import S3Address
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
    monkeypatch.setattr(object_cleaner, "MOST_COPIED_BYTES", 5 << 20)
    monkeypatch.setattr(object_cleaner, "PART_BYTES", 5 << 20)
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
