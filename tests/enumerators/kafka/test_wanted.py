"""The ranges that a batch query with filters reads; the rows themselves are the oracle."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.alignment.splits import SplitRange
from tidegate.enumerators.kafka.wanted import PartitionFilter, WantedRecords
from tidegate.readers.kafka.config import TopicPartition

TOPICS = ("a", "b-1")
NUMBERS = st.integers(-2, 12)
COMPARE = {
    "eq": lambda left, right: left == right,
    "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right,
    "gt": lambda left, right: left > right,
    "ge": lambda left, right: left >= right,
    "in": lambda left, right: left in right,
}


def filters_of(column, values):
    plain = st.tuples(st.sampled_from([*COMPARE.keys() - {"in"}]), values)
    several = st.tuples(st.just("in"), st.lists(values, max_size=3).map(tuple))
    return st.tuples(plain | several, st.booleans()).map(lambda drawn: PartitionFilter(column, *drawn[0], drawn[1]))


FILTERS = st.lists(filters_of("topic", st.sampled_from([*TOPICS, "c"])) | filters_of("partition", NUMBERS), max_size=3)
LOGS = st.dictionaries(
    st.tuples(st.sampled_from(TOPICS), st.integers(0, 2)), st.lists(st.integers(0, 20), max_size=12), max_size=4
)


def passes(partition_filter, topic, partition):
    value = {"topic": topic, "partition": partition}[partition_filter.column]
    return COMPARE[partition_filter.comparison](value, partition_filter.value) is not partition_filter.is_negated


@given(LOGS, FILTERS, NUMBERS, NUMBERS, st.none() | st.integers(0, 22))
def test_every_wanted_record_is_read_and_no_other_but_by_its_time(logs, filters, begin, end, from_ms):
    wanted = WantedRecords().between(begin, end)
    for partition_filter in filters:
        wanted = wanted.with_filter(partition_filter)
    if from_ms is not None:
        wanted = wanted.since(from_ms)
    asked = []

    def first_since(partitions, at_ms):
        asked.append(set(partitions))
        return {p: next((o for o, time in enumerate(logs[p]) if time >= at_ms), None) for p in partitions}

    whole = [SplitRange(TopicPartition(*p).split_id, 0, len(times)) for p, times in logs.items()]
    read = {
        (*TopicPartition.of(r.split_id), offset)
        for r in wanted.ranges(whole, first_since)
        for offset in range(r.start, r.end)
    }
    named = {
        (*p, offset): time
        for p, times in logs.items()
        for offset, time in enumerate(times)
        if begin <= offset < end and all(passes(partition_filter, *p) for partition_filter in filters)
    }
    if from_ms is None:
        assert read == named.keys()
        assert not asked
        return
    assert {record for record, time in named.items() if time >= from_ms} <= read <= named.keys()
    # Nothing before the first record at or after the time is read, and brokers are asked only about the rest.
    assert all(any(named.get((*r[:2], o), -1) >= from_ms for o in range(r[2] + 1)) or begin > 0 for r in read)
    assert len(asked) <= 1
    assert all({record[:2] for record in named} >= {(p.topic, p.partition) for p in partitions} for partitions in asked)


def test_limits_of_several_filters_hold_together():
    wanted = WantedRecords().between(begin=3).between(end=9).between(begin=5).since(4).since(2)
    assert (wanted.begin, wanted.end, wanted.from_ms) == (5, 9, 4)
