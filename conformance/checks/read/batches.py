"""READ: batches of one schema, valid, bounded and made lazily, as Spark takes them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after
from tidegate.conformance.rules import Level
from tidegate.enumerators.contract import Json
from tidegate.errors import counted
from tidegate.readers.contract import ReadTask
from tidegate.sources.bridge import schema_of
from tidegate.sources.source import Source
from tidegate.sources.tasks import SOURCE_WATERMARK

__all__ = [
    "check_batches_are_bounded",
    "check_batches_are_valid",
    "check_every_batch_has_the_schema",
    "check_small_rows_come_together",
    "check_the_first_batch_does_not_wait_for_the_last",
    "check_told_columns_change_nothing",
]

_LARGE = 2_000_000
_LARGE_ROWS = 20
_SMALL = 1_000
_SMALL_ROWS = 3_000
_MOST_BATCHES = 60
_READINGS = 6
_WHOLE = 0.9  # of the time of a reading: past it, the later batches were ready with the first


@rule(
    "READ-21",
    "every batch has the source's schema",
    purpose="Spark takes columns by place and type. A batch with another schema is misread or ends the query. That "
    "may happen only once in a thousand batches.",
    tested="The last rows of a split differ from the others: they are empty or null. The split is read whole, in "
    "parts, by position and in empty ranges.",
    passes="arrow_schema never changes. It has columns, no name twice, and no column of tidegate. Every batch has "
    "exactly this schema: names, order, types, nullability and metadata.",
    look_at=(
        "the last batch, and a batch without rows",
        "a column of nulls alone, whose type is guessed",
        "large_string or a time zone that a library adds",
    ),
    source="SplitReader.read: every batch has the source's schema exactly",
)
def check_every_batch_has_the_schema(lab: Lab) -> None:
    """Compare schemas."""
    source = lab.source(**_ignore(lab))
    wanted = source.arrow_schema
    lab.expect(wanted.names, "arrow_schema has no columns")
    twice = sorted({name for name in wanted.names if wanted.names.count(name) > 1})
    lab.expect(not twice, f"arrow_schema has two columns of the name {', '.join(twice)}")
    lab.expect(
        SOURCE_WATERMARK not in wanted.names, f"arrow_schema has a column {SOURCE_WATERMARK}, which belongs to tidegate"
    )
    lab.expect(source.arrow_schema.equals(wanted, check_metadata=True), "arrow_schema differs when it is read again")
    for batch in _odd_batches(lab, source):
        if not batch.schema.equals(wanted, check_metadata=True):
            raise lab.fail(f"a batch of {counted(batch.num_rows, 'row')} has another schema: {_other(wanted, batch)}")


@rule(
    "READ-22",
    "batches are valid Arrow",
    purpose="Spark trusts the buffers of a batch. A wrong buffer gives garbage or crashes the JVM.",
    tested="The ranges of READ-21 are read, with empty texts, nulls and other alphabets. Every batch is validated in "
    "full.",
    passes="Arrow finds no fault. A column that is not nullable holds no null.",
    look_at=(
        "buffers that are made by hand",
        "bytes that are put into a text column without a check",
        "a null where nullable is False",
    ),
    source="pyarrow.RecordBatch.validate(full=True)",
)
def check_batches_are_valid(lab: Lab) -> None:
    """Validate every batch."""
    source = lab.source(**_ignore(lab))
    for batch in _odd_batches(lab, source):
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            raise lab.fail(f"a batch of {counted(batch.num_rows, 'row')} is not valid Arrow: {error}") from None
        for field, column in zip(batch.schema, batch.columns, strict=True):
            lab.expect(
                field.nullable or not column.null_count, f"the column {field.name!r} is not nullable, but holds a null"
            )


@rule(
    "READ-23",
    "given columns change nothing",
    purpose="Spark passes the columns back to every query. That must not change them.",
    tested="The source gets its own columns back, as a Spark schema, and is read.",
    passes="The columns and the rows are the same as before.",
    look_at=("with_schema()", "a type that has no equal in Spark"),
    source="Source.with_schema",
)
def check_told_columns_change_nothing(lab: Lab) -> None:
    """Hand the columns back."""
    lab.split(*after(*range(4)))
    source = lab.source()
    columns = schema_of(source)
    with_columns = source.with_schema(columns)
    lab.expect(
        schema_of(with_columns) == columns,
        f"given columns change: they are {schema_of(with_columns)}, not {columns}",
    )
    enumerator = lab.enumerator(with_columns)
    batches = lab.read(with_columns, lab.everything(enumerator), enumerator)
    lab.compare(lab.keys(batches))
    for batch in batches:
        if not batch.schema.equals(with_columns.arrow_schema, check_metadata=True):
            raise lab.fail(
                f"a batch of a source with given columns differs: {_other(with_columns.arrow_schema, batch)}"
            )


@rule(
    "READ-24",
    "batches are bounded",
    purpose="A range may hold a whole day. A task that makes one batch of it runs out of memory.",
    tested=f"One range of {_LARGE_ROWS} values of {_LARGE // 1_000_000} MB is read.",
    passes="All rows come, and no batch holds more than half of them.",
    look_at=("one batch for each range", "a limit on rows without one on bytes", "to_arrow() of a whole result"),
    source="SplitReader.read: a bounded number of bytes, whatever the size of the range",
)
def check_batches_are_bounded(lab: Lab) -> None:
    """Read large values."""
    source = lab.source()
    task, state = _large_task(lab, source)
    sizes = [batch.num_rows for batch in source.reader(state).read(task)]
    lab.expect(sum(sizes) == _LARGE_ROWS, f"{_LARGE_ROWS} rows were written, and {sum(sizes)} delivered")
    largest = max(sizes)
    megabytes = largest * _LARGE // 1_000_000
    lab.expect(
        largest <= _LARGE_ROWS // 2,
        f"one batch holds {largest} of {_LARGE_ROWS} rows, {megabytes} MB: it grows with the range",
    )


@rule(
    "READ-25",
    "the first batch does not wait for the last",
    purpose="A reader that first gathers everything needs memory for everything, and Spark waits.",
    tested=f"A range of {_LARGE_ROWS * _LARGE // 1_000_000} MB is read up to {_READINGS} times, and its batches are "
    "timed.",
    passes=f"In one of these readings, the first batch comes before {_WHOLE:.0%} of the time is over.",
    look_at=("a list of batches that is returned instead of yielded", "a result that is fetched whole"),
    level=Level.SHOULD,
    witness=("several batches",),
    source="SplitReader.read: yields",
)
def check_the_first_batch_does_not_wait_for_the_last(lab: Lab) -> None:
    """Time the first batch."""
    source = lab.source()
    task, state = _large_task(lab, source)
    least = 1.0
    for _ in range(_READINGS):
        begun = time.monotonic()
        times = [time.monotonic() for _ in source.reader(state).read(task)]
        if len(times) > 1:
            lab.saw("several batches")
            least = min(least, (times[0] - begun) / (times[-1] - begun))
        if least < _WHOLE:
            return
    raise lab.fail(f"in {_READINGS} readings the first batch came when {least:.0%} of the time was over, never earlier")


@rule(
    "READ-29",
    "small rows come together",
    level=Level.SHOULD,
    purpose="Each batch costs Spark the same time. One row per batch is a hundred times slower.",
    tested=f"One range of {_SMALL_ROWS:,} rows of {_SMALL:,} bytes is read.",
    passes=f"Every row comes once and in order, in at most {_MOST_BATCHES} batches.",
    look_at=("a count of bytes or rows that is not reset after a batch", "one batch for each row"),
    source="SplitReader.read: Arrow batches",
)
def check_small_rows_come_together(lab: Lab) -> None:
    """Count the batches of small rows."""
    split = lab.split()
    for first in range(0, _SMALL_ROWS, 500):
        split.append(*(BEGIN_MS + n for n in range(first, first + 500)), values=["0" * _SMALL] * 500)
    source = lab.source()
    enumerator = lab.enumerator(source)
    batches = lab.read(source, lab.everything(enumerator), enumerator)
    lab.compare(lab.keys(batches))
    count = len(batches)
    lab.expect(count <= _MOST_BATCHES, f"{_SMALL_ROWS:,} rows of {_SMALL:,} bytes come in {count:,} batches")


def _ignore(lab: Lab) -> dict[str, str]:
    return {"badEventTime": "ignore"} if lab.can(Ability.MISSING_TIMES) else {}


def _odd_batches(lab: Lab, source: Source) -> Iterator[pa.RecordBatch]:
    """Yield the batches of several tasks, each with something odd in it."""
    none = None if lab.can(Ability.NULL_VALUES) else ""
    split = lab.split()
    split.append(*after(*range(3)), values=["a", "", "äß 日本 \U0001f30a"])
    split.append(*after(3, 4), values=[none, none])
    if lab.can(Ability.MISSING_TIMES):
        split.append(None, values=[none])
    split.append(BEGIN_MS + 5 * SECOND_MS, values=[""])
    enumerator = lab.enumerator(source)
    ranges = lab.everything(enumerator)
    yield from lab.read(source, ranges, enumerator)
    for part in ranges:
        for start in range(part.start, part.end + 1):
            for end in (start, start + 1, part.end):
                if start <= end <= part.end:
                    yield from lab.read(source, [type(part)(part.split_id, start, end)], enumerator)


def _large_task(lab: Lab, source: Source) -> tuple[ReadTask, Json | None]:
    """Write large values, and return a task that reads them all, with the snapshot at its plan."""
    values = [f"{number:02}" * (_LARGE // 2) for number in range(_LARGE_ROWS)]
    lab.split().append(*after(*range(_LARGE_ROWS)), values=values)
    enumerator = lab.enumerator(source)
    return lab.task(lab.everything(enumerator), enumerator), enumerator.snapshot()


def _other(wanted: pa.Schema, batch: pa.RecordBatch) -> str:
    """Return the first thing in which a batch's schema differs."""
    schema = batch.schema
    if schema.names != wanted.names:
        return f"its columns are {', '.join(schema.names) or 'none'}, not {', '.join(wanted.names)}"
    for field, other in zip(wanted, schema, strict=True):
        if not field.equals(other, check_metadata=True):
            return f"its column {field.name!r} is {_field(other)}, not {_field(field)}"
    return f"its metadata is {schema.metadata}, not {wanted.metadata}"


def _field(field: pa.Field) -> str:
    text = f"{field.type}{'' if field.nullable else ' not null'}"
    return f"{text} with metadata {field.metadata}" if field.metadata else text
