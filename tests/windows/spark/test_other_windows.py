"""State of other windows is refused at the first batch of a restart, in a sentence that names what changed."""

from datetime import timedelta

import pytest

from tests.windows.spark.fakes import FakeSpark
from tidegate.errors import CheckpointError
from tidegate.windows import (
    Aggregate,
    AggregateFunction,
    CountEvictor,
    CountTrigger,
    EventTimeTrigger,
    Process,
    ProcessWindowFunction,
    PurgingTrigger,
    Reduce,
    SqlAggregates,
    Trigger,
    TumblingEventTimeWindows,
    WindowOperator,
)
from tidegate.windows.description import described
from tidegate.windows.spark.buckets import check_same_windows

FIVE, SIX = (TumblingEventTimeWindows.of(timedelta(seconds=size)) for size in (5, 6))
COUNT, SUM = (Aggregate(SqlAggregates(n=text)) for text in ("sum(one)", "sum(n)"))


class Keep(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [{"numbers": [len(elements)]}]


class Other(Keep):
    pass


class Top(AggregateFunction):
    def __init__(self, count):
        self.count = count

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        return sorted([*accumulator, value["n"]])[-self.count :]

    def get_result(self, accumulator):
        return {"numbers": accumulator}


CHANGES = {
    "assigner was 'TumblingEventTimeWindows.offset=0, size=5000.' and is .*size=6000": (
        WindowOperator(FIVE, COUNT),
        WindowOperator(SIX, COUNT),
    ),
    "trigger was 'EventTimeTrigger..' and is 'CountTrigger.max_count=3.'": (
        WindowOperator(FIVE, COUNT),
        WindowOperator(FIVE, COUNT, CountTrigger.of(3)),
    ),
    "is 'PurgingTrigger.nested=CountTrigger.max_count=3..'": (
        WindowOperator(FIVE, COUNT, CountTrigger.of(3)),
        WindowOperator(FIVE, COUNT, PurgingTrigger.of(CountTrigger.of(3))),
    ),
    "evictor was 'none' and is 'CountEvictor.do_evict_after=False, max_count=1.'": (
        WindowOperator(FIVE, Process(Keep())),
        WindowOperator(FIVE, Process(Keep()), None, CountEvictor.of(1)),
    ),
    "allowed lateness was '0:00:00' and is '0:00:09'": (
        WindowOperator(FIVE, COUNT),
        WindowOperator(FIVE, COUNT, allowed_lateness=timedelta(seconds=9)),
    ),
    "function was 'aggregate sum.one.' and is 'aggregate sum.n.'": (
        WindowOperator(FIVE, COUNT),
        WindowOperator(FIVE, SUM),
    ),
    "function was 'aggregate Top.count=2.' and is 'aggregate Top.count=3.'": (
        WindowOperator(FIVE, Aggregate(Top(2))),
        WindowOperator(FIVE, Aggregate(Top(3))),
    ),
    "function was 'process Keep..' and is 'process Other..'": (
        WindowOperator(FIVE, Process(Keep())),
        WindowOperator(FIVE, Process(Other())),
    ),
    "function was 'reduce' and is 'reduce, then process Keep..'": (
        WindowOperator(FIVE, Reduce(max)),
        WindowOperator(FIVE, Reduce(max, Keep())),
    ),
}


@pytest.mark.parametrize("reported", CHANGES)
def test_state_of_other_windows_is_refused_and_the_change_is_named(reported):
    before, after = CHANGES[reported]
    spark = FakeSpark(before)
    spark.batch([("a", 1_000, 1)], 0)
    with pytest.raises(CheckpointError, match=f"the checkpoint holds the state of other windows: .*{reported}.*; set"):
        spark.restarted(after).batch([], 2**62)


def test_another_number_of_buckets_is_refused_also_where_the_first_rows_go_to_a_new_bucket():
    operator = WindowOperator(FIVE, COUNT)
    spark = FakeSpark(operator, buckets=1)
    spark.batch([("a", 1_000, 1)], 0)
    again = spark.restarted(operator, buckets=1_000)
    with pytest.raises(
        CheckpointError, match=r"number of buckets was '1' and is '1000'; set that back, by .buckets\(1\), or"
    ):
        again.batch([("z", 2_000, 1)], 0)


@pytest.mark.parametrize(
    ("is_now", "remedy"),
    [
        ("20, for 5 shuffle partitions", r"back to 2, because only windows with .buckets\(n\) may have another number"),
        ("8", r"set that back, without .buckets\(\), or begin with a new checkpoint"),
    ],
)
def test_buckets_that_follow_the_shuffle_partitions_are_refused_with_other_ones(is_now, remedy):
    before = {"number of buckets": "16, for 2 shuffle partitions"}
    with pytest.raises(CheckpointError, match=f"was '16, for 2 .* and is '{is_now}'; .*{remedy}"):
        check_same_windows(before, {"number of buckets": is_now})


def test_other_windows_are_refused_after_all_state_is_gone():
    spark = FakeSpark(WindowOperator(FIVE, COUNT))
    spark.batch([("a", 1_000, 1)], 0)
    spark.batch([], 2**62)
    assert spark.stored() == 0
    with pytest.raises(CheckpointError, match="assigner was"):
        spark.restarted(WindowOperator(SIX, COUNT)).batch([("b", 1_000, 1)], 2**62)


def test_the_same_windows_go_on_whatever_the_results_are_called():
    spark = FakeSpark(WindowOperator(FIVE, COUNT))
    spark.batch([("a", 1_000, 1)], 0)
    again = spark.restarted(WindowOperator(FIVE, Aggregate(SqlAggregates(rows="sum(one)")), EventTimeTrigger.create()))
    again.batch([("a", 1_001, 1)], 0)
    assert [result["rows"] for result in again.batch([], 2**62)] == [2]


def test_a_description_holds_plain_values_and_no_code():
    class Mine(Trigger):
        on_element = on_event_time = on_processing_time = clear = None

        def __init__(self):
            self.limits, self.nested, self.every = (1, "a"), CountTrigger.of(2), timedelta(minutes=1)
            self.rule, self._cache, self.stateless = print, 3, True

    assert described(Mine()) == "Mine(every=0:01:00, limits=[1, 'a'], nested=CountTrigger(max_count=2))"
    assert described(None) == "none"


def test_the_state_of_a_key_holds_no_class_of_tidegate():
    spark = FakeSpark(WindowOperator(FIVE, Process(Keep()), None, CountEvictor.of(1)))
    spark.batch([("a", 1_000, 1), ("a", 7_000, 1)], 0)
    values = [value for state in spark.states.values() for parts in state.values() for value in parts]
    assert any(b"rows" in value for value in values)
    assert not [value for value in values if b"tidegate" in value]
