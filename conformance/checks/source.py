"""SOURCE and BATCH: what Spark asks of every data source, and batch queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from copy import copy
from datetime import datetime
from decimal import Decimal
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, DataSourceReader
from pyspark.sql.types import StructType

from tidegate.conformance.data_source.harness import Side
from tidegate.conformance.data_source.lab import Made, SourceLab, planned
from tidegate.conformance.data_source.planners import BatchPlanner, Planner, Task, all_rows, shipped, tuples
from tidegate.conformance.lab.base import ConformanceError, SkippedError
from tidegate.conformance.lab.explain import listed, ordered_difference
from tidegate.conformance.lab.processes import in_another_process
from tidegate.conformance.rules import Tier, rule

source_rule = partial(rule, lab=SourceLab)
_ROWS = 7
_OPTIONS = "with a plain dictionary of options, and with Spark's"


@source_rule("BATCH-1", tier=Tier.SPARK, needs=(Side.BATCH, Side.ROWS))
def a_batch_query_reads_every_row_once(lab: SourceLab) -> None:
    """A batch query reads every row once.

    Each load reads what is there then, those rows that were added after an earlier one as well.

    Look at: pages of a request, of which the last is left out; partitions that overlap; rows that the module or class
    keeps from an earlier load; options that never reach the reader.
    """
    lab.add(_ROWS)
    lab.compare(lab.read(), "the first query")
    lab.add(_ROWS - 2)
    lab.compare(lab.read(), "a query after more rows were added")


@source_rule("BATCH-2", tier=Tier.SPARK, needs=(Side.BATCH,))
def reading_again_gives_the_same_rows(lab: SourceLab) -> None:
    """Reading again gives the same rows.

    Spark reads a partition again when its task fails, and a DataFrame for each action. Two actions on one DataFrame
    and one on another give the same rows, as long as none are added.

    Look at: random values and the present time in rows; rows that are taken away when they are read, as from a queue;
    a cursor that the next reader continues.
    """
    add_some(lab)
    frame = lab.frame()
    first = lab.read(frame)
    lab.same("two actions on one DataFrame", first, lab.read(frame))
    lab.same("two loads", first, lab.read())


@source_rule("BATCH-3", tier=Tier.SPARK, needs=(Side.BATCH, Side.CLASS))
def filters_never_change_the_result(lab: SourceLab) -> None:
    """Filters never change the result.

    Of the filters that pushFilters() takes over, Spark checks none again. Every filter gives the rows that Spark finds
    when it filters them itself.

    Look at: nulls, which satisfy neither a = 1 nor its negation; texts that are compared without case, or by a part;
    a filter that is neither applied nor returned; a conversion of the value that loses digits.
    """
    add_some(lab)
    if not any(lab.by_planners(_pushes, sides=[Side.BATCH])):
        raise SkippedError("its reader takes no filters: it has no pushFilters()")
    frame = lab.frame()
    with lab.errors_of("reading it"):
        plain = lab.spark.createDataFrame(frame.collect(), frame.schema)
    filters = dict(_filters(plain))
    if not filters:
        raise SkippedError("it has no rows with columns that filters could compare")
    # One load has one reader for all uses of its DataFrame, which keeps what one of them pushes down.
    found, wanted = (_filtered(lab, rows, filters) for rows in (lab.frame, lambda: plain))
    for text in filters:
        lab.same(f"filtered by Spark, and by the source, {text}", wanted.get(text, []), found.get(text, []))


def _pushes(planner: BatchPlanner) -> bool:
    return type(planner.reader).pushFilters is not DataSourceReader.pushFilters


def _filters(plain: DataFrame) -> Iterator[tuple[str, Column]]:
    """Yield conditions that Spark pushes down, each with its text, for the columns that can be compared."""
    rows = plain.collect()
    for name in plain.columns:
        values = sorted({row[name] for row in rows if isinstance(row[name], int | float | str | Decimal | datetime)})
        if not values:
            continue
        column, low, value = F.col(f"`{name}`"), values[0], values[len(values) // 2]
        yield f"{name} = {value!r}", column == value
        yield f"not {name} = {value!r}", column != value
        yield f"{name} > {low!r}", column > low
        yield f"{name} <= {value!r}", column <= value
        yield f"{name} in ({low!r}, {value!r})", column.isin(low, value)
        yield f"{name} is null", column.isNull()
        yield f"{name} is not null", column.isNotNull()
        if isinstance(value, str):
            yield f"{name} starts with {value[:2]!r}", column.startswith(value[:2])
            yield f"{name} ends with {value[-2:]!r}", column.endswith(value[-2:])
            yield f"{name} contains {value[1:3]!r}", column.contains(value[1:3])
            yield f"{name} = {value.swapcase()!r}", column == value.swapcase()


def _filtered(lab: SourceLab, rows: Callable[[], DataFrame], filters: dict[str, Column]) -> dict[str, list[str]]:
    """Return the rows of each filter, by its text, all of them in one query."""
    parts = [rows().filter(condition).withColumn("__filter", F.lit(text)) for text, condition in filters.items()]
    found: dict[str, list[str]] = {}
    with lab.errors_of("filtering it"):
        for row in reduce(DataFrame.union, parts).collect():
            found.setdefault(row[-1], []).append(repr(tuple(row)[:-1]))
    return found


@source_rule("BATCH-4", tier=Tier.SPARK, needs=(Side.BATCH, Side.ROWS))
def an_empty_source_gives_no_rows(lab: SourceLab) -> None:
    """An empty source gives no rows.

    A table without rows has the schema that it has with rows. Where the schema is taken from the
    data, an empty source may refuse to have one, and the rule is skipped.

    Look at: read() without partitions, which Spark calls once with InputPartition(None); the first page or file, which
    is not there; a schema of another order or type before there are rows.
    """
    frame = empty_frame(lab)
    rows = lab.read(frame)
    lab.expect(not rows, f"nothing was added, and {len(rows)} rows are read, such as {rows[:1]}")
    lab.add(_ROWS)
    schema = lab.frame().schema
    lab.expect(frame.schema == schema, f"the schema is {frame.schema} without rows, and {schema} with rows")


@source_rule("SOURCE-1", needs=(Side.CLASS,))
def what_spark_ships_can_be_pickled(lab: SourceLab) -> None:
    """What Spark ships can be pickled.

    The source, its readers and their partitions go to other processes. There, all partitions give the same number of
    rows as here.

    Look at: clients, locks, sessions and open files in fields: make them in read(); lambdas and local classes in
    partitions; globals that only the program that registers the source has set.
    """
    add_some(lab)
    shipped("the class", lab.source)
    for tasks, schema, here in lab.by_planners(_tasks_and_counts):
        there = in_another_process(_counts, tasks, schema)
        lab.expect(here == there, f"the tasks have {here} rows in the process that made them, and {there} in another")


def _tasks_and_counts(planner: Planner) -> tuple[list[Task], StructType, list[int]]:
    tasks = planner.all_tasks()
    return tasks, planner.schema, _counts(tasks, planner.schema)


def _counts(tasks: Iterable[Task], schema: StructType) -> list[int]:
    return [sum(1 for _ in tuples(task.items(), schema)) for task in tasks]


@source_rule("SOURCE-2", needs=(Side.CLASS,))
def options_count_in_any_case(lab: SourceLab) -> None:
    """Options count in any case.

    Spark gives the options in a dictionary that finds names in any case, and lists them in small letters. With it, the
    source has the schema and the rows that it has with a plain dictionary of the harness's names.

    Look at: dict(options) and ** of it, which forget that case does not matter, so that an option with a capital
    letter silently has its default; names that are compared with == in a loop.
    """
    if all(name == name.lower() for name in lab.options()):
        raise SkippedError("the harness has no options with a capital letter")
    add_some(lab)
    plain = lab.options()
    in_spark = CaseInsensitiveDict({name.swapcase(): value for name, value in plain.items()})
    if lab.harness.schema is None:
        first, second = in_another_process(_schemas, lab.source, plain, in_spark)
        lab.expect(first == second, f"{_OPTIONS}, the schema is {first}, and {second}")
    for side in (Side.BATCH, Side.STREAM):
        if lab.can(side):
            made = (lab.source, plain, lab.frame(stream=side is Side.STREAM).schema, side)
            lab.refuse(in_another_process(_different_rows, made, in_spark))


def _schemas(source: type[DataSource], *options: MutableMapping[str, str]) -> list[str]:
    return [str(source(options=copy(each)).schema()) for each in options]


def _different_rows(made: Made, in_spark: MutableMapping[str, str]) -> str | None:
    """Return how rows differ with a plain dictionary and with Spark's; None: they do not."""
    source, plain, schema, side = made
    before, again, after = (planned(all_rows, (source, copy(each), schema, side)) for each in (plain, plain, in_spark))
    if before == again:
        return ordered_difference(_OPTIONS, [*map(repr, before)], [*map(repr, after)])
    same = len(before) == len(after)  # all that can be compared where rows are made up
    return None if same else f"{_OPTIONS}, there are {len(before)} rows, and {len(after)}"


