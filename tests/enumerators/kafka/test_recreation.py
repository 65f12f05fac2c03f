"""Topics that are deleted and recreated, and logs that are cut: a real broker, no Spark."""

import itertools
import time
from contextlib import suppress

import numpy as np
import pytest
from kafka.errors import KafkaError

from tests.support.command import await_that
from tests.support.logs import coordinator_over
from tests.support.streams import archive_topic
from tidegate import KafkaSource
from tidegate.alignment.plan import Limits
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import DataLossError, ServerError
from tidegate.readers.places.place import Place
from tidegate.servers import write_history

KILLS_BROKERS = [
    pytest.mark.usefixtures("_left_to_no_other_test"),
    # kafka-python's producer leaves sockets open to brokers that were killed.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"),
]
pytestmark = KILLS_BROKERS

NAMES = (f"recreation-{number}" for number in itertools.count())
OLD, NEW = 1_700_049_600_000, 1_700_060_000_000


def fill(kafka, topic, count, begin_ms=OLD):
    addresses = kafka.bootstrap_servers.split(",")
    alive = ",".join(addresses[node - 1] for node in kafka.pids)

    def written():
        with suppress(KafkaError, ServerError):  # no broker has heard yet who leads now
            write_history(alive, topic, 0, begin_ms + np.arange(count) * 1000)
            return True
        return False

    await_that(written)


def new_topic(kafka, count=0, partitions=1, **more):
    topic = next(NAMES)
    kafka.create_topic(topic, partitions, **more)
    if count:
        fill(kafka, topic, count)
    return topic


def create_anew(kafka, topic, count):
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    fill(kafka, topic, count, NEW)


class Run:
    """One run of a query over topics, which looks for partitions at every plan unless an interval is given."""

    def __init__(self, kafka, /, *topics, discovery_interval_s=0, **fields):
        self.source = KafkaSource(
            bootstrap_servers=kafka.bootstrap_servers, subscribe=topics, starting_offsets="earliest", **fields
        )
        limits = Limits(fail_on_data_loss=self.source.fail_on_data_loss)
        run = coordinator_over(self.source, limits=limits, discovery_interval_s=discovery_interval_s)
        self.close, self.source_progress = run.close, run.source_progress
        self.latest_offset, self.tasks, self.bound_run = run.latest_offset, run.tasks, run.bound_run

    def read(self, start, end):
        """Return the records of a batch as (topic, partition, offset, time)."""
        return sorted(
            (row["topic"], row["partition"], row["offset"], int(row["timestamp"].timestamp() * 1000))
            for task in self.tasks(start, end)
            for batch in self.source.reader(end.get("enumerator")).read(task)
            for row in batch.to_pylist()
        )

    def drain(self, start=INITIAL_OFFSET):
        """Read all records; return them, and the last offset."""
        records = []
        while (end := self.latest_offset(start)) != start:
            records += self.read(start, end)
            start = end
        return records, start


def archived(kafka, topic, place):
    """Archive what Kafka holds now; return the fields of a source with the archive."""
    archive_topic(kafka, topic, Place(str(place)))
    return {"archive": str(place), "kafka": {"isolation.level": "read_committed"}}


def without_clock(offset):
    return {name: value for name, value in offset.items() if name != "horizon"}


@pytest.mark.parametrize(("count", "restarted"), [(15, False), (10, True), (10, False), (3, True)])
def test_a_topic_that_was_created_anew_ends_the_query_or_is_read_whole_and_the_others_go_on(
    kafka, run, count, restarted
):
    topic, other = new_topic(kafka, 10), new_topic(kafka, 5)
    strict, lenient = (run(topic, other, fail_on_data_loss=fails) for fails in (True, False))
    _, last = strict.drain()
    lenient.drain()
    create_anew(kafka, topic, count)
    if restarted:
        strict, lenient = (run(topic, other, fail_on_data_loss=fails) for fails in (True, False))
    with pytest.raises(DataLossError, match=rf"'{topic}-0' was read up to position 10, but the topic .* recreated"):
        strict.latest_offset(last)
    records, last = lenient.drain(last)  # no other news than the new topic: with 10 records, every position is the same
    assert records == [(topic, 0, offset, NEW + offset * 1000) for offset in range(count)]
    assert lenient.drain(last)[0] == []
    fill(kafka, other, 2, NEW)
    records, last = lenient.drain(last)
    assert records == [(other, 0, 5 + offset, NEW + offset * 1000) for offset in range(2)]
    assert lenient.drain(last)[0] == []
    assert run(topic, other).drain(last)[0] == []


def taken_over(topic, position, planned_ms):
    """Return the offset that `tidegate migrate` makes of one of Spark's built-in source."""
    return {
        **INITIAL_OFFSET,
        "source": "kafka",
        "positions": {f"{topic}-0": position},
        "enumerator": {"taken_over_ms": planned_ms},
    }


