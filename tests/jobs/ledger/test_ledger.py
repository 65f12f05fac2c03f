"""What the state location of a query tells, and what it takes to read something again; Spark's part is played here."""

import json
import os
import re
import time
from collections import Counter
from contextlib import closing
from datetime import timedelta

import pytest

from tests.support.streams import HOUR, NOON
from tidegate import S3Source, WatermarkStrategy
from tidegate.enumerators.planning.coordinator import CoordinatorSettings, SourceCoordinator
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.s3.state import lease


class Query:
    """A query over a checkpoint, batch by batch, as Spark runs it.

    delivered: how often each object was, by the end of its key.
    """

    def __init__(self, bucket, folder):
        strategy = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=1))
        self.state_folder, self.checkpoint = folder / "state", folder / "checkpoint"
        self.source = S3Source(
            path=bucket.path,
            state_location=str(self.state_folder),
            event_time="column:at",
            **bucket.connection,
        )
        self.settings = CoordinatorSettings(strategy, discovery_interval_s=0)
        self.offset, self.number, self.delivered = INITIAL_OFFSET, 0, Counter()

    def run(self, batches=100, *, commits=True):
        """Run some batches; without ``commits`` the last one is planned and not written."""
        planner = SourceCoordinator("s3", self.source.enumerator, self.settings, cores=1)
        with closing(planner):
            for left in range(batches, 0, -1):
                end = json.loads(json.dumps(planner.latest_offset(self.offset)))
                if end == self.offset:
                    return
                self._log("offsets", json.dumps({}), json.dumps(end))
                if commits or left > 1:
                    for task in planner.tasks(self.offset, end):
                        chunks = [chunk for of_range in task.details for chunk in of_range]
                        self.delivered.update(chunk.key.rpartition("/")[2] for chunk in chunks)
                    self._log("commits", "{}")
                self.offset, self.number = end, self.number + 1

    def _log(self, name, *lines):
        (self.checkpoint / name).mkdir(parents=True, exist_ok=True)
        (self.checkpoint / name / str(self.number)).write_text("\n".join(["v1", *lines]))


@pytest.fixture
def query(bucket, tmp_path):
    """A query over four objects of one row, one for each hour from noon on."""
    for hour in range(4):
        bucket.put_rows(f"{hour}.parquet", [(hour, NOON + hour * HOUR)])
    return Query(bucket, tmp_path)


@pytest.fixture
def ledger(tidegate, bucket, query):
    """Run the command; return what it printed as JSON, or the sentence it ended with."""

    def run(verb, *arguments, checkpoint=True, path=True, **options):
        reached = {"endpoint": bucket.server.endpoint, "region": bucket.server.region, **options}
        keys = {"accessKey": bucket.server.access_key, "secretKey": bucket.server.secret_key}
        given = {**reached, **keys, "eventTime": "column:at", **({"path": bucket.path} if path else {})}
        command = ["ledger", verb, query.state_folder, *arguments, "--json"]
        command += [part for name, value in given.items() for part in ("--option", f"{name}={value}")]
        code, output, _ = tidegate(*command, *(("--checkpoint", query.checkpoint) if checkpoint else ()))
        return json.loads(output) if code == 0 else code

    return run


@pytest.fixture
def states(ledger, bucket):
    """Return the states of what is known of an object, and all sentences."""

    def ask(key, **how):
        (found,) = ledger("why", f"in/{key}", **how)
        return [each["state"] for each in found["findings"]], " ".join(each["sentence"] for each in found["findings"])

    return ask


def test_it_tells_who_uses_it_and_how_far_each_manifest_is_read(query, ledger):
    query.run(2)
    query.run(1, commits=False)
    told = ledger("show")
    (manifest,) = told["manifests"]
    assert (told["lease"], told["batch"], told["batchIsWritten"], told["objectsRemembered"]) == (
        "released",
        2,
        False,
        4,
    )
    assert (manifest["chunks"], manifest["objects"], manifest["begin"], manifest["end"]) == (
        4,
        4,
        NOON,
        NOON + 3 * HOUR,
    )
    assert (manifest["read"], manifest["planned"], manifest["batch"]) == (2, 3, 2)
    told = ledger("show", checkpoint=False)
    assert (told["batch"], told["manifests"][0]["read"]) == (None, None)


