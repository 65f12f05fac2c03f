"""The account of a query from outside, by a checkpoint as Spark writes it."""

import json
from contextlib import nullcontext

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.jobs.checkpoints import log_batch
from tests.support.progresses import PROVEN, offset, progress, report, source, typed
from tidegate.enumerators.folders.folder import LocalFolder
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.errors import OptionError, ServerError, TidegateError
from tidegate.jobs.account import of_checkpoint
from tidegate.jobs.account.account import Figure
from tidegate.jobs.account.of_checkpoint import account_of_checkpoint, run_account, written_batches
from tidegate.jobs.spark_checkpoint import query_id

NOTHING = {}


@pytest.fixture
def logged(tmp_path):
    """Log batches of 100 rows after position 0, with Spark's watermark and the source's; return their account."""

    def log(*watermarks, first=0, last=None, has_state=True, state=None, found=NOTHING, **fields):
        for number, (of_spark, of_source) in enumerate(watermarks, first):
            position = 100 * (number + 1) if last is None else min(last, 100 * (number + 1))
            starts = {} if number else {"orders-0": 0}
            given = {"starts": starts, "watermarks": (of_spark, of_source), **fields}
            log_batch(tmp_path, number, {"orders-0": position}, **given)
        return account_of_checkpoint(written_batches(LocalFolder(tmp_path, "c")), found, state, has_state=has_state)

    return log


def test_no_row_is_late_while_spark_s_watermark_is_not_ahead_of_the_source_s(logged):
    account = logged((0, 1_000), (999, 2_000), (2_000, 3_000), (9_999, 3_000), last=300, state=Figure(40, "at least"))
    assert account.read == Figure(300, "at most")
    assert (account.late, account.open) == (Figure(0, "by plan"), Figure(40, "at least"))
    assert (account.closed, account.set_aside) == (Figure(260, "at most"), Figure(0, "at least"))
    assert account.headline == "late rows 0 by the plan, complete by the plan"
    assert (account.complete, account.missing) == (False, ())
    assert account.why[0].startswith("offsets may have no record")
    assert account.sources[0].by_split == {"orders-0": 300}


@pytest.mark.parametrize("fields", [{}, {"late": frozenset({"orders-0"})}])
def test_rows_that_are_read_while_it_is_ahead_may_be_late(logged, fields):
    ahead = () if fields else ((2_001, 3_000), (3_000, 4_000))
    account = logged((0, 1_000), (1_000, 2_000), *ahead, **fields)
    late = 100 if ahead else 200
    assert account.late == Figure(late, "at most")
    assert account.open.bound == "about"
    assert account.missing == ("how many rows were late in batches for which Spark's watermark was ahead of the plan",)


def test_windows_of_tidegate_let_spark_s_watermark_run_ahead_by_a_millisecond(logged):
    assert logged((0, 1_000), (1_001, 2_000)).late == Figure(100, "at most")
    assert logged((0, 1_000), (1_001, 2_000), add_ons={"windows": {"assigner": "Tumbling"}}).late == Figure(
        0, "by plan"
    )


def test_without_state_or_without_a_watermark_no_row_can_be_late(logged):
    assert logged((0, 1_000), (5_000, 2_000), has_state=False).late == Figure(0)
    assert logged((0, None), (0, None)).late == Figure(0)


def test_a_failed_batch_that_a_repartition_of_the_state_skipped_counts_once(tmp_path):
    ends = [100, 200, 300, 200, 300, 400]  # Spark commits batch 2, which failed, and goes back to the end of batch 1
    for number, end in enumerate(ends):
        starts = {} if number else {"orders-0": 0}
        log_batch(tmp_path, number, {"orders-0": end}, starts=starts, watermarks=(0, 1_000))
    written = written_batches(LocalFolder(tmp_path, "c"))
    account = account_of_checkpoint(written, NOTHING, has_state=True)
    assert (account.read, account.missing) == (Figure(400, "at most"), ())

    at = [dict(INITIAL_OFFSET), after(0), *(offset(end, watermark=1_000) for end in ends[1:])]
    found = {  # Spark reports neither the batch that failed nor the repartition
        number: source(report(), rows=90) | {"startOffset": at[number], "endOffset": at[number + 1]}
        for number in (0, 1, 4, 5)
    }
    found = {number: typed(progress(number, ours), PROVEN) for number, ours in found.items()}
    account = account_of_checkpoint(written, found, has_state=False)
    assert (account.read, account.complete) == (Figure(4 * 90), True)


