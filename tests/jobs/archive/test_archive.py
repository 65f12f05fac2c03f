"""The archiver with a real broker: its objects, and runs that go on after one that was killed."""

import os
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import dataset, parquet

from tests.enumerators.archive.test_directory import MOST, archives
from tests.support.command import await_while_running, dice_of_kills, kill, started
from tests.support.streams import (
    HOUR,
    NOON,
    append,
    archive_topic,
    committed_source,
    delete_before,
    even_times,
    list_partition,
    new_topic,
)
from tidegate import archive
from tidegate.alignment.splits import SplitRange
from tidegate.enumerators.archive.listing import ParquetArchive
from tidegate.errors import DataLossError, OptionError
from tidegate.jobs.archive import pieces as pieces_module
from tidegate.jobs.archive import run as archive_run
from tidegate.jobs.archive.pieces import Lost, Margin, copy, merges_of, pieces_of, plan_archive, unread_since
from tidegate.readers.archive.objects import ArchivedObject, directory_of
from tidegate.readers.kafka.rows import arrow_schema
from tidegate.readers.places.place import Place
from tidegate.sources.s3.options import S3ConnectionOptions

PARTITIONS = 20


def archived(location, topic, partition=0):
    return [(part.start, part.end) for part in list_partition(Place(str(location)), topic, partition).parts]


@given(st.integers(0, 1000), st.integers(1, 1000), st.integers(0, 5 << 30))
def test_pieces_cover_a_range_without_gaps(start, length, size):
    pieces = pieces_of(SplitRange("t-0", start, start + length), size)
    assert [pieces[0].start, *(piece.end for piece in pieces)] == [*(piece.start for piece in pieces), start + length]
    assert len(pieces) == min(length, max(1, -(-size // pieces_module.OBJECT_BYTES)))


@given(archives())
def test_merged_objects_are_read_in_place_of_their_parts(objects):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces_module, "OBJECT_BYTES", 300)  # of three objects
        merges = merges_of(Place("/lake"), directory_of(objects))
    directory = directory_of([*objects, *(merge.obj for merge in merges)])
    read = {part.files[0] for part in directory.parts}
    for merge in merges:
        assert 2 <= len(merge.parts) <= 3
        assert merge.obj in read
        assert not read & {part.files[0] for part in merge.parts}
        offsets = [offset for part in merge.parts for offset in range(part.start, part.end)]
        assert offsets == [*range(merge.obj.first, merge.obj.next)]
    assert directory.holes(0, MOST) == directory_of(objects).holes(0, MOST)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 90)), min_size=1, max_size=60))
def test_runs_that_compact_delete_what_nobody_reads_and_write_no_record_often(grown):
    """Each run adds an object, merges, and deletes; queries list whenever they like."""
    written_s, now_s, bytes_written, first, listings = {}, 0, 0, 0, []
    for size, pause_s in grown:
        now_s += pause_s
        written_s[ArchivedObject("t/0", size, first, first + size, -1, -1, "")] = now_s
        first += size
        for merge in merges_of(Place("/lake"), directory_of(written_s)):
            merged = merge.obj._replace(size=sum(part.end - part.start for part in merge.parts))
            bytes_written += merged.size
            written_s[merged] = now_s
        listings.append((now_s, directory_of(written_s)))
        for obj in unread_since(written_s, now_s - 100):
            del written_s[obj]
        for listed_s, directory in listings:
            assert listed_s < now_s - 100 or {part.files[0] for part in directory.parts} <= written_s.keys()
        assert directory_of(written_s).holes(0, first) == []
    assert bytes_written <= first * 8
    read = {part.files[0] for part in directory_of(written_s).parts}
    assert {*unread_since(written_s, now_s + 1)} == written_s.keys() - read
    assert len(read) <= 2 * first.bit_length()


