"""The rows that Spark would drop: its watermark, computed only from delivered rows.

Spark drops a row whose event time is at or before its watermark, the greatest event time of the batches before, minus
a delay.  Where a query may hold several stateful operators (``spark.sql.streaming.statefulOperator.allowMultiple``, the
default), the last of these batches does not count yet.  Then Spark drops no more rows than are dropped here.
"""


class SparkWatermark:
    """Spark's watermark over the batches of one query, without its delay."""

    def __init__(self):
        self._greatest_ms = float("-inf")

    def dropped(self, rows, delay_ms):
        """Return the event times of the next batch that Spark would drop."""
        return [at_ms for at_ms in rows if at_ms <= self._greatest_ms - delay_ms]

    def deliver(self, batch):
        """Take a batch: its event times by split."""
        self._greatest_ms = max([self._greatest_ms, *(at_ms for rows in batch.values() for at_ms in rows)])