def test_batches_that_spark_has_deleted_are_missing(logged):
    account = logged(*((7, 7) for _ in range(3)), first=7, bad_records=5)
    assert (account.batches, account.read.rows, account.set_aside) == ((8, 9), 200, Figure(0, "at least"))
    assert account.missing == (
        "the batches up to 7, which the checkpoint no longer has (spark.sql.streaming.minBatchesToRetain)",
    )


def test_positions_of_objects_are_no_rows(logged):
    account = logged((0, 1_000), (500, 2_000), source="s3")
    assert (account.read.rows, account.late) == (None, Figure(0, "by plan"))
    assert account.missing == ("how many rows of source 0 (s3) were read: only offsets of Kafka tell",)


def after(number, watermark=1_000):
    """Return the offset after a batch that ``logged`` logs."""
    starts = {} if number else {"starts": {"orders-0": 0}}
    return offset(100 * (number + 1), watermark=watermark, **starts)


def reported(
    number, rows=100, said=None, *, others=0, begin=None, watermark=1_000, is_last=False, plan=PROVEN, **fields
):
    """Return what Spark tells of a batch that ``logged`` logs.

    said: fields of the source's progress.
    others: how many sources are not tidegate's.
    is_last: whether they come before tidegate's, as in the log.
    """
    begin = begin or (after(number - 1) if number else dict(INITIAL_OFFSET))
    ours = source(report(**said or {}), rows=rows) | {"startOffset": begin, "endOffset": after(number, watermark)}
    sources = [ours, *[{"startOffset": 1, "endOffset": 2, "latestOffset": None, "numInputRows": 5}] * others]
    state = {"numRowsTotal": 4, "numRowsDroppedByWatermark": 0}
    return typed(progress(number, *sources[:: -1 if is_last else 1], stateOperators=[state], **fields), plan)


def test_what_spark_told_makes_the_account_exact(logged):
    batches = {0: reported(0), 1: reported(1, rows=90)}  # the log has holes
    account = logged((0, 1_000), (2_001, 1_000), found=batches, state=Figure(40))
    assert [account.read, account.closed, account.open, account.late] == [
        Figure(190),
        Figure(150),
        Figure(40),
        Figure(0),
    ]
    assert (account.why, account.headline) == ((), "late rows 0, complete")
    assert account.sources[0].bound_of_splits == "at most"


def in_runs(*said, rows=100):
    """Return what Spark tells of batches that are runs of their own."""
    return {at: reported(at, rows, fields, runId=str(at)) for at, fields in enumerate(said)}


def test_what_each_run_left_out_is_missing(logged):
    batches = in_runs({"metrics": {"numFilesLeftOut": 3}}, {"metrics": {"numFilesLeftOut": 2}}, {})
    account = logged(*[(0, 1_000)] * 3, found=batches)
    assert account.missing == ("the rows of objects that were left out, of which there are 5",)


def test_rows_that_carry_only_the_watermark_are_those_of_the_runs_that_have_them(logged):
    moves = reported(1, 101, {"watermarkRows": True}, watermark=2_000, runId="other")  # the watermark, as in batch 0
    account = logged((0, 1_000), (0, 2_000), found={0: reported(0), 1: moves})
    assert account.read == Figure(200)


def test_a_run_may_end_before_it_has_told_of_its_last_bad_records(logged):
    batches = in_runs({"badRecordsTotal": 7}, {}, rows=90)
    account = logged((0, 1_000), (0, 1_000), found=batches)
    assert (account.read, account.set_aside) == (Figure(180, "at least"), Figure(0, "at least"))
    assert account.missing == ("how many bad records, if any, a run set aside in its last batch",)


def test_a_condition_may_also_leave_out_rows_of_batches_of_which_spark_told_nothing(logged):
    account = logged(*[(0, 1_000)] * 2, found={1: reported(1, 40, {"selectsRows": True})})
    assert (account.read, account.sources[0].unselected) == (Figure(140, "at most"), Figure(60, "at least"))


@pytest.mark.parametrize(
    "batch", [reported(1, others=1, runId="of two"), reported(1, said={"planner": None}, runId="repeats")]
)
def test_runs_that_cannot_be_added_up_leave_bounds(logged, batch):
    account = logged((0, 1_000), (1_000, 1_000), found={0: reported(0), 1: batch})
    assert (account.read, account.late) == (Figure(200, "at most"), Figure(0, "by plan"))


