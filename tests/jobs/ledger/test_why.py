"""``tidegate ledger why`` explains why an object was read or not."""

import os
import time
from datetime import timedelta

import pytest

from tests.support.streams import HOUR, NOON
from tidegate.jobs.ledger import Wanted


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("in/*.json", "in/*.json"),
        ("s3://bucket/in/a", "in/a"),
        ("S3A://bucket/in/a", "in/a"),
        ("s3n://bucket/in/a", "in/a"),
        ("s3://bucket//a", "/a"),  # a key may begin with a slash
        ("in/https://host/a", "in/https://host/a"),
    ],
)
def test_a_key_may_be_named_with_its_bucket(text, pattern):
    assert Wanted(text).pattern == pattern


def test_an_object_is_read_by_a_batch_or_waits_at_an_event_time(query, states, ledger):
    query.run(2)
    query.run(1, commits=False)
    assert [states(f"{hour}.parquet")[0] for hour in range(4)] == [["read"], ["read"], ["planned"], ["waiting"]]
    ((one,), (three,)) = (ledger("why", f"in/{hour}.parquet")[0]["findings"] for hour in (1, 3))
    assert (one["batch"], one["position"], one["manifest"][:9]) == (1, 1, "00000001-")
    assert (three["batch"], three["min_ms"]) == (None, NOON + 3 * HOUR)
    assert states("3.parquet", checkpoint=False)[0] == ["found"]


def test_an_object_that_was_not_read_was_left_out_or_overwritten_or_is_new_or_never_was(query, bucket, states):
    query.run()
    bucket.put("_hidden.parquet", b"x")
    bucket.put("some/4.parquet", b"x")
    bucket.put_rows("new.parquet", [(9, NOON)])
    bucket.put_rows("0.parquet", [(8, NOON), (9, NOON)])
    assert states("_hidden.parquet")[0] == ["left out"]
    assert states("some/4.parquet")[1] == ["its folder 'some' is not entered without recursiveFileLookup"]
    assert states("1.parquet", modifiedAfter="2100-01-01")[0] == ["read", "left out"]
    assert states("new.parquet") == (["not found yet"], [])
    assert states("0.parquet")[0] == ["read", "overwritten"]
    assert states("none.parquet")[0] == ["unknown"]
    query.run()
    assert states("0.parquet") == (["read", "left out"], ["overwritten"])
    bucket.delete("1.parquet")
    assert states("1.parquet")[0] == ["read", "gone"]
    assert states("1.parquet", path=False)[0] == ["read"]


def test_an_object_whose_manifest_is_not_kept_any_more_was_found_or_came_too_late(query, bucket, states):
    query.source = query.source.model_copy(update={"max_file_age": timedelta(hours=1)})
    query.run()
    bucket.put_rows("late.parquet", [(9, NOON)])
    yesterday = time.time() - 86_400
    os.utime(bucket.server.folder / bucket.name / "in" / "late.parquet", (yesterday, yesterday))
    query.run()
    (manifest,) = query.state_folder.glob("ledger/*/00000001-*")
    manifest.unlink()
    assert states("2.parquet")[0] == ["read"]
    assert states("2.parquet", path=False)[0] == ["found"]
    assert states("late.parquet")[0] == ["too old"]


def test_a_glob_names_many_and_an_address_names_its_bucket(query, bucket, ledger):
    query.run()
    assert [answer["key"] for answer in ledger("why", "in/[0-1]*")] == ["in/0.parquet", "in/1.parquet"]
    assert [answer["key"] for answer in ledger("why", f"{bucket.path}/*", checkpoint=False, path=False)] == [
        f"in/{hour}.parquet" for hour in range(4)
    ]
    assert "is not in the bucket" in ledger("why", "s3://elsewhere/in/0.parquet")
