"""The lab of a data source: adds rows, and reads them through Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import cached_property, partial
from typing import Any, TypeAlias, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
from pyspark.sql.types import StructType

from tidegate.conformance.data_source.harness import DataSourceHarness, DataSourceHarnessFactory, Side, lacking
from tidegate.conformance.data_source.planners import BatchPlanner, StreamPlanner
from tidegate.conformance.lab.base import PATIENCE_S, BaseLab, SkippedError, made
from tidegate.conformance.lab.explain import ordered_difference
from tidegate.conformance.lab.processes import in_another_process
from tidegate.conformance.lab.spark import SparkStream, gist, shared_session
from tidegate.errors import counted

_Value = TypeVar("_Value")
Made: TypeAlias = tuple[type[DataSource], MutableMapping[str, str], StructType, Side]
"""The class of a source, its options, the schema and the side of which a planner is made."""
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_OVER_TCP = {"spark.python.unix.domain.socket.enabled": "false"}
"""Over Unix sockets, PySpark's own workers print a BrokenPipeError when Spark ends them; those of tidegate do not."""
_MISSING = "[NOT_IMPLEMENTED]"


class SourceLab(BaseLab):
    """A rule adds rows by ``add``, reads them by ``read`` or ``stream``, and compares them by ``compare``."""

    def __init__(self, make: DataSourceHarnessFactory, patience_s: float = PATIENCE_S) -> None:
        self.harness = made(DataSourceHarness, f"{make!r}", make())
        super().__init__(self.harness.name or type(self.harness).__name__, patience_s, self.harness.close)
        self.added = 0

    def lacking(self, need: Enum) -> str | None:
        """Return why the data source or its harness lacks what a rule needs."""
        return lacking(self.harness, need) if isinstance(need, Side) else None

    @property
    def source(self) -> type[DataSource]:
        """The class; only for rules that need Side.CLASS."""
        source = self.harness.source()
        if isinstance(source, str):
            raise SkippedError(f"the harness gives only the name {source!r}")
        return source

    @cached_property
    def spark(self) -> SparkSession:
        """The session, which pushes filters down: otherwise it refuses readers that take them."""
        spark = shared_session(_OVER_TCP)
        before = spark.conf.get(_PUSHDOWN, None)
        self.at_close(partial(spark.conf.set, _PUSHDOWN, before) if before else partial(spark.conf.unset, _PUSHDOWN))
        spark.conf.set(_PUSHDOWN, "true")
        return spark

    def can(self, side: Side) -> bool:
        """Return whether the data source and its harness have what some rules need."""
        return self.lacking(side) is None

    def add(self, count: int) -> None:
        """Add rows."""
        self.tell(f"add {counted(count, 'row')}")
        self.harness.add_rows(count)
        self.added += count

    def frame(
        self, options: Mapping[str, str] = {}, *, stream: bool = False, source: type[DataSource] | None = None
    ) -> DataFrame:
        """Load the source into a DataFrame.

        source: read instead of the harness's.
        options: beside those of the harness.

        Raises SkippedError if it has no such side.
        """
        spark, wanted = self.spark, source or self.harness.source()
        if not isinstance(wanted, str):
            spark.dataSource.register(wanted)
            wanted = wanted.name()
        reader = (spark.readStream if stream else spark.read).format(wanted).options(**self.options(options))
        with self.errors_of("loading it"):
            return (reader.schema(self.harness.schema) if self.harness.schema else reader).load()

    def read(self, frame: DataFrame | None = None) -> list[str]:
        """Return a text for each row of a DataFrame, or of a batch query of its own."""
        wanted = self.frame() if frame is None else frame
        with self.errors_of("reading it"):
            return _texts(wanted)

    def stream(
        self, options: Mapping[str, str] = {}, *, twice: bool = False, source: type[DataSource] | None = None
    ) -> SparkStream:
        """Return a streaming query over several runs; the parameters are those of ``SparkStream`` and ``frame``."""
        load = partial(self.frame, options, stream=True, source=source)
        return SparkStream(self, load, _texts, twice=twice)

    def compare(self, rows: Sequence[str], what: str = "all") -> None:
        """Raise ConformanceError unless rows are all that were ever added."""
        expected = self.harness.rows()
        if expected is not None:
            added = sorted(repr(tuple(row)) for row in expected)
            self.refuse(
                ordered_difference(f"{what}: rows that were added, and rows that were read", added, sorted(rows))
            )
        complaint = f"{what}: {counted(self.added, 'row')} added, and {len(rows):,} read"
        self.expect(len(rows) == self.added, complaint)

    def same(self, what: str, first: Sequence[str], second: Sequence[str]) -> None:
        """Raise ConformanceError unless two readings give the same rows, in any order."""
        self.refuse(ordered_difference(what, sorted(first), sorted(second)))

    @contextmanager
    def errors_of(self, doing: str) -> Iterator[None]:
        """Raise errors of Spark as a ConformanceError, or as a SkippedError if the source has no such side."""
        try:
            yield
        except PySparkException as error:
            if _MISSING in str(error):
                raise SkippedError(f"{doing}: {gist(error)}") from None
            raise self.fail(f"{doing} ends with an error: {gist(error)}") from error

    def options(self, more: Mapping[str, str] = {}) -> dict[str, str]:
        """Return the options of the harness, and more."""
        return {**self.harness.options(), **more}

    def by_planners(
        self,
        check: Callable[..., _Value],
        *arguments: Any,
        sides: Collection[Side] = (Side.BATCH, Side.STREAM),
        options: Mapping[str, str] = {},
    ) -> list[_Value]:
        """Call a function with a planner of each side that there is, and return its results.

        It runs in the main thread of a process of its own, as Spark's planner does.  Needs Side.CLASS.
        """
        results = []
        for side in sides:
            if self.can(side):
                schema = self.frame(options, stream=side is Side.STREAM).schema
                made = (self.source, CaseInsensitiveDict(self.options(options)), schema, side)
                results.append(in_another_process(planned, check, made, arguments))
        return results


def _texts(frame: DataFrame) -> list[str]:
    return [repr(tuple(row)) for row in frame.collect()]


def planned(
    check: Callable[..., _Value],
    made: Made,
    arguments: tuple[Any, ...] = (),
) -> _Value:
    """Make a source and a planner of one side, and call a function with it."""
    source, options, schema, side = made
    return check((BatchPlanner if side is Side.BATCH else StreamPlanner)(source(options=options), schema), *arguments)
