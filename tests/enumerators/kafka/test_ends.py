"""Ends by time: of logs that grow, that are cut or deleted, and before the time has come; a real broker, no Spark."""

import time
from contextlib import closing

import pytest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from tests.enumerators.kafka.test_enumerator import transactional
from tests.enumerators.kafka.test_recreation import KILLS_BROKERS, OLD, archived, drained_without, fill, new_topic
from tests.support.command import await_that
from tests.support.logs import Clock
from tidegate import KafkaSource
from tidegate.alignment.budget import Budget
from tidegate.alignment.splits import Extent
from tidegate.enumerators.clocks import REAL_CLOCKS
from tidegate.enumerators.kafka import enumerator as enumerator_module
from tidegate.enumerators.kafka.enumerator import KafkaEnumerator
from tidegate.enumerators.kafka.history import TopicHistory
from tidegate.enumerators.kafka.offsets import EndsByTime
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import DataLossError, OptionError, PositionGoneError
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.kafka.wire.connection import BrokerConnection

END = {"ending_timestamp": OLD + 5_000}  # at offset 5


def in_an_hour():
    return int(time.time() * 1000) + 3_600_000


pytestmark = KILLS_BROKERS


@pytest.fixture
def clock(monkeypatch):
    """The wall clock by which a time has come."""
    clock = Clock()
    clock.begin_s = OLD / 1000
    monkeypatch.setattr(enumerator_module, "REAL_CLOCKS", clock.clocks)
    return clock


@pytest.mark.usefixtures("_known_at_once")
def test_the_end_of_a_topic_that_is_deleted_before_the_time_ends_no_running_query(kafka, run):
    topic, other = new_topic(kafka, 10), new_topic(kafka, 10)
    ends = {"ending_offsets_by_timestamp": {topic: {0: in_an_hour()}, other: {0: in_an_hour()}}}
    query = run(topic, other, fail_on_data_loss=False, **ends)
    last = drained_without(kafka, query, topic, other)
    with pytest.raises(OptionError, match=f"^endingOffsetsByTimestamp names partition {topic}-0, which is not among"):
        run(topic, other, fail_on_data_loss=False, **ends).latest_offset(last)


@pytest.mark.usefixtures("_known_at_once")
@pytest.mark.parametrize("asked", ["start", "end"])
def test_a_topic_that_is_deleted_before_its_start_or_end_is_asked_for_is_left_to_another_plan(kafka, asked):
    topic = new_topic(kafka, 10)
    source = KafkaSource(bootstrap_servers=kafka.bootstrap_servers, subscribe=[topic], **END)
    with closing(source.enumerator(None)) as enumerator:
        splits = enumerator.discover()
        enumerator.extents(splits)
        kafka.delete_topic(topic)
        with pytest.raises(PositionGoneError, match=topic):
            enumerator.stops(splits) if asked == "end" else enumerator.starts(splits, first=False)


@pytest.mark.parametrize("begin", [6, 10])
def test_a_partition_that_was_read_to_its_time_is_finished_also_when_retention_passes_that(kafka, run, begin):
    topic = new_topic(kafka, 10)
    records, last = run(topic, **END).drain()
    assert [offset for *_, offset, _ in records] == [0, 1, 2, 3, 4]
    kafka.delete_before(topic, {0: begin})
    fill(kafka, topic, 10)
    query = run(topic, **END)
    assert query.drain(last) == ([], last)
    assert query.source_progress()["splits"] == {"finished": 1}


@pytest.mark.parametrize("begin", [6, 10])
def test_an_end_that_a_run_finds_without_rows_to_read_is_kept_too(kafka, run, begin):
    topic = new_topic(kafka, 5)
    _, last = run(topic, **END).drain()
    fill(kafka, topic, 5, OLD + 5_000)
    query = run(topic, **END)
    records, last = query.drain(last)
    assert records == []
    assert query.drain(last) == ([], last)
    kafka.delete_before(topic, {0: begin})
    assert run(topic, **END).drain(last) == ([], last)


def test_an_end_that_is_the_first_record_of_another_leader_is_kept_too(kafka, run):
    topic = new_topic(kafka, 5)
    _, last = run(topic, **END).drain()
    kafka.restart()
    fill(kafka, topic, 5, OLD + 5_000)
    records, last = run(topic, **END).drain(last)
    assert records == []
    kafka.delete_before(topic, {0: 10})
    assert run(topic, **END).drain(last) == ([], last)