def test_a_later_run_copies_what_an_archive_lacks(kafka, tmp_path, monkeypatch):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 300))
    place, source = Place(str(tmp_path)), committed_source(kafka, topic)
    monkeypatch.setattr(pieces_module, "OBJECT_BYTES", 1000)
    first = plan_archive(source, place).pieces
    assert len(first) > 3
    copy(first[2])  # the others were lost with a run that was killed
    contents = [path.read_bytes() for path in tmp_path.rglob("*.parquet")]
    copy(first[2])
    assert [path.read_bytes() for path in tmp_path.rglob("*.parquet")] == contents
    append(kafka, topic, {0: even_times(NOON, NOON + HOUR, 100)})
    ranges = [piece.task.ranges[0] for piece in plan_archive(source, place).pieces]
    read = first[2].task.ranges[0]
    assert sorted(offset for r in (*ranges, read) for offset in range(r.start, r.end)) == list(range(400))


def test_of_two_archivers_at_once_each_record_is_read_once_also_of_new_partitions(kafka, tmp_path, monkeypatch):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 300))
    place, source = Place(str(tmp_path)), committed_source(kafka, topic)
    monkeypatch.setattr(pieces_module, "OBJECT_BYTES", 1000)
    first = plan_archive(source, place).pieces
    kafka.add_partitions(topic, 2)
    append(kafka, topic, {0: even_times(NOON, NOON + HOUR, 55), 1: even_times(NOON, NOON + HOUR, 7)})
    for piece in [*plan_archive(source, place).pieces, *first]:
        copy(piece)
    assert not plan_archive(source, place).pieces
    columns = arrow_schema(include_headers=True)
    for partition, count in enumerate((355, 7)):
        parts = list_partition(place, topic, partition).parts
        read = [ParquetArchive(place).read(part, columns) for part in parts]
        assert [at for rows in read for batch in rows for at in batch["offset"].to_pylist()] == [*range(count)]


def test_servers_that_are_empty_are_missing(tidegate, tmp_path):
    given = ("--bootstrap-servers", "", "--topic", "t", "--out", tmp_path / "lake", "--until", "latest")
    sentence = "--bootstrap-servers is missing: give --bootstrap-servers and --topic"
    assert tidegate("archive", *given) == (f"tidegate: {sentence}", "", "")


def test_what_cannot_be_archived_is_refused_in_one_sentence(tidegate, tmp_path):
    command = ["archive", "--bootstrap-servers", "nowhere:1", "--topic", "t", "--out", tmp_path / "lake", "--until"]
    code, _, _ = tidegate(*command, "lates")
    sentence = "tidegate: --until is 'lates', but a time is expected, such as 2026-01-31, 2026-01-31T12:00Z or "
    assert code == f"{sentence}milliseconds since 1970, or latest; did you mean 'latest'?"
    uncommitted, properties = "isolation.level=read_uncommitted", tmp_path / "client.properties"
    properties.write_text(uncommitted)
    for options in (("--kafka", uncommitted), ("--kafka-properties", properties)):
        code, _, _ = tidegate(*command, "latest", *options)
        assert code == "tidegate: isolation.level is 'read_uncommitted', but only committed records are archived"
    code, _, _ = tidegate(*command, "latest", "--out", "s3://id:hid/den@lake/orders")
    assert code.startswith("tidegate: --out is 's3://lake/orders': a login in an address of S3 is not used; ")
    code, _, _ = tidegate(*command, "1969-12-31")
    expected = "but a time with a zone is expected, in 1970 or later"
    assert code == f"tidegate: until is 1969-12-31T00:00:00+00:00, {expected}"
    without_zone = datetime.fromisoformat("2026-01-31")
    with pytest.raises(OptionError, match=f"^until is 2026-01-31T00:00:00, {expected}$"):
        archive(None, bootstrap_servers="nowhere:1", topics=["t"], out=str(tmp_path), until=without_zone)


def test_offsets_that_kafka_deleted_too_early_are_reported(kafka, tmp_path):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 100))
    place, source = Place(str(tmp_path)), committed_source(kafka, topic)
    (piece,) = plan_archive(source, place).pieces
    wanted = replace(piece.task.ranges[0], end=40)
    copy(replace(piece, task=replace(piece.task, ranges=(wanted,)), obj=piece.obj._replace(next=40)))
    delete_before(kafka, topic, 60)
    plan = plan_archive(source, place)
    assert plan.lost == [Lost(f"{topic}-0", 40, 59)]
    assert [piece.task.ranges[0].start for piece in plan.pieces] == [60]
    delete_before(kafka, topic, 100)
    assert not plan_archive(source, place).pieces