def test_a_state_location_may_lie_in_a_bucket(query, bucket, ledger):
    place = f"s3://{bucket.name}/state"
    query.source = query.source.model_copy(update={"state_location": place})
    query.run(2)
    query.state_folder = place
    assert ledger("show")["manifests"][0]["read"] == 2


def test_an_object_is_read_by_a_batch_or_waits_at_an_event_time(query, states):
    query.run(2)
    query.run(1, commits=False)
    assert [states(f"{hour}.parquet")[0] for hour in range(4)] == [["read"], ["read"], ["planned"], ["waiting"]]
    assert "batch 1 has read it: position 1 of manifest 00000001-" in states("1.parquet")[1]
    assert "with event times from 2023-11-15 15:00:00 UTC; the query has read 3 of its" in states("3.parquet")[1]
    assert states("3.parquet", checkpoint=False)[0] == ["found"]


def test_an_object_that_was_not_read_was_left_out_or_overwritten_or_is_new_or_never_was(query, bucket, states):
    query.run()
    bucket.put("_hidden.parquet", b"x")
    bucket.put("some/4.parquet", b"x")
    bucket.put_rows("new.parquet", [(9, NOON)])
    bucket.put_rows("0.parquet", [(8, NOON), (9, NOON)])
    assert states("_hidden.parquet")[0] == ["left out"]
    assert "its folder 'some' is not entered without recursiveFileLookup" in states("some/4.parquet")[1]
    assert states("1.parquet", modifiedAfter="2100-01-01")[0] == ["read", "left out"]
    assert states("new.parquet") == (["not found yet"], "it was never seen; the next discovery round finds it")
    assert states("0.parquet")[0] == ["read", "overwritten"]
    assert states("none.parquet")[0] == ["unknown"]
    query.run()
    assert states("0.parquet")[0] == ["read", "left out"]
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
    state, sentence = states("2.parquet")
    assert state == ["read"]
    assert "it was found, and nothing of it is left to read" in sentence
    assert states("2.parquet", path=False)[0] == ["found"]
    state, sentence = states("late.parquet")
    assert state == ["too old"]
    assert "(maxFileAge)" in sentence


def test_a_glob_names_many_and_an_address_names_its_bucket(query, bucket, ledger):
    query.run()
    assert [each["key"] for each in ledger("why", "in/[0-1]*")] == ["in/0.parquet", "in/1.parquet"]
    assert [each["key"] for each in ledger("why", f"{bucket.path}/*", checkpoint=False, path=False)] == [
        f"in/{hour}.parquet" for hour in range(4)
    ]
    assert "is not in the bucket" in ledger("why", "s3://elsewhere/in/0.parquet")


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
    assert (asked["chunks"], asked["begin"], asked["end"]) == (2, NOON + HOUR, NOON + 2 * HOUR)
    query.run()
    assert query.delivered == Counter({"0.parquet": 1, "1.parquet": 2, "2.parquet": 2, "3.parquet": 1})
    assert "there is nothing to read again" in ledger("reread", "--from", "2024-01-01")


def test_batches_are_read_once_more(query, ledger):
    query.run()
    assert ledger("reread", "--batches", "1-2", path=False)["chunks"] == 2
    query.run()
    assert query.delivered == Counter({"0.parquet": 1, "1.parquet": 2, "2.parquet": 2, "3.parquet": 1})
    assert "batch 9 is none that is written and that Spark still knows; it knows 0 to " in ledger(
        "reread", "--batches", "9"
    )
    for path in query.state_folder.glob("ledger/*/00000001-*"):
        path.unlink()
    assert "which is finished and no longer kept; name its objects" in ledger("reread", "--batches", "0")


@pytest.mark.parametrize("arguments", [("in/*",), ("--batches", "0")])
def test_of_a_query_that_cleans_what_it_reads_nothing_can_be_read_again(query, ledger, arguments):
    query.source = query.source.model_copy(update={"clean_source": "delete"})
    query.run()
    assert "the query cleans objects that it has read (cleanSource)" in ledger("reread", *arguments)


