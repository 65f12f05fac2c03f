"""The objects that a person names by a key or a glob, as they are in the bucket now."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass

from tidegate.errors import OptionError
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.address import s3_address
from tidegate.readers.s3.request import ask_s3
from tidegate.readers.s3.store import s3_object
from tidegate.sources.s3.source import S3Source

__all__ = ["Wanted", "listed"]

_SPECIAL = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A key, or a glob of keys with ``*`` (also for ``/``), ``?`` and ``[a-z]``, perhaps as ``s3://bucket/key``."""

    text: str

    @property
    def pattern(self) -> str:
        """Without the bucket."""
        # Unlike the key of an address, that of an object may begin with a slash.
        return self.text if s3_address(self.text) is None else self.text.partition("://")[2].partition("/")[2]

    @property
    def prefix(self) -> str:
        """What all the keys begin with."""
        special = _SPECIAL.search(self.pattern)
        return self.pattern if special is None else self.pattern[: special.start()]

    @property
    def is_glob(self) -> bool:
        """Whether it may name several objects."""
        return self.prefix != self.pattern

    def has(self, key: str) -> bool:
        """Tell whether a key is meant."""
        return key == self.pattern or (self.is_glob and fnmatch.fnmatchcase(key, self.pattern))


def listed(source: S3Source, wanted: Wanted) -> list[S3Object]:
    """Return the objects of the source's bucket that are meant, whether they are data or not, in the order of keys.

    Raises OptionError when another bucket is named; what the listing raises.
    """
    if "://" in wanted.text and not wanted.text.partition("://")[2].startswith(f"{source.bucket}/"):
        raise OptionError(f"{wanted.text!r} is not in the bucket {source.bucket!r}, of the path {source.path}")
    client = source.connection.client()
    request = {"Bucket": source.bucket, "Prefix": wanted.prefix}
    found = []
    while True:
        target = f"s3://{source.bucket}/{wanted.prefix}"
        answer = ask_s3(lambda: client.list_objects_v2(**request), "list", target, source.connection.patience_s)
        found += [s3_object(e["Key"], e["Size"], e) for e in answer.get("Contents", ()) if wanted.has(e["Key"])]
        # The key itself is the first of those that begin with it.
        if not answer.get("IsTruncated") or not wanted.is_glob:
            return found
        request["ContinuationToken"] = answer["NextContinuationToken"]
