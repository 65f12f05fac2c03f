"""What Spark reports of queries: typed, with what their plans prove, and kept for accounts."""

import json
import os
import tempfile
import time
from collections import deque
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

import tidegate
import tidegate.windows.spark.results  # declares the steps of windows
from tests.support.progresses import NOON, PROVEN, one, progress, report, source, typed
from tidegate import OptionError
from tidegate.enumerators.notes.application import application_notes
from tidegate.errors import ConnectorError
from tidegate.sources.progress import listener as listening
from tidegate.sources.progress.listener import keep_batch, kept_batches
from tidegate.sources.progress.query import PlanFacts

ORDERS = tidegate.KafkaSource(bootstrap_servers="localhost:9", subscribe=["orders"])
START = datetime(2023, 11, 15, 12, tzinfo=timezone.utc)


def test_a_batch_has_spark_s_figures_and_of_each_source_what_it_said_and_where_it_stands():
    operators = [
        {"numRowsTotal": 3, "numRowsDroppedByWatermark": 1},
        {"numRowsTotal": 4, "numRowsDroppedByWatermark": 0},
    ]
    observed = {f"windows-{number}": {"numLateRecordsDropped": number} for number in (1, 2)} | {"mine": {"rows": 5}}
    said = source(report(low=NOON))
    batch = typed(progress(7, said, name="orders", stateOperators=operators, observedMetrics=observed))
    assert (batch.id, batch.run_id, batch.name, batch.number) == ("7254cabc", "a145ff5a", "orders", 7)
    assert (batch.rows, batch.seconds, batch.state_rows, batch.dropped_rows) == (100, 0.47, 7, 1)
    assert batch.late_dropped == 3
    assert batch.began == datetime(2026, 11, 21, 8, 0, 7, 626_000, tzinfo=timezone.utc)
    assert [said.low for said in batch.source_progress] == [START]
    assert (batch.source.moved, batch.source.end.progress.positions) == (True, {"orders-0": 1})


@pytest.mark.parametrize(
    ("text", "watermark"),
    [
        ("2023-11-15T12:00:00.000Z", START),
        ("1970-01-01T00:00:00.000Z", None),  # before any row
        ("1969-12-31T23:59:59.000Z", datetime(1970, 1, 1, tzinfo=timezone.utc) - timedelta(seconds=1)),
        ("+292278994-08-17T07:12:55.807Z", datetime.max.replace(tzinfo=timezone.utc)),
        ("-290308-12-21T19:59:05.224Z", datetime.min.replace(tzinfo=timezone.utc)),
    ],
)
def test_spark_s_watermark_is_a_time_or_none(text, watermark):
    assert typed(progress(0, source(report()), eventTime={"watermark": text})).watermark == watermark
    assert typed(progress(0, source(report()))).watermark is None


def test_other_sources_and_planners_that_have_not_planned_say_nothing():
    ours, built_in, rate, young = report(), {"planner": {"0": 17}}, 12, None
    batch = typed(progress(0, *(source(entry) for entry in (ours, built_in, rate, young))))
    assert [part.progress is not None for part in batch.sources] == [True, False, False, False]
    assert len(batch.source_progress) == 1


@pytest.mark.parametrize("offset", [None, 12, "12", "no JSON"])
def test_offsets_of_other_sources_are_no_positions(offset):
    said = {"startOffset": None, "endOffset": offset, "latestOffset": offset, "numInputRows": 1}
    assert typed(progress(0, said)).source.end is None


def test_offsets_that_spark_connect_has_as_texts_are_read():
    said = source(report())
    texts = {name: value if name == "numInputRows" else json.dumps(value) for name, value in said.items()}
    assert typed(progress(0, texts)) == typed(progress(0, source(report())))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tidegate.progress({}), r"progress\(\) takes a query, as start\(\) returns it, and not a dict"),
        (lambda: tidegate.report(None, "x.html"), r"report\(\) takes a query, .* not a NoneType"),
        (
            lambda: tidegate.on_progress(None, 3),
            r"on_progress\(\) calls a function after every batch, and 3 is not one",
        ),
        (lambda: tidegate.register(None, ORDERS), r"register\(\) takes the class KafkaSource; .* use its read_stream"),
        (lambda: tidegate.register(None, "outbox"), r"register\(\) takes classes of sources, and 'outbox' is not one"),
        (
            lambda: tidegate.register(None, tidegate.Source),
            r"register\(\) takes classes of sources, and Source lacks connector, arrow_schema, enumerator, reader",
        ),
        (
            lambda: tidegate.with_source_watermark(None, "timestamp", "1 minute"),
            r"with_source_watermark\(\) takes a DataFrame, and not a NoneType",
        ),
        (lambda: tidegate.split_outputs(None, "late"), r"split_outputs\(\) takes a DataFrame, and not a NoneType"),
        (
            lambda: tidegate.register(tidegate.KafkaSource),
            "spark is the class KafkaSource, but it must be a session, as",
        ),
        (lambda: ORDERS.read_stream(None), "spark is a NoneType, but it must be a session"),
        (lambda: tidegate.on_progress(None, print), "spark is a NoneType, but it must be a session"),
        (lambda: tidegate.preview("orders"), "preview looks at topics of Kafka and objects of S3, not at a str"),
        (lambda: tidegate.preview(ORDERS, window=5), "window is 5: a duration needs a unit, such as '10 minutes'"),
    ],
)
def test_a_wrong_argument_is_one_sentence(call, sentence):
    with pytest.raises(OptionError, match=sentence):
        call()


