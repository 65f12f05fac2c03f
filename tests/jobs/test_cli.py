"""The command line as a whole: help, arguments, figures, files, and one sentence for each mistake."""

import os
import re
import signal
import subprocess
from datetime import datetime, timedelta, timezone
from importlib import metadata

import pytest

from tests.support.command import TIDEGATE, finish, started
from tests.support.progresses import HOUR
from tests.support.streams import NOON, new_topic, start
from tidegate.errors import OptionError, counted
from tidegate.jobs.arguments import parse_properties, parse_time
from tidegate.jobs.figures import clock_time, count, share, span
from tidegate.jobs.files import writable
from tidegate.jobs.session import cause, follow

ONE_SOURCE = "give --bootstrap-servers and --topic, or --path for objects of S3"


def test_help_names_values_by_what_they_are(tidegate):
    for command in ("backfill", "kafka", "demo", "conformance", "migrate", "preview", "account"):
        _, output, _ = tidegate(command, "--help")
        assert "Usage" in output
        assert re.findall(r"--\S+ +<(?:list|str|int|path)\b", output) == []


def test_the_version_is_one_line(tidegate):
    line = f"tidegate {metadata.version('tidegate')}\n"
    assert tidegate("--version") == (0, line, "")
    with started("--version") as process:
        assert finish(process) == (0, line, "")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("preview",), "--max-drift"),
        (("backfill", "--out", "out"), "--max-drift"),
        (("backfill", "--out", "out", "--max-drift", "1 hour"), "--max-out-of-orderness"),
    ],
)
def test_a_wrong_duration_is_named_as_it_was_typed(tidegate, command, option):
    code, _, _ = tidegate(*command, "--path", "s3://bucket/in", option, "nonsense")
    assert code.startswith(f"tidegate: {option} is 'nonsense': expected a duration such as '10 minutes'")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), f"--bootstrap-servers and --topic are missing: {ONE_SOURCE}"),
        (("--bootstrap-servers", "localhost:9092"), f"--topic is missing: {ONE_SOURCE}"),
        (
            ("--path", "s3://bucket/in", "--topic", "orders"),
            "--topic is for Kafka, and --path for objects of S3; give one of them",
        ),
        (("--path", "bucket/in"), "the option 'path' is 'bucket/in': expected a path such as s3://bucket/prefix"),
        (
            ("--path", "s3://bucket/in", "--option", "eventTime"),
            "--option 'eventTime' has no value; expected NAME=VALUE, such as eventTime=column:at",
        ),
    ],
)
def test_one_source_is_named_and_nothing_of_the_other(tidegate, tmp_path, arguments, sentence):
    out = tmp_path / "out"
    assert tidegate("backfill", "--max-drift", "1 hour", "--out", out, *arguments) == (f"tidegate: {sentence}", "", "")
    assert not out.exists()


def test_a_misspelt_topic_is_one_sentence_before_anything_is_written(tidegate, kafka, tmp_path):
    topic, out = new_topic(kafka, [NOON]), tmp_path / "out"
    given = ("--bootstrap-servers", kafka.bootstrap_servers, "--max-drift", "1 hour", "--out", out)
    code, output, _ = tidegate("backfill", *given, "--topic", topic.replace("s", "z", 1))
    assert f"did you mean {topic!r}?" in str(code)
    assert (output, out.exists()) == ("", False)


def test_a_source_that_fails_inside_spark_is_named_by_its_own_sentence(spark, kafka, tmp_path):
    frame = (
        spark.readStream.format("tidegate_kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", "no-such-topic")
        .load()
    )
    with pytest.raises(Exception, match="no-such-topic") as failure:
        list(follow(start(frame, tmp_path, "noop", availableNow=True)))
    error = cause(failure.value)
    assert str(error).startswith(f"topic 'no-such-topic' does not exist at {kafka.bootstrap_servers}")
    assert type(error).__name__ == "ConnectorError"


def test_what_is_no_error_of_ours_has_no_sentence():
    assert cause(RuntimeError("disk full")) is None
    assert cause(RuntimeError("tidegate.errors.annotations: x")) is None


def test_a_demo_of_too_few_rows_is_refused(tidegate):
    code, _, _ = tidegate("demo", "--rows", 3)
    assert str(code) == "tidegate: --rows is 3, but the demonstration needs at least 1,000"


