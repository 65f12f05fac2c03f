"""The first objects of a query: infers columns from them, and checks options against them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.enumerators.s3.listing_rules import ListingRules
from tidegate.enumerators.s3.samples.check import (
    check_columns,
    check_path_times,
    check_time_column,
    columns_of_each,
    lacking,
    nothing_found,
)
from tidegate.enumerators.s3.samples.columns import infer_columns, with_partition_columns
from tidegate.enumerators.s3.samples.objects import Samples
from tidegate.enumerators.s3.times.paths import PathTimes
from tidegate.errors import OptionError
from tidegate.readers.formats.factory import ColumnsBy
from tidegate.readers.objects.partitions import partition_fields, partition_texts
from tidegate.readers.objects.values import ObjectFormat
from tidegate.sources.s3.event_times import S3EventTimes

__all__ = ["FirstObjects"]

_LOG = logging.getLogger("tidegate.planner")


@dataclass(frozen=True, slots=True)
class FirstObjects:
    """Some objects, and the options for looking at them.

    path: the path as the user gave it, for sentences.
    rules: the rules by which the samples were found.
    object_format: the format without given columns.
    columns_by: how the format finds columns.
    has_to_be_timed: raise an error if no object has an event time.
    """

    samples: Samples
    path: str
    rules: ListingRules
    object_format: ObjectFormat
    columns_by: ColumnsBy
    times: S3EventTimes
    has_to_be_timed: bool

    def columns(self, *, typed: bool, ignore_missing: bool, ignore_corrupt: bool) -> pa.Schema:
        """Return the columns of the objects and of their folders; see infer_columns.

        typed: infer types for the columns of folders.

        Raises OptionError if there is no object, or if no object has the event time.
        """
        samples, rules = self.samples, self.rules
        if not samples.objects:
            raise OptionError(f"{nothing_found(self.path, samples)}; give a schema if the first objects come later")
        data = infer_columns(
            self.object_format, samples.objects, ignore_missing=ignore_missing, ignore_corrupt=ignore_corrupt
        )
        # With recursiveFileLookup, Spark infers no columns from folders either.
        named = [] if rules.recursive else [partition_texts(key, rules.prefix) for key in self._keys]
        columns = with_partition_columns(data, partition_fields(named, typed=typed))
        self._check_event_time([columns])
        return columns

    def check(self, given: pa.Schema, added: Sequence[str]) -> None:
        """Compare given columns with the objects; warn of columns that no object has.

        added: the columns that options add; objects need not have them.

        Raises OptionError if no object has the event time.
        """
        if not self.samples.objects:
            _LOG.warning("%s", nothing_found(self.path, self.samples))
            return
        schemas: list[pa.Schema] = []
        if self.columns_by == "position":
            schemas = [given]
        elif self.columns_by == "name" and not self.times.wanted.is_bounded:
            # With a range of times, RowTimes.check has already checked the column.
            wanted = self._names_of_data(given, added)
            schemas = columns_of_each(
                self.object_format,
                self.samples.objects,
                lambda schema: not lacking(wanted, schema) and self._has_time(schema),
            )
            check_columns(wanted, schemas, self.path)
        self._check_event_time(schemas)

    @property
    def _keys(self) -> list[str]:
        return [*self.samples.folders, *(obj.key for obj in self.samples.objects)]

    def _names_of_data(self, given: pa.Schema, added: Sequence[str]) -> list[str]:
        """Return the columns that objects should have: those that neither options nor folders add."""
        others = {name.lower() for key in self._keys for name in partition_texts(key, self.rules.prefix)}
        others.update(map(str.lower, added))
        return [name for name in given.names if name.lower() not in others]

    def _has_time(self, schemas: Sequence[pa.Schema]) -> bool:
        times = self.times.by_column
        return times is None or any(times.column_of(schema) is not None for schema in schemas)

    def _check_event_time(self, schemas: Sequence[pa.Schema]) -> None:
        """Raise OptionError if none of the schemas of the objects has an event time."""
        if not self.has_to_be_timed:
            return
        times, partition = self.times.by_column, self.times.by_partition
        if times is not None and not (partition is not None and any(map(partition.names, self._keys))):
            check_time_column(times, schemas)
        if isinstance(self.times.origin, PathTimes):
            check_path_times(self.times.origin, self.samples.objects)