@pytest.mark.parametrize(
    ("arguments", "how", "sentence"),
    [
        (
            ("reread", "--batches", "x"),
            {},
            "--batches is 'x', but a number or a range is expected, such as 7 or 3-5",
        ),
        (("reread",), {}, "nothing to read again is named: give GLOB, --from and --to, or --batches"),
        (("reread", "in/*"), {"path": False}, "--option path=s3://... is needed"),
        (("reread", "in/*", "--batches", "1"), {}, "--batches cannot be combined with GLOB, --from or --to"),
        (("reread", "--from", "noon"), {}, "--from is 'noon', but a time is expected"),
        (("show",), {"endpiont": "x"}, "there is no option 'endpiont'; did you mean 'endpoint'?"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(query, ledger, arguments, how, sentence):
    query.run()
    assert sentence in ledger(*arguments, **how)


def test_a_place_that_no_query_used_and_a_checkpoint_of_another_query_are_told(query, ledger, tmp_path):
    assert "is not a state location that a query has used" in ledger("show")
    query.run()
    (tmp_path / "checkpoint").rename(tmp_path / "moved")
    assert f"--checkpoint is {query.checkpoint}, in which no batch is of the query" in ledger("show")


def test_what_abandoned_checkpoints_left_is_shown_and_deleted_on_request(query, ledger):
    query.run()
    abandoned = ledger("show")["query"]
    query.offset = INITIAL_OFFSET  # a new checkpoint
    query.run(1)
    ask = {"checkpoint": False, "path": False}
    now, before = ledger("queries", **ask)
    assert (before["query"], before["lease"], now["lease"]) == (abandoned, None, "released")
    files = [path.stat() for path in (query.state_folder / "ledger" / abandoned).iterdir()]
    assert (before["files"], before["bytes"]) == (len(files), sum(file.st_size for file in files))
    assert abs(before["written"] - max(file.st_mtime for file in files) * 1000) < 1
    assert f"no query '{abandoned}x' keeps anything in " in ledger("forget", f"{abandoned}x", **ask)
    assert ledger("forget", abandoned, **ask) == [before]
    assert ledger("queries", **ask) == [now]
    query.run()
    assert query.delivered == Counter({f"{hour}.parquet": 2 for hour in range(4)})


def test_a_query_that_is_running_is_not_forgotten(query, ledger, monkeypatch):
    monkeypatch.setattr(lease, "RENEWALS_PER_LEASE", 300)
    planner = SourceCoordinator("s3", query.source.enumerator, query.settings, cores=1)
    with closing(planner):
        owner = planner.latest_offset(INITIAL_OFFSET)["enumerator"]["owner"]
        sentence = ledger("forget", owner, checkpoint=False, path=False)
    assert f"the query '{owner}' is running, and uses the state location " in sentence
    assert ledger("forget", owner, checkpoint=False, path=False)[0]["query"] == owner


def test_people_see_lines(query, tidegate):
    query.run(2)
    code, output, _ = tidegate("ledger", "show", query.state_folder, "--checkpoint", query.checkpoint)
    assert code == 0
    assert f"\n{'last batch':25}  1, written\n" in output
    assert "  4 chunks, 4 objects, " in output
    assert "  2 chunks read, last by batch 1\n" in output
    code, output, _ = tidegate("ledger", "queries", query.state_folder)
    assert code == 0
    assert re.match(r"[0-9a-f]{12}  3 files, [\d,]+ bytes, written on 20.*, has used it last: released$", output)
    code, output, _ = tidegate("ledger", "why", query.state_folder, "in/3*", "--checkpoint", query.checkpoint)
    assert code == 0
    assert output.startswith("in/3.parquet\n  waiting: it waits at position 3 of manifest 00000001-")


def test_people_are_told_that_no_query_is_left(query, tidegate):
    query.run()
    _, output, _ = tidegate("ledger", "queries", query.state_folder)
    assert tidegate("ledger", "forget", query.state_folder, output.split()[0])[0] == 0
    assert tidegate("ledger", "queries", query.state_folder) == (0, "no query keeps anything here\n", "")


@pytest.mark.parametrize("verb", ["show", "why", "reread", "queries", "forget"])
def test_every_verb_has_help_of_its_own(tidegate, verb):
    code, output, _ = tidegate("ledger", verb, "--help")
    assert code == 0
    assert f"tidegate ledger {verb} " in output
    assert verb in tidegate("ledger", "--help")[1]


def test_a_misspelt_verb_is_told_with_the_nearest(tidegate):
    code, _, errors = tidegate("ledger", "shwo", "state")
    assert code == 2
    assert "No such command 'shwo'. Did you mean 'show'?" in errors


def test_without_a_checkpoint_nothing_is_read_again(tidegate):
    code, _, errors = tidegate("ledger", "reread", "state", "--batches", "1")
    assert code == 2
    assert "Missing option '--checkpoint'" in errors
