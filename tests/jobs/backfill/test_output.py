"""The source of a back-fill, and the files that it writes."""

import json
import os
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.jobs.backfill.test_run import asked
from tests.jobs.checkpoints import log_batch
from tests.support.progresses import HOUR, NOON, one, progress, report, source, typed
from tidegate import OptionError
from tidegate.jobs import backfill as backfill_run
from tidegate.jobs.account.of_progress import RunTally
from tidegate.jobs.backfill import Output, RunLine, account_of, binding, summary
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


@pytest.mark.parametrize("notes", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_notes_that_are_damaged_are_one_sentence(output, notes):
    with output.alone():
        output.claim(BINDING)
    (output.path / "_tidegate" / "backfill.json").write_bytes(notes)
    with pytest.raises(OptionError, match=r"^--out is .*/out, whose _tidegate/backfill.json is damaged; give another"):
        output.state(BINDING)


def test_only_one_run_at_a_time_may_write(output, monkeypatch):
    monkeypatch.setattr(backfill_run, "_ENDING_S", 0.0)
    second = Output(output.path)
    with second.alone(), output.alone():
        output.claim(BINDING)
        with pytest.raises(OptionError, match="another back-fill is writing"):
            second.claim(BINDING)
        with pytest.raises(OptionError, match="another back-fill is writing"):
            Output(output.path).alone().__enter__()
    with Output(output.path).alone():
        pass


@pytest.mark.parametrize("fails", [True, False])
def test_java_keeps_others_out_after_an_error_until_it_ends_and_not_after_a_run_that_is_complete(
    output, monkeypatch, fails
):
    monkeypatch.setattr(backfill_run, "_ENDING_S", 0.0)
    with suppress(ZeroDivisionError), output.alone():
        output.claim(BINDING)
        of_java = os.dup(output.lock)
        1 / (not fails)
    with (
        pytest.raises(OptionError, match="another back-fill is writing") if fails else nullcontext(),
        Output(output.path).alone(),
    ):
        pass
    os.close(of_java)
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


def line_after(*batches, planned=None):
    """Return the line after the last of some batches, each given as its rows and the rows that are left.

    planned: how many records each batch has; None: as many as rows.
    """
    line = RunLine()
    reports = [report(plannedRows=rows if planned is None else planned, rowsRemaining=left) for rows, left in batches]
    said = [
        progress(0, source(each, rows=rows), batchDuration=2_000)
        for each, (rows, _) in zip(reports, batches, strict=True)
    ]
    return [line.after(typed(batch)) for batch in said][-1]


def test_a_line_says_how_far_the_run_is_and_how_fast():
    read_up_to = f"read up to {clock_time(NOON + HOUR)} · 5 h behind · held by orders-0"
    assert line_after((50, 100)) == f"33.3 % · 50 rows · 25 rows/s · {read_up_to}"
    assert line_after((50, 3)).startswith("94.3 % · 50 rows")  # all are 100 %, and only all
    assert line_after((50, 50), (100, 0)) == "100 % · 150 rows · 50 rows/s"
    assert line_after((0, 0), planned=0) == "100 % · 0 rows · 0 rows/s"


def test_records_that_a_condition_leaves_out_are_done():
    assert line_after((3, 100), planned=50).startswith("33.3 % · 3 rows")
    assert line_after((0, 0), planned=50) == "100 % · 0 rows · 0 rows/s"


def test_a_batch_that_an_earlier_run_planned_leaves_the_rest_unknown():
    assert RunLine().after(typed(progress(3, source(None)))) == "100 rows · 233 rows/s"


NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)
OUT = Path("/out")


def of_topics(**given):
    return asked(OUT, **{"bootstrap_servers": "localhost:9092", "topic": ["orders"], **given})


def of_objects(**options):
    return asked(OUT, "s3://bucket/in", options=options)


def bound(source, out=OUT):
    return binding(source, out)


def test_a_period_must_not_be_empty():
    with pytest.raises(OptionError, match=r"^--from is 2026-01-01T01:00\+01:00, but it must lie before --to 2026"):
        of_topics(begin="2026-01-01T01:00+01:00", end="2026-01-01")


def test_secrets_are_neither_shown_nor_noted():
    login = ["sasl.mechanism=PLAIN", "sasl.plain.username=reader", "sasl.plain.password=hunter2"]
    source = of_topics(kafka=["security.protocol=SASL_SSL", *login])
    assert source.kafka["sasl.plain.password"] == "hunter2"
    assert "hunter2" not in repr(source)
    assert "hunter2" not in str(bound(source))


