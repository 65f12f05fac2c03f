"""The contract of a harness for any Python data source of PySpark: its class, its options, and how to add rows.

    class OrdersHarness(DataSourceHarness):
        def source(self):
            return OrdersSource

        def options(self):
            return {"path": self.folder}

        def add_rows(self, count):
            self.database.insert(count)

The kit creates one harness for every rule, and closes it.  The source of one harness must not see another's rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any, TypeAlias

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType


class Side(Enum):
    """What rules need of a data source or of its harness."""

    BATCH = "spark.read can read it: the class has reader()"
    STREAM = "spark.readStream can read it: the class has streamReader() or simpleStreamReader()"
    ROWS = "the harness has add_rows()"
    CLASS = "the harness gives the class, not only the name"


class DataSourceHarness(ABC):
    """One place to read from, which the kit fills.

    The kit makes it without arguments: if it needs some, pass a ``functools.partial``.
    """

    name: str = ""
    """Its name in reports; empty: the name of its class."""

    schema: StructType | str | None = None
    """The schema that users give to ``spark.read.schema``, of a source that has none of its own."""

    limited: Mapping[str, str] = {}
    """The options with which a micro-batch has few rows, such as ``{"maxRows": "2"}``; empty: there are none."""

    @abstractmethod
    def source(self) -> type[DataSource] | str:
        """Return the class, or the name of a source that Spark knows; rules that need the class are skipped then."""

    def options(self) -> Mapping[str, str]:
        """Return the options with which Spark reads all rows of this harness, from the first one."""
        return {}

    def add_rows(self, count: int) -> None:
        """Add that many rows; after it, a new look at the source finds them.  Before the first call there are none.

        A source that makes up its rows has no such method: rules that count rows are skipped.
        """
        raise NotImplementedError  # no rule calls it then

    def rows(self) -> Collection[tuple[Any, ...]] | None:
        """Return all rows that were added, as Spark gives them to Python; None: they are only counted."""
        return None

    def close(self) -> None:  # noqa: B027 - many harnesses hold nothing
        """Release all resources.  Called once."""


DataSourceHarnessFactory: TypeAlias = Callable[[], DataSourceHarness]
"""Makes a harness with a place of its own: a class, or a partial of one."""


def lacking(harness: DataSourceHarness, side: Side) -> str | None:
    """Return why a data source or its harness lacks what a rule needs; None: it does not."""
    source = harness.source()
    if side is Side.ROWS:
        lacks = type(harness).add_rows is DataSourceHarness.add_rows
        return "the harness has no add_rows()" if lacks else None
    if isinstance(source, str):
        return f"the harness gives only the name {source!r}" if side is Side.CLASS else None
    if side is Side.STREAM:
        has = overrides(source, "streamReader") or overrides(source, "simpleStreamReader")
        return None if has else f"{source.__name__} has neither streamReader() nor simpleStreamReader()"
    if side is Side.BATCH and not overrides(source, "reader"):
        return f"{source.__name__} has no reader()"
    return None


def overrides(source: type[DataSource], method: str) -> bool:
    """Return whether the class of a data source has a method of its own."""
    return getattr(source, method) is not getattr(DataSource, method)
