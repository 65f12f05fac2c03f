"""Records that the policy sets aside, in files."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import pytest

from tests.support.kafka.lab import Record, encode, rows
from tests.support.kafka.lab import batch as kafka_rows
from tidegate.alignment.generators import NO_EVENT_TIME, SplitWatermark, WatermarkGenerator
from tidegate.alignment.splits import SplitRange
from tidegate.readers.contract import ReadTask
from tidegate.readers.event_time.assigners import JsonTimestamp
from tidegate.readers.event_time.policy import EventTimePolicy
from tidegate.readers.event_time.records import RecordTimes
from tidegate.readers.events.event import Watching, watched
from tidegate.readers.kafka.config import KafkaConnectionConfig
from tidegate.readers.kafka.reader import KafkaSplitReader
from tidegate.readers.kafka.rows import BadRecordFile, lines_of
from tidegate.readers.places.place import BadRecordFolder
from tidegate.readers.s3.config import S3ConnectionConfig

TIMES = RecordTimes(JsonTimestamp("/at", "ms"), EventTimePolicy("fail", sets_aside=True))
REASON = "the record has no usable event time from eventTime=json:/at: it is missing or unparsable"
GOOD = Record(5, b"k", b'{"at": 7}', [("h", b"1")])
HEADERS: Sequence[tuple[str, bytes | None]] = [("trace", b"\xff"), ("empty", None)]
BAD = [Record(1_700_000_000_000, b"\x00key", b"\xfe no json", HEADERS), Record(-1, None, None)]


@pytest.fixture(scope="module")
def topic(lab):
    """A topic of five records; the second and the fourth are bad."""
    name = lab.new_topic()
    lab.append(name, encode([GOOD, BAD[0], GOOD, BAD[1], GOOD]))
    return name


def reader_of(lab, place, **options):
    return KafkaSplitReader(lab.config(), event_times=TIMES, bad_records=place, **options)


def read(reader, topic, *ranges):
    """Return the offsets of the rows, which must not have the column ``headers``."""
    records = rows(reader.read(ReadTask(tuple(SplitRange(f"{topic}-0", *part) for part in ranges))))
    assert all("headers" not in row for row in records)
    return [row["offset"] for row in records]


def files_in(folder):
    return BadRecordFile(BadRecordFolder(str(folder), S3ConnectionConfig()), "by time")


def test_files_hold_every_byte_of_a_record_and_a_repeated_task_writes_the_same(lab, topic, tmp_path):
    def contents():
        return {file.name: file.read_text() for file in tmp_path.iterdir()}

    reader = reader_of(lab, files_in(tmp_path))
    assert read(reader, topic, (0, 3), (3, 5)) == [0, 2, 4]
    assert {(part.start, number) for part, number in reader.bad_records.items()} == {(0, 1), (3, 1)}
    first = contents()
    assert sorted(name[: len(topic) + 6] for name in first) == [f"{topic}-0-0-3", f"{topic}-0-3-5"]
    lines = sorted(map(json.loads, first.values()), key=lambda line: line["offset"])
    assert lines == [
        {
            "topic": topic,
            "partition": 0,
            "offset": offset,
            "timestamp": record.timestamp,
            "timestampType": 0,
            "reason": REASON,
            "key": encoded(record.key),
            "value": encoded(record.value),
            "headers": [{"key": name, "value": encoded(value)} for name, value in record.headers],
        }
        for offset, record in zip((1, 3), BAD, strict=True)
    ]
    assert [*lines[0]][-4:] == ["reason", "key", "value", "headers"]  # of a long line, the reason is seen first
    assert read(reader_of(lab, files_in(tmp_path)), topic, (0, 3), (3, 5)) == [0, 2, 4]
    assert contents() == first


def test_a_generator_sees_bad_records_as_rows_without_an_event_time(lab, topic, tmp_path):
    wanted, events = SplitRange(f"{topic}-0", 0, 5), []
    seen = []

    class Looking(WatermarkGenerator):
        wants_untimed_rows = True

        def on_event(self, batch, event_times, output):
            seen.extend(zip(batch.column("offset").to_pylist(), event_times.tolist(), strict=True))

    reader = reader_of(lab, files_in(tmp_path))
    watching = Watching(Looking, (SplitWatermark(),))
    assert [row["offset"] for row in rows(watched(reader, watching, ReadTask((wanted,)), events))] == [0, 2, 4]
    assert seen == [(0, 7), (1, NO_EVENT_TIME), (2, 7), (3, NO_EVENT_TIME), (4, 7)]
    assert [(event.end, event.report["rows"]) for event in events] == [(5, 5)]
    assert len([*tmp_path.iterdir()]) == 1


def encoded(data):
    return None if data is None else base64.b64encode(data).decode()


def write(place, rows):
    place.add(*lines_of(rows, ["is bad"]))
    place.flush()


def test_a_topic_of_the_longest_name_has_a_file(lab, tmp_path):
    place = files_in(tmp_path).of_range(lab.config(), SplitRange(f"{'x' * 249}-999999", 2**62, 2**63 - 1), None)
    write(place, kafka_rows([b"no json"]))
    (file,) = tmp_path.iterdir()
    assert len(file.name) < 255


def test_the_order_of_the_servers_names_no_other_file(tmp_path):
    for servers in ("a:1,b:2", "b:2, a:1"):
        place = files_in(tmp_path).of_range(KafkaConnectionConfig(servers), SplitRange("orders-0", 0, 5), None)
        write(place, kafka_rows([b"no json"]))
    assert len([*tmp_path.iterdir()]) == 1


def test_a_range_without_bad_records_has_no_file(lab, topic, tmp_path):
    assert read(reader_of(lab, files_in(tmp_path / "bad")), topic, (0, 1), (4, 5)) == [0, 4]
    assert not (tmp_path / "bad").exists()


def test_the_planner_reads_the_same_rows_and_writes_nothing(lab, topic, tmp_path):
    looking = reader_of(lab, files_in(tmp_path / "bad")).without_writing()
    assert read(looking, topic, (0, 5)) == [0, 2, 4]
    assert not (tmp_path / "bad").exists()


def test_columns_of_event_times_are_those_of_the_rows_that_are_left(lab, topic):
    reader = reader_of(lab, None, include_headers=True, include_event_time=True)
    [batch] = reader.read(ReadTask((SplitRange(f"{topic}-0", 0, 5),)))
    assert batch.column("event_time").cast("int64").to_pylist() == [7000] * 3
    assert batch.column("event_time_fault").null_count == 3
    assert batch.column("headers").to_pylist() == [[{"key": "h", "value": b"1"}]] * 3
