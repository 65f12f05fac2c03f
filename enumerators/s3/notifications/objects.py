"""Discovers new objects by S3's notifications in a queue: a round takes all messages that wait when it begins."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator
from concurrent.futures import CancelledError
from itertools import islice

from tidegate.enumerators.daemon_threads import DaemonThreads
from tidegate.enumerators.s3.listing_rules import ListingRules
from tidegate.enumerators.s3.notifications.queue import (
    HIDDEN_S,
    LONGEST_HIDDEN_S,
    HeldMessages,
    Message,
    NotificationQueue,
    QueueState,
    created_objects,
)
from tidegate.errors import counted
from tidegate.readers.objects.values import S3Object
from tidegate.readers.s3.listing import Listed
from tidegate.readers.s3.store import ObjectStore

_LOG = logging.getLogger("tidegate.planner")
_MOST_HELD = 100_000  # SQS gives no more while 120,000 are hidden, also malformed ones
_RECEIVING = 8
_ASKING = 16
_PAGE = 256


class ObjectNotifications:
    """Discovers objects by notifications, and holds the messages that must not be deleted yet; one for each run.

    store: the bucket.  It is asked for each named object, which may have been deleted or overwritten since.
    rules: the rules for the objects, as for a listing of the bucket.
    backfill_ms: the time between full listings, which find what no message named (Auto Loader: backfillInterval); None:
        there is the first one, and one in a run that begins when the queue may have lost messages.
    listed_ms: an attribute: when the last listing of all objects began, in ms since the epoch; None: the next round
        lists all.  A run continues from the value in the stored snapshot, if that is of the same queue.
    queue: an attribute: the identity of the queue.
    held: an attribute: the messages; its ``end_round`` is called after each round that ended well.

    Each round calls ``begin_round``, ``pages`` and ``end_round``, in this order.  A round that fails does not end, and
    the objects that it saw do not count.

    A malformed message is left to the queue's redrive policy.  It is not deleted, and comes again less and less
    often, so it does not delay other messages.  It counts when it comes for the first time.
    """

    def __init__(
        self, queue: NotificationQueue, store: ObjectStore, rules: ListingRules, backfill_ms: int | None
    ) -> None:
        self._queue, self._store, self._rules, self._backfill_ms = queue, store, rules, backfill_ms
        self.listed_ms: int | None = None
        self.queue = queue.identity
        self._lists = False
        self.held = HeldMessages(queue)
        self._state: QueueState | None = None
        self._stopped = threading.Event()
        self._malformed: set[str] = set()
        self._left: dict[str, str] = {}  # the ids of those that this round received first, and why

    def begin_round(self, now_ms: int, newest_ms: int | None) -> bool:
        """Begin a round, and return whether it is also time to list all objects.

        newest_ms: when the newest object that is known was written; None: none is.
        """
        if self.listed_ms is None:
            self._lists = True
        else:
            # If the clock was ahead then, it does not show when the next one is due.
            age_ms = now_ms - self.listed_ms
            self._lists = self._backfill_ms is not None and not 0 <= age_ms < self._backfill_ms
            if self._state is None:  # messages of objects that came since the run before may be gone by now
                known_ms = max(self.listed_ms, newest_ms or 0)
                self._lists |= now_ms - known_ms >= self._queue.state().retention_ms
        return self._lists

    def end_round(self, begun_ms: int) -> int:
        """Note that a round ended well, and return the time in ms up to which all objects are known.

        A message is at most as old as the queue's retention.  The next listing shows objects since the last listing.
        """
        if self._lists:
            self.listed_ms = begun_ms
        self._state = self._queue.state()
        kept_since_ms = begun_ms - self._state.retention_ms
        return kept_since_ms if self._backfill_ms is None else min(kept_since_ms, self.listed_ms or begun_ms)

    def pages(self) -> Generator[list[S3Object], None, None]:
        """Receive messages, and yield their objects as they are now, each once, in any order.

        The iterator ends when the queue gives no message from before the round, because objects may come without a
        pause, or when 100,000 messages are held.  All messages are held until their round is stored.  The iterator's
        threads end with it.

        Raises CancelledError after ``stop``, and the errors of NotificationQueue and ObjectStore.
        """
        self.held.begin_round()
        keys = iter(dict.fromkeys(self._receive()))
        while some := list(islice(keys, _PAGE)):
            pool = DaemonThreads(_ASKING, "tidegate-find")
            try:
                found = list(pool.map(self._find, some))
            finally:
                pool.shutdown(cancel_futures=True)
            yield [listed.obj for listed in found if listed is not None and self._rules.finds(listed)]

    def metrics(self) -> dict[str, int]:
        """Return the number of waiting messages, and the number of malformed messages in this run."""
        left = {} if self._state is None else {"approximateQueueSize": self._state.messages}
        return {**left, "numMalformedMessages": len(self._malformed)}

    def stop(self) -> None:
        """End work in other threads soon, and delete messages of stored objects; may be called twice."""
        self._stopped.set()
        self._queue.close()
        self.held.close()

    def _find(self, key: str) -> Listed | None:
        if self._stopped.is_set():
            raise CancelledError
        return self._store.find(key)

    def _receive(self) -> list[str]:
        """Return the keys that the messages name."""
        self._left = {}
        until_ms = time.time() * 1000
        keys, goes_on = self._receive_some(until_ms)
        if goes_on:
            with DaemonThreads(_RECEIVING, "tidegate-receive") as pool:
                for some in pool.map(lambda _: self._receive_all(until_ms), range(_RECEIVING)):
                    keys += some
        if self._left:
            self._malformed.update(self._left)
            _LOG.warning(
                "left in the queue, for its redrive policy to put aside: %s, such as %s, which %s",
                counted(len(self._left), "message"),
                *next(iter(self._left.items())),
            )
        return keys

    def _receive_all(self, until_ms: float) -> list[str]:
        keys, goes_on = [], True
        while goes_on:
            some, goes_on = self._receive_some(until_ms)
            keys += some
        return keys

    def _receive_some(self, until_ms: float) -> tuple[list[str], bool]:
        """Return the keys in the messages of one response, and whether it had new ones that were sent until then."""
        if self._stopped.is_set():
            raise CancelledError
        messages = self._queue.receive(HIDDEN_S) if len(self.held) < _MOST_HELD else []
        named = {message: self._keys_of(message) for message in messages}
        aside = [message for message, keys in named.items() if keys is None]
        self._queue.hide((m.receipt, min(HIDDEN_S << min(m.received, 16), LONGEST_HIDDEN_S)) for m in aside)
        new = self.held.take([message for message, keys in named.items() if keys is not None])
        waited = any(message.sent_ms <= until_ms for message in (*new, *aside))
        return [key for message in new for key in named[message] or ()], waited

    def _keys_of(self, message: Message) -> list[str] | None:
        """Return the keys below the prefix that a message names; None: the message is malformed."""
        try:
            created = created_objects(message.body)
        except ValueError as problem:
            if message.id not in self._malformed:  # not by its receptions: SQS may deliver it twice
                self._left[message.id] = str(problem)
            return None
        return [
            event.key
            for event in created
            if event.bucket == self._store.bucket
            and event.key.startswith(self._rules.prefix)
            and self._rules.enters(event.key)
        ]
