"""Markers that a discovery round finds."""

from dataclasses import replace

import pytest

from tests.enumerators.s3.objects import COLUMN, MODIFIED, discovery
from tidegate.enumerators.s3.discovery.complete_folders import MarkedFolders
from tidegate.enumerators.s3.times.markers import parse_markers
from tidegate.readers.event_time.columns import EventTimeRange

MARKERS = parse_markers("marker:dt={yyyy-MM-dd}/hour={HH}/_SUCCESS")
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
FIRST = 1_699_999_200_000 - 2 * HOUR_MS  # 20:00 on 14 November 2023


def folder(hour):
    return f"dt=2023-11-14/hour={20 + hour:02}/"


@pytest.fixture
def rounds(store):
    listed = []

    def pages(prefix):
        listed.append(prefix)
        yield from store.pages_below(prefix)

    finder = discovery(store, clock=lambda: MODIFIED / 1000)
    finder.folders = MarkedFolders(MARKERS, pages)
    finder.listed_again = listed
    return finder


def mark(store, hour, **fields):
    store.put(f"{folder(hour)}_SUCCESS", **fields)


def complete(rounds):
    at_ms = rounds.folders.known.complete_ms
    return None if at_ms is None else (at_ms + 1 - FIRST) // HOUR_MS


def test_a_marker_is_no_data_and_completes_its_folder(store, rounds):
    store.put(f"{folder(0)}a", [FIRST])
    assert len(rounds.round()) == 1
    assert complete(rounds) is None
    mark(store, 0)
    assert len(rounds.round()) == 0
    assert complete(rounds) == 1
    assert store.surveyed == [f"{folder(0)}a"]


def test_an_object_that_the_listing_missed_is_found_before_its_marker_counts(store, rounds):
    store.page_size = 1
    store.put(f"{folder(0)}a", [FIRST])
    mark(store, 0)

    def written_behind_the_listing(page):
        if page[0].key.endswith("_SUCCESS"):
            store.put(f"{folder(0)}A", [FIRST + 1])  # its place in the order of the keys was passed

    store.on_page = written_behind_the_listing
    assert len(rounds.round()) == 2
    assert complete(rounds) == 1


def test_folders_of_old_markers_are_not_listed_again(store, rounds):
    mark(store, 0, modified_ms=MODIFIED - 20 * MINUTE_MS)
    mark(store, 1, modified_ms=MODIFIED - 10 * MINUTE_MS)
    rounds.round()
    rounds.round()
    assert rounds.listed_again == [folder(1)]
    assert complete(rounds) == 2


def test_a_marker_that_comes_while_a_folder_is_listed_again_waits_for_a_round(store, rounds):
    mark(store, 0)
    listed = rounds.folders.pages

    def pages(prefix):
        mark(store, 1)
        store.put(f"{folder(1)}a", [FIRST + HOUR_MS])
        yield from listed("")

    rounds.folders.pages = pages
    rounds.round()
    assert complete(rounds) == 1
    rounds.folders.pages = listed
    rounds.round()
    assert complete(rounds) == 2


def test_a_round_that_fails_completes_nothing(store, rounds):
    mark(store, 0)
    store.put(f"{folder(0)}a", [FIRST])
    store.on_survey = lambda _: 1 / 0
    with pytest.raises(ZeroDivisionError):
        rounds.round()
    assert complete(rounds) is None
    store.on_survey = lambda _: None
    assert len(rounds.round()) == 1
    assert complete(rounds) == 1


def test_objects_that_are_not_read_hold_nobody(store, rounds):
    store.put(f"{folder(0)}a", [FIRST])
    mark(store, 1)
    rounds.round(existing=False)
    assert complete(rounds) == 2
    store.put(f"{folder(2)}a", [FIRST + 2 * HOUR_MS])
    mark(store, 3)
    rounds.round()
    assert complete(rounds) == 2


def test_objects_outside_the_times_that_are_read_hold_nobody(store):
    wanted = EventTimeRange(FIRST + HOUR_MS, None)
    finder = discovery(store, replace(COLUMN, wanted=wanted), clock=lambda: MODIFIED / 1000)
    finder.folders = MarkedFolders(MARKERS, store.pages_below)
    store.put(f"{folder(0)}a", [FIRST])
    store.put(f"{folder(1)}a", [FIRST + HOUR_MS])
    mark(store, 2)
    finder.round()
    assert finder.folders.known.holding_ms == FIRST + HOUR_MS
    mark(store, 1)
    finder.round()
    assert complete(finder) == 3


def test_an_object_without_rows_holds_its_folder(store, rounds):
    store.put(f"{folder(0)}a")
    mark(store, 1)
    rounds.round()
    assert complete(rounds) is None