@pytest.mark.parametrize("topic", ["orders:0", "orders:many", ":4"])
@pytest.mark.parametrize("option", ["--topic", "--add-topic"])
def test_a_malformed_topic_is_one_sentence(tidegate, option, topic):
    code, _, _ = tidegate("kafka", option, topic)
    assert f"{option} is {topic!r}, but NAME or NAME:PARTITIONS is expected" in str(code)


@pytest.mark.parametrize("other", [("--topic", "orders"), ("--folder", "data"), ("--brokers", 3)])
def test_a_topic_is_not_added_to_a_kafka_that_is_to_start(tidegate, other):
    code, _, _ = tidegate("kafka", "--add-topic", "payments", *other)
    assert "--add-topic goes to a Kafka that runs, so of the other options only --port may be given" in str(code)


def test_the_output_of_a_back_fill_is_told_from_its_state_location(tidegate, tmp_path):
    nowhere = f"tidegate: {tmp_path} is not a state location that a query has used: it has no lease"
    assert tidegate("ledger", "show", tmp_path)[0] == nowhere
    state = tmp_path / "_tidegate" / "state"
    state.mkdir(parents=True)
    assert tidegate("ledger", "show", tmp_path)[0] == f"{nowhere}; did you mean {state}?"


def test_ctrl_c_while_modules_are_imported_prints_nothing(tmp_path):
    (tmp_path / "typer.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGINT)\n"
    )  # in place of the real one
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run([*TIDEGATE, "watch"], env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "text", ["2026-01-01", "2026-01-01T00:00", "2026-01-01T00:00Z", "2026-01-01T01:00+01:00", "1767225600000"]
)
def test_a_time_is_utc_where_it_names_no_zone(text):
    assert parse_time("--from", text) == NEW_YEAR


def test_a_number_counts_milliseconds_before_1970_too():
    assert parse_time("--from", "-1000") == datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "9" * 30, "1767225600.5"])
def test_what_is_no_time_is_named_with_its_option(text):
    with pytest.raises(OptionError, match=f"^--from is '{text}', but a time is expected, such as 2026-01-31"):
        parse_time("--from", text)


def test_properties_lose_their_prefix_and_keep_their_equals_signs():
    assert parse_properties("--kafka", ["kafka.client.id=a", "ssl.password=b=c"]) == {
        "client.id": "a",
        "ssl.password": "b=c",
    }
    with pytest.raises(OptionError, match=r"^--kafka 'client.id' has no value"):
        parse_properties("--kafka", ["client.id"])


def test_what_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match=r"^--html is '.*', where nothing can be written: "):
        writable("--html", tmp_path / "file" / "page.html")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(OptionError, match=r"^--html is '.*folder.html', which cannot be written$"):
        writable("--html", tmp_path / "folder.html")
    assert writable("--html", tmp_path / "new" / "page.html").parent.is_dir()


@pytest.mark.parametrize(
    ("duration_ms", "shown"),
    [
        (0, "0 s"),
        (59_000, "59 s"),
        (61_000, "1 min 1 s"),
        (HOUR, "1 h"),
        (24 * HOUR, "24 h"),
        (49 * HOUR, "2 d 1 h"),
        (HOUR + 90_000, "1 h 1 min"),
    ],
)
def test_durations_show_two_units(duration_ms, shown):
    assert span(duration_ms) == span(timedelta(milliseconds=duration_ms)) == shown


def test_a_share_is_all_or_nothing_only_when_it_is():
    assert [share(*of) for of in ((0, 0), (0, 9), (9, 9), (1, 10**6), (10**6 - 1, 10**6), (1, 2))] == [
        "0 %",
        "0 %",
        "100 %",
        "0.1 %",
        "99.9 %",
        "50.0 %",
    ]


def test_numbers_and_times_are_readable():
    assert count(3_300_000) == "3,300,000"
    assert clock_time(1_767_225_600_000) == "2026-01-01 00:00:00"
    assert clock_time(datetime(2026, 1, 1, tzinfo=timezone.utc)) == "2026-01-01 00:00:00"
    assert clock_time(None) == "-"


def test_times_that_python_does_not_have_become_the_limits_of_those_that_it_has():
    assert clock_time(10**15) == "9999-12-31 23:59:59"
    assert clock_time(-(10**14)) == "0001-01-01 00:00:00"


def test_one_thing_is_not_told_in_the_plural():
    assert [counted(number, "row") for number in (0, 1, 2, 1_000)] == ["0 rows", "1 row", "2 rows", "1,000 rows"]
    assert [counted(number, "batch") for number in (0.6, 2)] == ["1 batch", "2 batches"]
