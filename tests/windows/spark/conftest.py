"""What the tests of windows on Spark share."""

import pandas as pd
import pytest
from pyspark.sql import functions as f


@pytest.fixture(scope="module")
def functions_of_the_user(spark):
    """Functions that the user registered: for each row, and an aggregate."""

    def mean(values: pd.Series) -> float:
        return float(values.mean())

    spark.udf.register("doubled", lambda value: 2 * value, "bigint")
    spark.udf.register("mean_in_pandas", f.pandas_udf(mean, "double"))
