"""Measures how long Spark takes to turn Arrow batches into rows: no Python data source is faster.

A data source yields the same batch again and again, without fetching or decoding anything.  It is compared with Spark's
own reader of as many rows in Parquet files on the local disk.  Both write to the noop sink, with the columns of
benchmarks.s3.throughput.

    python -m benchmarks.spark.arrow_rows [--rounds 5] [--rows 10773200]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from benchmarks.measuring.peers import alternate, session, spread
from benchmarks.s3.throughput import SCHEMA, table

BATCH_ROWS = 16_384
TASKS = 8
NOTE_BYTES = 32


class Repeating(DataSource):
    """Yields one batch until there are enough rows."""

    @classmethod
    def name(cls) -> str:
        """Return its name."""
        return "repeating"

    def schema(self) -> str:
        """Return the columns of the benchmark."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader."""
        return RepeatingReader(to_arrow_schema(schema, timezone="UTC"), int(self.options["rows"]))


class RepeatingReader(DataSourceReader):
    """Yields the rows in equal tasks."""

    def __init__(self, schema: pa.Schema, rows: int) -> None:
        self._schema = schema
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        """Return the tasks."""
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's batches."""
        (batch,) = table(BATCH_ROWS, partition.value, NOTE_BYTES).cast(self._schema).combine_chunks().to_batches()
        for _ in range(self._rows // TASKS // BATCH_ROWS):
            yield batch


def main() -> None:
    """Print the times of both, and the ratio of their medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10_773_200)
    arguments = parser.parse_args()
    spark: SparkSession = session()
    spark.dataSource.register(Repeating)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(TASKS):
            pq.write_table(table(arguments.rows // TASKS, number, NOTE_BYTES), f"{folder}/{number}.parquet")
        frames = {
            "Spark's own reader": spark.read.schema(SCHEMA).parquet(folder),
            "the way of Arrow batches": spark.read.format("repeating").option("rows", str(arguments.rows)).load(),
        }
        runs = {name: frame.write.format("noop").mode("overwrite").save for name, frame in frames.items()}
        taken = alternate(runs, arguments.rounds)
    for name, seconds in taken.items():
        print(f"{name}: {spread(seconds)}")
    own, batches = (statistics.median(seconds) for seconds in taken.values())
    print(f"{own / batches:.2f}x at most")
    spark.stop()


if __name__ == "__main__":
    main()
