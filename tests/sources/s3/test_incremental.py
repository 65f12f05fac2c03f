"""Incremental listing through the options of the source, by the requests that a real endpoint sees."""

import os
import time
from contextlib import closing
from datetime import timedelta

import pytest

from benchmarks.s3.request_counter import RequestCounter
from tidegate import OptionError, S3Source

FLAT = [f"{number:06}.json" for number in range(3_000)]
FOLDERS = [f"dt=2026-01-{day}/hour={hour:02}/0.json" for day in range(10, 30) for hour in (0, 9)]
ROW = b'{"id": 1}\n'


def lay_down(bucket, keys):
    """Write objects that are half a day old; each object is a second younger than the last."""
    begin = time.time() - 12 * 3600
    for number, key in enumerate(keys):
        path = bucket.server.folder / bucket.name / "in" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(ROW)
        os.utime(path, (begin + number, begin + number))


def discovered(enumerator):
    """Return the keys that one round of a run finds, and the snapshot for the next run."""
    with closing(enumerator):
        manifests = [enumerator.manifest(split) for split in enumerator.discover()]
        keys = [key for manifest in manifests for key in manifest.chunks(0, len(manifest))["key"].to_pylist()]
        return sorted(key.removeprefix("in/") for key in keys), enumerator.snapshot()


@pytest.mark.parametrize(
    ("keys", "early_and_late", "full", "most_between"),
    [
        (FLAT, ("000000-late.json", "003000.json"), 3, 1),
        # One request for each folder, or for each folder on the way to the last key and to the new one.
        (FOLDERS, ("dt=2026-01-10/hour=00/9.json", "dt=2026-02-01/hour=00/0.json"), 21, 6),
    ],
    ids=["flat", "folders"],
)
def test_between_full_listings_a_round_takes_few_requests_however_many_objects_there_are(
    bucket, tmp_path, keys, early_and_late, full, most_between
):
    def round_of(state, **fields):
        counter.reset()
        place, connection = str(tmp_path / "state"), {**bucket.connection, "endpoint": counter.endpoint}
        fields = {"file_format": "json", "use_incremental_listing": True, **fields, **connection}
        found_keys, state = discovered(S3Source(path=bucket.path, state_location=place, **fields).enumerator(state))
        return found_keys, state, counter.requests["LIST"]

    lay_down(bucket, keys)
    bucket.put(keys[-1], ROW)  # an object that shows the endpoint's clock
    early, late = early_and_late
    with RequestCounter(bucket.server.endpoint) as counter:
        every, state, requests = round_of(None)
        assert (every, requests) == (keys, full)
        new, state, requests = round_of(state)
        assert (new, requests <= most_between) == ([], True)
        bucket.put(early, ROW)
        bucket.put(late, ROW)
        new, state, requests = round_of(state)
        assert (new, requests) == ([late], most_between)
        new, _, requests = round_of(state, backfill_interval=timedelta(milliseconds=1))
        assert (new, requests >= full) == ([early], True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"useIncrementalListing": "auto"}, "'useIncrementalListing' is 'auto': expected true or false"),
        (
            {"useIncrementalListing": "true", "queueUrl": "https://host/queue"},
            "useIncrementalListing is true, and queueUrl is set: .* set one or the other",
        ),
        ({"useIncrementalListing": "true", "path": "s3://b--use1-az4--x-s3/in"}, "is a directory bucket"),
        ({"useIncrementalListing": "true", "path": "s3://b-use1-az4--xa-s3/in"}, "is a directory bucket"),
        ({"useIncrementalListing": "false", "backfillInterval": "1 day"}, "neither queueUrl nor useIncrementalListing"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(options, sentence):
    with pytest.raises(OptionError, match=sentence):
        S3Source.from_options({"path": "s3://bucket/in", **options})
