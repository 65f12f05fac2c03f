from datetime import datetime, timedelta, timezone

import pytest

from tidegate import OptionError
from tidegate.jobs.backfill.arguments import parse_properties, parse_span, parse_time
from tidegate.jobs.backfill.kafka import KafkaArguments
from tidegate.jobs.backfill.s3 import S3Arguments

NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)


def arguments(**fields):
    return KafkaArguments(
        bootstrap_servers="localhost:9092", topics=("orders",), max_drift=timedelta(hours=1), **fields
    )


def of_objects(**options):
    return S3Arguments(path="s3://bucket/in", kept="/out/state", max_drift=timedelta(hours=1), options=options)


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


def test_a_duration_without_a_unit_is_named_with_its_option():
    assert parse_span("--max-drift", "1 hour") == timedelta(hours=1)
    with pytest.raises(OptionError, match=r"^--max-drift is '60': a duration needs a unit"):
        parse_span("--max-drift", "60")


def test_properties_lose_their_prefix_and_keep_their_equals_signs():
    assert parse_properties("--kafka", ["kafka.client.id=a", "ssl.password=b=c"]) == {
        "client.id": "a",
        "ssl.password": "b=c",
    }
    with pytest.raises(OptionError, match=r"^--kafka 'client.id' has no value"):
        parse_properties("--kafka", ["client.id"])


def test_a_period_must_not_be_empty():
    with pytest.raises(OptionError, match=r"^--from is 2026-01-01T00:00:00\+00:00, but it must lie before --to"):
        arguments(begin=NEW_YEAR, end=NEW_YEAR)


LOGIN = {"sasl.plain.username": "reader", "sasl.plain.password": "hunter2"}


def test_secrets_are_neither_shown_nor_noted():
    given = arguments(kafka={"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", **LOGIN})
    assert "hunter2" not in repr(given)
    assert "hunter2" not in repr(given.source())
    assert "hunter2" not in str(given.binding())


def test_what_decides_the_columns_and_the_rows_is_bound_however_it_is_written():
    plain, committed = arguments().binding(), {"isolation.level": "read_committed"}
    assert arguments(options={"INCLUDEHEADERS": "FALSE", "maxOffsetsPerTrigger": "7"}).binding() == plain
    others = [
        arguments(options={"includeHeaders": "True"}),
        arguments(options={"includeEventTime": "true"}),
        arguments(kafka=committed),
    ]
    assert all(other.binding() != plain for other in others)
    by_option = arguments(options={"kafka.isolation.level": "read_committed"})
    assert by_option.binding() == arguments(kafka=committed).binding()
    assert arguments(options={"archive": "/lake"}).binding() == by_option.binding()  # it has no other records
    assert arguments(kafka={"isolation.level": "read_uncommitted"}).binding() == plain  # the default


def test_the_source_is_aligned_and_starts_where_asked():
    source = arguments(begin=NEW_YEAR, options={"maxOffsetsPerTrigger": "7", "includeHeaders": "true"}).source()
    assert source.watermarks.max_drift == timedelta(hours=1)
    assert source.starting_timestamp == NEW_YEAR
    assert source.max_offsets_per_trigger == 7
    assert source.include_headers
    assert (arguments().source().starting_offsets, arguments().source().ending_offsets) == ("earliest", "latest")
    assert arguments(options={"endingoffsets": '{"orders":{"0":7}}'}).source().ending_offsets == {"orders": {0: 7}}


def test_options_of_the_source_come_on_top_of_what_the_command_says():
    source = of_objects(fileFormat="json", eventTime="column:at", eventTimeUnit="ms").source()
    assert (source.path, source.file_format, source.state_location) == ("s3://bucket/in", "json", "/out/state")
    assert source.watermarks.max_drift == timedelta(hours=1)
    assert of_objects(statelocation="/elsewhere").source().state_location == "/elsewhere"
    assert arguments(options={"minPartitions": "3"}).source().min_partitions == 3


def test_an_option_cannot_contradict_the_command_and_is_known_to_the_source():
    with pytest.raises(OptionError, match=r"^--option PATH is set by the command itself; leave it out$"):
        of_objects(PATH="s3://other").source()
    with pytest.raises(OptionError, match=r"^there is no option 'filefromat'; did you mean 'fileFormat'\?$"):
        of_objects(fileFromat="json").source()


def test_what_decides_which_objects_are_meant_is_bound_and_nothing_secret():
    bound = of_objects(pathglobfilter="*.json", secretKey="hunter2", accessKey="me", maxFilesPerTrigger="1").binding()
    assert {name: value for name, value in bound.items() if value is not None} == {
        "--path": "s3://bucket/in",
        "--option pathGlobFilter": "*.json",
    }
    assert "hunter2" not in repr(of_objects(secretKey="hunter2"))
