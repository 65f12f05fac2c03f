"""The public API: its names, their documentation, and the cost of importing it."""

import inspect
import subprocess
import sys

import pytest

import tidegate

NAMES = {
    "BadRecordError",
    "CheckpointError",
    "ConnectorError",
    "ContractError",
    "CorruptDataError",
    "DataLossError",
    "DeadlineError",
    "InstallationError",
    "KafkaSource",
    "LateDataError",
    "ObjectGoneError",
    "OptionError",
    "S3Source",
    "ServerError",
    "Source",
    "SourceProgress",
    "TidegateError",
    "WatermarkStrategy",
    "WindowedStream",
    "from_avro",
    "from_protobuf",
    "observe_event_times",
    "on_progress",
    "progress",
    "register",
    "with_source_watermark",
    "report",
    "session_conf",
    "split_outputs",
    "windowed",
}


def test_the_public_names_are_these():
    assert set(tidegate.__all__) == NAMES
    assert all(hasattr(tidegate, name) for name in NAMES)


def test_authors_of_connectors_get_the_decision_about_event_times():
    from tidegate import connector
    from tidegate.readers.event_time import policy

    for name in ("EventTimePolicy", "JudgedTimes", "NO_TIME"):
        assert name in connector.__all__
        assert getattr(connector, name) is getattr(policy, name)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_public_name_and_its_methods_are_documented(name):
    public = getattr(tidegate, name)
    assert inspect.getdoc(public)
    if inspect.isclass(public):
        own = [m for n, m in vars(public).items() if not n.startswith(("_", "model_")) and callable(m)]
        assert [method.__name__ for method in own if not inspect.getdoc(method)] == []


def test_every_error_is_a_tidegate_error():
    errors = [getattr(tidegate, name) for name in NAMES if name.endswith("Error")]
    assert all(issubclass(error, tidegate.TidegateError) for error in errors)


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import tidegate.cli", ["pyspark", "numba", "pandas", "kafka", "pydantic"]),
        ("from tidegate import register, KafkaSource", ["numba", "pandas", "boto3", "pyarrow.compute", "fastavro"]),
        ("import tidegate.jobs.watch", ["pyspark", "numba", "pandas", "kafka"]),
    ],
)
def test_nothing_is_imported_before_it_is_needed(statement, absent):
    probe = f"import sys; {statement}; print([m for m in {absent} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'KafkaSorce'"):
        tidegate.KafkaSorce  # noqa: B018 - reading it is the test
