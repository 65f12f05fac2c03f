"""Queries that learn of objects by a queue, planned by hand."""

from tests.enumerators.s3 import queries
from tests.enumerators.s3.objects import Store, discovery
from tests.enumerators.s3.queries import DISCOVERY_S
from tests.support.logs import WALL, Clock
from tests.support.queues import REGION, s3_body
from tidegate.enumerators.s3.discovery.complete_folders import MarkedFolders
from tidegate.enumerators.s3.listing_rules import ListingRules
from tidegate.enumerators.s3.notifications.objects import ObjectNotifications
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.enumerators.s3.times.origin import parse_markers
from tidegate.readers.s3.config import S3ConnectionConfig

DAY_MS = 86_400_000
BUCKET = Store.bucket
CONFIG = S3ConnectionConfig(region=REGION, access_key="any", secret_key="any", deadline_s=20)  # noqa: S106


class Query(queries.Query):
    """A query over its checkpoint: runs come and go, the stored offsets stay.

    queue: the queue from which its runs receive.  delivered: how often each object was read.
    markers: the markers of folders that its watermark follows; None: there are none.
    """

    def __init__(self, store, queue, folder, *, backfill_ms=None, prefix="", max_age_ms=None, markers=None, **fields):
        super().__init__(
            store,
            folder,
            lease=lambda root: Lease(root, clocks=Clock().clocks),
            discover=self._discovery,
            **fields,
        )
        self.queue, self.backfill_ms, self.prefix, self.max_age_ms = queue, backfill_ms, prefix, max_age_ms
        self.markers = None if markers is None else parse_markers(markers)
        self.notifications = None

    def _discovery(self, store):
        rules = ListingRules(self.prefix, markers=self.markers)
        self.notifications = ObjectNotifications(self.queue(), store, rules, self.backfill_ms)
        finder = discovery(
            store,
            max_age_ms=self.max_age_ms,
            notifications=self.notifications,
            clock=lambda: WALL + self.clock.now,
        )
        if self.markers is not None:
            finder.folders = MarkedFolders(self.markers, store.pages_below)
        return finder

    def counted(self, chunk):
        return chunk.key

    def kill(self):
        """End a run as a SIGKILL does: nothing is deleted any more."""
        if self.source is not None:
            with self.notifications.held._changed:
                self.notifications.held._done = []
        super().kill()

    def store_and_read(self, end):
        self.deliver(end, self.tasks(end))

    def look(self):
        """Let another round come, and read all that it finds."""
        self.clock.sleep(DISCOVERY_S + 1)
        while self.batch():
            pass


def put(store, *keys):
    for key in keys:
        store.put(key, [1])


def tell(queue, *keys):
    return queue.send(*(s3_body((BUCKET, key)) for key in keys))
