"""Lists the objects below a prefix of a bucket, several folders at a time.

Endpoints differ in the order of keys, so no listing begins or ends at a key: what is listed at the same time has
prefixes of which none begins with another.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from itertools import groupby

from tidegate.enumerators.daemon_threads import DaemonThreads
from tidegate.enumerators.s3.listing_rules import ListingRules
from tidegate.errors import ConnectorError, DeadlineError
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.config import S3ConnectionConfig
from tidegate.readers.s3.listing import Page, PageRequest, list_pages

MOST_THREADS = 8  # parsing the answers keeps one core busy long before more threads would help
MOST_PAGES = 2 * MOST_THREADS  # pages that are requested, or wait to be taken
FEW_FOLDERS = MOST_THREADS  # fewer folders cannot keep all threads busy: their subfolders are also listed
MANY_FOLDERS = 256  # more folders on one level share requests
MOST_GROUPS = 4 * MOST_THREADS
KEYS_PER_PAGE = 1_000  # S3's limit
DEEPEST_LEVEL = 4


@dataclass(slots=True)
class _Part:
    """Objects that are listed one page after the other.

    folders: the folders of ``within`` whose objects are wanted, if the prefix is only what they begin with.  Objects
        directly in ``within`` are listed elsewhere.
    level: the level of the folder, from 0, to list only the objects and folders directly in it; None: list everything
        below the prefix.
    pages: those that come; None: not begun.
    found: the folders that the pages so far have named.
    """

    prefix: str
    level: int | None
    within: str = ""
    folders: Sequence[str] = ()
    pages: Iterator[Page] | None = None
    found: list[str] = field(default_factory=list)

    def holds(self, key: str) -> bool:
        return not self.folders or "/" in key[len(self.within) :]


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
        waiting = deque([_Part(self._rules.prefix, 0)])
        asked: dict[Future[Page | None], _Part] = {}
        taken: list[list[S3Object]] = []
        threads = DaemonThreads(MOST_THREADS, "tidegate-listing")
        try:
            while waiting or asked or taken:
                while waiting and len(asked) < MOST_PAGES:
                    part = waiting.popleft()
                    asked[threads.submit(self._ask, part, stopped)] = part
                yield from taken  # while the next ones are requested
                taken = []
                for answered in wait(asked, return_when=FIRST_COMPLETED).done:
                    part, page = asked.pop(answered), answered.result()
                    waiting.extendleft(self._next(part, page))
                    listed = () if page is None else page.listed
                    if some := [one.obj for one in listed if part.holds(one.obj.key) and self._rules.finds(one)]:
                        taken.append(some)
        finally:
            stopped.set()
            threads.shutdown(cancel_futures=True)

    def _ask(self, part: _Part, stopped: threading.Event) -> Page | None:
        """Return the next page of a part; None: the endpoint takes no prefix that ends within a name."""
        if part.pages is not None:
            return next(part.pages)
        request = PageRequest(self._bucket, part.prefix, part.level is not None, most_keys=KEYS_PER_PAGE)
        part.pages = list_pages(self._config, request, target=self._address, stopped=stopped)
        try:
            return next(part.pages)
        except DeadlineError:
            raise
        except ConnectorError:
            if not part.folders or stopped.is_set():
                raise
            return None

    def _next(self, part: _Part, page: Page | None) -> list[_Part]:
        """Return what to list after a page: the rest of its part, or the folders in it."""
        if page is None:
            return [_Part(folder, None) for folder in part.folders]
        part.found += page.folders
        if page.token is not None:
            return [part]
        if part.level is None:
            return []
        # Some endpoints name a folder on two pages.
        folders = sorted(filter(self._rules.enters, {*part.found}))
        return _parts_of(part.prefix, part.level + 1, folders)


def _parts_of(within: str, level: int, folders: Sequence[str]) -> list[_Part]:
    """Return the parts of the folders that were found in one folder; in the order of their keys."""
    if len(folders) > MANY_FOLDERS:
        return [*_groups_of(within, folders, -(-len(folders) // MOST_GROUPS))]
    is_leaf = len(folders) >= FEW_FOLDERS or level >= DEEPEST_LEVEL
    return [_Part(folder, None if is_leaf else level) for folder in folders]


def _groups_of(within: str, folders: Sequence[str], most: int) -> Iterator[_Part]:
    """Yield parts of folders with common prefixes, each of at most so many folders."""
    if len(folders) == 1:
        yield _Part(folders[0], None)
        return
    first, last = folders[0], folders[-1]  # they are in order, so these two differ first
    prefix = first[: next(at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)]
    if len(folders) <= most and prefix != within:
        yield _Part(prefix, None, within, folders)
        return
    for _, group in groupby(folders, key=lambda folder: folder[len(prefix)]):
        yield from _groups_of(within, [*group], most)