def test_the_last_batch_is_left_out_until_spark_tells_of_it(logged, tmp_path, monkeypatch, capsys):
    (tmp_path / "metadata").write_text(json.dumps({"id": "63e3dd0a-57c0-4b0c-9d3b-3c5b5e0f2c11"}))
    batches = {0: reported(0), 1: reported(1)}
    account = logged(*[(0, 1_000)] * 3, found=batches, state=Figure(40))
    assert (account.batches, account.read, account.open) == ((0, 1), Figure(200), Figure(40))
    assert account.missing == ("what became of batch 2, which Spark has not reported yet",)

    def meanwhile(query):
        logged(*[(0, 1_000)] * 5)  # Spark goes on
        return {**batches, 2: reported(2)}

    monkeypatch.setattr(of_checkpoint, "kept_batches", meanwhile)
    run_account(str(tmp_path), as_json=True)
    account = json.loads(capsys.readouterr().out)
    assert (account["batches"], account["read"], "read" in account["bounds"]) == ([0, 2], 300, False)


@pytest.mark.parametrize("stored", ['{"id": ".."}', '{"id": 7}', "{}", "[]", "no JSON", "[" * 100_000])
def test_the_id_of_a_query_is_a_uuid(tmp_path, stored):
    (tmp_path / "metadata").write_text(stored)
    assert query_id(LocalFolder(tmp_path, "checkpoint")) is None


def test_only_batches_of_which_spark_told_nothing_are_bounds(logged):
    said = {"metrics": {"numFilesLeftOut": 3}}
    late = {"windows": {"numLateRecordsDropped": 5}}
    batches = {at: reported(at, 90, said, observedMetrics=late) for at in (0, 1, 4, 5)}  # the log has holes
    account = logged(*[(500, 1_000)] * 6, found=batches, state=Figure(40))
    assert (account.read, account.late) == (Figure(4 * 90 + 2 * 100, "at most"), Figure(20, "by plan"))
    assert (account.open, account.closed) == (Figure(40), Figure(500, "at most"))
    assert (account.sources[0].reads, account.sources[0].by_split) == ("orders at kafka:9092", {"orders-0": 600})
    assert account.missing == ("the rows of objects that were left out, of which there are 3",)
    (why,) = account.why
    assert why.startswith("offsets may have no record; Spark counts rows")


def test_bad_records_of_a_batch_of_which_spark_told_nothing_are_not_those_of_others(tmp_path):
    found = {}
    for number, bad in enumerate((0, 2, 5, 9)):
        starts = {} if number else {"orders-0": 0}
        log_batch(tmp_path, number, {"orders-0": 100 * (number + 1)}, starts=starts, bad_records=bad)
        end = offset(100 * (number + 1), badRecords=bad, starts=starts)
        begin = found[number - 1].source.end.to_json() if number else {"v": 1}
        ours = source(report(badRecordsTotal=bad), rows=90) | {"startOffset": begin, "endOffset": end}
        found[number] = typed(progress(number, ours), PROVEN)
    del found[2]
    account = account_of_checkpoint(written_batches(LocalFolder(tmp_path, "c")), found, has_state=False)
    assert account.set_aside == Figure(2 + 4, "at least")


@pytest.mark.parametrize(("said", "missing"), [({"badRecordsTotal": 0}, 1), ({}, 0)])
def test_bad_records_of_a_batch_of_which_spark_told_nothing_are_missing(logged, said, missing):
    account = logged((0, 1_000), (0, 1_000), found={1: reported(1, 100, said)}, has_state=False)
    assert [account.set_aside, account.late] == [Figure(0, "at least"), Figure(0)]
    assert ([sentence[:21] for sentence in account.missing], account.complete) == (
        ["how many bad records,"] * missing,
        False,
    )


@pytest.mark.parametrize("other", [PROVEN._replace(counts_open=False), None])
def test_rows_in_open_windows_are_counted_by_what_holds_for_the_plans_of_all_runs(logged, tmp_path, monkeypatch, other):
    (tmp_path / "metadata").write_text(json.dumps({"id": "63e3dd0a-57c0-4b0c-9d3b-3c5b5e0f2c11"}))
    logged(*[(0, 1_000)] * 2)
    (tmp_path / "state" / "0").mkdir(parents=True)
    asked = []
    monkeypatch.setattr(of_checkpoint, "spark_session", lambda *_: nullcontext())
    monkeypatch.setattr(of_checkpoint, "rows_in_state", lambda *said: asked.append(said[2:]))
    for plan in (PROVEN, other):
        monkeypatch.setattr(
            of_checkpoint, "kept_batches", lambda _, plan=plan: {0: reported(0, plan=PROVEN), 1: reported(1, plan=plan)}
        )
        run_account(str(tmp_path), as_json=True)
    assert asked == [(PROVEN, 1), (None, 1)]


