"""What a task of the source does with rows of windows before Spark gets them: it sums them up, and packs them.

Spark turns each row of a source in Python into a row of Java, so windows over the source's own columns have the task
make fewer of them, as Flink's local-global aggregation does.

**Sums.**  Aggregates that merge have one row for all rows of a key in a *slice*: a span of event time that no bound of
a window cuts, such as a minute for windows of a minute.  This gives the results and the late rows of single rows:

1. All rows of a slice are in the same windows, and so is a row in their place, with the time at which the slice begins.
2. All rows of a batch have one watermark W, that of the end of the batch before.  Spark's watermark is not greater: it
   is W, or that of a source further behind.
3. A slice [b, e) is summed up only if e - 1 > W, and W is not the end of time.  Its windows end at e or later, so the
   watermark has passed none of their ends: no row of the slice is late, and none makes its window fire.  Then what a
   window does, with the trigger of event time, depends on its rows only through their aggregates: it fires once, when
   the watermark passes its end.
4. Rows of other slices stay single rows, in their order: each is late, or makes its window fire, as ever.

Sums of floating point numbers are rounded at other places, as in Spark's own aggregation.  Where Arrow would not add or
compare as Spark does (a sum that may have more than 64 bits, NaN in a minimum), rows stay single.

**Packing.**  Rows for the operator are packed by bucket at once, without a way through Java to another Python worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from tidegate.add_ons import END_OF_TIME_MS, Json
from tidegate.spark_private import to_arrow_schema
from tidegate.windows.spark.buckets import PACKED, Packer, tables
from tidegate.windows.spark.keys import codes_of

PLACE = f"{__name__}:FirstStage"
_GROUP, _FIRST = "__group", "__first"
_SAMPLE = 4_096  # rows of some 200,000, by which a task decides whether it sums them up
_MOST = 0.95  # keys and slices of a sample, as a share of its rows: if they come but once, sums are as many as rows
_LARGEST = float(1 << 62)
_Ints = npt.NDArray[np.int64]


class Taken(NamedTuple):
    """How a column follows from the columns of the source.

    path: the names of a column and of the fields in it; empty: none, each row gives 1.
    counts: a row with a value gives 1, and one without 0.
    function: the aggregate that sums it up: sum, min or max; None: it is the key or the time.
    """

    path: Sequence[str]
    counts: bool = False
    function: str | None = None


class Slices(NamedTuple):
    """Spans of event time that the bounds of windows do not cut, in ms: multiples of the width from the offset on."""

    width: int
    offset: int

    @classmethod
    def of(cls, size: int, slide: int, offset: int) -> Slices:
        """Return the slices of sliding windows, or of tumbling ones, whose slide is their size."""
        width = gcd(size, slide)
        return cls(width, offset % width)


class FirstStage:
    """The stage of a task of the source.

    rows: the columns that it makes of each row, as Spark's JSON.  taken: how, by name.
    keys, time: the columns of the key, and of event times in ms.
    slices: those whose rows are summed up; None: none are.
    packs: whether rows are packed by bucket.  buckets: as ``packed`` has it.
    """

    def __init__(
        self,
        *,
        rows: Json,
        taken: Mapping[str, Sequence[Any]],
        keys: Sequence[str],
        time: str,
        slices: Sequence[int] | None,
        packs: bool,
        buckets: int | None = None,
    ) -> None:
        columns = StructType.fromJson(rows)
        self._rows = to_arrow_schema(columns, timezone="UTC")
        self._taken = {name: Taken(*how) for name, how in taken.items()}
        self._functions = {name: how.function for name, how in self._taken.items() if how.function is not None}
        self._keys, self._time = list(keys), time
        self._slices = None if slices is None else Slices(*slices)
        self._packer = Packer(keys, columns, buckets) if packs else None
        self.schema = to_arrow_schema(PACKED, timezone="UTC") if packs else self._rows

    def rows(self, batches: Iterator[pa.RecordBatch], watermark_ms: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of windows for a task."""
        of_task = tables(map(self._of_windows, batches))
        made = ((self._made(table, watermark_ms), table.num_rows) for table in of_task)
        if self._packer is not None:
            yield from self._packer.of_tables(made)
        else:
            for table, _ in made:
                yield from table.combine_chunks().to_batches()

    def _of_windows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [_column(batch, self._taken[field.name], field.type) for field in self._rows]
        return pa.RecordBatch.from_arrays(arrays, schema=self._rows)

    def _made(self, rows: pa.Table, watermark_ms: int | None) -> pa.Table:
        """Return the rows, summed up if they are; rows without an event time are in no window, and only counted."""
        times = rows.column(self._time)
        timed = rows.filter(times.is_valid()) if times.null_count else rows
        summed = timed if self._slices is None else self._summed_up(timed, self._slices, watermark_ms)
        if timed is rows or self._packer is not None:
            return summed
        return pa.concat_tables([summed, rows.filter(times.is_null())])

    def _summed_up(self, rows: pa.Table, slices: Slices, watermark_ms: int | None) -> pa.Table:
        if watermark_ms == END_OF_TIME_MS:  # all rows are late
            return rows
        times = rows.column(self._time).to_numpy()
        begins = times - (times - slices.offset) % slices.width
        if watermark_ms is None:
            return self._of_slices(rows, begins)
        is_ahead = begins + (slices.width - 1) > watermark_ms
        if is_ahead.all():
            return self._of_slices(rows, begins)
        ahead, behind = rows.filter(pa.array(is_ahead)), rows.filter(pa.array(~is_ahead))
        return pa.concat_tables([behind, self._of_slices(ahead, begins[is_ahead])])

    def _of_slices(self, rows: pa.Table, begins: _Ints) -> pa.Table:
        """Return a row for each key and slice; the rows as they are if that would not be few, or not be exact."""
        if not rows.num_rows or not self._is_exact(rows) or not self._is_worth_it(rows, begins):
            return rows
        numbers = codes_of([pa.chunked_array([begins])])
        groups = codes_of(rows.column(key) for key in self._keys) * (numbers.max() + 1) + numbers
        places = np.arange(rows.num_rows)
        numbered = rows.select(list(self._functions)).append_column(_GROUP, [groups]).append_column(_FIRST, [places])
        wanted = [(_FIRST, "min"), *self._functions.items()]
        summed = numbered.group_by(_GROUP, use_threads=False).aggregate(wanted)
        firsts = summed.column(f"{_FIRST}_min")
        made = {name: rows.column(name).take(firsts) for name in self._keys}
        made[self._time] = pa.array(begins[firsts.to_numpy()])
        made |= {name: summed.column(f"{name}_{function}") for name, function in self._functions.items()}
        return pa.table([made[field.name] for field in self._rows], schema=self._rows)

    def _is_worth_it(self, rows: pa.Table, begins: _Ints) -> bool:
        """Return whether a sample of rows has keys and slices twice."""
        # By chance: keys that come by turns may differ in every 49th row, say.
        places = np.unique(np.random.default_rng(rows.num_rows).integers(0, rows.num_rows, _SAMPLE))
        sample = rows.select(self._keys).take(pa.array(places))
        groups = codes_of([*sample.columns, pa.chunked_array([begins[places]])])
        return len(np.unique(groups)) <= len(groups) * _MOST

    def _is_exact(self, rows: pa.Table) -> bool:
        return all(_is_exact(rows.column(name), function) for name, function in self._functions.items())


