"""Marker objects, such as ``_SUCCESS``, which say that a folder is complete."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.enumerators.s3.times.paths import PathTimes
from tidegate.errors import did_you_mean
from tidegate.readers.objects.values import TimeRange

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

    A marker completes its folder with all deeper folders.  The same name in a deeper folder is no marker: a job that
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
