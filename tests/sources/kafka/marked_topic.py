"""A topic whose records have a header with the time up to which they are complete, and the windows that follow."""

import random
from datetime import timedelta

from kafka import KafkaProducer

from tests.support.streams import NOON, new_topic

HEADER = "complete"
SIZE = timedelta(minutes=1)
PARTITIONS, ROWS_A_WINDOW = 2, 20
_SIZE_MS = SIZE // timedelta(milliseconds=1)


def marked_topic(kafka, windows):
    """Return a topic with a number of windows; the last window is never complete in the last partition.

    The rows of a window are mixed with those of the next window, and the mark of the first comes after both.
    """
    topic, dice = new_topic(kafka, *([] for _ in range(PARTITIONS))), random.Random(0)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=50)
    for partition in range(PARTITIONS):
        late = []
        for window in range(windows):
            start_ms = NOON + window * _SIZE_MS
            times = [start_ms + dice.randrange(_SIZE_MS) for _ in range(ROWS_A_WINDOW)]
            now, waiting = late + times[:10], times[10:]
            dice.shuffle(now)
            for time_ms in now:
                producer.send(topic, b"row", partition=partition, timestamp_ms=time_ms)
            if window:
                _mark(producer, topic, partition, start_ms)
            late = waiting
        for time_ms in late:
            producer.send(topic, b"row", partition=partition, timestamp_ms=time_ms)
        if partition < PARTITIONS - 1:
            _mark(producer, topic, partition, NOON + windows * _SIZE_MS)
    producer.close()
    return topic


def complete_windows(windows):
    """Return the windows that close, as (partition, start in seconds, rows with their marks)."""
    return [
        (partition, (NOON + window * _SIZE_MS) / 1000, ROWS_A_WINDOW)
        for partition in range(PARTITIONS)
        for window in range(windows - 1)
    ]


def closed(spark, out):
    """Return all windows in the output, as sorted (partition, start in seconds, rows)."""
    rows = spark.read.parquet(f"{out}/data").collect()
    return sorted((row["partition"], row["window_start"].timestamp(), row["rows"]) for row in rows)


def _mark(producer, topic, partition, end_ms):
    """Mark that all rows before a time have come; the mark itself is in the year 1970, in no window of rows."""
    headers = [(HEADER, str(end_ms - 1).encode())]
    producer.send(topic, None, key=b"mark", partition=partition, timestamp_ms=1, headers=headers)
