"""Objects found by what a queue says: nothing lost, nothing twice, and no message deleted too early."""

import json
import logging
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.enumerators.logs import WALL, Clock
from tests.enumerators.objects import MODIFIED, Store
from tests.queues import REGION, TEST_EVENT, Queue, event_bridge_body, s3_body, sns_body
from tests.waiting import await_that
from tidegate.alignment.budget import UNLIMITED, Budget
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators import notification_queue, object_notifications
from tidegate.enumerators.checkpoint import INITIAL_OFFSET
from tidegate.enumerators.coordinator import CoordinatorSettings, SourceCoordinator
from tidegate.enumerators.held_messages import HIDDEN_S
from tidegate.enumerators.lease import Lease
from tidegate.enumerators.ledger import Ledger
from tidegate.enumerators.listing_rules import ListingRules
from tidegate.enumerators.notification_queue import Message, NotificationQueue, QueueState
from tidegate.enumerators.object_discovery import ObjectDiscovery
from tidegate.enumerators.object_notifications import ObjectNotifications
from tidegate.enumerators.object_times import ObjectTimes
from tidegate.enumerators.s3_enumerator import S3Enumerator
from tidegate.enumerators.seen_objects import SeenObjects
from tidegate.errors import ConnectorError, CorruptDataError
from tidegate.readers.s3_config import S3ConnectionConfig

DISCOVERY_S = 30
DAY_MS = 86_400_000
BUCKET = Store.bucket
CONFIG = S3ConnectionConfig(region=REGION, access_key="any", secret_key="any", deadline_s=20)  # noqa: S106


class Query:
    """A query over its checkpoint: runs come and go, the stored offsets stay.

    queue: what its runs receive from.  delivered: how often each object was read.
    """

    def __init__(self, store, queue, folder, *, backfill_ms=None, prefix="", max_age_ms=None, **fields):
        self.store, self.queue, self.folder, self.fields = store, queue, folder, fields
        self.backfill_ms, self.prefix, self.max_age_ms = backfill_ms, prefix, max_age_ms
        self.clock = Clock()
        self.offset, self.delivered = INITIAL_OFFSET, Counter()
        self.run = self.notifications = self.source = None

    def begin(self, *, bounded=False):
        def open_enumerator(state):
            rules = ListingRules(self.prefix)
            self.notifications = ObjectNotifications(self.queue(), self.store, rules, self.backfill_ms)
            found = ObjectDiscovery(
                self.store.pages,
                self.store,
                ObjectTimes(column="t", bad="ignore"),
                SeenObjects(self.max_age_ms),
                notifications=self.notifications,
                clock=lambda: WALL + self.clock.now,
            )
            ledger = Ledger(str(self.folder), S3ConnectionConfig())
            ledger.lease = lambda: Lease(ledger._root, lease_s=0.1, renewed_by_thread=False)
            self.source = S3Enumerator(found, ledger, state, **self.fields)
            return self.source

        known = CoordinatorSettings(WatermarkStrategy(), discovery_interval_s=DISCOVERY_S)
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
            if self.source._pool is not None:
                self.source._pool.shutdown()
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


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(notification_queue, "_WAIT_S", 0)


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def query(store, queue, tmp_path):
    made = []

    def make(**settings):
        made.append(Query(store, lambda: NotificationQueue(CONFIG, queue.url), tmp_path / "state", **settings))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def put(store, *keys):
    for key in keys:
        store.put(key, [1])


def tell(queue, *keys):
    return queue.send(*(s3_body((BUCKET, key)) for key in keys))


def test_a_query_lists_when_it_begins_and_then_finds_what_it_is_told(query, store, queue):
    put(store, "old")
    one = query()
    one.look()
    put(store, "untold", "direct", "by a topic", "by a bus", "by both", "first", "second")
    queue.send(
        s3_body((BUCKET, "direct")),
        sns_body(s3_body((BUCKET, "by a topic"))),
        event_bridge_body(BUCKET, "by a bus"),
        sns_body(event_bridge_body(BUCKET, "by both")),
        s3_body((BUCKET, "first"), (BUCKET, "second")),
    )
    one.look()
    told = ["direct", "by a topic", "by a bus", "by both", "first", "second"]
    assert one.delivered == dict.fromkeys(["old", *told], 1)
    one.stop()
    one.look()
    assert store.rounds == 1
    await_that(lambda: not len(queue))


def test_a_restart_goes_on_with_the_queue_and_lists_nothing(query, store, queue):
    one = query()
    one.look()
    put(store, "untold", "told")
    tell(queue, "told")
    one.stop()
    one.look()
    assert one.delivered == {"told": 1}
    assert store.rounds == 1


