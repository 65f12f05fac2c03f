from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.jobs.backfill.sources import asked
from tidegate import OptionError
from tidegate.jobs.backfill import binding

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
        of_topics(begin="2026-01-01"),
        of_topics(end="2026-01-01"),
        committed,
    ]
    assert all(bound(other) != plain for other in others)
    assert bound(of_topics(options={"kafka.isolation.level": "read_committed"})) == bound(committed)
    assert bound(of_topics(options={"archive": "/lake"})) == bound(committed)  # it has no other records
    assert bound(of_topics(kafka=["isolation.level=read_uncommitted"])) == plain  # the default


def test_what_decides_which_objects_are_meant_is_bound_and_nothing_secret():
    options = {"secretKey": "hunter2", "accessKey": "me", "maxFilesPerTrigger": "1"}
    plain = bound(of_objects())
    assert bound(of_objects(**options)) == plain
    assert bound(of_objects(pathglobfilter="*.json")) == plain | {"--option pathGlobFilter": "*.json"}
    assert bound(of_objects(columns="a,b")) == plain | {"--option columns": ["a", "b"]}
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
