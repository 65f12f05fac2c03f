"""Queries that learn of objects by a queue, planned by hand."""

import json
from collections import Counter

from tests.enumerators.s3.objects import Store
from tests.support.logs import WALL, Clock
from tests.support.queues import REGION, s3_body
from tidegate.alignment.budget import UNLIMITED
from tidegate.alignment.plan import Limits
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.planning.coordinator import SourceCoordinator
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.planning.settings import CoordinatorSettings
from tidegate.enumerators.s3.discovery.marked_folders import MarkedFolders
from tidegate.enumerators.s3.discovery.rounds import ObjectDiscovery
from tidegate.enumerators.s3.enumerator import S3Enumerator
from tidegate.enumerators.s3.listing_rules import ListingRules
from tidegate.enumerators.s3.notifications.objects import ObjectNotifications
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.enumerators.s3.state.ledger import Ledger
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.enumerators.s3.times.chunks import ObjectTimes
from tidegate.enumerators.s3.times.markers import parse_markers
from tidegate.enumerators.s3.times.origin import ColumnTimes
from tidegate.readers.event_time.policy import LEAST_MS, EventTimePolicy
from tidegate.readers.s3.config import S3ConnectionConfig

DISCOVERY_S = 30
DAY_MS = 86_400_000
BUCKET = Store.bucket
CONFIG = S3ConnectionConfig(region=REGION, access_key="any", secret_key="any", deadline_s=20)  # noqa: S106


class Query:
    """A query over its checkpoint: runs come and go, the stored offsets stay.

    queue: the queue from which its runs receive.  delivered: how often each object was read.
    markers: the markers of folders that its watermark follows; None: there are none.
    """

    def __init__(self, store, queue, folder, *, backfill_ms=None, prefix="", max_age_ms=None, markers=None, **fields):
        self.store, self.queue, self.folder, self.fields = store, queue, folder, fields
        self.backfill_ms, self.prefix, self.max_age_ms = backfill_ms, prefix, max_age_ms
        self.markers = None if markers is None else parse_markers(markers)
        self.clock = Clock()
        self.offset, self.delivered = INITIAL_OFFSET, Counter()
        self.run = self.notifications = self.source = None

    def begin(self, *, bounded=False):
        def open_enumerator(state):
            rules = ListingRules(self.prefix, markers=self.markers)
            self.notifications = ObjectNotifications(self.queue(), self.store, rules, self.backfill_ms)
            finder = ObjectDiscovery(
                self.store.pages,
                self.store,
                ObjectTimes(ColumnTimes("t"), policy=EventTimePolicy("ignore", earliest_ms=LEAST_MS)),
                SeenObjects(self.max_age_ms),
                notifications=self.notifications,
                clock=lambda: WALL + self.clock.now,
            )
            if self.markers is not None:
                finder.folders = MarkedFolders(self.markers, self.store.pages_below)
            ledger = Ledger(str(self.folder), S3ConnectionConfig())
            ledger.lease = lambda: Lease(ledger._root, lease_s=0.1, renewed_by_thread=False)
            self.source = S3Enumerator(finder, ledger, state, **self.fields)
            return self.source

        known = CoordinatorSettings(
            WatermarkStrategy(), Limits(by_completeness=self.markers is not None), discovery_interval_s=DISCOVERY_S
        )
        self.run = SourceCoordinator("s3", open_enumerator, known, cores=2, clocks=self.clock.clocks)
        if bounded:
            self.run.bound_run()

    def kill(self):
        """End a run as a SIGKILL does: nothing is deleted any more."""
        if self.source is not None:
            held = self.notifications.held
            with held._changed:
                held._done = []
            self.source._discovery.stop()
            if self.source._rounds._pool is not None:
                self.source._rounds._pool.shutdown()
        self.run = self.source = None

    def stop(self):
        if self.run is not None:
            self.run.close()
        self.run = self.source = None

    def plan(self, budget=UNLIMITED):
        """Return the next offset, as Spark would store it."""
        if self.run is None:
            self.begin()
        return json.loads(json.dumps(self.run.latest_offset(self.offset, budget)))

    def store_and_read(self, end):
        for task in self.run.tasks(self.offset, end):
            self.delivered.update(chunk.key for chunks in task.details for chunk in chunks)
        self.offset = end

    def batch(self, budget=UNLIMITED):
        """Take one batch; return whether there was one."""
        end = self.plan(budget)
        if end == self.offset:
            return False
        self.store_and_read(end)
        return True

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
