"""Event times from wherever they are, generators and marks, and rows without a usable one, which may be set aside."""

import json
from contextlib import closing
from datetime import datetime, timedelta, timezone

import pytest
from kafka import KafkaProducer
from pyspark.sql import functions as f

import tidegate
from tests.sources.memory import MemorySource
from tests.support.command import await_that
from tests.support.logs import coordinating
from tests.support.pages import blocks
from tests.support.streams import (
    HOUR,
    NOON,
    available_now,
    even_times,
    every,
    milliseconds,
    new_topic,
    parsed,
    running,
    start,
)
from tests.support.streams import kafka_source as source_of
from tidegate import WatermarkStrategy
from tidegate.alignment.splits import SplitRange
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import OptionError
from tidegate.jobs.account.account import Figure
from tidegate.jobs.account.of_checkpoint import run_account
from tidegate.readers.contract import ReadTask
from tidegate.watermarks import AscendingTimestampsWatermarks

ROWS = 120


HOURLY = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(max_drift=timedelta(hours=1))


def kafka_source(kafka, topic, **fields):
    return source_of(kafka, topic, watermarks=HOURLY, starting_offsets="earliest", **fields)


def event_time_of(row):
    """Return the event time of a collected row in ms; None: it has none to align by."""
    return None if row["event_time"] is None else milliseconds(row["event_time"])


def iso(time_ms):
    return datetime.fromtimestamp(time_ms / 1000, timezone.utc).isoformat()


