"""Parts of windows say whether they read rows, so that only the columns that they read are sent."""

from datetime import timedelta

import pyarrow as pa
import pytest

from tidegate.errors import OptionError
from tidegate.windows import (
    Aggregate,
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    SqlAggregates,
    TumblingEventTimeWindows,
    WindowOperator,
)
from tidegate.windows.rows import as_mappings

SECOND = timedelta(seconds=1)
TUMBLING = TumblingEventTimeWindows.of(SECOND)
DELTA = DeltaTrigger.of(1, lambda last, row: 0)


class OfOnesOwn(EventTimeTrigger):
    pass


class PurgingOfOnesOwn(PurgingTrigger):
    pass


class TimeoutOfOnesOwn(ProcessingTimeoutTrigger):
    pass


@pytest.mark.parametrize(
    ("reads", "parts"),
    [
        (False, (TUMBLING,)),
        (False, (EventTimeSessionWindows.with_gap(SECOND),)),
        (True, (DynamicEventTimeSessionWindows.with_dynamic_gap(lambda row: SECOND),)),
        (False, (TUMBLING, PurgingTrigger.of(CountTrigger.of(2)))),
        (False, (TUMBLING, PurgingTrigger.of(ContinuousEventTimeTrigger.of(SECOND)))),
        (True, (TUMBLING, PurgingTrigger.of(DELTA))),
        (True, (TUMBLING, ProcessingTimeoutTrigger.of(DELTA, SECOND))),
        (False, (TUMBLING, ProcessingTimeoutTrigger.of(CountTrigger.of(2), SECOND))),
        (True, (TUMBLING, OfOnesOwn())),
        (True, (TUMBLING, PurgingOfOnesOwn.of(CountTrigger.of(2)))),
        (True, (TUMBLING, TimeoutOfOnesOwn.of(CountTrigger.of(2), SECOND))),
        (False, (TUMBLING, None, CountEvictor.of(2))),
        (True, (TUMBLING, None, DeltaEvictor.of(1, lambda row, last: 0))),
    ],
)
def test_an_operator_reads_rows_if_one_of_its_parts_may(reads, parts):
    assigner, *others = parts
    assert WindowOperator(assigner, Aggregate(SqlAggregates(n="count(*)")), *others).reads_rows is reads


def test_a_map_with_a_doubled_key_is_one_sentence():
    doubled = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))
    with pytest.raises(OptionError, match=r"cannot give Python a value of their rows: .*; convert it in a step before"):
        as_mappings(pa.table({"m": doubled}))
