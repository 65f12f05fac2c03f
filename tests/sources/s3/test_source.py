"""The S3 source through Spark: everything once, in event-time order, as Spark's own readers read it."""

from datetime import timedelta
from itertools import pairwise

import pytest
from pyspark.sql.functions import lit

import tidegate
from tests.support.command import await_that
from tests.support.queues import event_bridge_body, s3_body, sns_body
from tests.support.streams import HOUR, MINUTE, NOON, available_now, finish, milliseconds, parsed, running, start
from tidegate import OptionError, Source, WatermarkStrategy
from tidegate.enumerators.folders.folder import LocalFolder
from tidegate.jobs.account.account import NO_ROWS
from tidegate.jobs.spark_checkpoint import BatchLogs
from tidegate.sources.bridge import schema_of
from tidegate.windows import TumblingEventTimeWindows

DRIFT = timedelta(hours=1)


def aligned(drift=DRIFT, disorder=timedelta(0)):
    return WatermarkStrategy.for_bounded_out_of_orderness(disorder).with_watermark_alignment(max_drift=drift)


def hourly(hours, rows=10):
    """Return an object's rows for each hour; ids count up over all objects."""
    return {hour: [(hour * rows + n, NOON + hour * HOUR + n * (HOUR // rows)) for n in range(rows)] for hour in hours}


def fill(bucket, hours):
    """Write such an object for each of the first hours."""
    for hour, rows in hourly(range(hours)).items():
        bucket.put_rows(f"{hour}.parquet", rows)


def ids(run):
    return sorted(row["id"] for row in run.all_rows)


@pytest.fixture
def read(spark, source, tmp_path):
    """Let a query of some name read all that there is, and return the ids of the rows; ``then``: after each batch."""

    def run(name, then=None, **fields):
        common = {"event_time": "column:at", "watermarks": aligned(), "state_location": str(tmp_path / f"{name}-state")}
        return ids(available_now(source(**common, **fields).read_stream(spark).select("id"), tmp_path / name, then))

    return run


def test_objects_are_read_once_in_the_order_of_their_event_times_whatever_their_names(spark, bucket, source, tmp_path):
    objects = hourly(range(12))
    for hour, rows in objects.items():
        bucket.put_rows(f"{(hour * 7) % 12:02}.parquet", rows)
    strategy = aligned(timedelta(hours=2))
    frame = source(event_time="column:at", watermarks=strategy).read_stream(spark)
    run = available_now(frame.select("id"), tmp_path / "checkpoint")
    assert ids(run) == list(range(120))
    assert len(run.rows) >= 6
    read = [sorted(row["id"] for row in rows) for rows in run.rows.values()]
    assert all(before[-1] < after[0] for before, after in pairwise(read))
    page = tidegate.report(run.query, tmp_path / "query.html").read_text()
    assert f"120 rows in {len(run.rows)} batches" in page
    assert f"<h2>{bucket.path}</h2>" in page


def test_an_object_that_is_overwritten_while_it_waits_ends_the_query_or_is_read_in_its_new_version(bucket, read):
    new = [(100, NOON + 3 * HOUR), (101, NOON + 3 * HOUR)]

    def overwrite(batch):
        if batch == 0:
            bucket.put_rows("1.parquet", new)

    fill(bucket, 2)
    with pytest.raises(Exception, match=r"in/1.parquet was overwritten .* set allowOverwrites to true"):
        read("once", overwrite, ignore_missing_files=True)
    assert read("once", allow_overwrites=True) == [100, 101]


def test_objects_are_archived_when_they_are_read_and_a_version_that_came_later_stays(bucket, read):
    def overwrite(batch):
        if batch == 0:  # the batch has read it, and is not committed yet
            bucket.put_rows("kept.parquet", [(100, NOON)])

    bucket.put_rows("kept.parquet", [(99, NOON)])
    fill(bucket, 2)
    archive = {"clean_source": "Archive", "source_archive_dir": f"s3://{bucket.name}/old"}
    assert read("archiving", overwrite, **archive) == [*range(20), 99]
    assert read("archiving", **archive) == []  # cleans the objects for which the first run had no time
    await_that(lambda: bucket.keys("in/") == ["in/kept.parquet"])
    assert bucket.keys("old/") == ["old/in/0.parquet", "old/in/1.parquet"]


def test_a_stream_needs_a_place_for_what_it_discovers(spark, bucket, source, tmp_path):
    bucket.put_rows("a.parquet", [(1, NOON)])
    with pytest.raises(OptionError, match=r"^the option 'stateLocation' is missing"):
        source(state_location=None).read_stream(spark)
    with pytest.raises(Exception, match="'stateLocation' is missing"):  # as for options, which do not tell a stream
        available_now(Source.read_stream(source(state_location=None), spark), tmp_path)


def test_the_watermark_is_that_of_the_least_unread_time(spark, bucket, source, tmp_path):
    fill(bucket, 5)
    strategy = aligned(timedelta(hours=1), timedelta(minutes=5))
    frame = source(event_time="column:at", watermarks=strategy, source_watermark="column").read_stream(spark)
    run = available_now(frame.select("id", "at", "source_watermark"), tmp_path / "checkpoint")
    for rows in run.rows.values():
        assert rows[0]["source_watermark"] is not None
    unread = {row["id"]: milliseconds(row["at"]) for row in run.all_rows}
    for rows in run.rows.values():
        for row in rows:
            unread.pop(row["id"])
        watermark = milliseconds(rows[0]["source_watermark"])
        assert watermark == (min(unread.values()) if unread else NOON + 5 * HOUR - 6 * MINUTE) - 5 * MINUTE - 1
    ends = {number: parsed(said.sources[0].endOffset) for number, said in run.progress.items()}
    assert ends[max(ends)]["positions"].keys()
    checkpoint = LocalFolder(tmp_path / "checkpoint", "checkpoint")
    logged = BatchLogs.read(checkpoint).of_source(lambda offset: offset.source == "s3")
    assert {batch.number: batch.end.to_json() for batch in logged if batch.is_committed} == ends


def test_windows_close_on_the_markers_of_folders_and_not_before(spark, bucket, source, tmp_path):
    folders = [f"dt=2023-11-15/hour={12 + hour}" for hour in range(3)]
    objects = hourly(range(3))
    for hour in (0, 1):
        bucket.put_rows(f"{folders[hour]}/part.parquet", objects[hour])
    orders = source(
        event_time="column:at",
        watermark_from="marker:dt={yyyy-MM-dd}/hour={HH}/_SUCCESS",
        discovery_interval=timedelta(milliseconds=200),
    ).read_stream(spark)
    windows = tidegate.windowed(orders.withColumn("shop", lit("a")), key="shop", event_time="at")
    counts = windows.window(TumblingEventTimeWindows.of(timedelta(hours=1))).aggregate(rows="count(*)")
    written = {}  # by the batch, because a restart may write the last batch again

    def keep(batch, number):
        written[number] = [(milliseconds(row["window_start"]), row["rows"]) for row in batch.collect()]

    def closed():
        return [window for number in sorted(written) for window in sorted(written[number])]

    with running(start(counts, tmp_path / "checkpoint", keep)) as query:

        def rows_read():
            return sum(p.numInputRows for p in query.recentProgress)

        await_that(lambda: rows_read() == 20)
        bucket.put(f"{folders[1]}/_SUCCESS", b"")
        bucket.put_rows(f"{folders[2]}/part.parquet", objects[2])
        await_that(lambda: rows_read() == 30)
        assert closed() == []  # the first folder has no marker, and holds back the second
        assert milliseconds(tidegate.progress(query)[0].completeness.held_from) == NOON
        bucket.put(f"{folders[0]}/_SUCCESS", b"")
        await_that(lambda: len(closed()) == 2)
        complete = tidegate.progress(query)[0].completeness
        assert milliseconds(complete.until) == NOON + 2 * HOUR - 1
        assert milliseconds(complete.held_from) == NOON + 2 * HOUR
        assert tidegate.account(query).late == NO_ROWS  # which windows count, so it is no bound
    assert closed() == [(NOON, 10), (NOON + HOUR, 10)]
    bucket.put(f"{folders[2]}/_SUCCESS", b"")
    finish(start(counts, tmp_path / "checkpoint", keep, availableNow=True))
    assert closed()[2:] == [(NOON + 2 * HOUR, 10)]


UNTIMED = {
    "csv": (b'id,name\n1,"a, b"\n,\n\n2,"\xc3\xbc"\n', {"header": True}),
    "text": (b"a\r\n\nb\rc\xff", {}),
    "binaryFile": (b"\x00\xff\n", {}),
}


@pytest.mark.parametrize("file_format", UNTIMED)
def test_a_batch_query_reads_what_sparks_own_reader_reads(spark, bucket, source, tmp_path, file_format):
    content, options = UNTIMED[file_format]
    (tmp_path / "local").mkdir()
    for name in ("a", "b"):
        bucket.put(name, content)
        (tmp_path / "local" / name).write_bytes(content)
    bucket.put("empty", b"")
    (tmp_path / "local" / "empty").touch()
    ours = source(file_format=file_format, state_location=None, **options).read(spark)
    theirs = spark.read.options(**options).format(file_format).load(str(tmp_path / "local"))
    assert ours.schema == theirs.schema
    columns = [name for name in ours.columns if name not in ("path", "modificationTime")]
    rows = sorted(map(str, ours.select(*columns).collect()))
    assert rows == sorted(map(str, theirs.select(*columns).collect()))
    assert len(rows) >= 2
    if file_format == "binaryFile":
        assert {row["path"] for row in ours.collect()} == {f"{bucket.path}/a", f"{bucket.path}/b"}


def test_csv_without_a_header_goes_by_the_given_schema_but_for_columns_of_folders(spark, bucket):
    for day in (15, 16):
        bucket.put(f"day={day}/part", f"{day};x;2023-11-{day} 10:00:00\n".encode())
    options = {
        "path": bucket.path,
        "fileFormat": "csv",
        "delimiter": ";",
        "eventTime": "column:at",
        "startingTimestamp": "2023-11-16T00:00:00",
        **bucket.options,
    }
    given = spark.read.format("tidegate_s3").schema("id int, day int, name string, at timestamp").options(**options)
    (row,) = given.load().collect()
    assert (row["id"], row["day"], row["name"], milliseconds(row["at"])) == (16, 16, "x", NOON + 22 * HOUR)


ITS_END = "the given schema has to end with source_watermark TIMESTAMP"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("id BIGINT", ITS_END),
        ("source_watermark TIMESTAMP, id BIGINT", ITS_END),
        ("id BIGINT, source_watermark STRING", ITS_END),
        ("id BIGINT, source_watermark TIMESTAMP NOT NULL", ITS_END),
        ("id BIGINT NOT NULL, source_watermark TIMESTAMP", "no column may be NOT NULL"),
        ("source_watermark TIMESTAMP, source_watermark TIMESTAMP", "the source has one of that name already"),
    ],
)
def test_a_given_schema_has_room_for_rows_with_only_the_watermark(spark, bucket, tmp_path, given, sentence):
    bucket.put_rows("a.parquet", [(1, NOON)])
    options = {
        "path": bucket.path,
        "stateLocation": str(tmp_path / "state"),
        "sourceWatermark": "rows",
        **bucket.options,
    }
    rows = spark.read.format("tidegate_s3").schema("id BIGINT, source_watermark TIMESTAMP").options(**options).load()
    assert ids_of(rows) == [1]
    with pytest.raises(Exception, match=sentence):
        spark.read.format("tidegate_s3").schema(given).options(**options).load().collect()
    stream = spark.readStream.format("tidegate_s3").schema(given).options(**options).load()
    with pytest.raises(Exception, match=sentence):
        available_now(stream, tmp_path / "checkpoint")


def test_only_without_the_watermark_may_objects_have_a_column_of_its_name(bucket, source, spark):
    bucket.put("a.json", b'{"id": 1, "source_watermark": "x"}\n')
    assert source(file_format="json").read(spark).collect() == [(1, "x")]
    rows = source(file_format="json", source_watermark="rows")
    with pytest.raises(OptionError, match="sourceWatermark adds the column 'source_watermark', but the source has one"):
        schema_of(rows)
    assert schema_of(rows.model_copy(update={"columns": ("id",)})).names == ["id", "source_watermark"]


NAMES = ("plain", "a space", "plus+plus", "per%20cent", "ümläut-日本", "q?a=1&b#c", "dt=2026-11-21/part 0")


def ids_of(rows):
    return [row["id"] for row in rows.collect()]


def test_a_stream_reads_what_it_is_told_once_and_empties_the_queue(spark, bucket, queue, source, tmp_path):
    fields = {"queue_url": queue.url, "file_format": "json", "event_time": "column:at", "event_time_unit": "ms"}
    stream = source(**fields, discovery_interval=timedelta(milliseconds=200))
    bucket.put_rows("before.json", [(0, NOON)])
    queue.send(s3_body((bucket.name, "in/before.json")), "no JSON")
    read = []
    frame = stream.read_stream(spark).select("id")
    with running(start(frame, tmp_path / "checkpoint", lambda batch, _: read.extend(ids_of(batch)))):
        await_that(lambda: read == [0], state=lambda: read)
        for number, name in enumerate(NAMES, 1):
            bucket.put_rows(f"{name}.json", [(number, NOON + number * HOUR)])
            key = f"in/{name}.json"
            shapes = (
                s3_body((bucket.name, key)),
                sns_body(s3_body((bucket.name, key))),
                event_bridge_body(bucket.name, key),
            )
            queue.send(shapes[number % 3], shapes[(number + 1) % 3])
        bucket.put_rows("untold.json", [(99, NOON)])
        await_that(lambda: len(read) > len(NAMES), state=lambda: read)
        await_that(lambda: len(queue) == 1, state=queue.counts)
    assert sorted(read) == list(range(len(NAMES) + 1))
    batch = source(**fields).read(spark).select("id")
    assert sorted(ids_of(batch)) == [*range(len(NAMES) + 1), 99]
    assert len(queue) == 1
