"""Lists the objects below a prefix of a bucket, several folders at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tidegate.enumerators.s3.listing_rules import ListingRules
from tidegate.errors import ConnectorError, TransientError
from tidegate.readers.objects.values import S3Object
from tidegate.readers.retry import Deadline
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.errors import s3_error
from tidegate.readers.s3.store import s3_object

__all__ = ["ObjectListing"]

MOST_THREADS = 8  # parsing the answers keeps one core busy long before more threads would help
MOST_PAGES = 2 * MOST_THREADS  # pages that wait to be taken
FEW_FOLDERS = MOST_THREADS  # fewer folders cannot keep all threads busy: their subfolders are also listed
MANY_FOLDERS = 256  # more folders on one level are listed in stretches, not by a request for each
MOST_STRETCHES = 4 * MOST_THREADS
KEYS_PER_PAGE = 1_000  # S3's limit
DEEPEST_LEVEL = 4


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Keys that one thread lists, in order.

    prefix: of the keys.
    level: the level of the folder, from 0, to list only the objects and folders directly in it; None: list everything
        below it.
    folders: the first and the last of the wanted folders in ``prefix``, without the objects directly in it; None: all.
    """

    prefix: str
    level: int | None
    folders: tuple[str, str] | None = None


class ObjectListing:
    """Lists the data objects below a prefix.  Opens nothing before ``pages`` is called.

    It finds folders first, level by level until there are enough, and then lists these in parallel.
    """

    def __init__(self, config: S3ConnectionConfig, bucket: str, rules: ListingRules) -> None:
        self._config = config
        self._bucket = bucket
        self._rules = rules

    def pages(self) -> Generator[list[S3Object], None, None]:
        """Yield all objects, each once, up to 1,000 at a time; in the order of the keys in one folder only.

        An object that comes or goes meanwhile may be listed or not.  At most 16 pages wait to be taken.  A failed
        request is repeated until ``deadline_s``.  The iterator's threads end with it; it waits for requests that are
        under way.

        Raises OptionError if there is no such bucket, DeadlineError if the endpoint fails or is silent for too long,
        ConnectorError if it refuses.
        """
        listing = _Listing(self._config, self._bucket, self._rules)
        try:
            yield from listing
        finally:
            listing.close()


class _Listing:
    """A running listing: threads take stretches and put pages."""

    def __init__(self, config: S3ConnectionConfig, bucket: str, rules: ListingRules) -> None:
        self._config, self._bucket, self._rules = config, bucket, rules
        self._changed = threading.Condition()
        self._stretches: deque[_Stretch] = deque()
        self._pages: deque[list[S3Object]] = deque()
        self._busy = 0
        self._problem: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[list[S3Object]]:
        self._add([_Stretch(self._rules.prefix, 0)])
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pages or self._problem or not (self._busy or self._stretches))
                if self._problem is not None:
                    raise self._problem
                if not self._pages:
                    return
                page = self._pages.popleft()
                self._changed.notify_all()
            yield page

    def close(self) -> None:
        """End the threads."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _add(self, stretches: Iterable[_Stretch]) -> None:
        with self._changed:
            self._stretches.extend(stretches)
            while len(self._threads) < min(MOST_THREADS, self._busy + len(self._stretches)):
                # The threads are daemons, so that an unclosed listing does not keep the process from ending.
                thread = threading.Thread(target=self._work, name="tidegate-listing", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify_all()

    def _work(self) -> None:
        try:
            while (stretch := self._take()) is not None:
                for page in self._list(stretch):
                    self._hand_over(page)
                    if self._closed.is_set():
                        return
                with self._changed:
                    self._busy -= 1
                    self._changed.notify_all()
        except BaseException as problem:  # noqa: BLE001 - whoever takes the pages raises it
            with self._changed:
                self._problem = self._problem or problem
                self._changed.notify_all()

    def _take(self) -> _Stretch | None:
        """Return the next stretch; None: there are no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed.is_set() or self._stretches or not self._busy)
            if self._closed.is_set() or not self._stretches:
                return None
            self._busy += 1
            return self._stretches.popleft()

    def _hand_over(self, page: list[S3Object]) -> None:
        if page:
            with self._changed:
                self._changed.wait_for(lambda: self._closed.is_set() or len(self._pages) < MOST_PAGES)
                self._pages.append(page)
                self._changed.notify_all()

    def _list(self, stretch: _Stretch) -> Iterator[list[S3Object]]:
        request: dict[str, Any] = {"Bucket": self._bucket, "Prefix": stretch.prefix, "MaxKeys": KEYS_PER_PAGE}
        if stretch.folders is not None:
            request["StartAfter"] = stretch.folders[0]
        if stretch.level is not None:
            request["Delimiter"] = "/"
        folders: list[str] = []
        for answer in self._answers(request):
            objects = [s3_object(entry["Key"], entry["Size"], entry) for entry in answer.get("Contents", ())]
            folders += [entry["Prefix"] for entry in answer.get("CommonPrefixes", ())]
            yield [obj for obj in objects if self._is_in(stretch, obj.key) and self._rules.finds(obj)]
            if stretch.folders is not None and objects and _folder(stretch, objects[-1].key) > stretch.folders[1]:
                break
        if stretch.level is not None:
            self._add(_stretches_of(stretch, list(filter(self._rules.enters, folders))))

    def _answers(self, request: dict[str, Any]) -> Iterator[Any]:
        """Yield the pages of a listing as boto3 returns them."""
        while True:
            answer = self._ask(request)
            yield answer
            if not answer.get("IsTruncated"):
                return
            if not answer.get("NextContinuationToken"):
                raise ConnectorError(f"the endpoint cut the listing of {self._address} and gave no token to continue")
            request = {**request, "ContinuationToken": answer["NextContinuationToken"]}

    def _ask(self, request: dict[str, Any]) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        deadline = Deadline(f"list {self._address}", self._config.patience_s, sleep=self._rest)
        while True:
            try:
                return self._config.client().list_objects_v2(**request)
            except (BotoCoreError, ClientError, OSError) as problem:
                error = s3_error(problem, "list", self._address)
                if not isinstance(error, TransientError) or self._closed.is_set():
                    raise error from problem
            deadline.pause(error)

    def _rest(self, seconds: float) -> None:
        self._closed.wait(seconds)

    @property
    def _address(self) -> str:
        return f"s3://{self._bucket}/{self._rules.prefix}"

    def _is_in(self, stretch: _Stretch, key: str) -> bool:
        first, last = stretch.folders or ("", "")
        return stretch.folders is None or (first <= _folder(stretch, key) <= last and "/" in key[len(stretch.prefix) :])


def _stretches_of(parent: _Stretch, folders: list[str]) -> list[_Stretch]:
    """Return the stretches of the folders that were found in one folder."""
    if len(folders) > MANY_FOLDERS:
        length = -(-len(folders) // MOST_STRETCHES)
        parts = [folders[at : at + length] for at in range(0, len(folders), length)]
        return [_Stretch(parent.prefix, None, (part[0], part[-1])) for part in parts]
    level = (parent.level or 0) + 1
    is_leaf = len(folders) >= FEW_FOLDERS or level >= DEEPEST_LEVEL
    return [_Stretch(folder, None if is_leaf else level) for folder in folders]


def _folder(stretch: _Stretch, key: str) -> str:
    """Return the folder of a key in the prefix of a stretch, or the key if it is in none."""
    end = key.find("/", len(stretch.prefix))
    return key[: end + 1] if end >= 0 else key
