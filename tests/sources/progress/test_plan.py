"""What the plan of a query proves about its rows."""

import pytest

import tidegate.windows.spark.results  # noqa: F401 - declares the steps of windows
from tidegate.sources.progress.query import PlanFacts

SCAN = "~StreamingDataSourceV2ScanRelation[key#0, timestamp#5] tidegate_kafka"
SINK = "WriteToMicroBatchDataSource MemorySink"
COUNT = "~Aggregate [window#7-T0ms], [window#7-T0ms, count(1) AS count#6L]"
OBSERVED = (
    "~CollectMetrics windows-3, [coalesce(sum(__call#5.dropped), cast(0 as bigint)) AS numLateRecordsDropped#59L]"
)
OF_WINDOWS = (
    OBSERVED,
    "~TransformWithStateInPySpark transformWithStateUDF(__bucket#547, __task#548, __number#549, __rows#550)#551, 1",
    "~MapInArrow pack(__hash#536, __0#537, __1#538L)#546, [__bucket#547, __task#548, __number#549, __rows#550], false",
)
EXPLODE = "~Generate explode(a#1), false, [col#4]"


@pytest.mark.parametrize(
    ("steps", "sources", "facts"),
    [
        ([SINK, SCAN], 1, {"reads_once"}),
        (["~WriteToMicroBatchDataSourceV1 FileSink[file:/tmp/a], 3b5b", SCAN], 1, {"reads_once"}),
        (["~WriteToMicroBatchDataSourceV1 ForeachBatchSink, 3b5b", COUNT, SCAN], 1, {"counts_open"}),
        (["~WriteToMicroBatchDataSourceV1 NewSink, 3b5b", SCAN], 1, set()),
        (["WriteToMicroBatchDataSource shop.orders", SCAN], 1, set()),
        ([SINK, COUNT, "~Project [a#1]", "~EventTimeWatermark 1, a#1", SCAN], 1, {"reads_once", "counts_open"}),
        ([SINK, COUNT, "~Union false, false", SCAN, SCAN], 2, {"reads_once", "counts_open"}),
        ([SINK, COUNT, "~Union false, false", SCAN, "~Project [key#0 AS key#9]", SCAN], 1, set()),
        ([SINK, "~RepartitionByExpression [a#1], 2", COUNT, SCAN], 1, {"reads_once", "counts_open"}),
        ([SINK, "~RepartitionByExpression [a#1 ASC NULLS FIRST], 2", COUNT, SCAN], 1, {"counts_open"}),
        ([SINK, "~RepartitionByExpression [concat(a#1, \n) ASC NULLS FIRST], 2", COUNT, SCAN], 1, {"counts_open"}),
        (["WriteToMicroBatchDataSource console.db.orders", COUNT, SCAN], 1, {"counts_open"}),
        ([SINK, COUNT, EXPLODE, SCAN], 1, {"reads_once"}),
        ([SINK, COUNT, "~Expand [[a#1, 0], [b#2, 1]], [c#3, spark_grouping_id#4]", SCAN], 1, {"reads_once"}),
        ([SINK, EXPLODE, COUNT, SCAN], 1, {"reads_once", "counts_open"}),
        ([SINK, COUNT, "~TransformWithStateInPySpark f(key#0)#1, 1", SCAN, "LocalRelation <empty>"], 1, {"reads_once"}),
        ([SINK, "~GlobalLimit 7", "~LocalLimit 7", SCAN], 1, set()),
        ([SINK, COUNT, "~ScriptTransformation cat, [x#5]", SCAN], 1, set()),
        ([SINK, COUNT, "~Join Inner, (a#1 = b#2)", SCAN, "Range (0, 3, step=1, splits=Some(2))"], 1, set()),
        ([SINK, COUNT, OBSERVED, SCAN], 1, {"reads_once", "counts_late", "counts_open"}),
        ([SINK, COUNT, EXPLODE, OBSERVED, SCAN], 1, {"reads_once", "counts_late"}),  # windows that overlap
        ([SINK, *OF_WINDOWS, SCAN, "LocalRelation <empty>"], 1, {"reads_once", "counts_late"}),
        ([SINK, *OF_WINDOWS, EXPLODE, SCAN], 1, {"reads_once"}),
        ([SINK, *OF_WINDOWS, "~MapInArrow pack(key#0)#4, [key#5], false", SCAN], 1, set()),
    ],
)
def test_only_steps_that_are_known_prove_that_rows_are_read_and_counted_once(steps, sources, facts):
    found = PlanFacts.of(steps, sources)._asdict()
    assert {name for name, holds in found.items() if holds and name != "counts_all"} == facts


@pytest.mark.parametrize(
    ("results", "counts_all"),
    [
        ("count(1) AS count(1)#6L", True),
        ("sum(a#1) AS total#4, count(1) AS n#6L", True),
        ("count(a#1) AS count#6L", False),
        ("count(a#1) AS count(1)#6L", False),
        ("count(1) FILTER (WHERE a#1) AS count#6L", False),
    ],
)
def test_the_count_of_an_aggregation_may_leave_out_rows(results, counts_all):
    assert PlanFacts.of([SINK, f"~Aggregate [key#0], [key#0, {results}]", SCAN], 1).counts_all == counts_all
    assert not PlanFacts.of(
        [SINK, f"~Aggregate [b#2], [b#2, {results}]", "~Aggregate [b#2], [b#2]", SCAN], 1
    ).counts_all
