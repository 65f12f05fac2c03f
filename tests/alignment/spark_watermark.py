"""The rows that Spark would drop: its watermark, computed only from delivered rows.

Spark drops a row whose event time is at or before its watermark, the greatest event time delivered so far minus
a delay.  Batch N is filtered by what was delivered up to batch N - 1.  Where a query may hold several stateful
operators (``spark.sql.streaming.statefulOperator.allowMultiple``, the default), it is up to batch N - 2.
"""

LAGS = (1, 2)


class SparkWatermark:
    """Spark's watermark over the batches of one query, without its delay."""

    def __init__(self):
        self._greatest = []

    def dropped(self, rows, delay_ms, lag):
        """Return the event times of the next batch that Spark would drop.

        lag: the last ``lag - 1`` batches before it do not count yet.
        """
        seen = self._greatest[: len(self._greatest) - lag + 1]
        return [t for t in rows if seen and t <= seen[-1] - delay_ms]

    def deliver(self, batch):
        """Take a batch: its event times by split."""
        times = [t for rows in batch.values() for t in rows]
        before = self._greatest[-1] if self._greatest else float("-inf")
        self._greatest.append(max([before, *times]))