def produce(kafka, topic, partition, records):
    """Send (value, headers) pairs with meaningless timestamps."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=20)
    for value, headers in records:
        producer.send(topic, value, key=b"k", partition=partition, headers=headers, timestamp_ms=NOON)
    producer.flush()
    producer.close()


def test_a_topic_is_aligned_by_event_times_in_its_payload_and_rows_without_one_are_delivered_too(
    spark, kafka, tmp_path
):
    histories = [even_times(NOON, NOON + 4 * HOUR, ROWS), even_times(NOON + 3 * HOUR, NOON + 4 * HOUR, ROWS)]
    bad = [b"no json", b'{"created": "soon"}', None]
    topic = new_topic(kafka, [], [])
    for partition, times in enumerate(histories):
        values = [json.dumps({"created": iso(int(at) // 1000 * 1000)}).encode() for at in times]
        produce(kafka, topic, partition, [(value, []) for value in (*values, *bad)])
    fields = {"event_time": "json:/created", "bad_event_time": "ignore", "include_event_time": True}
    counted = f.expr("count_if(event_time_fault = 'bad') AS bad")  # as docs/reference/guarantees.md has it
    frame = kafka_source(kafka, topic, **fields).read_stream(spark).observe("event_times", counted)
    run = available_now(frame.select("partition", "offset", "event_time", "event_time_fault"), tmp_path)
    assert run.offsets() == every([ROWS + len(bad)] * 2)
    assert len(run.rows) >= 3
    for batch, rows in run.rows.items():
        times = [milliseconds(row["event_time"]) for row in rows if row["event_time"] is not None]
        assert all(at < run.bound(batch) for at in times)
    assert run.furthest_ahead(event_time_of) < HOUR
    for row in run.all_rows:
        if row["offset"] < ROWS:
            assert milliseconds(row["event_time"]) == histories[row["partition"]][row["offset"]] // 1000 * 1000
        else:
            assert (row["event_time"], row["event_time_fault"]) == (None, "bad")
    assert sum(p.observedMetrics["event_times"].bad for p in run.progress.values() if p.observedMetrics) == 2 * len(bad)


def test_a_changed_event_time_has_a_unit_of_its_own_even_in_a_batch_that_is_repeated(kafka):
    topic, end = new_topic(kafka, []), INITIAL_OFFSET
    for hours, event_time in enumerate(["timestamp", "json:/ms", "json:/s", "json:/text"]):
        at = NOON + hours * HOUR
        produce(kafka, topic, 0, [(json.dumps({"ms": at, "s": at // 1000, "text": iso(at)}).encode(), [])])
        with coordinating(kafka_source(kafka, topic, event_time=event_time)) as run:
            start, end = end, run.latest_offset(end)
        assert end["watermark"] == at - 1
        for repeated in ("json:/ms", "json:/s", "json:/text"):
            source = kafka_source(kafka, topic, event_time=repeated, include_event_time=True)
            with coordinating(source) as run:
                (task,) = run.tasks(start, end)
            rows = [row for batch in source.reader(end["enumerator"]).read(task) for row in batch.to_pylist()]
            assert [milliseconds(row["event_time"]) for row in rows] == [at]


def test_a_timestamp_assigner_of_the_strategy_is_the_event_time_of_the_source():
    strategy = WatermarkStrategy.for_generator(AscendingTimestampsWatermarks).with_timestamp_assigner("json:/at")
    fields = {"bootstrap_servers": "localhost:9092", "subscribe": ["orders"]}
    source = tidegate.KafkaSource(**fields, watermarks=strategy)
    assert source == tidegate.KafkaSource(**fields, watermarks=strategy, event_time="json:/at")
    assert source.event_time == "json:/at"
    objects = tidegate.S3Source(path="s3://b/p", watermarks=strategy.with_timestamp_assigner("column:at"))
    assert objects.event_time == "column:at"
    with pytest.raises(OptionError, match="event_time is set, and watermarks has a timestamp assigner; set one"):
        tidegate.KafkaSource(**fields, watermarks=strategy, event_time="timestamp")
    with pytest.raises(OptionError, match="json"):
        tidegate.S3Source(path="s3://b/p", watermarks=strategy)
    with pytest.raises(OptionError, match="a timestamp assigner, but memory has no option event_time"):
        MemorySource(path="x", watermarks=strategy)


def test_marks_in_headers_imply_headers():
    fields = {"bootstrap_servers": "localhost:9092", "subscribe": ["orders"]}
    assert "headers" not in tidegate.KafkaSource(**fields).arrow_schema.names
    assert "headers" in tidegate.KafkaSource(**fields, watermark_from="header:complete").arrow_schema.names


@pytest.mark.parametrize(
    "fields",
    [
        {"watermarks": WatermarkStrategy.for_generator(AscendingTimestampsWatermarks)},
        {"watermark_from": "json:/at", "watermarks": WatermarkStrategy.no_watermarks()},
    ],
)
def test_windows_go_by_generated_watermarks_too(fields):
    source = tidegate.KafkaSource(bootstrap_servers="localhost:9092", subscribe=["orders"], **fields)
    assert source.has_watermarks


DONE = NOON + HOUR
BAD = [b"no json", None, b'{"at": "soon", "done": %d}' % DONE, b'{"at": -5}']


def good(hours):
    return json.dumps({"at": NOON + int(hours * HOUR)}).encode()


def set_aside(folder):
    lines = [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]
    return sorted((line["partition"], line["offset"]) for line in lines)


def test_a_stream_goes_on_without_its_bad_records_and_its_restart_and_accounts_count_on(spark, kafka, tmp_path, capsys):
    folder, topic = tmp_path / "bad", new_topic(kafka, [], [])
    produce(kafka, topic, 0, [(value, []) for value in (BAD[0], good(0), BAD[1], good(3), BAD[2])])
    produce(kafka, topic, 1, [(value, []) for value in (good(2), *BAD)])
    source = source_of(
        kafka, topic, event_time="json:/at", bad_records_path=str(folder), starting_offsets="earliest",
        max_offsets_per_trigger=4, watermark_from="json:/done",
    )  # fmt: skip
    frame = source.read_stream(spark).select("partition", "offset")
    run = available_now(frame, tmp_path / "checkpoint")
    bad = [(0, 0), (0, 2), (0, 4), (1, 1), (1, 2), (1, 3), (1, 4)]
    assert (run.offsets(), set_aside(folder)) == ([(0, 1), (0, 3), (1, 0)], bad)
    assert run.bad_records == 7
    assert parsed(run.query.lastProgress.sources[0].endOffset)["watermark"] == DONE  # both marks are bad records

    in_microseconds = b'{"at": %d}' % (NOON * 1000)  # the unit was detected once, and is fixed
    produce(kafka, topic, 0, [(in_microseconds, []), (good(4), [])])
    again = available_now(frame, tmp_path / "checkpoint")
    assert (again.offsets(), set_aside(folder)) == ([(0, 6)], sorted([*bad, (0, 5)]))
    assert again.bad_records == 8
    account = tidegate.account(again.query)
    assert (account.read.rows, account.set_aside, account.complete) == (2, Figure(1), True)
    run_account(str(tmp_path / "checkpoint"), as_json=True)
    outside = json.loads(capsys.readouterr().out)
    assert (outside["setAside"], outside["complete"]) == (8, True)

    in_batch = source.model_copy(update={"bad_records_path": str(tmp_path / "batch")})
    assert in_batch.read(spark).count() == 4
    assert set_aside(tmp_path / "batch") == set_aside(folder)

    (block,) = (block for block in blocks("docs/read-kafka.md") if "/lake/bad-records" in block.text)
    block.with_own({"/lake/bad-records": str(folder)}).run({"spark": spark})
    assert capsys.readouterr().out.count("the record has no") == 8


def test_queries_that_see_other_transactions_write_no_bad_record_over_those_of_each_other(kafka, tmp_path):
    topic = new_topic(kafka, [])
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=topic)) as producer:
        producer.init_transactions()
        for end in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            producer.send(topic, value=BAD[0], partition=0).get(60)
            end()
    for level in ("read_uncommitted", "read_committed"):
        fields = {"event_time": "json:/at", "bad_records_path": str(tmp_path), "kafka": {"isolation.level": level}}
        reader = source_of(kafka, topic, **fields).reader(None)
        assert not any(batch.num_rows for batch in reader.read(ReadTask((SplitRange(f"{topic}-0", 0, 3),))))
    assert set_aside(tmp_path) == [(0, 0), (0, 2), (0, 2)]


def test_an_account_knows_the_bad_records_of_the_last_batch_of_a_run_that_was_stopped(spark, kafka, tmp_path, capsys):
    topic = new_topic(kafka, [])
    produce(kafka, topic, 0, [(value, []) for value in (good(0), *BAD, good(1))])
    fields = {"event_time": "json:/at", "bad_records_path": str(tmp_path / "bad"), "starting_offsets": "earliest"}
    rows = source_of(kafka, topic, **fields).read_stream(spark)
    with running(start(rows, tmp_path / "checkpoint", "noop", processingTime="1 hour")) as query:
        await_that(lambda: query.lastProgress is not None)
    account = tidegate.account(query)
    assert (account.read, account.set_aside, account.complete) == (Figure(6), Figure(len(BAD)), True)

    def outside():
        run_account(str(tmp_path / "checkpoint"), as_json=True)
        account = json.loads(capsys.readouterr().out)
        return account["setAside"], account["complete"]

    # A listener keeps the counts for programs outside, and Spark calls it in a thread of its own.
    await_that(lambda: outside() == (len(BAD), True), state=outside)
