"""Finds the objects from which columns are inferred: the first ones in the order of their keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import NamedTuple

from tidegate.enumerators.s3.listing_rules import ListingRules
from tidegate.errors import ConnectorError
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.listing import Listed, PageRequest, list_pages

# At a first contact, a wrong address or network is more likely than an endpoint that is down for a while.
FIRST_CONTACT_S = 10.0


class Samples(NamedTuple):
    """The samples of a path.

    folders: the folders on the way; each ends in ``/``.
    left_out: why the first object or folder on the way was left out, or why there is none; None: nothing explains it.
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
