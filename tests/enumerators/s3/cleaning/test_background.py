"""The work of cleaning is bounded, waits for a silent endpoint, and ends no query."""

import json
import threading
from contextlib import ExitStack, closing

import pytest

from tests.enumerators.s3.objects import CHUNK_BYTES, chunk_table
from tests.support.waiting import await_that
from tidegate.enumerators.s3 import cleaning as source_cleaning
from tidegate.enumerators.s3.cleaning import SourceCleaning
from tidegate.enumerators.s3.manifest import Manifest
from tidegate.errors import CheckpointError, ConnectorError, DeadlineError
from tidegate.readers.objects.values import Chunk

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


class Bucket:
    """A bucket whose ``clean`` is handed over.

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
def bucket():
    return Bucket()


@pytest.fixture
def cleaning(ledger, bucket):
    def made(state=()):
        return SourceCleaning(bucket.clean, ledger.read, json.loads(json.dumps(dict(state))))

    with ExitStack() as stack:
        yield lambda *state: stack.enter_context(closing(made(*state)))


def test_an_endpoint_that_is_silent_for_long_costs_little_and_is_asked_again(ledger, bucket, cleaning, caplog):
    bucket.problem = lambda key: DeadlineError(f"cannot delete {key} within 60 s")
    one = cleaning()
    for number in range(MANY):
        one.advance(ledger.add(f"{number:02}"), 1)
        one.go_on(())
        one.merge(ledger.build)
        assert len(one.snapshot()) <= source_cleaning._MOST_MANIFESTS + 1
    await_that(one._run.done)
    assert "objects are cleaned later: cannot delete" in caplog.text
    again = cleaning(one.snapshot())
    bucket.problem = lambda _: None
    again.go_on(())
    again.close()
    assert sorted(bucket.cleaned) == [f"{number:02}" for number in range(MANY)]
    assert again.snapshot() == {}
    assert again.metrics() == {"numFilesCleaned": MANY, "numFilesNotCleaned": 0}


def test_what_cannot_be_cleaned_is_named_and_counted_and_stays(ledger, bucket, cleaning, caplog):
    bucket.problem = lambda key: ConnectorError("the endpoint refused: AccessDenied") if key == "b" else None
    one = cleaning()
    one.advance(ledger.add(*"abc"), 3)
    one.go_on(())
    one.close()
    assert sorted(bucket.cleaned) == ["a", "c"]
    assert one.metrics() == {"numFilesCleaned": 2, "numFilesNotCleaned": 1}
    assert one.snapshot() == {}
    assert "not cleaned: 1 object, such as 'b': the endpoint refused: AccessDenied" in caplog.text


def test_a_live_manifest_keeps_how_far_it_is_clean(ledger, bucket, cleaning):
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
    assert bucket.asked == ["a", "b", "c"]


@pytest.mark.parametrize("others", [0, 2 * source_cleaning._MOST_MANIFESTS])
def test_a_manifest_that_is_lost_is_named_and_nothing_else_suffers(ledger, bucket, cleaning, caplog, others):
    there = [ledger.add(f"{number}") for number in range(others)]
    one = cleaning({"00000009-lost": [0, 3], **{manifest.id: [0, 1] for manifest in there}})
    if others:
        one.merge(ledger.build)
    one.go_on(())
    one.close()
    assert "the objects of the manifest 00000009-lost are not cleaned" in caplog.text
    assert one.snapshot() == {}
    assert len(bucket.cleaned) == others


def test_it_ends_soon_and_leaves_the_rest_to_the_next_run(ledger, bucket, cleaning, monkeypatch):
    monkeypatch.setattr(source_cleaning, "_PATIENCE_S", 0.01)
    go_on = threading.Event()
    bucket.problem = lambda _: go_on.wait(60) and None
    manifest = ledger.add("a", "b")
    one = cleaning()
    one.advance(manifest, 2)
    one.go_on(())
    await_that(lambda: bucket.asked)
    one.close()
    assert one.snapshot() == {manifest.id: [0, 2]}
    go_on.set()
    await_that(lambda: not [t for t in threading.enumerate() if t.name.startswith("tidegate-clean")])
