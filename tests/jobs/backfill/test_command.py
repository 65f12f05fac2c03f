"""The command's options become the arguments of one connector."""

import pytest

from tidegate import OptionError
from tidegate.jobs.backfill.command import backfill_arguments


def arguments(tmp_path, path=None, **of_kafka):
    common = {"max_drift": "1 hour", "max_out_of_orderness": "0 ms", "begin": None, "end": None, "options": ()}
    options = {f"--{name.replace('_', '-')}": value for name, value in of_kafka.items()}
    return backfill_arguments(tmp_path / "out", **common, path=path, of_kafka=options)


def test_a_path_is_of_objects_which_keep_their_state_in_the_output(tmp_path):
    made = arguments(tmp_path, path="s3://bucket/in")
    assert (made.binding()["--path"], made.source().reads) == ("s3://bucket/in",) * 2
    assert made.source().state_location == f"{tmp_path}/out/_tidegate/state"


def test_a_file_of_java_may_name_the_servers_and_the_command_comes_before_it(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=in-file:9092\nsecurity.protocol=SSL\nacks=all\n")
    made = arguments(tmp_path, topic=["orders"], kafka_properties=file)
    assert made.bootstrap_servers == "in-file:9092"
    assert made.source().kafka == {"security.protocol": "SSL", "acks": "all"}
    made = arguments(tmp_path, topic=["orders"], kafka_properties=file, bootstrap_servers="here:9092")
    assert made.bootstrap_servers == "here:9092"


def test_without_servers_both_ways_to_name_a_source_are_told(tmp_path):
    with pytest.raises(OptionError, match=r"^--bootstrap-servers is missing: give --bootstrap-servers and --topic, or"):
        arguments(tmp_path, topic=["orders"])
