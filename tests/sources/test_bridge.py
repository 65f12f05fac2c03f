"""The bridge serves any source: here one that shares no code with the Kafka source."""

import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from datetime import timedelta

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import tidegate
from tests.sources.memory import SCHEMA, MemoryEnumerator, MemorySource, append
from tests.support.command import await_that
from tests.support.streams import running, start
from tidegate import WatermarkStrategy
from tidegate.alignment.budget import Budget
from tidegate.alignment.splits import SplitRange
from tidegate.enumerators.folders.opening import open_folder
from tidegate.enumerators.planning.pace import batch_note
from tidegate.errors import CheckpointError, ContractError, OptionError, OutOfMemoryError
from tidegate.jobs.watch import group_sources
from tidegate.readers.contract import ReadTask, SplitReader
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.sources import columns
from tidegate.sources.add_on import AddOn
from tidegate.sources.bridge import Driver, data_source_class, schema_of
from tidegate.sources.tasks import TaskPartition, read_task
from tidegate.watermarks import AscendingTimestampsWatermarks

HOUR = 3_600_000


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "splits.json")


def test_a_batch_query_over_nothing_gives_no_rows(spark, path):
    append(path, a=[])
    assert MemorySource(path=path).read(spark).count() == 0


def test_a_row_with_nothing_but_the_watermark_moves_spark_s_while_no_data_comes(spark, path, tmp_path):
    append(path, a=[0, 1000, 2000], b=[0, 500])
    watermarks = WatermarkStrategy().with_idleness(timedelta(seconds=1))
    source = MemorySource(path=path, source_watermark="rows", watermarks=watermarks)
    marked = tidegate.with_source_watermark(source.read_stream(spark))
    once = marked.dropDuplicatesWithinWatermark(["split", "position"])
    with running(start(once, tmp_path / "checkpoint", "memory", name="kept")) as query:
        # If both splits are idle, the watermark is that of the faster one; Spark's watermark is 1 ms less.
        until = "1970-01-01T00:00:01.998Z"
        while not any(progress.eventTime.get("watermark") == until for progress in query.recentProgress):
            assert query.isActive, query.exception()
        account = tidegate.account(query)
    kept = spark.table("kept").collect()
    assert sorted((row["split"], row["position"]) for row in kept) == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    assert (account.read.rows, account.read.bound) == (5, "exact")  # the rows with only the watermark are none


class EmptyRows(SplitReader):
    """Reads rows in which every column is null."""

    def read(self, task):
        for wanted in task.ranges:
            rows = wanted.end - wanted.start
            yield pa.record_batch([pa.nulls(rows, field.type) for field in SCHEMA], schema=SCHEMA)


class EmptySource(MemorySource):
    def reader(self, state):
        return EmptyRows()


class HugeRows(SplitReader):
    """Runs out of memory."""

    def read(self, task):
        raise MemoryError


def test_a_task_without_enough_memory_names_the_option_that_raises_it(monkeypatch):
    monkeypatch.setattr(MemorySource, "reader", lambda *_: HugeRows())
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 30, 1 << 30))
    rows = read_task(MemorySource(path=""), TaskPartition(ReadTask((SplitRange("a", 0, 3),)), None))
    with pytest.raises(OutOfMemoryError, match=r"a task takes more memory .* raise spark\.executor\.pyspark\.memory"):
        next(rows)


IN_LITTLE_MEMORY = """
import resource
import pyarrow  # a task has it before any loop, and the models too
import tidegate.readers.models
from tidegate.errors import OutOfMemoryError
most = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (64 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, most))
try:
    from tidegate.readers import compiled
except OutOfMemoryError as error:
    print(error)
"""


def test_a_process_without_memory_for_compiled_loops_names_the_option_that_raises_it():
    ended = subprocess.run([sys.executable, "-c", IN_LITTLE_MEMORY], check=True, capture_output=True, text=True)
    assert "raise spark.executor.pyspark.memory" in ended.stdout