def test_messages_that_come_twice_and_out_of_order_are_read_once(query, store, queue, monkeypatch):
    monkeypatch.setattr(object_notifications, "_PAGE", 4)
    one = query()
    one.look()
    names = [f"{number:02}" for number in range(30)]
    put(store, *names)
    tell(queue, *reversed(names), *names[::3])
    one.look()
    tell(queue, *names[::2])
    one.look()
    one.look()
    assert one.delivered == dict.fromkeys(names, 1)
    await_that(lambda: not len(queue))


def test_what_is_not_to_be_read_is_dropped_with_its_message(query, store, queue):
    put(store, "in/a", "in/_temporary/0/a", "in/.hidden", "elsewhere/a", "in/deleted")
    one = query(prefix="in/", include_existing=False)
    one.look()
    asked = []
    store.find = lambda key: asked.append(key) or Store.find(store, key)
    put(store, "in/b", "in/_temporary/0/b", "in/.b", "elsewhere/b", "in/untold")
    tell(queue, "in/b", "in/_temporary/0/b", "in/.b", "elsewhere/b", "in/nowhere")
    queue.send(
        TEST_EVENT,
        s3_body(("another", "in/untold")),
        s3_body((BUCKET, "in/deleted"), event="ObjectRemoved:Delete"),
        event_bridge_body(BUCKET, "in/deleted", "Object Deleted"),
    )
    one.look()
    one.look()
    assert one.delivered == {"in/b": 1}
    assert sorted(asked) == ["in/.b", "in/b", "in/nowhere"]
    await_that(lambda: not len(queue))


def test_an_object_is_taken_as_it_is_when_its_message_comes(query, store, queue):
    one = query()
    one.look()
    store.put("a", [1])
    tell(queue, "a")
    store.put("a", [2], [3])
    tell(queue, "a")
    store.put("gone", [1])
    tell(queue, "gone")
    del store.objects["gone"]
    one.clock.sleep(DISCOVERY_S + 1)
    tasks = one.run.tasks(one.offset, one.plan())
    chunks = [chunk for task in tasks for some in task.details for chunk in some]
    assert sorted((chunk.key, chunk.min_ms) for chunk in chunks) == [("a", 2), ("a", 3)]


def test_what_is_malformed_stalls_nothing_and_is_left_in_the_queue(query, store, queue, caplog):
    one = query()
    one.look()
    bad = queue.send('{"order": "confidential"}')
    queue.send(*["no JSON"] * 20)
    put(store, "a", "b")
    tell(queue, "a")
    one.look()
    tell(queue, "b")
    one.look()
    assert one.delivered == {"a": 1, "b": 1}
    await_that(lambda: len(queue) == 21)
    queue.pass_time(HIDDEN_S * 2)
    for _ in range(3):
        one.look()
    assert queue.counts() == (0, 21)
    assert one.source.metrics().items() >= {("approximateQueueSize", 0), ("numMalformedMessages", 21)}
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warning.startswith("21 messages are left in the queue")
    assert "confidential" not in caplog.text
    assert bad in queue.hidden_s()


def test_a_malformed_message_is_named_once_and_hidden_for_longer_each_time(query, store, queue, caplog):
    one = query()
    one.look()
    bad = queue.send("no JSON")
    hidden_s = []
    for _ in range(8):
        one.look()
        hidden_s.append(round((queue.hidden_s()[bad] - time.time()) / HIDDEN_S))
        queue.pass_time(12 * 3600)
    assert hidden_s == [2, 4, 8, 16, 32, 64, 128, 256]
    assert caplog.text.count(f"such as {bad}, which is no JSON") == 1