def test_what_decides_the_columns_and_the_rows_is_bound_however_it_is_written():
    plain = bound(of_topics())
    assert bound(of_topics(options={"INCLUDEHEADERS": "FALSE", "maxOffsetsPerTrigger": "7"})) == plain
    committed = of_topics(kafka=["isolation.level=read_committed"])
    others = [
        of_topics(options={"includeHeaders": "True"}),
        of_topics(options={"includeEventTime": "true"}),
        of_topics(options={"where": "offset > 5"}),
        *(of_topics(options={"valueFormat": "json", "valueSchema": f"a {kind}"}) for kind in ("INT", "STRING")),
        of_topics(begin="2026-01-01"),
        of_topics(end="2026-01-01"),
        committed,
    ]
    assert len({json.dumps(bound(other)) for other in [of_topics(), *others]}) == 1 + len(others)
    assert bound(of_topics(options={"kafka.isolation.level": "read_committed"})) == bound(committed)
    assert bound(of_topics(options={"archive": "/lake"})) == bound(committed)  # it has no other records
    assert bound(of_topics(kafka=["isolation.level=read_uncommitted"])) == plain  # the default
    typed = {"valueFormat": "json", "valueSchema": "a INT"}
    assert bound(of_topics(options={**typed, "mode": "PERMISSIVE"})) == bound(of_topics(options=typed))


def test_what_decides_which_objects_are_meant_is_bound_and_nothing_secret():
    options = {"secretKey": "hunter2", "accessKey": "me", "maxFilesPerTrigger": "1"}
    plain = bound(of_objects())
    assert bound(of_objects(**options)) == plain
    assert bound(of_objects(pathglobfilter="*.json")) == plain | {"--option pathGlobFilter": "*.json"}
    assert bound(of_objects(columns="a,b")) == plain | {"--option columns": ["a", "b"]}
    assert bound(of_objects(fileFormat="json", mode="PERMISSIVE")) == bound(of_objects(fileFormat="json"))
    for option, value in [
        ("includeMetadata", "true"),
        ("rescuedDataColumn", "_rest"),
        ("partitionColumnTypeInference", "false"),
    ]:
        assert bound(of_objects(fileFormat="json", **{option: value})) != bound(of_objects(fileFormat="json"))
    assert bound(of_objects(stateLocation="/kept")) == plain | {"--option stateLocation": "/kept"}
    assert plain["--path"] == "s3://bucket/in"
    assert "hunter2" not in repr(of_objects(**options))


def test_a_state_in_the_output_moves_with_it():
    moved = Path("/elsewhere")
    assert bound(asked(moved, "s3://bucket/in"), moved) == bound(of_objects())


def test_the_source_is_aligned_and_starts_where_asked():
    source = of_topics(begin="2026-01-01", options={"maxOffsetsPerTrigger": "7", "includeHeaders": "true"})
    assert source.watermarks.max_drift == timedelta(hours=1)
    assert source.starting_timestamp == NEW_YEAR
    assert source.max_offsets_per_trigger == 7
    assert source.include_headers
    assert (of_topics().starting_offsets, of_topics().ending_offsets) == ("earliest", "latest")
    assert of_topics(options={"endingoffsets": '{"orders":{"0":7}}'}).ending_offsets == {"orders": {0: 7}}


def test_the_command_sets_no_option_without_effect():
    by_time = [{"startingTimestamp": "7"}, {"startingOffsetsByTimestamp": '{"orders":{"0":7}}'}]
    sources = [of_topics(begin="2026-01-01", end="2026-01-02"), *(of_topics(options=options) for options in by_time)]
    assert [source.without_effect for source in sources] == [[], [], []]


def test_objects_keep_their_state_in_the_output_unless_an_option_names_another_place():
    source = of_objects(fileFormat="json", eventTime="column:at", eventTimeUnit="ms")
    assert (source.path, source.file_format) == ("s3://bucket/in", "json")
    assert source.state_location == "/out/_tidegate/state"
    assert source.watermarks.max_drift == timedelta(hours=1)
    assert of_objects(statelocation="/elsewhere").state_location == "/elsewhere"


def test_an_option_cannot_contradict_the_command_and_is_known_to_the_source():
    with pytest.raises(OptionError, match=r"^--option PATH is set by the command itself; leave it out$"):
        of_objects(PATH="s3://other")
    with pytest.raises(OptionError, match=r"^there is no option 'filefromat'; did you mean 'fileFormat'\?$"):
        of_objects(fileFromat="json")


def test_a_file_of_java_may_name_the_servers_and_the_command_comes_before_it(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=in-file:9092\nsecurity.protocol=SSL\nacks=all\n")
    source = of_topics(kafka_properties=file, bootstrap_servers=None)
    assert source.bootstrap_servers == "in-file:9092"
    assert source.kafka == {"security.protocol": "SSL", "acks": "all"}
    assert of_topics(kafka_properties=file).bootstrap_servers == "localhost:9092"
