"""The origin of the event times of objects: LastModified, a column, the folder that names the column, or the key.

Marker objects, such as ``_SUCCESS``, say that a folder is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from tidegate.enumerators.s3.times.paths import PathTimes
from tidegate.errors import did_you_mean
from tidegate.readers.event_time.columns import TimeColumn, check_time_type
from tidegate.readers.objects.partitions import partition_scalar, partition_texts
from tidegate.readers.objects.values import TimeRange

_LAST_MODIFIED = "lastModified"


@dataclass(frozen=True, slots=True)
class LastModifiedTimes:
    """All rows of an object have the time when it was modified."""


LAST_MODIFIED = LastModifiedTimes()


@dataclass(frozen=True, slots=True)
class ColumnTimes:
    """Each row has the time in a column, or at the dotted path of a nested one."""

    name: str


@dataclass(frozen=True, slots=True)
class PartitionTimes:
    """Takes the event time of all rows of an object from the folder that names the event-time column.

    prefix: below this prefix, folders name columns.
    """

    column: TimeColumn
    prefix: str | None

    def names(self, key: str) -> bool:
        """Return whether a folder of a key names the column; the folder then overrides the data."""
        return self._name(key) is not None

    def range_of(self, key: str) -> TimeRange | None:
        """Return the time that a key names.

        Raises CorruptDataError if the value is not of the column's type, OptionError if the type holds no times.
        """
        name = self._name(key)
        if name is None:
            return None
        names, kind = ".".join(self.column.names), self.column.type
        check_time_type(names, kind, self.column.unit)
        value = partition_scalar(partition_texts(key, self.prefix)[name], self.column.field, f"the object {key!r}")
        time_ms = self.column.times(pa.repeat(value, 1))[0].as_py() if value.is_valid else None
        return None if time_ms is None else TimeRange(time_ms, time_ms)

    def _name(self, key: str) -> str | None:
        """Return the column's name as the key spells it."""
        column = self.column.field.name.lower()
        return next((name for name in partition_texts(key, self.prefix) if name.lower() == column), None)


Origin: TypeAlias = LastModifiedTimes | ColumnTimes | PathTimes


def parse_origin(text: str) -> Origin:
    """Return the origin of a text ``lastModified``, ``column:NAME`` or ``path:TEMPLATE``.

    Raises ValueError, one sentence, for anything else, and for a template that PathTimes does not take.
    """
    kind, colon, place = text.partition(":")
    if text == _LAST_MODIFIED:
        return LAST_MODIFIED
    if kind == "column" and place:
        return ColumnTimes(place)
    if kind == "path" and colon:
        return PathTimes(place)
    nearest = "" if kind == "column" else did_you_mean(kind, [_LAST_MODIFIED, "column:", "path:"])
    raise ValueError(f"expected lastModified, column:NAME or path:TEMPLATE{nearest}")


_KIND = "marker"


class MarkedFolder(NamedTuple):
    """A folder that has a marker of its own.

    root: the part of its key before the time, such as ``orders/region=eu/``.
    period: the period of event time in the folder, both ends inclusive.
    """

    root: str
    period: TimeRange


@dataclass(frozen=True, slots=True)
class FolderMarkers:
    """Names the markers of folders, and the period of event time that a folder holds, in UTC.

    template: folders with a time as PathTimes takes it, and after the last ``/`` the name of their marker, such as
        ``dt={yyyy-MM-dd}/hour={HH}/_SUCCESS``.

    A marker completes its folder with all deeper folders.  The same name in a deeper folder does not count: a job that
    completes an hour does not complete the day.

    Raises ValueError, one sentence, for a template without a folder that names a time, or without a name.
    """

    template: str
    _name: str = field(init=False, repr=False, compare=False)
    _folders: PathTimes = field(init=False, repr=False, compare=False)
    _markers: PathTimes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        folders, slash, name = self.template.rpartition("/")
        if not slash or not name or "{" in name or "}" in name:
            raise ValueError(
                f"the template {self.template!r} has no folder with a time and a marker's name after it; expected one "
                "such as dt={yyyy-MM-dd}/hour={HH}/_SUCCESS"
            )
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_folders", PathTimes(f"{folders}/"))
        object.__setattr__(self, "_markers", PathTimes(self.template))

    def are(self, key: str) -> bool:
        """Return whether a key is the key of a marker."""
        if not key.endswith(f"/{self._name}"):
            return False
        folder, marker = self._folders.place_of(key), self._markers.place_of(key)
        return folder is not None and folder == marker

    def folder_of(self, key: str) -> MarkedFolder | None:
        """Return the folder of a key; None: the key names no folder with a time."""
        place = self._folders.place_of(key)
        return None if place is None else MarkedFolder(key[: place[0]], place[1])


def parse_markers(text: str) -> FolderMarkers:
    """Return the markers of a text ``marker:TEMPLATE``.

    Raises ValueError, one sentence, for anything else, and for a template that FolderMarkers does not take.
    """
    kind, colon, template = text.partition(":")
    if kind != _KIND or not colon:
        raise ValueError(f"expected marker:TEMPLATE{did_you_mean(kind, [f'{_KIND}:'])}")
    return FolderMarkers(template)
