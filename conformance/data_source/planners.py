"""Readers, called by PySpark's documented interface as Spark's planner and workers call them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator
from inspect import signature
from typing import Any, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from tidegate.conformance.data_source.harness import overrides
from tidegate.conformance.lab.base import ConformanceError
from tidegate.spark_private import cloudpickle

_Value = TypeVar("_Value")
Offset: TypeAlias = dict[str, Any]


class Task(NamedTuple):
    """A task of Spark: the reader and what it is called with, as they arrive in another process."""

    reader: Any
    method: str
    arguments: tuple[Any, ...]

    def items(self) -> Iterator[Any]:
        """Yield what the reader yields: tuples, rows or Arrow batches."""
        given = getattr(self.reader, self.method)(*self.arguments)
        yield from given[0] if isinstance(given, tuple) else given  # a simple reader gives its end as well


class BatchPlanner:
    """A batch reader, as Spark's planner has it."""

    def __init__(self, source: DataSource, schema: StructType) -> None:
        self.schema, self.reader = schema, source.reader(schema=schema)

    def all_tasks(self) -> list[Task]:
        """Return the tasks that read all rows."""
        reader = shipped("the reader", self.reader)
        partitions = [*self.reader.partitions()] or [InputPartition(None)]  # as Spark does without partitions
        return [Task(reader, "read", (shipped("a partition", each),)) for each in partitions]


class StreamPlanner:
    """A stream's reader, as Spark's planner has it: offsets go through JSON.

    is_simple: it is a SimpleDataSourceStreamReader, which plans by reading.
    takes_limits: it takes part in admission control.
    given: all offsets so far, as the reader gave them.
    """

    def __init__(self, source: DataSource, schema: StructType) -> None:
        self.schema, self._source = schema, source
        self.is_simple = not overrides(type(source), "streamReader")
        self.reader = self._made()
        self.takes_limits = not self.is_simple and bool(signature(self.reader.latestOffset).parameters)
        self.given: list[Offset] = []

    def _made(self) -> Any:
        make = self._source.simpleStreamReader if self.is_simple else self._source.streamReader
        return make(schema=self.schema)

    def again(self) -> StreamPlanner:
        """Return another planner of the same source."""
        return StreamPlanner(self._source, self.schema)

    def initial(self) -> Offset:
        """Return where a new query begins."""
        return self._in_json(self.reader.initialOffset())

    def latest(self, start: Offset, limit: ReadLimit | None = None) -> Offset:
        """Return the end of a micro-batch; without a limit of all that is there."""
        if self.is_simple:
            return self._in_json(self.reader.read(start)[1])
        asked = (start, limit or ReadAllAvailable()) if self.takes_limits else ()
        return self._in_json(self.reader.latestOffset(*asked))

    def tasks(self, start: Offset, end: Offset) -> list[Task]:
        """Return the tasks of a micro-batch, by a reader that has planned nothing, as workers have it."""
        reader = shipped("the reader", self._made())
        if self.is_simple:
            return [Task(reader, "read", (start,))]
        partitions = self.reader.partitions(start, end)
        return [Task(reader, "read", (shipped("a partition", each),)) for each in partitions]

    def all_tasks(self) -> list[Task]:
        """Return the tasks that read all rows, as one micro-batch."""
        start = self.initial()
        return self.tasks(start, self.latest(start))

    def stop(self) -> None:
        """Stop the reader, as the end of a query does."""
        if not self.is_simple:
            self.reader.stop()

    def _in_json(self, offset: Offset) -> Offset:
        """Return an offset as Spark gives it back."""
        self.given.append(offset)
        back: Offset = json.loads(json.dumps(offset))
        return back


Planner: TypeAlias = BatchPlanner | StreamPlanner


def shipped(what: str, value: _Value) -> _Value:
    """Return a value as it arrives in another process.  Raises ConformanceError if it cannot be pickled."""
    try:
        copy: _Value = pickle.loads(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]  # noqa: S301 - made here
    except Exception as error:
        raise ConformanceError(f"{what} cannot be pickled: {type(error).__name__}: {error}") from error
    return copy


def all_rows(planner: Planner) -> list[tuple[Any, ...]]:
    """Return all rows that a planner's tasks read."""
    return [row for task in planner.all_tasks() for row in tuples(task.items(), planner.schema)]


def tuples(items: Iterable[Any], schema: StructType) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of what a reader yields, with the columns in the order of the schema."""
    names = schema.fieldNames()
    for item in items:
        if isinstance(item, pa.RecordBatch):
            yield from zip(*(item.column(name).to_pylist() for name in names), strict=True)
        else:
            yield tuple(item[name] for name in names) if hasattr(item, "__fields__") else tuple(item)
