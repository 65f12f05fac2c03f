"""READ: batches of one schema, valid, bounded and made lazily, as Spark takes them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidegate.conformance.abilities import Ability
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after
from tidegate.conformance.rules import rule
from tidegate.enumerators.contract import Json
from tidegate.errors import counted
from tidegate.readers.contract import ReadTask
from tidegate.sources.source import Source
from tidegate.sources.tasks import SOURCE_WATERMARK

_LARGE = 2_000_000
_LARGE_ROWS = 20


@rule("READ-21")
def every_batch_is_valid_and_has_the_schema(lab: Lab) -> None:
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
            raise lab.fail(
                f"a batch of {counted(batch.num_rows, 'row')} has the schema\n{batch.schema}\nand not\n{wanted}"
            )
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            raise lab.fail(f"a batch of {counted(batch.num_rows, 'row')} is not valid Arrow: {error}") from None
        for field, column in zip(batch.schema, batch.columns, strict=True):
            lab.expect(
                field.nullable or not column.null_count, f"the column {field.name!r} is not nullable, but holds a null"
            )


@rule("READ-24")
def batches_are_bounded(lab: Lab) -> None:
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