@pytest.mark.parametrize("on", [(), ("timestamp", "1 second")])
def test_a_row_in_which_every_column_is_null_is_taken_for_no_watermark_row(spark, on):
    source = EmptySource(path="", source_watermark="rows")
    task = ReadTask((SplitRange("a", 0, 3),))
    partition = TaskPartition(task, None, {"source_watermark": 999}, watermark_row_ms={"source_watermark": 999})
    table = pa.Table.from_batches([*read_task(source, partition)])
    assert table.num_rows == 4
    rows = spark.createDataFrame(table, schema_of(source))
    kept = tidegate.with_source_watermark(rows, *on).collect()
    assert [(row["split"], row["timestamp"], row["source_watermark"].timestamp()) for row in kept] == [
        (None, None, 0.999)
    ] * 3


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        ("Interval 90 seconds", 90),
        ("2 weeks", 14 * 86_400),
        ("1 day 90 minutes", 86_400 + 5_400),
        ("1500 milliseconds", 1.5),
        ("2 months", 62 * 86_400),
        ("1 Year 1 month 3 days", (372 + 31 + 3) * 86_400),
    ],
)
def test_the_delay_is_that_of_spark_also_in_a_time_zone_that_changes_to_winter_time(spark, monkeypatch, delay, seconds):
    watermark_us = 1_792_843_200_000_001  # noon of 24 October 2026, in a row with only the watermark
    rows = spark.sql(f"SELECT timestamp_micros(0) AS timestamp, timestamp_micros({watermark_us}) AS source_watermark")
    monkeypatch.setattr(columns, "_without_watermark_rows", lambda marked: marked)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        marked = tidegate.with_source_watermark(rows, "timestamp", delay)
        (row,) = marked.selectExpr("unix_micros(timestamp)").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert row[0] - watermark_us == seconds * 1_000_000
    catalyst = spark._jvm.org.apache.spark.sql.catalyst
    interval = catalyst.util.IntervalUtils.fromIntervalString(delay)
    assert catalyst.plans.logical.EventTimeWatermark.getDelayMs(interval) == seconds * 1_000


def test_a_stream_without_the_column_of_the_watermark_is_refused(spark, path):
    append(path, a=[0])
    with pytest.raises(OptionError, match="no column 'source_watermark'; set sourceWatermark"):
        tidegate.with_source_watermark(MemorySource(path=path).read_stream(spark))


@pytest.mark.parametrize("given", [{"event_time": "timestamp"}, {"delay": "1 minute"}])
def test_an_event_time_without_its_delay_would_lose_rows_and_is_refused(spark, path, given):
    append(path, a=[0])
    rows = MemorySource(path=path, source_watermark="rows").read_stream(spark)
    with pytest.raises(OptionError, match="takes both or neither; the delay is the out-of-orderness, plus maxDrift"):
        tidegate.with_source_watermark(rows, **given)


@pytest.mark.parametrize(
    ("event_time", "delay", "sentence"),
    [
        (5, "1 minute", "event_time is 5, but it must be the name of a column"),
        (["timestamp"], "1 minute", "event_time is .'timestamp'., but it must be the name of a column"),
        ("", "1 minute", "the DataFrame has no column ''"),
        ("split", "1 minute", "the event time 'split' is string, but it must be a timestamp"),
        ("timestamp", timedelta(minutes=1), r"delay is datetime.timedelta\(seconds=60\), but .* such as '10 minutes'"),
        ("timestamp", "soon", "delay is 'soon', but .* such as '10 minutes'"),
        ("timestamp", "", "delay is '', but .* such as '10 minutes'$"),
        ("timestamp", "-1 second", "delay is '-1 second', but .* such as '10 minutes'"),
    ],
)
def test_a_wrong_event_time_or_delay_is_told_in_one_sentence(spark, path, event_time, delay, sentence):
    rows = MemorySource(path=path, source_watermark="rows").read_stream(spark)
    with pytest.raises(OptionError, match=sentence) as raised:
        tidegate.with_source_watermark(rows, event_time, delay)
    assert "\n" not in str(raised.value)


@pytest.fixture
def stream_reader(path):
    """Make the reader as Spark's planner process does, and restore the signal handler that it replaces."""
    made = []
    handler = signal.getsignal(signal.SIGTERM)

    def make(driver=Driver(2, "test"), options=None, build=MemorySource, **fields):  # noqa: B008 - it never changes
        kind = data_source_class("memory", lambda _: build(path=path, **fields), driver)
        source = kind(options or {})
        made.append(source.streamReader(source.schema()))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()
    signal.signal(signal.SIGTERM, handler)


def rows_planned(reader, limit, start=None):
    start = start or reader.initialOffset()
    end = reader.latestOffset(start, limit)
    tasks = [partition.task for partition in reader.partitions(start, end)]
    return sum(wanted.end - wanted.start for task in tasks for wanted in task.ranges)


def test_the_notes_of_a_group_on_several_machines_have_the_progress_of_its_members(stream_reader, path, tmp_path):
    append(path, a=range(10))
    strategy = WatermarkStrategy().with_watermark_alignment(
        max_drift=timedelta(hours=1), group="join", location=str(tmp_path / "shared")
    )
    location = open_folder(str(tmp_path / "shared"), S3ConnectionConfig(), option="alignmentLocation", noun="location")
    reader = stream_reader(watermarks=strategy)
    begin, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    joined = reader.latestOffset(begin, limit)
    assert reader.partitions(begin, joined) == []
    assert rows_planned(reader, limit, joined) == 10
    reader._group.renew()  # its thread does it several times in a lease
    (source,) = group_sources(location)
    assert source.progress.planned_rows == 10
    reader.stop()
    assert group_sources(location) == []