def test_unread_records_before_a_time_are_lost_when_retention_passes_that(kafka, run):
    topic, open_ended = new_topic(kafka, 10), new_topic(kafka, 3)
    query = run(topic, open_ended, **END)
    middle = query.latest_offset(INITIAL_OFFSET, Budget(rows=3))
    _, last = query.drain(middle)
    kafka.delete_before(topic, {0: 8})
    with pytest.raises(DataLossError, match=f"split '{topic}-0' are gone"):
        run(topic, open_ended, **END).latest_offset(middle)
    records, at_end = run(topic, open_ended, fail_on_data_loss=False, **END).drain(middle)
    assert {name for name, *_ in records} == {open_ended}
    assert run(topic, open_ended, fail_on_data_loss=False, **END).drain(at_end) == ([], at_end)
    fill(kafka, open_ended, 3)  # nothing has come at or after the time, so this partition is not finished
    kafka.delete_before(open_ended, {0: 5})
    with pytest.raises(DataLossError, match=f"positions 3 to 4 of split '{open_ended}-0' are gone"):
        run(topic, open_ended, **END).latest_offset(last)


def test_a_time_that_is_still_to_come_ends_nothing_before_its_first_record(kafka, run):
    topic, to_come = new_topic(kafka, 5), in_an_hour()
    query = run(topic, ending_timestamp=to_come)
    _, last = query.drain()
    assert query.source_progress()["splits"] == {"caught up": 1}
    fill(kafka, topic, 5)
    records, last = query.drain(last)
    assert [offset for *_, offset, _ in records] == [5, 6, 7, 8, 9]
    fill(kafka, topic, 5, to_come - 2_000)
    records, last = query.drain(last)
    assert [offset for *_, offset, _ in records] == [10, 11]
    assert query.source_progress()["splits"] == {"finished": 1}
    assert run(topic, ending_timestamp=to_come).drain(last) == ([], last)


@pytest.mark.parametrize("is_archived", [False, True])
def test_a_time_that_is_still_to_come_is_looked_for_only_where_a_partition_has_grown(
    kafka, run, monkeypatch, tmp_path, is_archived
):
    topic, to_come, asked = new_topic(kafka, 100), in_an_hour(), []
    send, first_at = BrokerConnection.send, TopicHistory.first_at

    def sent(connection, request, timeout_s):
        if isinstance(request, FetchRequest):
            asked.extend(p.fetch_offset for t in request.topics for p in t.partitions)
        if isinstance(request, ListOffsetsRequest):
            asked.extend(p.timestamp for t in request.topics for p in t.partitions if p.timestamp >= 0)
        return send(connection, request, timeout_s)

    def looked(history, partition, time_ms, start=0):
        asked.append(start)
        return first_at(history, partition, time_ms, start)

    query = run(topic, ending_timestamp=to_come, **(archived(kafka, topic, tmp_path) if is_archived else {}))
    _, last = query.drain()
    monkeypatch.setattr(BrokerConnection, "send", sent)
    monkeypatch.setattr(TopicHistory, "first_at", looked)
    for _ in range(20):
        assert query.latest_offset(last) == last
    assert asked == []
    fill(kafka, topic, 5, OLD + 100_000)
    records, last = query.drain(last)
    assert [offset for *_, offset, _ in records] == [*range(100, 105)]
    assert to_come in asked
    assert min(asked) >= 100
    fill(kafka, topic, 5, to_come - 2_000)
    records, last = query.drain(last)
    assert [offset for *_, offset, _ in records] == [105, 106]


AT_A_MINUTE = {"ending_timestamp": OLD + 60_000}  # idleTimeout is one minute


def states(query):
    return query.source_progress()["splits"]


def test_a_run_that_begins_right_after_its_time_waits_for_what_comes_late(kafka, run, clock):
    topic = new_topic(kafka, 5)
    clock.sleep(119)
    query = run(topic, **AT_A_MINUTE)
    _, last = query.drain()
    assert states(query) == {"caught up": 1}
    assert "ended" not in last
    fill(kafka, topic, 1, OLD + 59_000)
    query = run(topic, **AT_A_MINUTE)
    records, last = query.drain(last)
    assert [offset for *_, offset, _ in records] == [5]
    clock.sleep(1)
    query = run(topic, **AT_A_MINUTE)
    assert query.drain(last)[1]["ended"]
    assert states(query) == {"finished": 1}


def test_a_run_that_began_before_its_time_ends_a_partition_that_has_been_quiet_since(kafka, run, clock):
    topic = new_topic(kafka, 5)
    query = run(topic, **AT_A_MINUTE)
    _, last = query.drain()
    clock.sleep(119)
    fill(kafka, topic, 1, OLD + 59_000)
    records, last = query.drain(last)
    assert [offset for *_, offset, _ in records] == [5]
    clock.sleep(59)  # 118 seconds after its time, but it has grown in the meantime
    assert query.drain(last) == ([], last)
    clock.sleep(1)
    records, last = query.drain(last)
    assert records == []
    assert last["ended"]
    fill(kafka, topic, 1, OLD + 59_000)
    assert query.drain(last) == ([], last)