@pytest.mark.parametrize(
    "batch",
    [
        reported(0),
        reported(1, begin=offset(50, watermark=1_000, starts={"orders-0": 0})),
        reported(1, watermark=2_000),
    ],
)
def test_a_batch_of_a_copy_of_the_checkpoint_is_none_of_this_one(logged, batch):
    account = logged((0, 1_000), (1_000, 1_000), found={0: reported(0), 1: batch}, state=Figure(4))
    assert (account.read, account.late) == (Figure(200, "at most"), Figure(0, "by plan"))


@pytest.mark.parametrize(("is_last", "bound"), [(True, "exact"), (False, "at most")])
def test_a_source_is_known_by_its_place(logged, is_last, bound):
    batch = reported(0, others=1, is_last=is_last)
    account = logged((0, 1_000), others=["2"], found={0: batch})
    assert account.sources[1].read == Figure(100, bound)


def test_bad_records_of_a_batch_are_told_by_the_next_offset(tmp_path):
    for number, bad in enumerate((0, 2, 9)):
        log_batch(tmp_path, number, {"orders-0": 100 * number}, starts={"orders-0": 0}, bad_records=bad)
    account = account_of_checkpoint(written_batches(LocalFolder(tmp_path, "c")), NOTHING, has_state=False)
    assert account.set_aside == Figure(9, "at least")


def test_a_batch_that_is_logged_alone_has_no_account(logged):
    account = logged((7, 7), first=7, state=Figure(40))
    assert (account.batches, account.read, account.open) == (None, Figure(0), Figure(0, "at most"))
    assert account.missing == (
        "the batches up to 7, which the checkpoint no longer has (spark.sql.streaming.minBatchesToRetain)",
    )


def test_a_folder_without_a_written_batch_is_no_checkpoint(tmp_path):
    with pytest.raises(OptionError, match="no checkpoint with a written batch"):
        written_batches(LocalFolder(tmp_path, "checkpoint"))


def test_without_java_all_but_the_rows_in_open_windows_is_told(logged, monkeypatch, tmp_path, capsys):
    logged((0, 1_000), (999, 2_000))
    (tmp_path / "state/0/0").mkdir(parents=True)

    def without_java(*_):
        raise ServerError("Java 17 or newer is needed")

    monkeypatch.setattr(of_checkpoint, "spark_session", without_java)
    run_account(str(tmp_path), as_json=False)
    said = capsys.readouterr()
    assert "The rows in open windows are unknown: Java 17 or newer is needed" in said.err
    assert "200" in said.out


JSON = st.sampled_from([None, True, -1, 2**70, 1.5, "", "x", [], ["x"], {}, {"x": 1}, {"orders-0": -5}])


def places(value, path=()):
    """Yield the paths to all values inside JSON."""
    for key, inner in value.items() if isinstance(value, dict) else []:
        yield (*path, key)
        yield from places(inner, (*path, key))


@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_the_account_of_damaged_logs_is_one_sentence_or_an_account(tmp_path, data):
    for number in range(3):
        group = {"id": "me", "run": "r", "peers": {"other": ["r", 1, None]}}
        fields = {"starts": {} if number else {"orders-0": 0}, "group": group, "bad_records": number}
        log_batch(tmp_path, number, {"orders-0": 100 * number + 100}, watermarks=(number, number + 1), **fields)
    damaged = tmp_path / data.draw(st.sampled_from(["offsets/0", "offsets/1", "offsets/2", "commits/1"]))
    text = damaged.read_text()
    if data.draw(st.booleans()):
        begin, end = (data.draw(st.integers(0, len(text))) for _ in range(2))
        text = text[:begin] + data.draw(st.text(max_size=3)) + text[max(begin, end) :]
    else:
        version, *lines = text.split("\n")
        number = data.draw(st.integers(0, len(lines) - 1))
        inside = whole = json.loads(lines[number])
        path = data.draw(st.sampled_from([*places(whole)] or [("x",)]))
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = data.draw(JSON)
        lines[number] = json.dumps(whole)
        text = "\n".join([version, *lines])
    damaged.write_text(text, errors="surrogatepass")
    try:
        account = account_of_checkpoint(written_batches(LocalFolder(tmp_path, "c")), NOTHING, has_state=False)
    except TidegateError as error:
        assert "\n" not in str(error)  # noqa: PT017 - an account is as good
    else:
        assert account.headline