def test_a_source_reads_nothing_before_the_members_that_it_counts_have_joined(
    stream_reader, path, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # for notes that no other query sees
    append(path, a=range(10))
    counted = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=1), group="counted", members=2)
    first, second = (stream_reader(watermarks=counted) for _ in range(2))
    limit = first.getDefaultReadLimit()
    joined = first.latestOffset(first.initialOffset(), limit)
    assert rows_planned(first, limit, joined) == 0
    second.latestOffset(second.initialOffset(), limit)
    assert rows_planned(first, limit, joined) == 10


def windows_of(size):
    """Return the options of a source for windows that Spark itself keeps."""
    columns = schema_of(MemorySource(path="")).jsonValue()
    return {AddOn.option: AddOn("windows", columns, 1, {"assigner": size}).to_text()}


def test_other_windows_that_spark_keeps_are_refused_by_the_offset_also_where_a_batch_is_repeated(stream_reader, path):
    append(path, a=range(10))
    first, same, other = (stream_reader(options=windows_of(size)) for size in ("5 s", "5 s", "6 s"))
    begin = first.initialOffset()
    end = first.latestOffset(begin, ReadAllAvailable())
    assert same.latestOffset(end, ReadAllAvailable()) == end
    reported = "the checkpoint holds the state of other windows: assigner was '5 s' and is '6 s'; set that back"
    for plan in (lambda: other.latestOffset(end, ReadAllAvailable()), lambda: other.partitions(begin, end)):
        with pytest.raises(CheckpointError, match=reported):
            plan()
    without = stream_reader().latestOffset(begin, ReadAllAvailable())
    assert other.latestOffset(without, ReadAllAvailable()) == without


def test_an_offset_of_a_run_without_such_windows_still_says_which_ones_the_checkpoint_holds(stream_reader, path):
    append(path, a=range(10))
    first, same, other = (stream_reader(options=windows_of(size)) for size in ("5 s", "5 s", "6 s"))
    begin = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    append(path, a=range(10, 20))
    end = stream_reader().latestOffset(begin, ReadAllAvailable())
    assert end != begin
    assert same.latestOffset(end, ReadAllAvailable()) == end
    of_old_run = {key: part for key, part in end.items() if key != "addOns"}
    for plan in (lambda: other.latestOffset(end, ReadAllAvailable()), lambda: other.partitions(begin, of_old_run)):
        with pytest.raises(CheckpointError, match="assigner was '5 s' and is '6 s'"):
            plan()


@pytest.mark.parametrize(
    ("own", "limit", "rows"),
    [
        (None, ReadAllAvailable(), 1000),
        (None, None, 1000),
        (8, None, 8),
        (8, ReadAllAvailable(), 1000),
    ],
)
def test_a_batch_heeds_the_source_s_own_limit_unless_spark_asks_for_everything(stream_reader, path, own, limit, rows):
    append(path, a=range(500), b=range(500))
    reader = stream_reader(max_rows_per_trigger=own)
    assert rows_planned(reader, limit or reader.getDefaultReadLimit()) == rows


def test_a_read_limit_that_spark_never_passes_is_refused(stream_reader, path):
    append(path, a=range(500))
    with pytest.raises(ContractError, match=r"an unknown read limit: ReadMaxRows\(max_rows=10\)"):
        rows_planned(stream_reader(), ReadMaxRows(10))


class Limited(MemorySource):
    """Limits what its enumerator, which has no cost(), cannot count."""

    limit: Budget

    @property
    def budget(self):
        return self.limit


@pytest.mark.parametrize("limit", [Budget(bytes=10), Budget(files=10)])
def test_a_limit_that_a_source_knows_no_cost_for_is_refused(stream_reader, path, limit):
    append(path, a=range(500))
    reader = stream_reader(build=Limited, limit=limit)
    with pytest.raises(ContractError, match="cost"):
        rows_planned(reader, reader.getDefaultReadLimit())


class Bounded(MemorySource):
    """Ends at a position of each split."""

    end: int

    def enumerator(self, state):
        enumerator = MemoryEnumerator(self.path)
        enumerator.stops = lambda splits: dict.fromkeys(splits, self.end)
        return enumerator


