"""Topics that are deleted and recreated, and logs that are cut: a real broker, no Spark."""

import gc
import itertools
import time
from contextlib import ExitStack, closing, suppress

import numpy as np
import pytest
from kafka.errors import KafkaError

from tests.support.command import await_that
from tests.support.logs import coordinator_over
from tests.support.streams import archive_topic
from tidegate import KafkaSource
from tidegate.alignment.budget import Budget
from tidegate.alignment.plan import Limits
from tidegate.enumerators.kafka.enumerator import KafkaEnumerator
from tidegate.enumerators.kafka.offsets import EndsByTime
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import DataLossError, OptionError, PositionGoneError, ServerError
from tidegate.readers.kafka import cluster as cluster_module
from tidegate.readers.kafka.config import TopicPartition
from tidegate.readers.places.place import Place
from tidegate.servers import KafkaServer, write_history

# kafka-python's producer leaves sockets open to brokers that were killed.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)

NAMES = (f"recreation-{number}" for number in itertools.count())
OLD, NEW = 1_700_049_600_000, 1_700_060_000_000


@pytest.fixture
def _known_at_once(monkeypatch):
    """A single broker knows a topic as soon as it has created it."""
    monkeypatch.setattr(cluster_module, "UNKNOWN_TOPIC_GRACE_S", 0.5)


@pytest.fixture(autouse=True)
def _left_to_no_other_test():
    yield
    gc.collect()


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


@pytest.fixture
def run(kafka):
    with ExitStack() as made:
        yield lambda *topics, **fields: made.enter_context(closing(Run(kafka, *topics, **fields)))


@pytest.mark.parametrize(("count", "restarted"), [(15, False), (10, True), (10, False), (3, True)])
def test_a_topic_that_was_created_anew_ends_the_query(kafka, run, count, restarted):
    topic = new_topic(kafka, 10)
    query = run(topic)
    _, last = query.drain()
    create_anew(kafka, topic, count)
    query = run(topic) if restarted else query
    with pytest.raises(DataLossError, match=rf"'{topic}-0' was read up to position 10, but the topic .* recreated"):
        query.latest_offset(last)


@pytest.mark.parametrize(("count", "restarted"), [(15, False), (10, True), (10, False), (3, True)])
def test_without_fail_on_data_loss_all_of_the_new_topic_is_read_and_the_others_go_on(kafka, run, count, restarted):
    topic, other = new_topic(kafka, 10), new_topic(kafka, 5)
    query = run(topic, other, fail_on_data_loss=False)
    _, last = query.drain()
    create_anew(kafka, topic, count)
    query = run(topic, other, fail_on_data_loss=False) if restarted else query
    records, last = query.drain(last)  # no other news than the new topic: with 10 records, every position is the same
    assert records == [(topic, 0, offset, NEW + offset * 1000) for offset in range(count)]
    assert query.drain(last)[0] == []
    fill(kafka, other, 2, NEW)
    records, last = query.drain(last)
    assert records == [(other, 0, 5 + offset, NEW + offset * 1000) for offset in range(2)]
    assert query.drain(last)[0] == []
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


@pytest.mark.usefixtures("_known_at_once")
def test_without_fail_on_data_loss_a_deleted_topic_is_forgotten_and_the_others_go_on(kafka, run, caplog):
    topic, other = new_topic(kafka, 10), new_topic(kafka, 10)
    query = run(topic, other, fail_on_data_loss=False)
    _, last = query.drain()
    kafka.delete_topic(topic)
    fill(kafka, other, 1, NEW)
    records, last = query.drain(last)
    assert records == [(other, 0, 10, NEW)]
    assert last["positions"] == {f"{other}-0": 11}
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


@pytest.mark.usefixtures("_known_at_once")
def test_the_end_of_a_topic_that_is_deleted_before_the_time_ends_no_running_query(kafka, run):
    topic, other = new_topic(kafka, 10), new_topic(kafka, 10)
    ends = {"ending_offsets_by_timestamp": {topic: {0: in_an_hour()}, other: {0: in_an_hour()}}}
    query = run(topic, other, fail_on_data_loss=False, **ends)
    _, last = query.drain()
    kafka.delete_topic(topic)
    fill(kafka, other, 1, NEW)
    records, last = query.drain(last)
    assert records == [(other, 0, 10, NEW)]
    assert last["positions"] == {f"{other}-0": 11}
    with pytest.raises(OptionError, match=f"^endingOffsetsByTimestamp names partition {topic}-0, which is not among"):
        run(topic, other, fail_on_data_loss=False, **ends).latest_offset(last)


@pytest.mark.usefixtures("_known_at_once")
def test_a_topic_that_is_deleted_before_its_end_is_asked_for_is_left_to_another_plan(kafka):
    topic = new_topic(kafka, 10)
    source = KafkaSource(bootstrap_servers=kafka.bootstrap_servers, subscribe=[topic], **END)
    with closing(source.enumerator(None)) as enumerator:
        splits = enumerator.discover()
        enumerator.extents(splits)
        kafka.delete_topic(topic)
        with pytest.raises(PositionGoneError, match=topic):
            enumerator.stops(splits)


END = {"ending_timestamp": OLD + 5_000}  # at offset 5


def in_an_hour():
    return int(time.time() * 1000) + 3_600_000


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


def test_an_end_that_is_the_first_record_of_another_leader_is_kept_too():
    with KafkaServer() as kafka, ExitStack() as made:

        def run():
            return made.enter_context(closing(Run(kafka, topic, **END)))

        topic = new_topic(kafka, 5)
        _, last = run().drain()
        kafka.restart()
        fill(kafka, topic, 5, OLD + 5_000)
        records, last = run().drain(last)
        assert records == []
        kafka.delete_before(topic, {0: 10})
        assert run().drain(last) == ([], last)


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
    ends = EndsByTime({"orders-0": (7, 5), "orders-1": (7, 5), "orders-2": (7, 5)})
    ends.cut({one: (3, 6), other: (-1, -1), gone: (3, 5)})
    assert ends.snapshot() == {"orders-0": (7, 5), "orders-1": (7, 5)}
