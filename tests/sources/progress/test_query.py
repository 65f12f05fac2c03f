"""Spark's progress of a query, typed."""

import json
from datetime import datetime, timedelta, timezone

import pytest

import tidegate
from tests.support.progresses import NOON, progress, report, source, typed
from tidegate import OptionError

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
        (lambda: tidegate.on_progress(None, 3), r"on_progress\(\) calls a function after every batch, and 3 is none"),
        (lambda: tidegate.register(None, ORDERS), r"register\(\) takes the class KafkaSource; .* use its read_stream"),
        (lambda: tidegate.register(None, "outbox"), r"register\(\) takes classes of sources, and 'outbox' is none"),
    ],
)
def test_a_wrong_argument_is_one_sentence(call, sentence):
    with pytest.raises(OptionError, match=sentence):
        call()