@pytest.mark.parametrize("goes_by", ["windows", "sourceWatermark", None])
def test_a_run_that_reads_on_after_a_watermark_of_plus_infinity_warns_whoever_goes_by_it(
    stream_reader, path, capfd, goes_by
):
    append(path, a=range(10))
    options = windows_of("5 s") if goes_by == "windows" else {}
    fields = {"source_watermark": "column" if goes_by == "sourceWatermark" else "none"}
    first, second = (stream_reader(options=options, build=Bounded, end=end, **fields) for end in (5, 10))
    ended = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    assert "plus infinity" not in capfd.readouterr().err
    second.latestOffset(ended, ReadAllAvailable())
    assert ("all rows of this run are late; begin with a new" in capfd.readouterr().err) == (goes_by is not None)


def test_with_rows_that_only_tell_the_watermark_every_column_may_be_null():
    nullable = {"rows": set(), "column": set()}
    for kind in nullable:
        source = MemorySource(path="", source_watermark=kind)
        nullable[kind] = {field.name for field in schema_of(source) if field.nullable}
    assert nullable["rows"] - nullable["column"] == {"split"}


def test_trigger_once_with_a_max_drift_warns_that_it_ends_early(stream_reader, path, capfd):
    append(path, a=[h * HOUR for h in range(10)])
    drift = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(hours=2))
    assert rows_planned(stream_reader(watermarks=drift), ReadAllAvailable()) == 2
    assert "use Trigger.AvailableNow" in capfd.readouterr().err


def test_batches_size_themselves_by_what_spark_s_listener_tells(spark, path, tmp_path, monkeypatch):
    """Reports long batches, while the time between two plans is short and would let batches grow."""
    reported, sizes = [], []

    def tell(end, seconds, query, dropped):
        if "sized" in end["positions"]:  # not an earlier query, whose events come late
            reported.append(seconds)
        return batch_note(end, 1000.0, query, dropped)

    def write(batch, number):
        sizes.append(batch.count())
        await_that(lambda: len(reported) >= min(number, 2))  # of the batches before; no later one may hold back the end

    monkeypatch.setattr("tidegate.sources.progress.listener.batch_note", tell)
    append(path, sized=range(10_000))
    source = MemorySource(path=path, target_batch_duration=timedelta(seconds=100))
    with running(start(source.read_stream(spark), tmp_path / "checkpoint", write)) as query:
        await_that(lambda: len(sizes) >= 3 and len(reported) >= 2, state=lambda: (sizes, reported))
        progress = query.recentProgress
    assert sizes[2] < sizes[0] <= 1000
    assert reported[:2] == [p.batchDuration / 1000 for p in progress[:2]]


GENERATED = WatermarkStrategy.for_generator(AscendingTimestampsWatermarks)


def run_a_batch_and_plan_the_next(reader):
    """Plan a batch of all rows, read its tasks twice, and return the next offset and its progress."""
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    for partition in reader.partitions(reader.initialOffset(), first) * 2:
        assert all(batch.num_rows for batch in reader.read(partition))
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    return second, reader.reportLatestOffset()["generated"]


def test_readers_tell_the_planner_what_generators_say_of_their_rows(stream_reader, path):
    append(path, a=[10, 20, 30], b=[40, 50])
    offset, said = run_a_batch_and_plan_the_next(stream_reader(watermarks=GENERATED))
    assert offset["watermark"] == 29
    assert (said["readHere"], said["heldBy"]) == (0, "a")


@pytest.mark.parametrize(
    ("driver", "warning"),
    [
        pytest.param(
            Driver(2, "test", "203.0.113.7"), "no source events can be taken at 203.0.113.7", id="an address of others"
        ),
        pytest.param(
            Driver(2, "test", "127.0.0.2", "127.0.0.1"), "the coordinator at 127.0.0.2", id="no way to the driver"
        ),
    ],
)
def test_where_events_do_not_arrive_the_planner_reads_the_rows_and_the_watermark_is_the_same(
    stream_reader, path, capsys, driver, warning
):
    append(path, a=[10, 20, 30], b=[40, 50])
    offset, said = run_a_batch_and_plan_the_next(stream_reader(driver, watermarks=GENERATED))
    assert offset["watermark"] == 29
    assert said["readHere"] == 5
    assert capsys.readouterr().err.count(warning) == 1


def test_the_way_of_events_ends_with_the_query(stream_reader, path):
    append(path, a=[10, 20, 30])
    reader = stream_reader(watermarks=GENERATED)
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    (partition,) = reader.partitions(reader.initialOffset(), first)
    channel = partition.channel
    socket.create_connection((channel.host, channel.port), 10).close()
    reader.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "tidegate source events"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((channel.host, channel.port), 10)
