"""Which windows have tasks of the source sum up and pack their rows, and how they ask for it (see ``first_stage``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, DayTimeIntervalType, DecimalType, LongType, StructField, StructType

from tidegate.add_ons import ADD_ON_WATERMARK, StageCall
from tidegate.spark_private import setting, to_arrow_schema
from tidegate.windows import EventTimeTrigger, SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner
from tidegate.windows.spark import relations
from tidegate.windows.spark.buckets import PACKED
from tidegate.windows.spark.columns.accumulators import keeps
from tidegate.windows.spark.expressions import Argument, Parts
from tidegate.windows.spark.first_stage import PLACE, Slices, Taken
from tidegate.windows.spark.processor import TIME

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


class Wanted(NamedTuple):
    """A column of the rows of windows.

    argument: what it takes of the columns of the stream.
    kind: its type.
    function: the aggregate that sums it up: sum, min or max; None: it is not summed up.
    """

    argument: Argument
    kind: DataType
    function: str | None = None


@dataclass(frozen=True)
class InSource:
    """The rows of windows that tasks of the source make.

    columns: those of the rows, before they are packed.  taken: how each follows from those of the source.
    """

    columns: Mapping[str, Wanted]
    taken: Mapping[str, Taken]
    keys: Sequence[str]

    @classmethod
    def of(cls, rows: DataFrame, keys: Sequence[str], columns: Mapping[str, Wanted]) -> InSource | None:
        """Return how the source makes the rows of a stream's windows; None: steps of the stream make them.

        keys: the columns of the key, among ``columns``.
        """
        arguments = {name: wanted.argument for name, wanted in columns.items()}
        named = {name: argument.column for name, argument in arguments.items() if argument.column is not None}
        paths = relations.source_paths(rows.select(*(column.alias(name) for name, column in named.items())))
        if paths is None:
            return None
        path_of = dict(zip(named, paths, strict=True))
        taken = {
            name: Taken(path_of.get(name, ()), wanted.argument.counts, wanted.function)
            for name, wanted in columns.items()
        }
        return cls(columns, taken, keys)

    @property
    def sums(self) -> dict[str, Wanted]:
        """The columns that are summed up."""
        return {name: wanted for name, wanted in self.columns.items() if wanted.function is not None}

    @property
    def schema(self) -> StructType:
        """The columns of the rows."""
        return StructType([StructField(name, wanted.kind) for name, wanted in self.columns.items()])

    def rows(self, stream: DataFrame, ahead_ms: int, description: Mapping[str, str], slices: Slices) -> DataFrame:
        """Return the rows, summed up, with the column ``tasks.ADD_ON_WATERMARK``."""
        stage = self._stage(slices, packs=False)
        return relations.of_stage(stream, ahead_ms, description, stage, self.schema)

    def packed(self, stream: DataFrame, buckets: int | None, slices: Slices | None) -> DataFrame:
        """Return the rows as ``PACKED``.

        buckets: as ``buckets.packed`` has it.  slices: those whose rows are summed up; None: none are.
        """
        stage = self._stage(slices, packs=True, buckets=buckets)
        return relations.of_stage(stream, 0, None, stage, PACKED).drop(ADD_ON_WATERMARK)

    def _stage(self, slices: Slices | None, **packing: object) -> StageCall:
        rows, taken = self.schema.jsonValue(), {name: [*how] for name, how in self.taken.items()}
        arguments = {"rows": rows, "taken": taken, "keys": [*self.keys], "time": TIME, "slices": slices, **packing}
        done = [] if slices is None else [f"sum up the rows of windows by key and {slices.width / 1000:g} s"]
        done += ["pack the rows of windows by bucket"] if packing["packs"] else []
        return StageCall(PLACE, arguments, f"Tasks {' and '.join(done)}.")


def way_of(*, sums: bool, packs: bool) -> str:
    """Return what tasks of the source do with rows of windows, as ``explain`` says it."""
    if sums:
        return "tasks of the source sum up the rows of a key and window"
    return "tasks of the source pack the rows by bucket" if packs else "Spark hands over each row of the source"


def slices_of(rows: DataFrame, assigner: WindowAssigner, trigger: object) -> Slices | None:
    """Return the slices of event time in which rows of windows may be summed up; None: windows need each row."""
    # By their own classes: a subclass may assign rows or decide in another way.
    if type(trigger) is not EventTimeTrigger or type(assigner) not in {
        TumblingEventTimeWindows,
        SlidingEventTimeWindows,
    }:
        return None
    if setting(rows.sparkSession, _POLICY) == "max":  # Spark's watermark may be ahead of the source's
        return None
    size, offset = assigner.size, assigner.offset  # type: ignore[attr-defined]
    return Slices.of(size, getattr(assigner, "slide", size), offset)


def of_keys_and_time(rows: DataFrame, keys: Mapping[str, str], event_time: str) -> dict[str, Wanted]:
    """Return the columns of keys and event times.  keys: the names of their columns, by those in the stream."""
    of_keys = {column: of_column(rows, name) for name, column in keys.items()}
    return {**of_keys, TIME: of_column(rows, event_time)._replace(kind=LongType())}


def of_column(rows: DataFrame, name: str) -> Wanted:
    """Return a column of the stream as it is."""
    return Wanted(Argument(f.col(f"`{name}`")), rows.schema[name].dataType)


def of_sums(parts: Parts) -> dict[str, Wanted] | None:
    """Return the columns of aggregates of rows that merge; None: Arrow cannot sum up one of them."""
    wanted: dict[str, Wanted] = {}
    for name, call in parts.function().aggregates.items():
        kind = parts.types[name]
        if not _is_summed(call.function, kind):
            return None
        wanted[name] = Wanted(parts.arguments[call.argument], kind, call.function)
    return wanted


def _is_summed(function: str, kind: DataType) -> bool:
    if isinstance(kind, DayTimeIntervalType) or (function == "sum" and isinstance(kind, DecimalType)):
        return False  # Arrow compares no intervals, and the type of a sum of decimals depends on its parts
    try:
        return keeps(function, to_arrow_schema(StructType([StructField("of", kind)]), timezone="UTC").field(0).type)
    except PySparkException:
        return False  # Arrow has no such type
