"""Lists the objects below a prefix of a bucket, several folders at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from typing import Any

from tidegate.enumerators.daemon_threads import DaemonThreads
from tidegate.enumerators.s3.listing_rules import ListingRules
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.listing import next_token
from tidegate.readers.s3.request import ask_s3
from tidegate.readers.s3.store import s3_object

MOST_THREADS = 8  # parsing the answers keeps one core busy long before more threads would help
MOST_PAGES = 2 * MOST_THREADS  # pages that are requested, or wait to be taken
FEW_FOLDERS = MOST_THREADS  # fewer folders cannot keep all threads busy: their subfolders are also listed
MANY_FOLDERS = 256  # more folders on one level are listed in stretches, not by a request for each
MOST_STRETCHES = 4 * MOST_THREADS
KEYS_PER_PAGE = 1_000  # S3's limit
DEEPEST_LEVEL = 4


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Keys that are listed in order, from one page to the next.

    level: the level of the folder, from 0, to list only the objects and folders directly in it; None: list everything
        below it.
    first, last: the first and the last of the wanted folders in ``prefix``, without the objects directly in it.  Both
        empty: all.
    token: continues after the last page.
    folders: those that the pages so far have found.
    """

    prefix: str
    level: int | None
    first: str = ""
    last: str = ""
    token: str | None = None
    folders: tuple[str, ...] = ()

    def holds(self, key: str) -> bool:
        if not self.last:
            return True
        return self.first <= self.folder(key) <= self.last and "/" in key[len(self.prefix) :]

    def folder(self, key: str) -> str:
        """Return the folder of a key in the prefix, or the key if it is in none."""
        end = key.find("/", len(self.prefix))
        return key[: end + 1] if end >= 0 else key


class ObjectListing:
    """Lists the data objects below a prefix.  Opens nothing before ``pages`` is called.

    It finds folders first, level by level until there are enough, and then lists these in parallel.
    """

    def __init__(self, config: S3ConnectionConfig, bucket: str, rules: ListingRules) -> None:
        self._config, self._bucket, self._rules = config, bucket, rules
        self._address = f"s3://{bucket}/{rules.prefix}"

    def pages(self) -> Generator[list[S3Object], None, None]:
        """Yield all objects, each once, up to 1,000 at a time; in the order of the keys in one folder only.

        An object that comes or goes meanwhile may be listed or not.  At most 16 pages wait to be taken.  A failed
        request is repeated until ``deadline_s``.  The iterator's threads end with it; it waits for requests that are
        under way.

        Raises OptionError if there is no such bucket, DeadlineError if the endpoint fails or is silent for too long,
        ConnectorError if it refuses.
        """
        stopped = threading.Event()
        waiting = deque([_Stretch(self._rules.prefix, 0)])
        asked: dict[Future[Any], _Stretch] = {}
        taken: list[list[S3Object]] = []
        threads = DaemonThreads(MOST_THREADS, "tidegate-listing")
        try:
            while waiting or asked or taken:
                while waiting and len(asked) < MOST_PAGES:
                    stretch = waiting.popleft()
                    asked[threads.submit(self._ask, stretch, stopped)] = stretch
                yield from taken  # while the next ones are requested
                taken = []
                for answered in wait(asked, return_when=FIRST_COMPLETED).done:
                    stretch, answer = asked.pop(answered), answered.result()
                    objects = [s3_object(entry["Key"], entry["Size"], entry) for entry in answer.get("Contents", ())]
                    waiting.extendleft(self._next(stretch, answer, objects))
                    if page := [obj for obj in objects if stretch.holds(obj.key) and self._rules.finds(obj)]:
                        taken.append(page)
        finally:
            stopped.set()
            threads.shutdown(cancel_futures=True)

    def _ask(self, stretch: _Stretch, stopped: threading.Event) -> Any:
        request: dict[str, Any] = {"Bucket": self._bucket, "Prefix": stretch.prefix, "MaxKeys": KEYS_PER_PAGE}
        if stretch.first:
            request["StartAfter"] = stretch.first
        if stretch.level is not None:
            request["Delimiter"] = "/"
        if stretch.token is not None:
            request["ContinuationToken"] = stretch.token
        return ask_s3(
            lambda: self._config.client().list_objects_v2(**request),
            "list",
            self._address,
            self._config.deadline_s,
            stopped,
        )

    def _next(self, stretch: _Stretch, answer: Any, objects: Sequence[S3Object]) -> list[_Stretch]:
        """Return what to list after a page: the rest of its stretch, or the folders in it."""
        found = (*stretch.folders, *(entry["Prefix"] for entry in answer.get("CommonPrefixes", ())))
        if stretch.last and objects and stretch.folder(objects[-1].key) > stretch.last:
            return []
        if (token := next_token(answer, self._address)) is not None:
            return [replace(stretch, token=token, folders=found)]
        if stretch.level is None:
            return []
        return _stretches_of(stretch.prefix, stretch.level + 1, list(filter(self._rules.enters, found)))


def _stretches_of(prefix: str, level: int, folders: Sequence[str]) -> list[_Stretch]:
    """Return the stretches of the folders that were found in one folder."""
    if len(folders) > MANY_FOLDERS:
        length = -(-len(folders) // MOST_STRETCHES)
        parts = [folders[at : at + length] for at in range(0, len(folders), length)]
        return [_Stretch(prefix, None, part[0], part[-1]) for part in parts]
    is_leaf = len(folders) >= FEW_FOLDERS or level >= DEEPEST_LEVEL
    return [_Stretch(folder, None if is_leaf else level) for folder in folders]