def test_a_recreated_topic_and_a_log_that_was_cut_need_another_place(kafka, tmp_path):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 10))
    place, source = Place(str(tmp_path)), committed_source(kafka, topic)
    (piece,) = plan_archive(source, place).pieces
    copy(replace(piece, obj=piece.obj._replace(topic_id="3wPRAVyyQuWBJIrTXdHuzg")))
    with pytest.raises(OptionError, match=r"--out is .* the id 3wPRAVyyQuWBJIrTXdHuzg; it was recreated as"):
        plan_archive(source, place)
    copy(replace(piece, place=(longer := Place(str(tmp_path / "longer"))), obj=piece.obj._replace(next=12)))
    with pytest.raises(DataLossError, match=f"--out is .* holds {topic}-0 up to offset 11, but .* from 10 on"):
        plan_archive(source, longer)


def test_the_command_archives_what_there_is_on_spark(kafka, spark, tidegate, tmp_path, monkeypatch):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 200), even_times(NOON, NOON + HOUR, 30))
    monkeypatch.setattr(archive_run, "spark_session", lambda *_: nullcontext(spark))
    command = ["archive", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic, "--out", tmp_path / "lake"]
    code, output, errors = tidegate(*command, "--until", "latest")
    assert code == 0, errors
    assert output.startswith("230 records of 2 partitions archived: 2 objects, ")
    table = dataset.dataset(tmp_path / "lake" / topic, format="parquet").to_table()
    assert table.num_rows == 230
    assert (archived(tmp_path / "lake", topic), archived(tmp_path / "lake", topic, 1)) == ([(0, 200)], [(0, 30)])
    monkeypatch.setattr(archive_run, "spark_session", lambda *_: pytest.fail("it starts a Spark for nothing"))
    code, output, _ = tidegate(*command, "--until", "latest")
    assert (code, output.split(",")[0]) == (0, "0 records of 2 partitions archived: 0 objects")
    append(kafka, topic, {1: even_times(NOON + HOUR, NOON + 2 * HOUR, 10)})
    arguments = {"bootstrap_servers": kafka.bootstrap_servers, "topics": [topic], "out": str(tmp_path / "lake")}
    done = archive(spark, **arguments)
    assert (done.objects, done.records, done.partitions, done.lost) == (1, 10, 2, [])
    assert done.margin == Margin(HOUR, f"{topic}-1")
    done = archive(spark, **arguments, compact=True)
    assert (done.objects, done.merged, done.deleted) == (0, 2, 0)
    assert archived(tmp_path / "lake", topic, 1) == [(0, 40)]
    assert len([*(tmp_path / "lake" / topic / "1").iterdir()]) == 3  # queries may have listed the old ones
    monkeypatch.setattr(pieces_module, "KEPT_S", 0)
    code, output, _ = tidegate(*command, "--until", "latest", "--compact")
    assert output.endswith(f"in {tmp_path / 'lake'}; 0 merged, 2 deleted\n")
    (merged,) = (tmp_path / "lake" / topic / "1").iterdir()
    assert parquet.read_table(merged)["offset"].to_pylist() == [*range(40)]
    monkeypatch.setattr(archive_run, "spark_session", lambda *_: nullcontext(spark))
    damaged = tmp_path / "lake" / topic / "1" / merged.name
    damaged.write_bytes(damaged.read_bytes()[:-8] + bytes(8))
    append(kafka, topic, {partition: even_times(NOON + 2 * HOUR, NOON + 3 * HOUR, 40) for partition in (0, 1)})
    assert tidegate(*command, "--until", "latest")[0] == 0
    append(kafka, topic, {0: even_times(NOON + 3 * HOUR, NOON + 4 * HOUR, 10)})
    code, output, _ = tidegate(*command, "--until", "latest", "--compact")
    assert output.startswith("10 records of 2 partitions archived: 1 object, ")
    assert code.startswith("tidegate: 1 of 2 objects could not be written; the first: the archived object ")
    assert damaged.name in code
    later = [even_times(NOON + 5 * HOUR, NOON + 6 * HOUR, count) for count in (20, 12)]
    append(kafka, topic, dict(enumerate(later)))
    code, output, _ = tidegate(*command, "--until", NOON + 5 * HOUR + HOUR // 4)
    assert output.startswith("8 records of 2 partitions archived: 2 objects, ")  # the same 15 minutes of both
    assert (archived(tmp_path / "lake", topic)[-1], archived(tmp_path / "lake", topic, 1)[-1]) == ((250, 255), (80, 83))
    done = archive(spark, **{**arguments, "topics": topic}, until=datetime(2023, 11, 15, 17, 30, tzinfo=timezone.utc))
    assert (done.objects, done.records) == (2, 8)


def test_without_an_end_the_command_copies_what_is_new_every_hour(kafka, spark, tidegate, tmp_path, monkeypatch):
    topic = new_topic(kafka, even_times(NOON, NOON + HOUR, 20))
    monkeypatch.setattr(archive_run, "spark_session", lambda *_: nullcontext(spark))
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt
        append(kafka, topic, {0: even_times(NOON + HOUR, NOON + 2 * HOUR, 5)})

    monkeypatch.setattr(archive_run, "_pause", pause)
    code, output, errors = tidegate(
        "archive", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic, "--out", tmp_path
    )
    assert code == 130
    assert [line.split(" records")[0] for line in output.splitlines()] == ["20", "5"]
    assert f"{topic}-0: Kafka's retention is 1 h behind the archive" in errors
    assert "the same command continues from here" in errors
    assert 3000 < pauses[0] <= archive_run.EVERY_S
    assert archived(tmp_path, topic) == [(0, 20), (20, 25)]


def test_killed_with_all_its_processes_it_goes_on(kafka, spark, bucket, tidegate, monkeypatch):
    """A command without an end copies to a bucket, whose connection boto3 finds, and merges; another one ends its work.

    It is killed while it copies or merges: KILLS_SEED in the environment chooses other moments.
    """
    topic = new_topic(kafka, *[[]] * PARTITIONS)
    access = S3ConnectionOptions(**bucket.connection).connection
    place = Place(bucket.path, access)
    for count in (100, 100, 300):  # two objects of each partition to merge, and one to copy
        archive_topic(kafka, topic, place)
        append(kafka, topic, dict.fromkeys(range(PARTITIONS), even_times(NOON, NOON + HOUR, count)))
    before = len(bucket.keys())
    env = {**os.environ, **bucket.server.environment}
    command = ("archive", "--bootstrap-servers", kafka.bootstrap_servers, "--topic", topic, "--out", bucket.path)
    wanted = dice_of_kills().randrange(1, PARTITIONS * 3 // 2)
    with started(*command, "--compact", "--master", "local[1]", env=env) as process:
        await_while_running(lambda: len(bucket.keys()) >= before + wanted, process)
        kill(process)
    written = len(bucket.keys()) - before
    assert 0 < written <= 2 * PARTITIONS  # a slow machine may see the last objects first
    plan = plan_archive(committed_source(kafka, topic), place)
    merged = sum(directory.parts[0].end >= 200 for directory in plan.directories.values())
    assert len(plan.pieces) == PARTITIONS - (written - merged)
    for name, value in bucket.server.environment.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    monkeypatch.setattr(archive_run, "spark_session", lambda *_: nullcontext(spark))
    code, _, errors = tidegate(*command, "--compact", "--until", "latest")
    assert code == 0, errors
    for partition in range(PARTITIONS):
        parts = list_partition(place, topic, partition).parts
        rows = [ParquetArchive(place).read(part, arrow_schema(include_headers=True)) for part in parts]
        assert [at for read in rows for batch in read for at in batch.column("offset").to_pylist()] == [*range(500)]
        assert parts[0].end >= 200  # merged
