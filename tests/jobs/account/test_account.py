"""The account of every row, from figures and from Spark's progress."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as f

from tests.support.progresses import PROVEN, offset, one, progress, report, run, source, typed
from tidegate.jobs.account.account import Figure, SourceAccount, balanced
from tidegate.jobs.account.of_progress import account_of_run, rows_in_state

BOUNDS = st.sampled_from(["exact", "by plan", "at least", "at most", "about"])
FIGURES = st.builds(Figure, st.none() | st.integers(0, 50), BOUNDS)
KNOWN = st.builds(Figure, st.integers(0, 50), BOUNDS)


def of(*entries, plan=PROVEN, first=None, **fields):
    first = entries[0]["batchId"] if first is None else first
    return account_of_run([typed(entry, plan, first) for entry in entries], **fields)


def stateful(number, *, groups=0, dropped=0, operators=1, **fields):
    """Return a batch of 100 positions, after ``number`` batches."""
    begin, end = (offset(100 * at) for at in (number, number + 1))
    entry = source(report()) | {"startOffset": begin, "endOffset": end} | fields.pop("source", {})
    state = {"numRowsTotal": groups, "numRowsDroppedByWatermark": dropped}
    return progress(number, entry, stateOperators=[state] * operators, **fields)


def figures(account):
    return [account.read, account.closed, account.open, account.late, account.set_aside]


@given(st.lists(st.builds(SourceAccount, st.just("orders"), KNOWN, KNOWN)), FIGURES, FIGURES)
def test_the_figures_of_an_account_add_up(sources, late, open_):
    account = balanced(batches=(0, 1), sources=sources, late=late, open_=open_)
    read, *remainder = [figure.rows for figure in figures(account)]
    assert read == sum(remainder)
    assert min(remainder) >= 0
    reported = account.to_json()
    assert reported["read"] == reported["closed"] + reported["open"] + reported["late"] + reported["setAside"]


@given(st.data())
def test_the_truth_lies_within_the_bounds(data):
    """Of rows with a known fate, some figures are told exactly, others as bounds, or not at all."""
    closed, open_, late, aside = truth = [data.draw(st.integers(0, 20)) for _ in range(4)]

    def reported(rows, least=-20, most=20):
        off = data.draw(st.integers(max(least, -rows), most) | st.just(0))
        return Figure(rows + off, "exact" if not off else "at least" if off < 0 else "at most")

    account = balanced(
        batches=None,
        sources=[SourceAccount("orders", reported(sum(truth), least=0), reported(aside, most=0))],
        late=data.draw(st.just(Figure(None)) | st.builds(reported, st.just(late))),
        open_=data.draw(st.just(Figure(None)) | st.builds(reported, st.just(open_))),
    )
    holds = {"exact": int.__eq__, "at least": int.__le__, "at most": int.__ge__, "about": lambda *_: True}
    for figure, rows in zip(figures(account), [sum(truth), closed, open_, late, aside], strict=True):
        assert holds[figure.bound](figure.rows, rows)


def test_what_is_known_is_not_cut_by_a_bound_of_another_figure():
    account = of(stateful(0, groups=4, dropped=3), state=Figure(30))
    assert (account.late, account.open, account.closed) == (Figure(70, "at most"), Figure(30), Figure(0, "at least"))


def test_nothing_is_known_of_rows_that_are_not_counted():
    account = balanced(batches=(0, 1), sources=[SourceAccount("s3://bucket", Figure(None))], missing=["the rows"])
    assert [figure.rows for figure in figures(account)] == [None, None, 0, 0, 0]
    assert account.headline == "late rows 0, not complete: the rows"
    others = balanced(batches=(0, 1), sources=account.sources, late=Figure(5, "by plan"), open_=Figure(40))
    assert (others.closed, others.late, others.open) == (Figure(None), Figure(5, "by plan"), Figure(40))


def test_a_query_without_state_has_passed_on_every_row():
    account = of(*(stateful(number) for number in range(3)))
    assert figures(account) == [Figure(300), Figure(300), Figure(0), Figure(0), Figure(0)]
    assert account.headline == "late rows 0, complete"
    assert account.sources[0].by_split == {"orders-0": 300}
    assert account.batches == (0, 2)
    assert of(stateful(0), stateful(1, durationMs={"triggerExecution": 7})).batches == (0, 0)  # nothing new came


def test_open_windows_are_counted_by_the_state_or_are_at_most_all_rows():
    batches = [stateful(0), stateful(1, groups=4)]
    assert of(*batches, state=Figure(30)).closed == Figure(170)
    unknown = of(*batches)
    assert (unknown.closed, unknown.open) == (Figure(0, "at least"), Figure(200, "at most"))
    assert unknown.complete
    assert unknown.why[0].startswith("the count(*) of a single aggregation has the rows in open windows")


def test_rows_in_open_windows_are_unknown_if_a_step_of_the_query_may_multiply_rows():
    assert rows_in_state(None, "unread", PROVEN._replace(counts_open=False)) is None


def test_rows_in_open_windows_are_counted_beside_aggregates_that_have_the_same_name_in_the_state(spark, tmp_path):
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    some = rows.withWatermark("timestamp", "1 minute").withColumn("some", f.expr("if(value < 10, value, null)"))
    counts = some.groupBy(f.window("timestamp", "1 hour")).agg(f.count("*"), f.count("some"), f.avg("some"))
    query = counts.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(once=True).start()
    query.awaitTermination()
    assert rows_in_state(spark, str(tmp_path), PROVEN) == Figure(100)


def test_groups_that_spark_dropped_are_at_most_the_rows_of_their_batches():
    account = of(stateful(0), stateful(1, groups=4, dropped=3), stateful(2, groups=4), state=Figure(30))
    assert (account.late, account.open, account.closed) == (
        Figure(100, "at most"),
        Figure(30),
        Figure(170, "at least"),
    )
    assert account.headline == (
        "late rows at most 100, not complete: how many rows are in the 3 groups that Spark dropped as late"
    )
    chained = of(stateful(0), stateful(1, dropped=3, operators=2))
    assert chained.late == Figure(200, "at most")


def test_windows_of_tidegate_count_their_late_rows():
    observed = {"windows-1": {"numLateRecordsDropped": 7, "windows": [{"bucket": 1, "windows": 0}]}}
    account = of(stateful(0, observedMetrics=observed))
    assert figures(account) == [Figure(100), Figure(93), Figure(0), Figure(7), Figure(0)]
    assert account.headline == "late rows 7, the rest complete"
    multiplied = of(stateful(0, observedMetrics=observed), plan=PROVEN._replace(counts_late=False))
    assert (multiplied.late, multiplied.closed) == (Figure(7, "about"), Figure(93, "about"))
    assert multiplied.why[0].startswith("Spark counts groups that it drops, and steps of the query may multiply rows")


@pytest.mark.parametrize(
    ("given_rows", "reads_once", "read"),
    [
        (100, False, Figure(100, "at most")),  # one half came twice, and the other not at all
        (0, False, Figure(100, "at most")),
        (200, False, Figure(100, "at most")),
        (90, True, Figure(90)),  # the log has holes
        (90, False, Figure(100, "at most")),  # half of as many rows, twice
        (101, True, Figure(100, "at most")),  # a row carries only the watermark
    ],
)
def test_rows_are_those_that_spark_counts_if_each_is_read_once(given_rows, reads_once, read):
    said = {"numInputRows": given_rows}
    account = of(stateful(0, source=said), plan=PROVEN._replace(reads_once=reads_once))
    assert (account.read, account.complete, bool(account.why)) == (read, True, read.bound != "exact")
    assert of(stateful(0, source=said), plan=None).read == Figure(100, "at most")


@pytest.mark.parametrize(
    ("said", "plan", "missing"),
    [
        ({}, PROVEN, False),
        ({"numInputRows": 90}, PROVEN, True),  # the others may be holes in the log
        ({}, None, True),
    ],
)
def test_records_may_be_lost_unseen_if_the_source_skips_them(said, plan, missing):
    batch = stateful(0, source={"latestOffset": report(skipsLost=True), **said})
    account = of(batch, plan=plan)
    assert account.complete != missing
    assert [sentence for sentence in account.missing if "failOnDataLoss is false" in sentence] == [*account.missing]


def test_offsets_of_which_a_condition_left_no_row_are_named_and_not_read():
    def left_out(**said):
        given = {"latestOffset": report(selectsRows=True), "numInputRows": 40, **said}
        lines = dict(of(batch := stateful(0, source=given)).lines()), dict(of(batch, plan=None).lines())
        return [line.get("left out by where, or empty") for line in lines]

    account = of(stateful(0, source={"latestOffset": report(selectsRows=True), "numInputRows": 40}))
    assert (account.read, account.sources[0].unselected, account.complete) == (Figure(40), Figure(60), True)
    assert account.to_json()["sources"][0]["unselected"] == 60
    assert left_out() == ["60", "unknown"]
    assert left_out(latestOffset=report(selectsRows=True, badRecordsTotal=0)) == ["at most 60", "unknown"]
    assert left_out(latestOffset=report()) == [None, None]


@pytest.mark.parametrize("given_rows", [100, 91])
def test_the_rows_that_carry_only_the_watermark_are_not_read(given_rows):
    said = {
        "endOffset": offset(100, watermark=1_000),
        "numInputRows": given_rows + 1,
        "latestOffset": report(watermarkRows=True),
    }
    assert of(stateful(0, source=said)).read == Figure(given_rows)


@pytest.mark.parametrize(
    ("observed", "read"),
    [
        ({"windows-2": {"numMoreRecords": 78}}, Figure(90)),
        ({"windows-2": {"numMoreRecords": 70}, "windows-4": {"numMoreRecords": 8}}, Figure(100, "at most")),
        ({}, Figure(100, "at most")),
    ],
)
def test_rows_that_tasks_of_a_source_sum_up_are_counted_by_the_windows_that_ask_for_it(observed, read):
    said = {"numInputRows": 12, "latestOffset": report(rowStage="Tasks sum up the rows of windows by key and 60 s.")}
    assert of(stateful(0, source=said, observedMetrics=observed)).read == read


def with_bad_records(entry, total):
    """Return a batch after those that set so many records aside."""
    entry["sources"][0]["endOffset"] = {**entry["sources"][0]["endOffset"], "badRecords": total}
    return entry


def test_bad_records_are_read_and_set_aside():
    def batch(number, rows, bad):
        said = report(badRecordsTotal=bad, plannedRows=rows)
        return with_bad_records(stateful(number, source={"latestOffset": said, "numInputRows": 80}), bad)

    account = of(batch(0, 100, 5), batch(1, 100, 25))
    assert (account.read, account.closed, account.set_aside) == (
        Figure(180, "at least"),
        Figure(160, "about"),
        Figure(20, "at least"),
    )
    assert account.missing == ("how many bad records, if any, a run set aside in its last batch",)


def test_bad_records_of_a_batch_that_a_restart_repeated_are_in_the_next_offset():
    again = with_bad_records(stateful(4, source={"latestOffset": None, "numInputRows": 90}), 3)
    idle = stateful(5, source={"latestOffset": report(badRecordsTotal=10, plannedRows=0), "numInputRows": 0})
    idle["sources"][0]["startOffset"] = again["sources"][0]["endOffset"]
    idle["sources"][0]["endOffset"] = {**again["sources"][0]["endOffset"], "badRecords": 10}
    account = of(again, idle)
    assert (account.set_aside, account.read.rows, account.complete) == (Figure(7), 97, True)
    assert (of(again).set_aside, of(again).complete) == (Figure(0, "at least"), False)
    assert of(again).sources[0].reads == "kafka"


def test_what_was_left_out_or_skipped_is_missing():
    left_out = of(one(0, metrics={"numFilesLeftOut": 2, "archiveMissingOffsets": 0}))
    assert left_out.missing == ("the rows of objects that were left out, of which there are 2",)
    account = of(stateful(0), stateful(1, source={"endOffset": offset(300, starts={"orders-0": 250})}))
    assert account.sources[0].by_split == {"orders-0": 150}
    assert account.missing == ("orders-0 went on at 250 and not at 100: records were lost, or it holds others now",)


def test_a_run_that_goes_on_may_close_windows_of_earlier_ones():
    account = of(stateful(5, groups=3), state=Figure(40))
    assert (account.open, account.closed) == (Figure(40, "at most"), Figure(60, "at least"))
    assert account.complete
    for first, unsure in ((3, ""), (None, ", if there were any")):
        cut = account_of_run([typed(entry, PROVEN, first) for entry in run(1, batches=5, first=7)])
        assert cut.missing == (f"the batches of this run before batch 7, which Spark no longer has{unsure}",)


def test_batches_that_are_skipped_are_missing():
    assert of(stateful(5), stateful(6), stateful(6), stateful(7)).complete
    assert of(stateful(5), stateful(7), stateful(10)).missing == ("3 batches that Spark forgot before anyone looked",)


def test_other_sources_are_counted_by_spark():
    rate = {"startOffset": 1, "endOffset": 2, "latestOffset": None, "numInputRows": 5}
    ours = stateful(0)["sources"][0]
    account = of(progress(0, ours, rate))
    assert (account.read, account.sources[1].read) == (Figure(105), Figure(5))


def test_an_account_in_which_all_is_well_is_short():
    assert str(of(stateful(0), stateful(1))) == (
        "rows read          200\nin closed windows  200\nbatches            0 to 1\nlate rows 0, complete"
    )
    found_nothing = of(stateful(1, durationMs={"triggerExecution": 7}))
    assert str(found_nothing) == "rows read  0\nlate rows 0, complete"


def test_an_account_is_shown_as_text_html_and_json():
    account = of(stateful(0), stateful(1, groups=4, dropped=3))
    assert "dropped as late    at most 100\n" in str(account)
    assert str(account).endswith("the 3 groups that Spark dropped as late")
    assert account._repr_html_().startswith("<p><b>late rows at most 100, not complete: how many")
    assert account.to_json() == {
        "read": 200,
        "closed": 0,
        "open": 100,
        "late": 100,
        "setAside": 0,
        "complete": False,
        "missing": [*account.missing],
        "why": [*account.why],
        "bounds": {"closed": "at least", "open": "about", "late": "at most"},
        "batches": [0, 1],
        "sources": [
            {"reads": "orders at kafka:9092", "read": 200, "setAside": 0, "bySplit": {"orders-0": 200}},
        ],
    }
