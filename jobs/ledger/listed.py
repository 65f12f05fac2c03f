"""Lists the objects that a key or a glob names, as they are in the bucket now."""

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

_SPECIAL = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A key, or a glob of keys with ``*`` (also for ``/``), ``?`` and ``[a-z]``, perhaps as ``s3://bucket/key``."""

    text: str

    @property
    def pattern(self) -> str:
        """The key or glob without the bucket."""
        # An object's key may begin with a slash; the key of an address may not.
        return self.text if s3_address(self.text) is None else self.text.partition("://")[2].partition("/")[2]

    @property
    def prefix(self) -> str:
        """The prefix of all the keys."""
        special = _SPECIAL.search(self.pattern)
        return self.pattern if special is None else self.pattern[: special.start()]

    @property
    def is_glob(self) -> bool:
        """Whether several objects may match."""
        return self.prefix != self.pattern

    def has(self, key: str) -> bool:
        """Return whether a key matches."""
        return key == self.pattern or (self.is_glob and fnmatch.fnmatchcase(key, self.pattern))


def listed(source: S3Source, wanted: Wanted) -> list[S3Object]:
    """Return the wanted objects of the source's bucket, data or not, in the order of keys.

    Raises OptionError if another bucket is named, and the errors of the listing.
    """
    if "://" in wanted.text and not wanted.text.partition("://")[2].startswith(f"{source.bucket}/"):
        raise OptionError(f"{wanted.text!r} is not in the bucket {source.bucket!r}, of the path {source.path}")
    client = source.connection.client()
    request = {"Bucket": source.bucket, "Prefix": wanted.prefix}
    objects = []
    while True:
        target = f"s3://{source.bucket}/{wanted.prefix}"
        answer = ask_s3(lambda: client.list_objects_v2(**request), "list", target, source.connection.deadline_s)
        objects += [s3_object(e["Key"], e["Size"], e) for e in answer.get("Contents", ()) if wanted.has(e["Key"])]
        # The key itself is the first key with this prefix.
        if not answer.get("IsTruncated") or not wanted.is_glob:
            return objects
        request["ContinuationToken"] = answer["NextContinuationToken"]