def test_the_redrive_policy_puts_malformed_messages_aside_and_no_good_ones(query, store, sqs, tmp_path):
    aside = Queue(sqs)
    arn = sqs.client.get_queue_attributes(QueueUrl=aside.url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    queue = Queue(sqs, RedrivePolicy=policy)
    one = Query(store, lambda: NotificationQueue(CONFIG, queue.url), tmp_path)
    one.look()
    queue.send("no JSON")
    put(store, "a")
    tell(queue, "a")
    for _ in range(3):
        one.look()
        queue.pass_time(12 * 3600)
    one.stop()
    assert one.delivered == {"a": 1}
    assert (len(queue), len(aside)) == (0, 1)


def test_messages_are_deleted_only_when_the_offset_with_their_objects_is_stored(query, store, queue):
    put(store, "old")
    one = query()
    one.look()
    put(store, "a", "b")
    tell(queue, "a", "b", "a", "old")
    one.clock.sleep(DISCOVERY_S + 1)
    end = one.plan()
    one.clock.sleep(DISCOVERY_S + 1)
    assert one.plan() != one.offset  # Spark has not stored anything yet
    assert not one.notifications.held._done
    assert queue.counts() == (0, 4)
    one.store_and_read(end)
    one.plan()
    await_that(lambda: not len(queue))


def test_what_a_killed_run_had_not_stored_is_found_when_its_messages_come_again(query, store, queue):
    put(store, "old")
    one = query()
    one.look()
    put(store, "a", "b")
    tell(queue, "a", "b")
    one.clock.sleep(DISCOVERY_S + 1)
    assert one.plan() != one.offset
    one.kill()
    one.look()
    assert one.delivered == {"old": 1}
    queue.pass_time(HIDDEN_S)
    one.look()
    assert one.delivered == {"old": 1, "a": 1, "b": 1}
    one.plan()
    await_that(lambda: not len(queue))


def test_what_was_stored_but_not_deleted_when_a_run_was_killed_is_not_read_again(query, store, queue):
    one = query()
    one.look()
    put(store, "a")
    tell(queue, "a")
    one.clock.sleep(DISCOVERY_S + 1)
    one.batch()
    one.kill()
    assert len(queue) == 1
    queue.pass_time(HIDDEN_S)
    one.look()
    assert one.delivered == {"a": 1}
    await_that(lambda: not len(queue))


def test_what_a_listing_found_first_is_not_read_again_and_its_message_waits_for_the_offset(query, store, queue):
    put(store, "a")
    tell(queue, "a")
    one = query()
    end = one.plan()
    assert queue.counts() == (0, 1)
    one.store_and_read(end)
    one.look()
    assert one.delivered == {"a": 1}
    await_that(lambda: not len(queue))


def test_a_round_that_fails_lets_its_messages_come_again(query, store, queue):
    one = query()
    one.look()
    put(store, "a", "b")
    tell(queue, "a", "b")

    def fail(found):
        if found.key == "b":
            raise CorruptDataError("b is no Parquet")

    store.on_survey = fail
    one.clock.sleep(DISCOVERY_S + 1)
    with pytest.raises(CorruptDataError, match="b is no Parquet"):
        one.plan()
    store.on_survey = lambda _: None
    one.look()
    assert one.delivered == {}
    queue.pass_time(HIDDEN_S)
    one.look()
    assert one.delivered == {"a": 1, "b": 1}


def test_a_repair_listing_finds_what_no_message_told(query, store, queue):
    one = query(backfill_ms=DAY_MS)
    one.look()
    put(store, "untold", "told")
    tell(queue, "told")
    one.look()
    one.clock.sleep(DAY_MS / 1000 - 4 * DISCOVERY_S)
    one.look()
    assert one.delivered == {"told": 1}
    one.stop()  # when the last one was is a part of the checkpoint
    one.look()
    assert (one.delivered, store.rounds) == ({"told": 1}, 1)
    one.clock.sleep(2 * DISCOVERY_S)
    one.look()
    assert one.delivered == {"told": 1, "untold": 1}
    one.look()
    assert store.rounds == 2


def test_a_repair_listing_finds_everything_since_the_one_before_whatever_the_age_limit(query, store, queue):
    one = query(backfill_ms=10 * DAY_MS, max_age_ms=DAY_MS)
    one.look()
    now_ms = int((WALL + one.clock.now) * 1000)
    store.put("untold", [1], modified_ms=now_ms)
    one.clock.sleep(9 * DAY_MS / 1000)
    store.put("told", [1], modified_ms=now_ms + 9 * DAY_MS)
    tell(queue, "told")
    one.look()
    assert one.delivered == {"told": 1}
    one.clock.sleep(DAY_MS / 1000)
    one.look()
    assert one.delivered == {"told": 1, "untold": 1}


def test_a_message_may_be_as_old_as_the_queue_keeps_it(query, store, queue):
    one = query(max_age_ms=DAY_MS)
    one.look()
    now_ms = int((WALL + one.clock.now) * 1000)
    store.put("new", [1], modified_ms=now_ms)
    tell(queue, "new")
    one.look()
    store.put("old", [1], modified_ms=now_ms - 4 * DAY_MS)  # moto's queues keep messages for four days
    store.put("too old", [1], modified_ms=now_ms - 5 * DAY_MS - 1)
    tell(queue, "old", "too old")
    one.look()
    assert one.delivered == {"new": 1, "old": 1}


def test_what_is_there_at_the_beginning_may_be_left_out_and_what_comes_then_is_not(query, store, queue):
    put(store, "old")
    tell(queue, "old")
    one = query(include_existing=False)

    def come(_):
        store.on_page = lambda _: None
        put(store, "new")
        tell(queue, "new")

    store.on_page = come
    one.look()
    one.look()
    assert one.delivered == {"new": 1}
    one.look()
    await_that(lambda: not len(queue))


def test_a_bounded_run_takes_all_that_the_queue_has(query, store, queue):
    one = query()
    one.look()
    one.stop()
    names = [f"{number:03}" for number in range(60)]
    put(store, *names)
    tell(queue, *names)
    one.begin(bounded=True)
    while one.batch(Budget(files=25)):
        pass
    one.stop()
    assert one.delivered == dict.fromkeys(names, 1)
    assert not len(queue)


def test_closing_while_objects_are_asked_for_ends_soon_and_leaves_no_thread(query, store, queue):
    one = query()
    one.look()
    names = [f"{number:03}" for number in range(100)]
    put(store, *names)
    tell(queue, *names)
    asked, go_on = threading.Event(), threading.Event()

    def hang(key):
        asked.set()
        go_on.wait(60)

    store.find = hang
    one.source._begin_round()
    assert asked.wait(60)
    begun = time.monotonic()
    one.stop()
    assert time.monotonic() - begun < 5
    go_on.set()
    await_that(lambda: not [t for t in threading.enumerate() if t.name.startswith(("tidegate-", "ThreadPool"))])


class MemoryQueue:
    """A queue in memory, whose clock is the test's; the same for all runs."""

    def __init__(self, clock):
        self._clock, self._messages, self._lock = clock, {}, threading.Lock()
        self._numbers = iter(range(1_000_000))

    def send(self, body):
        with self._lock:
            self._messages[f"m{next(self._numbers)}"] = [body, 0.0, 0, ""]

    def __len__(self):
        return len(self._messages)

    def receive(self, hidden_s):
        with self._lock:
            found = []
            for name, message in reversed(self._messages.items()):
                if message[1] <= self._clock.now and len(found) < 10:
                    message[1:] = self._clock.now + hidden_s, message[2] + 1, f"{name} {message[2]}"
                    found.append(Message(name, message[3], message[0], message[2]))
            return found

    def hide(self, receipts):
        with self._lock:
            for receipt, hidden_s in receipts:
                for message in self._messages.values():
                    if message[3] == receipt:
                        message[1] = self._clock.now + hidden_s

    def delete(self, receipts):
        with self._lock:
            gone = set(receipts)
            self._messages = {name: message for name, message in self._messages.items() if message[3] not in gone}

    def state(self):
        return QueueState(4 * DAY_MS, len(self._messages))

    def close(self):
        pass


steps = st.lists(
    st.fixed_dictionaries(
        {
            "puts": st.integers(0, 3),
            "tells": st.lists(st.integers(0, 20), max_size=4),
            "passes_s": st.sampled_from([0, DISCOVERY_S + 1, HIDDEN_S + 1]),
            "budget": st.sampled_from([UNLIMITED, Budget(files=1)]),
            "ends": st.sampled_from(["well"] * 5 + ["lost", "stored", "killed", "stopped"]),
        }
    ),
    max_size=15,
)


@settings(max_examples=40)
@given(steps, st.booleans())
def test_whatever_happens_every_object_is_read_once_and_no_message_stays(life, listed_again):
    with tempfile.TemporaryDirectory() as folder:
        store = Store()
        one = Query(store, lambda: queue, Path(folder), backfill_ms=100_000 if listed_again else None)
        queue = MemoryQueue(one.clock)
        queue.send("no JSON")
        try:
            live(one, queue, life)
            for _ in range(4):
                one.clock.sleep(HIDDEN_S)
                one.look()
            one.stop()
        finally:
            one.kill()
        assert one.delivered == dict.fromkeys(store.objects, 1)
        assert len(queue) == 1


def live(one, queue, life):
    for step in life:
        for _ in range(step["puts"]):
            key = str(len(one.store.objects))
            one.store.put(key, [int(key) * 7 % 10], modified_ms=MODIFIED)
            queue.send(s3_body((BUCKET, key)))
        for key in step["tells"]:
            queue.send(s3_body((BUCKET, str(key))))  # perhaps of what is not there yet
        one.clock.sleep(step["passes_s"])
        end = one.plan(step["budget"])
        if step["ends"] != "lost" and end != one.offset:
            one.store_and_read(end)
        if step["ends"] == "stored":
            one.plan()
        if step["ends"] == "stopped":
            one.stop()
        elif step["ends"] != "well":
            one.kill()
        assert set(one.delivered.values()) <= {1}


def test_what_keeps_messages_from_being_deleted_ends_the_next_round(store, tmp_path):
    one = Query(store, lambda: queue, tmp_path)
    queue = MemoryQueue(one.clock)

    def refuse(receipts):
        if receipts:
            raise ConnectorError("the endpoint refused to delete")

    queue.delete = refuse
    one.look()
    put(store, "a")
    queue.send(s3_body((BUCKET, "a")))
    one.look()
    one.plan()
    await_that(lambda: one.notifications.held._problem)
    one.clock.sleep(DISCOVERY_S + 1)
    with pytest.raises(ConnectorError, match="the endpoint refused to delete"):
        one.plan()
    one.stop()
