"""`tidegate ledger` shows who uses a state location, how far it is read, and why an object was read or not."""

import json
import os
import time
from collections import Counter
from datetime import timedelta

import pytest

from tests.jobs.checkpoints import write_log
from tests.support.logs import coordinating
from tests.support.streams import HOUR, NOON
from tidegate import S3Source, WatermarkStrategy
from tidegate.cli import print_answer
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.jobs.figures import clock_time
from tidegate.jobs.ledger import Wanted


class Query:
    """A query over a checkpoint, batch by batch, as Spark runs it.

    delivered: how often each object was delivered, by the end of its key.
    """

    def __init__(self, bucket, folder):
        strategy = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=1))
        self.state_folder, self.checkpoint = folder / "state", folder / "checkpoint"
        self.source = S3Source(
            path=bucket.path,
            state_location=str(self.state_folder),
            event_time="column:at",
            watermarks=strategy,
            **bucket.connection,
        )
        self.offset, self.number, self.delivered = INITIAL_OFFSET, 0, Counter()

    def run(self, batches=100, *, commits=True):
        """Run some batches; without ``commits`` the last batch is planned but not written."""
        with coordinating(self.source, discovery_interval_s=0) as planner:
            for left in range(batches, 0, -1):
                end = json.loads(json.dumps(planner.latest_offset(self.offset)))
                if end == self.offset:
                    return
                write_log(self.checkpoint, "offsets", self.number, json.dumps({"batchWatermarkMs": 0}), json.dumps(end))
                if commits or left > 1:
                    for task in planner.tasks(self.offset, end):
                        chunks = [chunk for of_range in task.details for chunk in of_range]
                        self.delivered.update(chunk.key.rpartition("/")[2] for chunk in chunks)
                    write_log(self.checkpoint, "commits", self.number, "{}")
                self.offset, self.number = end, self.number + 1


@pytest.fixture
def query(bucket, tmp_path):
    """A query over four objects of one row, one for each hour from noon on."""
    for hour in range(4):
        bucket.put_rows(f"{hour}.parquet", [(hour, NOON + hour * HOUR)])
    return Query(bucket, tmp_path)


@pytest.fixture
def ledger(tidegate, bucket, query):
    """Run the command; return the JSON that it printed, or the sentence with which it ended."""

    def run(verb, *arguments, checkpoint=True, path=True, **options):
        given = {**bucket.options, "eventTime": "column:at", **({"path": bucket.path} if path else {}), **options}
        command = ["ledger", verb, query.state_folder, *arguments]
        command += [part for name, value in given.items() for part in ("--option", f"{name}={value}")]
        code, output, _ = tidegate(*command, *(("--checkpoint", query.checkpoint) if checkpoint else ()))
        return json.loads(output) if code == 0 else code

    return run


@pytest.fixture
def states(ledger):
    """Return the states of the findings about an object, and their reasons."""

    def ask(key, **how):
        (answer,) = ledger("why", f"in/{key}", **how)
        findings = answer["findings"]
        return [finding["state"] for finding in findings], [f["reason"] for f in findings if "reason" in f]

    return ask


def test_it_tells_who_uses_it_and_how_far_each_manifest_is_read(query, ledger):
    query.run(2)
    query.run(1, commits=False)
    reported = ledger("show")
    (manifest,) = reported["manifests"]
    assert (reported["lease"], reported["batch"], reported["batchIsWritten"], reported["objectsRemembered"]) == (
        "released",
        2,
        False,
        4,
    )
    assert (manifest["chunks"], manifest["objects"], manifest["begin"], manifest["end"]) == (
        4,
        4,
        clock_time(NOON),
        clock_time(NOON + 3 * HOUR),
    )
    assert (manifest["read"], manifest["planned"], manifest["batch"]) == (2, 3, 2)
    reported = ledger("show", checkpoint=False)
    assert (reported["batch"], reported["manifests"][0]["read"]) == (None, None)


def test_a_state_location_may_lie_in_a_bucket(query, bucket, ledger):
    place = f"s3://{bucket.name}/state"
    query.source = query.source.model_copy(update={"state_location": place})
    query.run(2)
    query.state_folder = place
    assert ledger("show")["manifests"][0]["read"] == 2


def test_a_place_that_no_query_used_and_a_checkpoint_of_another_query_are_told(query, ledger, tmp_path):
    assert "is not a state location that a query has used" in ledger("show")
    query.run()
    (tmp_path / "checkpoint").rename(tmp_path / "moved")
    assert f"--checkpoint is {query.checkpoint}, which has no batch of the query" in ledger("show")


def test_a_key_gives_a_terminal_no_commands(capsys):
    print_answer([{"key": "in/\x1b[2Jä.json", "findings": [{"state": "left out", "reason": "nothing\rat all"}]}])
    assert capsys.readouterr().out.replace("\n", "").isprintable()


def test_an_option_that_there_is_not_is_named_in_a_sentence(query, ledger):
    query.run()
    assert "there is no option 'endpiont'; did you mean 'endpoint'?" in ledger("show", endpiont="x")


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