@pytest.mark.parametrize("count", [15, 10])
def test_a_topic_that_was_created_anew_before_it_was_taken_over_is_told_by_the_times_of_its_records(kafka, run, count):
    topic = new_topic(kafka, 10)
    before, end = (taken_over(topic, position, OLD + 20_000) for position in (5, 10))
    create_anew(kafka, topic, count)
    with pytest.raises(DataLossError, match=rf"'{topic}-0' was read up to position 10, but the topic .* recreated"):
        run(topic).latest_offset(end)
    with pytest.raises(DataLossError, match=rf"'{topic}-0' is wanted up to position 10, but the topic .* recreated"):
        run(topic).tasks(before, end)  # the batch that the built-in source did not finish
    lenient = run(topic, fail_on_data_loss=False)
    assert lenient.read(before, end) == []
    records, last = lenient.drain(end)
    assert [offset for *_, offset, _ in records] == [*range(count)]
    assert "taken_over_ms" not in last["enumerator"]
    assert run(topic).drain(last)[0] == []


def test_a_topic_that_is_the_same_when_it_is_taken_over_goes_on_though_its_first_record_has_a_wrong_time(kafka, run):
    topic = new_topic(kafka)
    fill(kafka, topic, 1, NEW)
    fill(kafka, topic, 12)
    records, last = run(topic).drain(taken_over(topic, 10, OLD + 20_000))
    assert [offset for *_, offset, _ in records] == [10, 11, 12]
    assert "taken_over_ms" not in last["enumerator"]


def test_a_topic_of_forecasts_is_the_same_when_it_is_taken_over(kafka, run):
    topic, now_ms = new_topic(kafka), int(time.time() * 1000)
    fill(kafka, topic, 12, now_ms + 3_600_000)
    records, _ = run(topic).drain(taken_over(topic, 10, now_ms))
    assert [offset for *_, offset, _ in records] == [10, 11]


@pytest.mark.parametrize("is_archived", [False, True])
def test_a_shorter_topic_is_told_before_partitions_are_looked_for(kafka, run, tmp_path, is_archived):
    topic = new_topic(kafka, 10)
    fields = {"discovery_interval_s": 3600, **(archived(kafka, topic, tmp_path) if is_archived else {})}
    strict, lenient = (run(topic, **fields, fail_on_data_loss=strict) for strict in (True, False))
    _, last = strict.drain()
    assert without_clock(lenient.drain()[1]) == without_clock(last)
    create_anew(kafka, topic, 3)
    with pytest.raises(DataLossError, match=rf"'{topic}-0' was read up to position 10, but the topic .* recreated"):
        strict.latest_offset(last)
    assert [offset for *_, offset, _ in lenient.drain(last)[0]] == [0, 1, 2]


@pytest.mark.usefixtures("_known_at_once")
@pytest.mark.parametrize(("count", "fault"), [(15, "recreated"), (3, "recreated"), (None, "knows no partition")])
def test_a_range_of_a_topic_that_is_deleted_before_it_is_read_gives_no_record_of_a_new_one(kafka, run, count, fault):
    topic = new_topic(kafka, 10)
    strict, lenient = run(topic), run(topic, fail_on_data_loss=False)
    end = strict.latest_offset(INITIAL_OFFSET)
    assert without_clock(lenient.latest_offset(INITIAL_OFFSET)) == without_clock(end)
    if count is None:
        kafka.delete_topic(topic)
    else:
        create_anew(kafka, topic, count)
    with pytest.raises(DataLossError, match=f"records 0 to 10 of {topic}-0 are wanted, but .* {fault}"):
        strict.read(INITIAL_OFFSET, end)
    assert lenient.read(INITIAL_OFFSET, end) == []
    assert count is None or len(lenient.drain(end)[0]) == count


@pytest.mark.usefixtures("_known_at_once")
def test_a_deleted_topic_ends_a_running_query_with_its_name(kafka, run):
    topic, other = new_topic(kafka, 10), new_topic(kafka, 10)
    query = run(topic, other)
    _, last = query.drain()
    kafka.delete_topic(topic)
    with pytest.raises(DataLossError, match=f"{topic}-0.*set failOnDataLoss to false"):
        query.drain(last)
    with pytest.raises(DataLossError, match=f"split '{topic}-0', read up to position 10, no longer exists"):
        run(topic, other).drain(last)


def drained_without(kafka, query, topic, other):
    """Delete a topic whose ten records were read, and read on in the other; return the last offset."""
    _, last = query.drain()
    kafka.delete_topic(topic)
    fill(kafka, other, 1, NEW)
    records, last = query.drain(last)
    assert records == [(other, 0, 10, NEW)]
    assert last["positions"] == {f"{other}-0": 11}
    return last


@pytest.mark.usefixtures("_known_at_once")
def test_without_fail_on_data_loss_a_deleted_topic_is_forgotten_and_the_others_go_on(kafka, run, caplog):
    topic, other = new_topic(kafka, 10), new_topic(kafka, 10)
    query = run(topic, other, fail_on_data_loss=False)
    last = drained_without(kafka, query, topic, other)
    assert f"{topic}-0 no longer exist" in caplog.text
    fill(kafka, other, 1, NEW)
    query = run(topic, other, fail_on_data_loss=False)
    records, last = query.drain(last)
    assert records == [(other, 0, 11, NEW)]
    kafka.create_topic(topic)
    fill(kafka, topic, 12, NEW)
    records, last = query.drain(last)
    assert len(records) == 12
    assert query.drain(last)[0] == []
