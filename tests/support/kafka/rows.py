"""Rows as a Kafka reader yields them, without a Kafka."""

import pyarrow as pa

from tidegate.readers.kafka.rows import arrow_schema

SCHEMA = arrow_schema(include_headers=True)


def batch(values=None, headers=None, timestamps_ms=None, first_offset=40):
    count = len(next(column for column in (values, headers, timestamps_ms) if column is not None))
    columns = {
        "key": [None] * count,
        "value": values or [None] * count,
        "topic": ["orders"] * count,
        "partition": [3] * count,
        "offset": range(first_offset, first_offset + count),
        "timestamp": [1000 * ms for ms in timestamps_ms or [0] * count],
        "timestampType": [0] * count,
        "headers": headers or [None] * count,
    }
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)
