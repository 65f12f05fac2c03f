"""The batches of a query, handed to the pure operator with the rows and watermarks of its checkpoint; kinds of keys."""

import json
from pathlib import Path

from pyspark.sql import functions as f

from tidegate.enumerators.planning.offset import Offset
from tidegate.sources.tasks import END_OF_TIME_MS
from tidegate.windows.window import MAX_TIME, MIN_TIME

FIRST_SOURCE = 2  # the line of the first source in a file of Spark's offset log


def batches(checkpoint):
    """Return the offset of a query's first source after each batch."""
    logs = sorted(Path(checkpoint, "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [Offset.from_json(json.loads(log.read_text().splitlines()[FIRST_SOURCE])).progress for log in logs]


def replayed(harness, checkpoint, splits, position, skipped=()):
    """Hand the batches of a query to the pure operator; return the results that fired, and the late rows.

    splits: the key and the event times of all rows in ms, by the id of the split.
    position: the column with the number of a row.
    skipped: the numbers of batches that the sink had when Spark was killed.  Spark did not run them again, and so
        learned no watermark from them.
    """
    begins = dict.fromkeys(splits, 0)
    for number, batch in enumerate(batches(checkpoint)):
        for split, (key, times) in splits.items():
            end = batch.positions.get(split, begins[split])
            for row in range(begins[split], end):
                harness.element(key, {position: row}, int(times[row]))
            begins[split] = end
        if number in skipped:
            continue
        harness.watermark(MAX_TIME if batch.ended else watermark_of_spark(batch.watermark_ms))
    assert begins == {split: len(times) for split, (_, times) in splits.items()}
    panes = [
        (pane.key, pane.start_ms, pane.end_ms, sorted(row[position] for row in pane.rows)) for pane in harness.panes
    ]
    return sorted(panes, key=str), sorted(row[position] for row in harness.late)


def watermark_of_spark(watermark_ms):
    """Return the source's watermark for one of Spark, which has none before 1970, and a last one."""
    if watermark_ms is None or watermark_ms <= 0:
        return MIN_TIME
    return MAX_TIME if watermark_ms >= END_OF_TIME_MS else watermark_ms


KINDS = {
    "string": ["'a'", "'B'", "'b'", "'é'", "''", "NULL"],
    "boolean": ["true", "false", "NULL"],
    "tinyint": ["CAST(-128 AS TINYINT)", "CAST(127 AS TINYINT)", "NULL"],
    "smallint": ["CAST(-32768 AS SMALLINT)", "CAST(7 AS SMALLINT)", "NULL"],
    "int": ["-2147483648", "0", "7", "NULL"],
    "bigint": ["CAST('-9223372036854775808' AS BIGINT)", "9223372036854775807", "NULL"],
    "decimal(38,10)": ["CAST('-1.5' AS DECIMAL(38, 10))", "CAST('1234567890123456789012345678.1' AS DECIMAL(38, 10))"],
    "decimal(5,2)": ["CAST('1.10' AS DECIMAL(5, 2))", "CAST('1.1' AS DECIMAL(5, 2))", "NULL"],
    "float": ["CAST('NaN' AS FLOAT)", "CAST(-0.0D AS FLOAT)", "CAST(0 AS FLOAT)", "CAST('Infinity' AS FLOAT)", "NULL"],
    "double": ["CAST('NaN' AS DOUBLE)", "-0.0D", "0.0D", "0.1D", "CAST('-Infinity' AS DOUBLE)", "NULL"],
    "binary": ["X''", "X'00'", "X'ff00'", "NULL"],
    "date": ["DATE'0001-01-01'", "DATE'1969-12-31'", "DATE'9999-12-31'", "NULL"],
    "timestamp": ["TIMESTAMP'1969-12-31 23:59:59.999999Z'", "TIMESTAMP'2023-10-29 00:30:00.5Z'", "NULL"],
    "timestamp_ntz": ["TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'2023-10-29 02:30:00'", "NULL"],
    "interval": ["INTERVAL '-1' DAY", "INTERVAL '1 00:00:00.000001' DAY TO SECOND", "NULL"],
}
"""Expressions of the values of each kind."""


def value_of(kind, place):
    """Return a column: the value of a kind at a place, an expression that counts on beyond the last one."""
    values = KINDS[kind]
    at = f"CAST(({place}) % {len(values)} AS INT) + 1"
    kind = "interval day to second" if kind == "interval" else kind
    return f.expr(f"element_at(array({', '.join(values)}), {at})").cast(kind)


def each_alone(rows, number):
    """Return rows whose ``split`` is a kind of key, and the columns of all kinds, which are null but for that one.

    number: an expression, from which kind and value follow.  Without other columns a kind has its own groups alone.
    """
    names = ", ".join(f"'{kind}'" for kind in KINDS)
    rows = rows.withColumn("split", f.expr(f"element_at(array({names}), CAST(({number}) % {len(KINDS)} AS INT) + 1)"))
    of_kind = {kind: value_of(kind, f"({number}) DIV {len(KINDS)}") for kind in KINDS}
    columns = {column_of(kind): f.when(f.col("split") == kind, value) for kind, value in of_kind.items()}
    return rows.withColumns(columns)


def column_of(kind):
    return f"key_{list(KINDS).index(kind)}"
