"""Measures typed topics against Spark's own source with ``from_json``: JSON of 100 bytes to columns, counted, filtered.

All read the same topic by batch queries to Spark's noop sink, by turns in one session.

    python -m benchmarks.kafka.typed [--rows 1000000] [--rounds 5] [--partitions 4]
        [--cases columns counts filter nested]

columns: four columns of each value.
counts: count and sum by minute and shop, of 1,000 shops.
filter: the four columns of the 5 % of the rows with a large amount.
nested: the four columns, an array and a map, of values of 173 bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tidegate
from benchmarks.measuring.peers import BUILT_IN, TIDEGATE, built_in_jars, session
from benchmarks.measuring.rounds import by_turns, cpu, print_table, ratio, seconds, spread
from tidegate.servers import KafkaServer
from tidegate.servers.history import encode_batch, write_batches

BEGIN_MS = 1_700_006_400_000
FIELDS = "id BIGINT, shop STRING, amount DOUBLE, at TIMESTAMP"
OF_COUNTS = "shop STRING, amount DOUBLE, at TIMESTAMP"  # Spark's optimizer leaves id out of from_json by itself
LARGE = 95.0  # amounts are even from 0 to 100
SHOPS = 1_000
VALUE_BYTES = 100
NESTED_FIELDS = f"{FIELDS}, items ARRAY<STRUCT<sku: STRING, n: INT>>, tags MAP<STRING, STRING>"
NESTED = '"items":[{"sku":"a-17","n":2},{"sku":"b-4","n":1}],"tags":{"env":"prod"},'
RECORDS_PER_BATCH = 4_000

Longs: TypeAlias = npt.NDArray[np.int64]
Read: TypeAlias = Callable[[SparkSession, dict[str, str]], DataFrame]


def fill(servers: str, topic: str, rows: int, partitions: int, more: str = "") -> None:
    """Write orders of 100 bytes and of some more fields, one per millisecond in each partition."""
    size, end = VALUE_BYTES + len(more), f'{more}"by":"'
    generator = np.random.default_rng(7)

    def orders(start: int, count: int) -> tuple[Longs, bytes]:
        times = BEGIN_MS + np.arange(start, start + count, dtype=np.int64)
        stamps = np.datetime_as_string(times.astype("datetime64[ms]"), timezone="UTC")
        shops, cents = generator.integers(0, SHOPS, count), generator.integers(0, 10_000, count)
        texts = (
            f'{{"id":{10**9 + start + place},"shop":"shop-{shop:04}","amount":{cent / 100:5.2f},"at":"{stamp}",{end}'
            for place, (shop, cent, stamp) in enumerate(zip(shops, cents, stamps, strict=True))
        )
        return times, "".join(f'{order.ljust(size - 2, "x")}"}}' for order in texts).encode()

    write(servers, topic, rows, partitions, orders)


def write(
    servers: str, topic: str, rows: int, partitions: int, values: Callable[[int, int], tuple[Longs, bytes]]
) -> None:
    """Write records to partitions by turns.

    values: returns the times of so many records from a number on, and their values, which are of one size.
    """

    def batch(start: int, count: int) -> bytes:
        times, data = values(start, count)
        return encode_batch(times, np.frombuffer(data, np.uint8).reshape(count, -1), "lz4")

    each = rows // partitions
    starts = [(partition, start) for start in range(0, each, RECORDS_PER_BATCH) for partition in range(partitions)]
    write_batches(servers, topic, ((p, batch(start, min(RECORDS_PER_BATCH, each - start))) for p, start in starts))


def parsed_by_spark(source: str, spark: SparkSession, options: dict[str, str], fields: str = FIELDS) -> DataFrame:
    """Return them from a source."""
    return parsed(spark.read.format(source).options(**options).load(), fields)


def parsed(raw: DataFrame, fields: str = FIELDS) -> DataFrame:
    """Return the columns of values that ``from_json`` parses."""
    return raw.select(f.from_json(f.col("value").cast("string"), fields).alias("value")).select("value.*")


def decoded(spark: SparkSession, options: dict[str, str], where: str | None = None, fields: str = FIELDS) -> DataFrame:
    """Return the columns of values that the reader decodes."""
    typed = {"valueFormat": "json", "valueSchema": fields, "columns": "value"}
    only = {} if where is None else {"where": where}
    return spark.read.format(TIDEGATE).options(**options, **typed, **only).load().select("value.*")


def counted(rows: DataFrame) -> DataFrame:
    """Return count and sum by minute and shop."""
    return rows.groupBy(f.window("at", "1 minute"), "shop").agg(f.count("*"), f.sum("amount"))


def large(rows: DataFrame) -> DataFrame:
    """Return the rows with a large amount."""
    return rows.where(f.col("amount") >= LARGE)


READS: dict[str, Callable[..., DataFrame]] = {
    "Spark's source, from_json": partial(parsed_by_spark, BUILT_IN),
    "tidegate, from_json": partial(parsed_by_spark, TIDEGATE),
    "tidegate, valueFormat": decoded,
}
FILTERED: dict[str, Read] = {
    "Spark's source, from_json, filter": lambda spark, options: large(
        READS["Spark's source, from_json"](spark, options)
    ),
    "tidegate, valueFormat, filter": lambda spark, options: large(decoded(spark, options)),
    "tidegate, valueFormat, where": partial(decoded, where=f"value.amount >= {LARGE}"),
}
CASES: dict[str, dict[str, Read]] = {
    "columns": READS,
    "counts": {
        name: (lambda spark, options, read=read: counted(read(spark, options)))
        for name, read in {**READS, "tidegate, valueFormat": partial(decoded, fields=OF_COUNTS)}.items()
    },
    "filter": FILTERED,
    "nested": {name: partial(read, fields=NESTED_FIELDS) for name, read in READS.items()},
}


def noop(rows: DataFrame) -> None:
    """Run a batch query."""
    rows.write.format("noop").mode("overwrite").save()


def compare(case: str, frames: Mapping[str, DataFrame], rounds: int) -> None:
    """Print a table of what batch queries with the same rows take by turns."""
    rows = {name: frame.count() for name, frame in frames.items()}
    if len(set(rows.values())) > 1:
        raise SystemExit(f"{case}: the sides give other numbers of rows: {rows}")
    taken = by_turns({name: partial(noop, frame) for name, frame in frames.items()}, rounds)
    first, *_ = taken.values()
    print(f"\n{case}, {rounds} rounds\n")
    lines = [
        (name, spread(seconds(runs)), ratio(seconds(first), seconds(runs)), cpu(runs)) for name, runs in taken.items()
    ]
    print_table(("", "seconds", "as fast as the first", "CPU seconds"), lines)


def main() -> None:
    """Print a table for each case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--cases", nargs="+", default=[*CASES], choices=[*CASES])
    arguments = parser.parse_args()
    with KafkaServer() as kafka:
        topics = {case: ("nested", NESTED) if case == "nested" else ("orders", "") for case in arguments.cases}
        for topic, more in {*topics.values()}:
            kafka.create_topic(topic, arguments.partitions)
            fill(kafka.bootstrap_servers, topic, arguments.rows, arguments.partitions, more)
        spark = session(settings={**tidegate.session_conf(), "spark.jars": built_in_jars()})
        for case, (topic, more) in topics.items():
            options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
            frames = {name: read(spark, options) for name, read in CASES[case].items()}
            compare(f"{case}: {arguments.rows:,} records of {VALUE_BYTES + len(more)} bytes", frames, arguments.rounds)
        spark.stop()


if __name__ == "__main__":
    main()
