"""Decides which objects below a prefix are data, by the rules of Spark's file source."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.enumerators.s3.times.origin import FolderMarkers
from tidegate.errors import OptionError
from tidegate.readers.objects.partitions import UNFINISHED_COPY, is_hidden
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.listing import ARCHIVED, Listed

HADOOP_FOLDER = "_$folder$"  # the mark of a folder by Hadoop's old S3 clients
_BRACES = re.compile("{([^{}]*)}")  # without others inside
_SET = re.compile(r"\[(?:[!^].|[^!^])[^]]*]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ListingRules:
    """The rules of a listing.

    prefix: of the keys, ``""`` for a whole bucket; not a folder unless it ends in ``/``.
    path_glob_filter: Hadoop's pattern that the last part of a key must match (Spark: pathGlobFilter), with ``*``,
        ``?``, ``[a-z]``, ``[^a]`` and ``{this,that}``; None: any name.
    recursive: whether all folders are entered (Spark: recursiveFileLookup), or only those named ``column=value`` and
        all below them, which Spark always enters.
    modified_after_ms, modified_before_ms: limits of LastModified, both exclusive.
    markers: objects that are not data, but say that a folder is complete.
    ignore_archived: whether objects of an archived storage class are left out.

    As in Spark, a name hides its object or folder if it begins with ``.``, or ends in ``._COPYING_``.  It also does if
    it begins with ``_`` and has no ``=``.  The folders of the prefix itself may have any name.  Keys that end in
    ``/``, and other keys that only mark a folder, are not data.

    Raises OptionError for an invalid pattern.
    """

    prefix: str = ""
    path_glob_filter: str | None = None
    recursive: bool = True
    modified_after_ms: int | None = None
    modified_before_ms: int | None = None
    markers: FolderMarkers | None = None
    ignore_archived: bool = False

    def __post_init__(self) -> None:
        if self.path_glob_filter is not None:
            _pattern(self.path_glob_filter)

    @property
    def columns_below(self) -> str | None:
        """The prefix below which folders name columns; None: no folder does, as in Spark with recursiveFileLookup."""
        return None if self.recursive else self.prefix

    def finds(self, listed: Listed) -> bool:
        """Return whether discovery wants an object: it is data, or a marker."""
        return self._is_marker(listed.obj) or self.takes(listed)

    def takes(self, listed: Listed) -> bool:
        """Return whether an object is data."""
        return self.objection(listed) is None

    def objection(self, listed: Listed) -> str | None:
        """Return why an object is not data, as a clause after "because"; None: it is data."""
        obj, storage_class = listed
        if self._is_marker(obj):
            return "it is a marker, which says that its folder is complete"
        if self.ignore_archived and storage_class in ARCHIVED:
            return f"it is archived in the storage class {storage_class}, and ignoreArchivedFiles is true"
        return self._objection_to_name(obj) or self._objection_to_time(obj.modified_ms)

    def _is_marker(self, obj: S3Object) -> bool:
        return self.markers is not None and self.markers.are(obj.key)

    def _objection_to_name(self, obj: S3Object) -> str | None:
        *folders, name = self._parts(obj.key)
        if name == "" or (obj.size == 0 and name.endswith(HADOOP_FOLDER)):
            return "it only marks a folder"
        if is_hidden(name):
            return f"the name {name!r} hides it: it begins with '.' or '_', or ends in {UNFINISHED_COPY!r}"
        if (folder := self._closed(folders)) is not None:
            hides = "hides its content" if is_hidden(folder) else "is not entered without recursiveFileLookup"
            return f"its folder {folder!r} {hides}"
        if self.path_glob_filter is not None and _pattern(self.path_glob_filter).fullmatch(name) is None:
            return f"its name does not match pathGlobFilter, {self.path_glob_filter!r}"
        return None

    def _objection_to_time(self, modified_ms: int) -> str | None:
        if self.modified_after_ms is not None and modified_ms <= self.modified_after_ms:
            return "its LastModified is not after modifiedAfter"
        if self.modified_before_ms is not None and modified_ms >= self.modified_before_ms:
            return "its LastModified is not before modifiedBefore"
        return None

    def enters(self, folder: str) -> bool:
        """Return whether there may be data below a folder, which ends in ``/`` and begins with the prefix."""
        *folders, _ = self._parts(folder)
        return self._closed(folders) is None

    def _parts(self, key: str) -> list[str]:
        return key[self.prefix.rfind("/") + 1 :].split("/")

    def _closed(self, folders: Sequence[str]) -> str | None:
        """Return the first of some folders, each in the one before it, that is not entered."""
        is_open = self.recursive
        for folder in folders:
            is_open = is_open or _is_partition(folder)
            if not is_open or is_hidden(folder):
                return folder
        return None


def _is_partition(folder: str) -> bool:
    column, _, value = folder.partition("=")
    return column != "" and value != ""


@functools.cache
def _pattern(glob: str) -> re.Pattern[str]:
    if "\\" in glob:
        raise _malformed(glob, "it has no escapes; write [*] for *")
    return re.compile("|".join(map(fnmatch.translate, _alternatives(glob))))


def _alternatives(glob: str) -> list[str]:
    """Return the patterns without braces, as fnmatch takes them, that a pattern of Hadoop's stands for."""
    braces = _BRACES.search(glob)
    if braces is None:
        if "{" in glob:
            raise _malformed(glob, "a { has no } after it")
        if "[" in _SET.sub("", glob):  # fnmatch would look for that character
            raise _malformed(glob, "a [ has no ] after it")
        return [glob.replace("[^", "[!")]
    before, after = glob[: braces.start()], glob[braces.end() :]
    return [plain for part in braces[1].split(",") for plain in _alternatives(f"{before}{part}{after}")]


def _malformed(glob: str, why: str) -> OptionError:
    return OptionError(f"pathGlobFilter is {glob!r}, which is not a pattern: {why}")
