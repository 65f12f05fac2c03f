"""The public API: its names, their documentation, and the cost of importing it."""

import inspect
import subprocess
import sys

import pytest

import tidegate
import tidegate.conformance


@pytest.mark.parametrize("name", sorted(tidegate.__all__))
def test_every_public_name_and_its_methods_are_documented(name):
    public = getattr(tidegate, name)
    assert inspect.getdoc(public)
    if inspect.isclass(public):
        own = [m for n, m in vars(public).items() if not n.startswith(("_", "model_")) and callable(m)]
        assert [method.__name__ for method in own if not inspect.getdoc(method)] == []


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import tidegate.cli", ["pyspark", "numba", "pandas", "kafka", "pydantic"]),
        (
            "from tidegate import register, KafkaSource",
            ["numba", "pandas", "boto3", "pyarrow.compute", "pyarrow.parquet", "fastavro"],
        ),
        ("import tidegate.jobs.watch", ["pyspark", "numba", "pandas", "kafka"]),
        (  # in each run of pytest
            "import tidegate.conformance.pytest_plugin",
            ["pyspark", "pyarrow", "pydantic", "rich", "hypothesis", "numpy", "kafka", "tidegate.conformance.harness"],
        ),
    ],
)
def test_nothing_is_imported_before_it_is_needed(statement, absent):
    probe = f"import sys; {statement}; print([m for m in {absent} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'KafkaSorce'"):
        tidegate.KafkaSorce  # noqa: B018 - reading it is the test


def test_every_public_name_of_the_kit_is_there():
    for name in tidegate.conformance.__all__:
        assert getattr(tidegate.conformance, name) is not None
        assert name in dir(tidegate.conformance)
