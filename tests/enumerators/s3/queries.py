"""Queries over objects in memory, planned by hand, whose runs come and go."""

import json
import threading
import time
from collections import Counter
from datetime import timedelta

from tests.enumerators.s3.objects import discovery
from tests.support.logs import Clock
from tidegate.alignment.budget import UNLIMITED
from tidegate.alignment.plan import Limits
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.planning.coordinator import SourceCoordinator
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.planning.settings import CoordinatorSettings
from tidegate.enumerators.s3.enumerator import S3Enumerator
from tidegate.enumerators.s3.standing import MOST_MANIFESTS
from tidegate.enumerators.s3.state.lease import Lease
from tidegate.enumerators.s3.state.ledger import ORPHAN_S, Ledger
from tidegate.readers.s3.config import S3ConnectionConfig

DISCOVERY_S = 30
LATER_S = 2 * ORPHAN_S
MOST_BYTES = 4096


def open_ledger(folder, later_s=0.0):
    return Ledger(str(folder), S3ConnectionConfig(), wall_clock=lambda: time.time() + later_s)


def die(source):
    """End the threads of a run as a SIGKILL would: nothing is released, nothing is written."""
    source._discovery.stop()
    if source._rounds._pool is not None:
        source._rounds._pool.shutdown()
    if source._cleaning is not None:
        source._cleaning._ended.set()
        source._cleaning._dispatcher.shutdown()
        source._cleaning._threads.shutdown()
    lease = None if source._folder is None else source._folder._lease
    if lease is not None:
        lease._ended.set()
        if lease._thread is not None:
            lease._thread.join()


class Query:
    """A query over its checkpoint: runs come and go, the stored offsets stay.

    delivered: how often each chunk was delivered, by key and start.
    silent: may be set; the endpoint cleans nothing.
    discover: makes the discovery of a run over the bucket.
    """

    markers = None

    def __init__(self, store, folder, drift_ms=None, lease=Lease, discover=discovery, **fields):
        self.store, self.folder, self.fields, self.clock = store, folder, fields, Clock()
        self.strategy = WatermarkStrategy()
        if drift_ms is not None:
            self.strategy = self.strategy.with_watermark_alignment(max_drift=timedelta(milliseconds=drift_ms))
        self.offset, self.delivered = INITIAL_OFFSET, Counter()
        self.later_s, self.lease, self.discover, self.silent = 0.0, lease, discover, False
        self.source = self.run = None
        self.batches = []

    def begin(self, *, bounded=False):
        def open_enumerator(state):
            ledger = open_ledger(self.folder, self.later_s)
            ledger.lease = lambda: self.lease(ledger._root)
            self.source = S3Enumerator(self.discover(self.store), ledger, state, **self.fields)
            return self.source

        known = CoordinatorSettings(
            self.strategy, Limits(by_completeness=self.markers is not None), discovery_interval_s=DISCOVERY_S
        )
        self.run = SourceCoordinator("s3", open_enumerator, known, cores=2, clocks=self.clock.clocks)
        if bounded:
            self.run.bound_run()

    def kill(self):
        if self.source is not None:
            die(self.source)
        self.source = self.run = None

    def stop(self):
        if self.run is not None:
            self.run.close()
        self.source = self.run = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def restart(self, **how):
        self.kill()
        self.begin(**how)

    def plan(self, budget=UNLIMITED):
        """Return the next offset as it would be read from a checkpoint."""
        if self.run is None:
            self.begin()
        end = self.run.latest_offset(self.offset, budget)
        text = json.dumps(end)
        assert len(text) < MOST_BYTES
        assert len(end["positions"]) <= MOST_MANIFESTS
        return json.loads(text)

    def tasks(self, end):
        return self.run.tasks(self.offset, end)

    def deliver(self, end, tasks):
        ranges = [(r, chunks) for task in tasks for r, chunks in zip(task.ranges, task.details, strict=True)]
        for wanted, chunks in ranges:
            assert len(chunks) == wanted.end - wanted.start
            assert [*chunks] == sorted(chunks, key=lambda c: (c.min_ms is not None, c.min_ms or 0, c.key, c.start))
            self.delivered.update(map(self.counted, chunks))
        self.batches.append([chunk.min_ms for _, chunks in ranges for chunk in chunks])
        self.offset = end

    def counted(self, chunk):
        return chunk.key, chunk.start

    def batch(self, budget=UNLIMITED):
        """Take one batch; return whether there was one."""
        end = self.plan(budget)
        if end == self.offset:
            return False
        self.deliver(end, self.tasks(end))
        return True

    def drain(self, budget=UNLIMITED):
        while self.batch(budget):
            pass

    def pass_time(self):
        self.clock.sleep(DISCOVERY_S + 1)

    def files(self):
        """Return the names of the files that are stored for this query."""
        return self.source._folder.ledger.names()

    @property
    def manifests(self):
        return sorted(self.offset.get("positions", {}))


def all_once(query):
    return Counter(query.store.chunks())


def discovery_threads():
    return [t for t in threading.enumerate() if t.name.startswith(("tidegate-discovery", "tidegate-survey"))]
