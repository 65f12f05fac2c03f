"""Rounds that list only new objects, against full listings of the same bucket."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.enumerators.s3.objects import Store
from tests.enumerators.s3.queries import Query, all_once
from tidegate.enumerators.s3.discovery.between_listings import BetweenListings
from tidegate.enumerators.s3.discovery.incremental_listing import LATE_S, IncrementalListing
from tidegate.enumerators.s3.discovery.listing_rules import ListingRules
from tidegate.enumerators.s3.discovery.rounds import ObjectDiscovery
from tidegate.enumerators.s3.manifests.manifest import Manifest
from tidegate.enumerators.s3.notifications.objects import ObjectNotifications
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.enumerators.s3.times.chunks import ObjectTimes
from tidegate.enumerators.s3.times.origin import ColumnTimes
from tidegate.errors import ConnectorError

NOON = 1_700_000_000
HOUR = 3600
DAY_MS = 86_400_000


class Bucket(Store):
    """Objects that appear some time after their LastModified.

    now_s: our own clock's time.  listings: the keys after which listings began.  fails: listings fail at their end.
    """

    def __init__(self, slow_s=0):
        super().__init__()
        self.now_s, self.slow_s = NOON, slow_s  # how far the endpoint's clock is behind ours
        self.listings, self.fails = [], False
        self._appear = {}

    def come(self, key, modified_s=None, late_s=0):
        modified_s = self.now_s if modified_s is None else modified_s
        self._appear[key] = modified_s + late_s
        self.put(key, [1], modified_ms=int(modified_s - self.slow_s) * 1000)

    def pages(self, after=None):
        self.listings.append(after)
        there = {key for key, at_s in self._appear.items() if at_s <= self.now_s and key in self.objects}
        objects = [self.objects[key] for key in sorted(there, key=str.encode) if key > (after or "")]
        for at in range(0, len(objects), self.page_size):
            yield objects[at : at + self.page_size]
        if self.fails:
            raise ConnectorError("the endpoint refused")


def incremental(bucket, backfill_ms=DAY_MS, max_age_ms=None, prefix="", **fields):
    between = IncrementalListing(bucket.pages, prefix, backfill_ms, clock=lambda: bucket.now_s)
    return discovery(bucket, max_age_ms, between=between, **fields)


def discovery(bucket, max_age_ms=None, **fields):
    times, seen = ObjectTimes(ColumnTimes("t")), SeenObjects(max_age_ms)
    return ObjectDiscovery(bucket.pages, bucket, times, seen, clock=lambda: bucket.now_s, **fields)


def restarted(bucket, old, **fields):
    """Return a discovery that goes on from the snapshot of another one."""
    new = incremental(bucket, **fields)
    new.restore(json.loads(json.dumps(dict(old.settle(0)))))
    new.seen = old.seen.copy()
    return new


def keys(finder):
    manifest = Manifest.build(1, finder.round())
    return sorted(chunk["key"] for chunk in manifest.chunks(0, len(manifest)).to_pylist())


def rounds(bucket, finder, hours=1):
    """Return the keys that rounds find within this number of hours."""
    every = []
    for _ in range(6 * hours):
        bucket.now_s += HOUR // 6
        every += keys(finder)
    return every


@pytest.fixture
def bucket():
    return Bucket()


lives = st.lists(
    st.fixed_dictionaries(
        {
            "passes_s": st.sampled_from([0, 1, 30, LATE_S // 2, LATE_S, LATE_S + 2, 3 * HOUR]),
            "comes": st.lists(
                st.tuples(st.sampled_from([0, 0.4, 5, LATE_S]), st.sampled_from([0, 0.7, 20, LATE_S - 1, LATE_S])),
                max_size=6,
            ),
            "goes": st.booleans(),
            "then": st.sampled_from(["goes on"] * 3 + ["restarts", "fails"]),
        }
    ),
    max_size=12,
)
endings = st.sampled_from(["a", "z", "é", "日"])


@settings(max_examples=60)
@given(lives, st.sampled_from([0, 1.5, 4000]), st.data())
def test_where_keys_rise_with_time_each_round_finds_what_a_full_listing_finds(life, slow_s, data):
    bucket = Bucket(slow_s)
    finder, full = incremental(bucket, 2 * HOUR * 1000), discovery(bucket)
    number, comes_s = 0, NOON
    for step in life:
        bucket.now_s += step["passes_s"]
        comes_s = max(comes_s, bucket.now_s)
        for gap_s, late_s in step["comes"]:
            comes_s, number = comes_s + gap_s, number + 1
            bucket.come(f"{number:04}{data.draw(endings)}", comes_s, late_s)
        if step["goes"] and bucket.objects:
            del bucket.objects[data.draw(st.sampled_from(sorted(bucket.objects)))]
        if step["then"] == "fails":
            bucket.fails = True
            with pytest.raises(ConnectorError):
                finder.round()
            bucket.fails = False
        assert keys(finder) == keys(full)
        if step["then"] == "restarts":
            finder = restarted(bucket, finder, backfill_ms=2 * HOUR * 1000)
    assert finder.metrics()["numFilesOutOfOrder"] == 0


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 99), st.sampled_from([0, 30, HOUR]), st.sampled_from([0, 2 * HOUR]), st.booleans()),
        unique_by=lambda arrival: arrival[0],
        max_size=12,
    )
)
def test_in_whatever_order_keys_come_each_is_found_once_and_at_the_latest_by_the_next_full_listing(coming):
    bucket = Bucket()
    # Objects appear at most two hours late, so a listing an hour later may not take them for too old.
    finder = incremental(bucket, 3 * HOUR * 1000, max_age_ms=6 * HOUR * 1000)
    every = []
    for number, passes_s, late_s, restarts in coming:
        bucket.now_s += passes_s
        bucket.come(f"{number:02}", late_s=late_s)
        every += keys(finder)
        if restarts:
            finder = restarted(bucket, finder, backfill_ms=3 * HOUR * 1000, max_age_ms=6 * HOUR * 1000)
    bucket.now_s += 3 * HOUR
    assert sorted(every + keys(finder)) == sorted(bucket.objects)
    assert keys(finder) == []


def test_between_full_listings_only_what_is_new_is_listed(bucket):
    for number in range(100):
        bucket.come(f"{number:03}", NOON - 2 * HOUR + number)
    finder = incremental(bucket)
    assert len(keys(finder)) == 100
    for number in range(100, 106):
        bucket.now_s += LATE_S + 2
        bucket.come(f"{number:03}")
        assert keys(finder) == [f"{number:03}"]
    assert bucket.listings == [None, None, "099", "100", "101", "102", "103"]
    again = restarted(bucket, finder)
    bucket.come("106")
    assert keys(again) == ["106"]
    assert bucket.listings[-1] == "104"


def test_a_first_load_of_many_objects_is_not_listed_again_and_again_while_nothing_comes(bucket):
    for number in range(10):
        bucket.come(f"{number}")
    finder = incremental(bucket)
    assert rounds(bucket, finder) == [f"{number}" for number in range(10)]
    assert bucket.listings == [None, None, None, "9", "9", "9"]


def test_what_comes_out_of_order_is_found_by_the_next_full_listing_with_a_warning(bucket, caplog):
    finder = incremental(bucket, backfill_ms=2 * HOUR * 1000)
    bucket.come("b")
    assert rounds(bucket, finder) == ["b"]
    bucket.come("a")
    bucket.come("c")
    assert rounds(bucket, finder) == ["c"]
    assert finder.metrics()["numFilesOutOfOrder"] == 0
    assert rounds(bucket, finder) == ["a"]
    assert finder.metrics()["numFilesOutOfOrder"] == 1
    assert caplog.text.count("found late, because out of the order of keys: 1 object, such as 'a'; where") == 1


def test_one_key_at_the_very_end_does_not_hide_all_that_comes_after_the_next_full_listing(bucket):
    finder = incremental(bucket, backfill_ms=2 * HOUR * 1000)
    bucket.come("2026-01")
    bucket.come("zz-by-hand")
    assert rounds(bucket, finder) == ["2026-01", "zz-by-hand"]
    bucket.come("2026-02")
    assert rounds(bucket, finder) == []
    assert rounds(bucket, finder) == ["2026-02"]
    bucket.come("2026-03")
    assert rounds(bucket, finder) == ["2026-03"]
    assert bucket.listings[-1] == "2026-03"


def test_a_full_listing_finds_everything_since_the_one_before_whatever_the_age_limit(bucket):
    finder = incremental(bucket, backfill_ms=DAY_MS, max_age_ms=HOUR * 1000)
    bucket.come("b")
    assert rounds(bucket, finder, hours=12) == ["b"]
    bucket.come("a")
    bucket.come("c")
    assert rounds(bucket, finder, hours=6) == ["c"]
    bucket.come("d")
    assert rounds(bucket, finder, hours=5) == ["d"]
    assert rounds(bucket, finder, hours=2) == ["a"]


@pytest.mark.parametrize("allow", [True, False])
def test_an_overwritten_object_is_found_by_the_next_full_listing_if_that_is_allowed(bucket, allow):
    finder = incremental(bucket, backfill_ms=2 * HOUR * 1000, allow_overwrites=allow)
    bucket.come("a")
    bucket.come("b")
    assert rounds(bucket, finder) == ["a", "b"]
    bucket.objects["a"] = bucket.objects["a"]._replace(etag="new", modified_ms=bucket.now_s * 1000)
    bucket.come("c")
    assert rounds(bucket, finder) == ["c"]
    assert rounds(bucket, finder, hours=2) == ["a"] * allow
    assert finder.metrics()["numFilesOutOfOrder"] == 0


def test_what_is_there_at_first_may_be_left_out(bucket):
    bucket.come("a")
    finder = incremental(bucket)
    assert len(finder.round(existing=False)) == 0
    bucket.come("b")
    assert rounds(bucket, finder) == ["b"]


def test_a_query_that_goes_on_with_another_path_begins_with_a_full_listing(bucket):
    bucket.come("in/b", NOON - HOUR)
    bucket.come("in/c")
    finder = incremental(bucket, prefix="in/")
    finder.round()
    restarted(bucket, finder, prefix="in/").round()
    restarted(bucket, finder, prefix="also/").round()
    assert bucket.listings == [None, "in/b", None]


def test_a_clock_that_was_ahead_puts_no_full_listing_off(bucket):
    bucket.come("b")
    finder = incremental(bucket, backfill_ms=2 * HOUR * 1000)
    rounds(bucket, finder)
    bucket.now_s += 365 * 24 * HOUR
    finder.round()
    again = restarted(bucket, finder, backfill_ms=2 * HOUR * 1000)
    bucket.now_s -= 365 * 24 * HOUR
    bucket.come("a")
    assert keys(again) == ["a"]
    assert keys(again) == []
    assert bucket.listings[-1] is not None


@pytest.mark.parametrize("letter", ["a", "я", "日", "𝄞", '"'])
def test_a_long_key_takes_little_room_in_the_offset_and_a_restart_finds_all_that_comes_after_it(bucket, letter):
    stem = letter * (1_020 // len(letter.encode()))
    bucket.come(f"{stem}1")
    finder = incremental(bucket)
    assert rounds(bucket, finder) == [f"{stem}1"]
    assert bucket.listings[-1] == f"{stem}1"
    assert len(json.dumps(finder.settle(0))) < 1_200
    again = restarted(bucket, finder)
    bucket.come(f"{stem}2")
    assert keys(again) == [f"{stem}2"]
    assert f"{stem}1".startswith(bucket.listings[-1])
    assert rounds(bucket, again) == []
    assert bucket.listings[-1] == f"{stem}2"


def told_by_a_queue(bucket):
    return ObjectNotifications(None, bucket, ListingRules(""), DAY_MS)


def listed_incrementally(bucket):
    return IncrementalListing(bucket.pages, "", DAY_MS, clock=lambda: bucket.now_s)


@pytest.mark.parametrize("now", [told_by_a_queue, listed_incrementally])
@pytest.mark.parametrize("before", [told_by_a_queue, listed_incrementally])
def test_what_another_way_has_noted_spares_no_full_listing(bucket, before, now):
    first, then = before(bucket), now(bucket)
    assert first.begin_round(NOON)
    BetweenListings.end_round(first, NOON)
    then.restore(json.loads(json.dumps(first.settle(0))))
    assert then.begin_round(NOON + 1) is (before is not now)


def test_a_query_that_changes_the_way_it_finds_objects_lists_all_at_first(bucket, tmp_path):
    query = Query(bucket, tmp_path, discover=incremental)

    def run(*comes):
        for key in comes:
            bucket.come(key)
        query.restart()
        query.drain()
        bucket.now_s += LATE_S + 2
        query.pass_time()
        bucket.come(f"{max(bucket.objects)}+")
        query.drain()
        query.stop()

    run("b")
    assert bucket.listings == [None, None]
    query.discover = discovery
    run("c")
    query.discover = incremental
    run("d", "a")
    assert all_once(query) == query.delivered
    run("e")
    assert bucket.listings[4] is None
    assert all_once(query) == query.delivered
    assert bucket.listings[-1] is not None


def test_of_the_keys_of_the_past_only_those_of_some_minutes_are_kept(bucket):
    bucket.page_size = 1_000
    for number in range(5_000):
        bucket.come(f"{number:04}", NOON - HOUR * number)
    finder = incremental(bucket)
    finder.round()
    assert len(finder._between._known._recent) == 1