@source_rule("SOURCE-3", needs=(Side.CLASS,))
def rows_fit_the_schema(lab: SourceLab) -> None:
    """Rows fit the schema.

    Spark believes the schema: a null in a column that cannot be null ends the task or is not found by IS NULL, and of
    Arrow batches only the first is compared with the schema. Each row has a value for each column, none of them null
    where it must not be, and all batches have one schema.

    Look at: nullable=False, where the other side has nulls; a column that Arrow infers for each batch anew; a field
    that one record lacks.
    """
    add_some(lab)
    lab.by_planners(_expect_fit)
    if lab.can(Side.BATCH):
        lab.read()  # Spark converts the values


def _expect_fit(planner: Planner) -> None:
    names = planner.schema.fieldNames()
    never = {name for name in names if not planner.schema[name].nullable}
    for task in planner.all_tasks():
        items = [*task.items()]
        schemas = {str(item.schema) for item in items if isinstance(item, pa.RecordBatch)}
        if len(schemas) > 1:
            raise ConformanceError(f"batches of one task have several schemas: {' and '.join(sorted(schemas))}")
        for row in tuples(items, planner.schema):
            if len(row) != len(names):
                raise ConformanceError(f"a row has {len(row)} values for {len(names)} columns: {row!r}")
            if nulls := [name for name, value in zip(names, row, strict=True) if value is None and name in never]:
                raise ConformanceError(f"{listed(nulls)} is null, but cannot be by the schema: {row!r}")


def empty_frame(lab: SourceLab, *, stream: bool = False) -> DataFrame:
    """Load a source without rows.  Raises SkippedError if it has no schema then."""
    try:
        return lab.frame(stream=stream)
    except ConformanceError as error:
        *_, cause = (line for line in str(error).splitlines() if "SQLSTATE" not in line)
        raise SkippedError(f"an empty source has no schema: {cause}") from error


def add_some(lab: SourceLab) -> None:
    """Add a few rows, if the harness can."""
    if lab.can(Side.ROWS):
        lab.add(_ROWS)