SCAN = "~StreamingDataSourceV2ScanRelation[key#0, timestamp#5] tidegate_kafka"
SINK = "WriteToMicroBatchDataSource MemorySink"
COUNT = "~Aggregate [window#7-T0ms], [window#7-T0ms, count(1) AS count#6L]"
SUM = "~Aggregate [key#0], [key#0, sum(__records#9L) AS __aggregate_0#6L]"
OBSERVED = (
    "~CollectMetrics windows-3, [coalesce(sum(__call#5.dropped), cast(0 as bigint)) AS numLateRecordsDropped#59L]"
)
OF_WINDOWS = (
    OBSERVED,
    "~TransformWithStateInPySpark transformWithStateUDF(__bucket#547, __task#548, __number#549, __rows#550)#551, 1",
    "~MapInArrow pack(__0#537, __1#538L)#546, [__bucket#547, __task#548, __number#549, __rows#550], false",
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
        ([SINK, SUM, OBSERVED, SCAN], 1, {"reads_once", "counts_late", "counts_open", "sums_records"}),
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
        ("max(a#1) AS most#4, sum(__records#9L) AS __aggregate_0#6L", True),
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


QUERY, RUN = "7254cabc", "a145ff5a"
PLAN = [
    "WriteToMicroBatchDataSource MemorySink",
    "~Aggregate [aes_decrypt(a#1, hush)], [count(1) AS n#2L]",
    "~StreamingDataSourceV2ScanRelation[a#1] tidegate_kafka",
]
FACTS = PROVEN._replace(counts_late=False)


@pytest.fixture(autouse=True)
def notes(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return application_notes("app").within("batches")


@pytest.fixture(autouse=True)
def plans(monkeypatch):
    """The plans of queries, of which Spark may no longer have one."""
    found = {RUN: PLAN}
    monkeypatch.setattr(listening, "plan_steps", lambda query: found[query.runId])
    return found


RUNNING = SimpleNamespace(runId=RUN)


def listener(notes, *active):
    return listening._BatchListener(notes, SimpleNamespace(active=[*active]))


def test_the_last_batches_of_a_query_are_kept_with_facts_of_their_plans():
    assert kept_batches(QUERY) == {}
    for number in range(130):
        keep_batch(one(number), PROVEN if number % 2 else None)
    application_notes(QUERY).within("batches").write("129", {"batchId": 129})  # of another version
    batches = kept_batches(QUERY)
    assert sorted(batches) == [*range(10, 129)]
    assert (batches[127].plan, batches[128].plan) == (PROVEN, None)
    (kept,) = batches[128].sources
    assert (kept.end.progress.positions, kept.input_rows, kept.progress.by_split) == ({"orders-0": 1}, 100, {})


def test_only_facts_of_a_plan_are_kept_which_may_hold_secrets(notes, tmp_path):
    listener(notes, RUNNING).on_progress(json.dumps(one(0)))
    assert kept_batches(QUERY)[0].plan == FACTS
    assert not any("hush" in path.read_text() for path in tmp_path.rglob("*.json"))


def test_the_plan_of_another_run_is_not_that_of_the_last(notes):
    listens = listener(notes, RUNNING)
    listens.on_progress(json.dumps(one(0)))
    listens.on_progress(json.dumps({**one(1), "runId": "later"}))
    assert [entry.plan for entry in kept_batches(QUERY).values()] == [FACTS, None]


def test_the_plan_is_asked_for_until_it_is_known_and_once(notes, plans):
    plans.clear()
    listens = listener(notes, RUNNING)
    listens.on_progress(json.dumps(one(0)))
    plans[RUN] = PLAN
    listens.on_progress(json.dumps(one(1)))
    plans.clear()
    listens.on_progress(json.dumps(one(2)))
    assert [kept_batches(QUERY)[number].plan for number in range(3)] == [None, FACTS, FACTS]


def test_the_first_batch_of_a_run_is_noted(notes, monkeypatch):
    heard = []
    monkeypatch.setattr(listening, "await_events", heard.append)
    monkeypatch.setattr(listening.SparkSession, "active", lambda: "spark")
    monkeypatch.setattr(listening, "_ended", deque())
    listens = listener(notes)
    for number in (7, 8):
        listens.on_progress(json.dumps({**one(number), "runId": "seven"}))
    for run in ("seven", *map(str, range(999))):
        listens.on_end(run)
    assert (listening.first_batch("seven"), heard) == (7, [])
    listens.on_end("the last")
    assert "seven" not in listening._first_batches
    assert (listening.first_batch("of another process"), heard) == (None, ["spark"])


def test_a_note_that_cannot_be_left_keeps_no_other_back(notes, monkeypatch):
    write = type(notes).write

    def refuse(folder, name, note):
        if name == "full":
            raise ConnectorError("no space")
        write(folder, name, note)

    monkeypatch.setattr(type(notes), "write", refuse)
    sources = [source(report(planner=planner)) for planner in ("full", "9f1c")]
    listener(notes).on_progress(json.dumps({**one(0), "sources": sources}))
    assert (notes.names(), [*kept_batches(QUERY)]) == (["9f1c"], [0])


def test_a_session_removes_what_was_unused_for_a_day(monkeypatch, tmp_path):
    class Session:
        streams = None

    monkeypatch.setattr(listening, "add_listener", lambda *_: None)
    keep_batch(one(0), None)
    listening.listen_to_batches(Session(), "app")
    assert [*kept_batches(QUERY)] == [0]
    yesterday = time.time() - 25 * 3600
    for path in tmp_path.rglob("*"):
        os.utime(path, (yesterday, yesterday))
    listening.listen_to_batches(Session(), "app")
    assert kept_batches(QUERY) == {}