def _is_exact(column: pa.ChunkedArray, function: str) -> bool:
    """Return whether Arrow adds up or compares a column as Spark does."""
    if pa.types.is_floating(column.type):
        return function == "sum" or pc.any(pc.is_nan(column)).as_py() is not True
    if function != "sum":
        return True
    bounds = pc.min_max(column).as_py()
    return bool(max(abs(bounds["min"] or 0), abs(bounds["max"] or 0)) * len(column) < _LARGEST)


def _column(batch: pa.RecordBatch, taken: Taken, kind: pa.DataType) -> pa.Array:
    if not taken.path:
        return pa.array(np.ones(batch.num_rows, np.int64)).cast(kind)
    name, *fields = taken.path
    values = batch.column(name)
    if fields:
        values = pc.struct_field(values, fields)
    return cast(values.is_valid() if taken.counts else values, kind)


def cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in another type, as Spark casts them where ``relations.source_paths`` allows it."""
    if values.type == kind:
        return values
    if pa.types.is_timestamp(values.type) and pa.types.is_int64(kind):
        micros = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()).fill_null(0).to_numpy()
        nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        return pa.array(micros // 1000, mask=nulls)
    if pa.types.is_binary(values.type) and pa.types.is_string(kind):  # Spark does not look at the bytes, either
        return pa.Array.from_buffers(kind, len(values), values.buffers(), values.null_count, values.offset)
    return values.cast(kind, safe=False)
