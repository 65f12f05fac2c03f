from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.jobs.checkpoints import log_batch
from tests.support.progresses import HOUR, NOON, one, progress, report, source, typed
from tidegate import OptionError
from tidegate.jobs.account.of_progress import RunTally
from tidegate.jobs.backfill import Output, RunLine, account_of, summary
from tidegate.jobs.figures import clock_time

BINDING = {"--topic": ["orders"], "--to": None}


@pytest.fixture
def output(tmp_path):
    return Output(tmp_path / "out")


def test_a_new_folder_knows_no_state(output):
    assert output.state(BINDING) is None
    assert not output.path.exists()


def test_the_state_is_the_one_after_the_last_batch_that_spark_has_committed(output):
    with output.alone():
        output.claim(BINDING)
        assert output.state(BINDING) is None
    log_batch(output.checkpoint, 0, {"orders-0": 7}, state={"cluster": "there"})
    log_batch(output.checkpoint, 1, {"orders-0": 9}, state={"cluster": "there"}, committed=False)
    assert Output(output.path).state(BINDING) == {"cluster": "there"}


def test_a_contradiction_names_the_option_and_both_values(output):
    with output.alone():
        output.claim(BINDING)
    with pytest.raises(OptionError, match=r"^--topic is payments, but it was orders when .*/out was begun"):
        output.state({**BINDING, "--topic": ["payments"]})
    with pytest.raises(OptionError, match=r"^--to is 2026, but it was not set when"):
        output.state({**BINDING, "--to": "2026"})


def test_only_one_run_at_a_time_may_write(output):
    second = Output(output.path)
    with second.alone(), output.alone():
        output.claim(BINDING)
        with pytest.raises(OptionError, match="another back-fill is writing"):
            second.claim(BINDING)
        with pytest.raises(OptionError, match="another back-fill is writing"):
            Output(output.path).alone().__enter__()
    with Output(output.path).alone():
        pass


def test_a_folder_that_holds_something_else_is_left_alone(output):
    output.path.mkdir()
    assert output.state(BINDING) is None
    (output.path / "thesis.txt").touch()
    with pytest.raises(OptionError, match="holds something else"):
        output.state(BINDING)


def test_a_file_or_an_address_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="holds something else"):
        Output(tmp_path / "file").state(BINDING)
    with pytest.raises(OptionError, match="--out is s3a://bucket/out, but it must be a folder of this machine"):
        Output(tmp_path.relative_to(tmp_path) / "s3a://bucket/out").state(BINDING)


def test_a_folder_of_a_back_fill_that_cannot_be_written_is_one_sentence(output):
    (output.path / "_tidegate" / "lock").mkdir(parents=True)  # like a file without permission, it cannot be opened
    with pytest.raises(OptionError, match=r"^--out is '.*/out', where nothing can be written: Is a directory$"):
        output.alone().__enter__()


def test_the_folders_of_batches_hide_no_column_of_the_rows(output):
    assert output.batch(7, ["id"]) == f"{output.path}/batch=7"
    assert output.batch(7, ["Batch"]) == f"{output.path}/tidegate_batch=7"


def test_rows_that_were_read_and_are_not_in_the_files_of_a_run_are_missing(output):
    tally = RunTally(reads_once=True)
    for number in range(2):
        folder = Path(output.batch(number, ()))
        folder.mkdir(parents=True)
        parquet.write_table(pa.table({"a": [1, 2, 3]}), folder / "part-0.parquet")
    tally.add(typed(progress(1, source(report()))))
    assert account_of(tally, output, 3).complete
    assert account_of(tally, output, 6).missing == ("6 rows were read, and 3 written",)
    assert account_of(RunTally(), output, 0) is None


def test_figures_of_a_run_of_which_spark_forgot_batches_are_bounds(output):
    line, tally = RunLine(), RunTally()
    for number in (0, 1, 4):
        line.after(typed(one(number)))
        tally.add(typed(one(number)))
    for number in range(5):
        folder = Path(output.batch(number, ()))
        folder.mkdir(parents=True)
        parquet.write_table(pa.table({"a": [1] * 100}), folder / "part-0.parquet")
    said = dict(summary(output, line, tally, 1.0))
    assert said["rows written"] == "at least 300 in this run, 500 in all"
    assert (said["batches"], said["rows/s"]) == ("at least 3", "at least 300")
    assert said["account"] == "late rows 0, not complete: 2 batches that Spark forgot before anyone looked"


def line_after(*batches):
    """Return the line after the last of some batches, each given as its rows and the rows that are left."""
    line = RunLine()
    said = [progress(0, source(report(rowsRemaining=left), rows=rows), batchDuration=2_000) for rows, left in batches]
    return [line.after(typed(batch)) for batch in said][-1]


def test_a_line_says_how_far_the_run_is_and_how_fast():
    read_up_to = f"read up to {clock_time(NOON + HOUR)} · 5 h behind · held by orders-0"
    assert line_after((50, 100)) == f"33.3 % · 50 rows · 25 rows/s · {read_up_to}"
    assert line_after((50, 3)).startswith("94.3 % · 50 rows")  # all are 100 %, and only all
    assert line_after((50, 50), (100, 0)) == "100 % · 150 rows · 50 rows/s"


def test_a_batch_that_an_earlier_run_planned_leaves_the_rest_unknown():
    assert RunLine().after(typed(progress(3, source(None)))) == "100 rows · 233 rows/s"
