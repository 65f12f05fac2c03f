"""What the tests of windows on Spark share."""

from datetime import timedelta

import pandas as pd
import pytest
from pyspark.sql import functions as f

import tidegate
from tests.sources.memory import MemorySource
from tidegate.windows import TumblingEventTimeWindows


@pytest.fixture(scope="module")
def functions_of_the_user(spark):
    """Functions that the user registered: for each row, and an aggregate."""

    def mean(values: pd.Series) -> float:
        return float(values.mean())

    spark.udf.register("doubled", lambda value: 2 * value, "bigint")
    spark.udf.register("mean_in_pandas", f.pandas_udf(mean, "double"))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return MemorySource(path=str(tmp_path_factory.mktemp("source") / "splits.json"))


@pytest.fixture(scope="module")
def rows(spark, source):
    return source.read_stream(spark)


@pytest.fixture(scope="module")
def windows(rows):
    """Windows of five seconds over rows of nobody."""
    return tidegate.windowed(rows, "split", "timestamp").window(TumblingEventTimeWindows.of(timedelta(seconds=5)))
