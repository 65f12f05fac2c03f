"""``tidegate ledger reread`` lets objects be read once more."""

from collections import Counter

from tests.support.streams import HOUR, NOON
from tidegate.jobs.figures import clock_time


def test_objects_are_read_once_more_but_none_that_has_yet_to_be_read(query, bucket, ledger):
    query.run(2)
    bucket.put_rows("new.parquet", [(9, NOON)])
    asked = ledger("reread", "in/*")
    assert (asked["chunks"], asked["notYetRead"]) == (2, 2)
    assert ledger("show")["rereads"] == {asked["request"]: 2}
    query.run()
    expected = {"0.parquet": 2, "1.parquet": 2, "2.parquet": 1, "3.parquet": 1, "new.parquet": 1}
    assert query.delivered == Counter(expected)
    assert ledger("show")["rereads"] == {}
    query.run()
    assert query.delivered == Counter(expected)


def test_event_times_are_read_once_more_also_of_a_version_that_was_left_out(query, bucket, ledger):
    query.run()
    bucket.put_rows("2.parquet", [(7, NOON + 2 * HOUR), (8, NOON + 2 * HOUR)])
    query.run()
    times = ("--from", "2023-11-15T13:00", "--to", "2023-11-15T15:00")
    asked = ledger("reread", *times)
    assert (asked["chunks"], asked["begin"], asked["end"]) == (2, clock_time(NOON + HOUR), clock_time(NOON + 2 * HOUR))
    query.run()
    assert query.delivered == Counter({"0.parquet": 1, "1.parquet": 2, "2.parquet": 2, "3.parquet": 1})
    assert "names nothing to read again" in ledger("reread", "--from", "2024-01-01")


def test_of_a_query_that_cleans_what_it_reads_nothing_can_be_read_again(query, ledger):
    query.source = query.source.model_copy(update={"clean_source": "delete"})
    query.run()
    assert "the query cleans objects that it has read (cleanSource)" in ledger("reread", "in/*")


def test_without_a_checkpoint_nothing_is_read_again(tidegate):
    code, _, errors = tidegate("ledger", "reread", "state", "in/*")
    assert code == 2
    assert "Missing option '--checkpoint'" in errors
