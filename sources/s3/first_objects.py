"""The first objects of a query, by their keys: infers columns from them, and finds the event time there."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as kinds

from tidegate.enumerators.s3.listing_rules import ListingRules
from tidegate.enumerators.s3.times.chunks import ObjectTimes
from tidegate.enumerators.s3.times.paths import PathTimes
from tidegate.errors import ConnectorError, OptionError, did_you_mean
from tidegate.readers.arrow.conform import position_of, spark_schema
from tidegate.readers.event_time.columns import RowTimes
from tidegate.readers.objects.partitions import partition_fields, partition_texts
from tidegate.readers.objects.values import ObjectFormat, S3Object
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.listing import Listed, PageRequest, list_pages

# At a first contact, a wrong address or network is more likely than an endpoint that is down for a while.
FIRST_CONTACT_S = 10.0


class Samples(NamedTuple):
    """The samples of a path.

    folders: the folders on the way; each ends in ``/``.
    left_out: why the first object or folder on the way was left out, or why nothing was found; None: unknown.
    """

    objects: list[S3Object]
    folders: list[str]
    left_out: str | None = None


def find_samples(config: S3ConnectionConfig, bucket: str, rules: ListingRules, most: int) -> Samples:
    """Return the first objects that are data, in the order of the keys; at most ``most``.

    The search lists one page of each folder on the way, and more pages of a folder that has no sample yet.

    Raises OptionError if there is no such bucket, DeadlineError if the endpoint fails or is silent for too long, and
    ConnectorError if it refuses.
    """
    folders: dict[str, None] = {}  # in their order, each once
    judged = _Judged(rules, bucket)
    pages = partial(list_pages, config, seconds=min(config.deadline_s, FIRST_CONTACT_S))

    def walk(prefix: str) -> Iterator[S3Object]:
        for page in pages(PageRequest(bucket, prefix, is_shallow=True)):
            within = {folder for folder in page.folders if folder not in folders and judged.enters(folder)}
            folders.update(dict.fromkeys(sorted(within)))
            entries = {listed.obj.key: listed for listed in page.listed}
            for name in sorted({*within, *entries}):
                if name not in entries:
                    yield from walk(name)
                elif entries[name].obj.size and judged.takes(entries[name]):
                    yield entries[name].obj

    objects = [*islice(walk(rules.prefix), most)]
    left_out, key = judged.left_out, rules.prefix.rstrip("/")
    if not objects and left_out is None and key:
        # The key itself is the first key with this prefix.  A query may list its path without the right to list this.
        with suppress(ConnectorError):
            first = next(pages(PageRequest(bucket, key, most_keys=1))).listed
            if [listed.obj.key for listed in first] == [key]:
                left_out = "the path names an object; give its folder, and its name as pathGlobFilter"
    return Samples(objects, [*folders], left_out)


class _Judged:
    """Applies the rules, and remembers the first key that they left out."""

    def __init__(self, rules: ListingRules, bucket: str) -> None:
        self._rules, self._bucket = rules, bucket
        self.left_out: str | None = None

    def takes(self, listed: Listed) -> bool:
        return self._accepts(listed.obj.key, self._rules.objection(listed))

    def enters(self, folder: str) -> bool:
        within = Listed(S3Object(f"{folder}-", 1, "", 0))
        return self._accepts(folder, None if self._rules.enters(folder) else self._rules.objection(within))

    def _accepts(self, key: str, objection: str | None) -> bool:
        if objection is not None and self.left_out is None:
            self.left_out = f"s3://{self._bucket}/{key} is left out, because {objection}"
        return objection is None


_LOG = logging.getLogger("tidegate.planner")
_PATTERN = frozenset("*?[{")
_MOST_NAMES = 20  # in one sentence


@dataclass(frozen=True, slots=True)
class FirstObjects:
    """Some objects, and the options for looking at them.

    path: the path as the user gave it, for sentences.
    has_to_be_timed: raise an error if no object has an event time.
    """

    samples: Samples
    path: str
    rules: ListingRules
    object_format: ObjectFormat
    times: ObjectTimes
    has_to_be_timed: bool

    def columns(self, *, typed: bool, ignored: tuple[type[Exception], ...]) -> pa.Schema:
        """Return the columns of the data, then those that folders name, which override the former as in Spark.

        typed: infer types for the columns of folders.
        ignored: errors of samples that the query would also skip.

        Raises OptionError without an object, or if no object has the event time.  Raises the errors of
        ``ObjectFormat.infer`` for a sample that cannot be read, and if no sample is left.
        """
        samples, rules = self.samples, self.rules
        if not samples.objects:
            raise OptionError(f"{self._nothing_found()}; give a schema if the first objects come later")
        data = spark_schema(self._inferred(ignored))
        named = [partition_texts(key, rules.columns_below) for key in self._keys]
        of_folders = partition_fields(named, typed=typed)
        replaced = {position_of(field.name, data.names): field for field in of_folders}
        new = [field for field in of_folders if position_of(field.name, data.names) is None]
        columns = spark_schema(pa.schema([*(replaced.get(index, field) for index, field in enumerate(data)), *new]))
        self._check_event_time(columns)
        return columns

    def _nothing_found(self) -> str:
        """Return a sentence which says that the path has no object with bytes, and why that may be."""
        patterns = _PATTERN.intersection(self.path)
        hint = "; a path takes no pattern: give the folder, and the pattern of names as pathGlobFilter"
        left_out = "" if self.samples.left_out is None else f": {self.samples.left_out}"
        return f"there is no object with bytes under {self.path}{left_out}{hint if patterns else ''}"

    def _inferred(self, ignored: tuple[type[Exception], ...]) -> pa.Schema:
        try:
            return self.object_format.infer(self.samples.objects)
        except ignored:
            usable = [sample for sample in self.samples.objects if self._is_usable(sample, ignored)]
            if not usable:
                raise
        return self.object_format.infer(usable)

    def _is_usable(self, sample: S3Object, ignored: tuple[type[Exception], ...]) -> bool:
        try:
            self.object_format.infer([sample])
        except ignored as error:
            _LOG.warning("a sample is left out of the inferred columns: %s", error)
            return False
        return True

    @property
    def _keys(self) -> list[str]:
        return [*self.samples.folders, *(obj.key for obj in self.samples.objects)]

    def _check_event_time(self, columns: pa.Schema) -> None:
        """Raise OptionError if neither the columns nor the keys have the event time."""
        if not self.has_to_be_timed:
            return
        times, partition, origin = self.times.by_column, self.times.by_partition, self.times.origin
        is_in_folders = partition is not None and any(map(partition.names, self._keys))
        if times is not None and not is_in_folders and times.column_of(columns) is None:
            raise _without_column(times, columns)
        objects = self.samples.objects
        if isinstance(origin, PathTimes) and all(origin.range_of(sample.key) is None for sample in objects):
            raise OptionError(
                f"eventTime is 'path:{origin.template}', but none of the first {len(objects)} objects names such a "
                f"time, such as {objects[0].key!r}"
            )


def _without_column(times: RowTimes, columns: pa.Schema) -> OptionError:
    names = list(_dotted(columns))
    return OptionError(
        f"eventTime is 'column:{times.column}', but there is no column {times.column!r} among {_listed(names)}"
        f"{did_you_mean(times.column, names)}"
    )


def _dotted(fields: Iterable[pa.Field], before: str = "") -> Iterable[str]:
    """Yield the names of columns and of their fields, as eventTime takes them."""
    for field in fields:
        yield f"{before}{field.name}"
        if kinds.is_struct(field.type):
            yield from _dotted(field.type, f"{before}{field.name}.")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(map(repr, names[:_MOST_NAMES])) + more
