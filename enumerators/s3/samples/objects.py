"""The objects that columns are inferred from: the first ones in the order of their keys, whenever one looks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from tidegate.enumerators.s3.discovery.listing_rules import ListingRules
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.request import ask_s3
from tidegate.readers.s3.store import s3_object

__all__ = ["Samples", "find_samples"]


class Samples(NamedTuple):
    """What was found.

    objects: that hold bytes.
    folders: that were seen on the way, each of which ends in ``/``.
    left_out: says of the first object, or folder, that was left out on the way, why; None: none was.
    """

    objects: list[S3Object]
    folders: list[str]
    left_out: str | None = None


def find_samples(config: S3ConnectionConfig, bucket: str, rules: ListingRules, most: int) -> Samples:
    """Return the first objects that are data, in the order of the keys; at most ``most``.

    It asks for one page of each folder that it comes to, and for more where a folder holds nothing to take.

    Raises OptionError when there is no such bucket, DeadlineError when the endpoint fails or is silent
    for too long, ConnectorError when it refuses.
    """
    folders: list[str] = []
    judged = _Judged(rules, bucket)

    def walk(prefix: str) -> Iterator[S3Object]:
        request: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix, "Delimiter": "/"}
        while True:
            answer = ask_s3(
                lambda: config.client().list_objects_v2(**request),
                "list",
                f"s3://{bucket}/{prefix}",
                config.patience_s,
            )
            within = [each["Prefix"] for each in answer.get("CommonPrefixes", ()) if judged.enters(each["Prefix"])]
            folders.extend(within)
            entries = {each["Key"]: each for each in answer.get("Contents", ())}
            for name in sorted([*within, *entries]):
                if name not in entries:
                    yield from walk(name)
                    continue
                obj = s3_object(name, entries[name]["Size"], entries[name])
                if obj.size and judged.takes(obj):
                    yield obj
            if not answer.get("IsTruncated"):
                return
            request["ContinuationToken"] = answer["NextContinuationToken"]

    return Samples([*islice(walk(rules.prefix), most)], folders, judged.left_out)


class _Judged:
    """What the rules say, and the first thing that they left out."""

    def __init__(self, rules: ListingRules, bucket: str) -> None:
        self._rules, self._bucket = rules, bucket
        self.left_out: str | None = None

    def takes(self, obj: S3Object) -> bool:
        return self._accepts(obj.key, self._rules.objection(obj))

    def enters(self, folder: str) -> bool:
        within = S3Object(f"{folder}-", 1, "", 0)
        return self._accepts(folder, None if self._rules.enters(folder) else self._rules.objection(within))

    def _accepts(self, key: str, objection: str | None) -> bool:
        if objection is not None and self.left_out is None:
            self.left_out = f"s3://{self._bucket}/{key} is left out, for {objection}"
        return objection is None
