"""The model of Spark's watermark, by which other tests judge batches."""

from tests.alignment.spark_watermark import SparkWatermark


def test_spark_drops_what_is_at_or_before_the_greatest_time_of_the_batches_before_minus_the_delay():
    spark = SparkWatermark()
    assert spark.dropped([-(10**9)], delay_ms=1, lag=1) == []
    spark.deliver({"a": [100]})
    assert spark.dropped([89, 90, 91], delay_ms=10, lag=1) == [89, 90]
    assert spark.dropped([89, 90, 91], delay_ms=10, lag=2) == []
    spark.deliver({})
    assert spark.dropped([89, 90, 91], delay_ms=10, lag=2) == [89, 90]