def test_a_time_that_comes_while_a_plan_takes_long_ends_no_partition_where_it_was_before(kafka, run, clock):
    topic, extents, patched = new_topic(kafka, 5), KafkaEnumerator.extents, pytest.MonkeyPatch()
    clock.sleep(119)
    query = run(topic, **AT_A_MINUTE)

    def stalling(enumerator, splits):
        seen = extents(enumerator, splits)
        patched.undo()
        fill(kafka, topic, 1, OLD + 59_000)
        clock.sleep(60)
        return seen

    patched.setattr(KafkaEnumerator, "extents", stalling)
    records, last = query.drain()
    assert [offset for *_, offset, _ in records] == [*range(6)]
    assert "ended" not in last


def test_a_time_ends_no_partition_with_an_open_transaction(kafka, run, clock):
    topic = new_topic(kafka, 5)
    clock.sleep(120)
    producer = transactional(kafka, topic)
    producer.send(topic, b"x", partition=0, timestamp_ms=OLD + 5_000).get(60)
    query = run(topic, **AT_A_MINUTE, kafka={"isolation.level": "read_committed"})
    _, last = query.drain()
    assert states(query) == {"caught up": 1}
    producer.commit_transaction()
    producer.close()
    await_that(lambda: len(query.drain(last)[0]) == 1)


def test_a_run_up_to_the_latest_offsets_ends_where_its_first_plan_saw_the_logs_end(kafka, run):
    topic = new_topic(kafka, 5)
    query = run(topic, ending_offsets="latest")
    query.bound_run()
    with pytest.MonkeyPatch.context() as patched:
        extents = KafkaEnumerator.extents

        def overtaken(enumerator, splits):
            seen = extents(enumerator, splits)
            fill(kafka, topic, 1, OLD + 5_000)
            return seen

        patched.setattr(KafkaEnumerator, "extents", overtaken)
        _, last = query.drain()
    assert last["ended"]
    assert last["positions"] == {f"{topic}-0": 5}


def test_a_batch_ends_at_the_ends_of_its_topics_where_a_time_is_still_to_come(kafka):
    topic = new_topic(kafka, 5)
    source = KafkaSource(bootstrap_servers=kafka.bootstrap_servers, subscribe=[topic], ending_timestamp=in_an_hour())
    with closing(source.as_batch().enumerator(None)) as enumerator:
        assert enumerator.stops(enumerator.discover()) == {f"{topic}-0": 5}


def test_another_time_has_another_end(kafka, run):
    topic = new_topic(kafka, 10)
    _, last = run(topic, **END).drain()
    later, _ = run(topic, ending_timestamp=OLD + 8_000).drain(last)
    assert [offset for *_, offset, _ in later] == [5, 6, 7]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("end", "count"), [(END, 10), ({"ending_offsets": "latest"}, 20)])
def test_a_topic_that_was_created_anew_has_another_end(kafka, run, end, count, restarted):
    topic = new_topic(kafka, 10)
    query = run(topic, fail_on_data_loss=False, **end)
    _, last = query.drain()
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    fill(kafka, topic, 20, OLD - 5_000)
    query = run(topic, fail_on_data_loss=False, **end) if restarted else query
    records, last = query.drain(last)
    assert [offset for *_, offset, _ in records] == [*range(count)]
    assert query.drain(last) == ([], last)


def test_an_end_whose_record_was_cut_off_a_log_is_looked_for_again():
    one, other, gone = (TopicPartition("orders", number) for number in range(3))
    ends = EndsByTime({"orders-0": (7, 5), "orders-1": (7, 5), "orders-2": (7, 5)}, REAL_CLOCKS)
    ends.cut({one: (3, 6), other: (-1, -1), gone: (3, 5)})
    assert ends.snapshot() == {"orders-0": (7, 5), "orders-1": (7, 5)}
    assert ends.take_moved() == {"orders-2"}


def test_a_log_that_was_searched_and_cut_is_searched_again():
    one, gone = (TopicPartition("orders", number) for number in range(2))
    ends = EndsByTime({}, REAL_CLOCKS)
    ends.note_searched({one: Extent(0, 5), gone: Extent(0, 5)})
    assert ends.unsearched({one: Extent(0, 5), gone: Extent(2, 5)}) == {}
    ends.cut({one: (3, 5), gone: (3, 4)})
    assert ends.take_moved() == {"orders-1"}
    assert ends.unsearched({one: Extent(0, 7), gone: Extent(2, 7)}) == {one: 5, gone: 0}
    assert ends.unsearched({one: Extent(0, 3)}) == {one: 0}
