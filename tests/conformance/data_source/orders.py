"""Correct data sources of PySpark that know nothing of tidegate, and the harnesses that fill them.

The rows are lines of one file; a position is the number of a line.
"""

import csv
import json
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow

from tidegate.conformance import DataSourceHarness


@dataclass
class Lines(InputPartition):
    start: int
    end: int


def lines(path, start=0, end=None):
    with Path(path).open(encoding="utf-8") as file:
        for line in islice(file, start, end):
            if (row := json.loads(line)) is not None:  # another reader has taken it away
                yield tuple(row)


def count(path):
    return len(Path(path).read_text(encoding="utf-8").splitlines())


class OrdersReader(DataSourceReader):
    def __init__(self, path):
        self.path, self.filters = path, []

    def pushFilters(self, filters):  # noqa: N802 - PySpark's name
        for wanted in filters:
            if isinstance(wanted, EqualTo) and wanted.attribute == ("customer",):
                self.filters.append(wanted.value)
            else:
                yield wanted

    def partitions(self):
        number = count(self.path)
        return [Lines(0, number // 2), Lines(number // 2, number)]

    def read(self, partition):
        for row in lines(self.path, partition.start, partition.end):
            if all(row[1] == value for value in self.filters):
                yield row


class OrdersStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, path, most):
        self.path, self.most, self.target = path, most, None

    def initialOffset(self):  # noqa: N802
        return {"line": 0}

    def getDefaultReadLimit(self):  # noqa: N802
        return ReadMaxRows(self.most) if self.most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self):  # noqa: N802
        self.target = count(self.path)

    def latestOffset(self, start, limit):  # noqa: N802
        end = count(self.path) if self.target is None else self.target
        return {"line": min(end, start["line"] + limit.max_rows) if isinstance(limit, ReadMaxRows) else end}

    def partitions(self, start, end):
        middle = (start["line"] + end["line"]) // 2
        ranges = [Lines(start["line"], middle), Lines(middle, end["line"])]
        return [part for part in ranges if part.start < part.end]

    def read(self, partition):
        return lines(self.path, partition.start, partition.end)


class OrdersSource(DataSource):
    @classmethod
    def name(cls):
        return "kit_orders"

    batch, stream = OrdersReader, OrdersStreamReader

    def schema(self):
        return f"number bigint not null, {self.options.get('customerColumn', 'name')} string"

    def reader(self, schema):
        return self.batch(self.options["path"])

    def streamReader(self, schema):  # noqa: N802
        return self.stream(self.options["path"], int(self.options.get("maxRows", 0)))


class SimpleOrdersReader(SimpleDataSourceStreamReader):
    def __init__(self, path):
        self.path = path

    def initialOffset(self):  # noqa: N802
        return {"line": 0}

    def read(self, start):
        end = {"line": count(self.path)}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start, end):  # noqa: N802
        return iter([*lines(self.path, start["line"], end["line"])])


class SimpleOrdersSource(DataSource):
    @classmethod
    def name(cls):
        return "kit_simple_orders"

    simple = SimpleOrdersReader

    schema = OrdersSource.schema

    def simpleStreamReader(self, schema):  # noqa: N802
        return self.simple(self.options["path"])


class CsvReader(DataSourceReader):
    def __init__(self, path):
        self.path = path

    def read(self, partition):
        with Path(self.path).open(newline="", encoding="utf-8") as file:
            yield from ((int(number), text) for number, text in csv.reader(file))


class CsvSource(DataSource):
    def schema(self):
        return "number int, text string"

    def reader(self, schema):
        return CsvReader(self.options["path"])


class ArrowOrdersReader(OrdersReader):
    pushFilters = DataSourceReader.pushFilters  # noqa: N815

    def read(self, partition):
        schema = pa.schema([pa.field("number", pa.int64(), nullable=False), ("customer", pa.string())])
        for number, customer in lines(self.path, partition.start, partition.end):
            yield pa.RecordBatch.from_pylist([{"number": number, "customer": customer}], schema)


class OrdersHarness(DataSourceHarness):
    limited: ClassVar = {"maxRows": "2"}
    class_ = OrdersSource

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "orders.jsonl"
        self.path.touch()
        self.added = []

    def source(self):
        return self.class_

    def options(self):
        return {"path": str(self.path), "customerColumn": "customer"}

    def add_rows(self, count):
        new = [
            (n, None if n % 5 == 4 else f"Customer {n % 3}") for n in range(len(self.added), len(self.added) + count)
        ]
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in new)
        self.added += new

    def rows(self):
        return self.added

    def close(self):
        self.folder.cleanup()


class SimpleOrdersHarness(OrdersHarness):
    class_ = SimpleOrdersSource
