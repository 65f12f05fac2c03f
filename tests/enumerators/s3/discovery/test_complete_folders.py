"""Folders are complete by their markers, in whatever order rounds find these and the objects."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.enumerators.s3.objects import COLUMN, MODIFIED, discovery
from tidegate.enumerators.s3.discovery.complete_folders import CompleteFolders, MarkedFolders
from tidegate.enumerators.s3.standing import S3Snapshot
from tidegate.enumerators.s3.times.origin import MarkedFolder, parse_markers
from tidegate.errors import CheckpointError
from tidegate.readers.event_time.columns import EventTimeRange
from tidegate.readers.objects.values import TimeRange

FOLDERS = st.lists(st.tuples(st.sampled_from(["", "eu/", "us/"]), st.integers(0, 12), st.booleans()), max_size=40)


def folder(hour, root="eu/"):
    return MarkedFolder(root, TimeRange(hour * 10, hour * 10 + 9))


def expected(steps):
    """Return the watermark, computed with sets of folders, and the first hour that holds it back."""
    complete, marked, known = -1, set(), set()
    for root, hour, is_marker in steps:
        if hour <= complete:
            continue
        known.add((root, hour))
        if is_marker:
            marked.add((root, hour))
            first_open = min((h for _, h in known - marked), default=99)
            complete = max(complete, *(h for _, h in marked if h < first_open), -1)
    open_hours = [h for _, h in known - marked if h > complete]
    return (None if complete < 0 else complete * 10 + 9), (open_hours and min(open_hours) * 10) or None


@settings(max_examples=500)
@given(FOLDERS)
def test_a_folder_holds_from_its_first_object_until_its_marker_and_no_other_prefix_s(steps):
    steps = [(root, hour + 1, is_marker) for root, hour, is_marker in steps]
    folders = CompleteFolders("t")
    for root, hour, is_marker in steps:
        at = folder(hour, root)
        folders = folders.with_markers([at]) if is_marker else folders.with_objects([at])
        folders = CompleteFolders.from_json(json.loads(json.dumps(folders.to_json())), "t")
    assert (folders.complete_ms, folders.holding_ms) == expected(steps)


@settings(max_examples=300)
@given(FOLDERS, FOLDERS)
def test_markers_that_are_found_at_once_are_those_found_one_by_one(before, steps):
    start = CompleteFolders("t")
    for root, hour, is_marker in before:
        at = folder(hour, root)
        start = start.with_markers([at]) if is_marker else start.with_objects([at])
    objects = [folder(hour, root) for root, hour, is_marker in steps if not is_marker]
    markers = [folder(hour, root) for root, hour, is_marker in steps if is_marker]
    one_by_one = start
    for at in objects:
        one_by_one = one_by_one.with_objects([at])
    for at in markers:
        one_by_one = one_by_one.with_markers([at])
    assert start.with_objects(objects).with_markers(markers) == one_by_one


def test_a_year_of_folders_takes_no_room():
    folders = CompleteFolders("t").with_objects(map(folder, range(8760)))
    for hour in range(1, 8760):
        folders = folders.with_markers([folder(hour)])
    assert folders.complete_ms is None
    assert len(json.dumps(folders.to_json())) < 150
    assert folders.with_markers([folder(0)]).complete_ms == 87_599


def test_prefixes_with_the_same_folders_stand_together():
    folders = CompleteFolders("t").with_objects([folder(1), folder(1, "us/"), folder(3), folder(3, "us/")])
    assert folders.to_json()["stretches"] == [{"roots": ["eu/", "us/"], "periods": [[10, 19, 0], [30, 39, 0]]}]


def test_another_template_keeps_the_watermark_and_forgets_the_folders():
    state = CompleteFolders("t").with_objects([folder(1)]).with_markers([folder(0)]).to_json()
    assert CompleteFolders.from_json(state, "t").holding_ms == 10
    assert CompleteFolders.from_json(state, "u") == CompleteFolders("u", 9)


@pytest.mark.parametrize("stretches", [[[10, 19, 0]], {"eu/": [[10, 19, 0]]}])
def test_folders_of_another_layout_are_refused_and_no_hold_is_forgotten(stretches):
    folders = {"template": "t", "complete": 9, "stretches": stretches}
    with pytest.raises(CheckpointError, match="stretches"):
        S3Snapshot.from_json(S3Snapshot("a", 0, None, folders=folders).to_json())


MARKERS = parse_markers("marker:dt={yyyy-MM-dd}/hour={HH}/_SUCCESS")
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
FIRST = 1_699_999_200_000 - 2 * HOUR_MS  # 20:00 on 14 November 2023


def folder_of(hour):
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
    store.put(f"{folder_of(hour)}_SUCCESS", **fields)


def complete(rounds):
    at_ms = rounds.folders.known.complete_ms
    return None if at_ms is None else (at_ms + 1 - FIRST) // HOUR_MS


def test_a_marker_is_no_data_and_completes_its_folder(store, rounds):
    store.put(f"{folder_of(0)}a", [FIRST])
    assert len(rounds.round()) == 1
    assert complete(rounds) is None
    mark(store, 0)
    assert len(rounds.round()) == 0
    assert complete(rounds) == 1
    assert store.surveyed == [f"{folder_of(0)}a"]


def test_an_object_that_the_listing_missed_is_found_before_its_marker_counts(store, rounds):
    store.page_size = 1
    store.put(f"{folder_of(0)}a", [FIRST])
    mark(store, 0)

    def written_behind_the_listing(page):
        if page[0].key.endswith("_SUCCESS"):
            store.put(f"{folder_of(0)}A", [FIRST + 1])  # its place in the order of the keys was passed

    store.on_page = written_behind_the_listing
    assert len(rounds.round()) == 2
    assert complete(rounds) == 1


def test_folders_of_old_markers_are_not_listed_again(store, rounds):
    mark(store, 0, modified_ms=MODIFIED - 20 * MINUTE_MS)
    mark(store, 1, modified_ms=MODIFIED - 10 * MINUTE_MS)
    rounds.round()
    rounds.round()
    assert rounds.listed_again == [folder_of(1)]
    assert complete(rounds) == 2


def test_a_marker_that_comes_while_a_folder_is_listed_again_waits_for_a_round(store, rounds):
    mark(store, 0)
    listed = rounds.folders.pages

    def pages(prefix):
        mark(store, 1)
        store.put(f"{folder_of(1)}a", [FIRST + HOUR_MS])
        yield from listed("")

    rounds.folders.pages = pages
    rounds.round()
    assert complete(rounds) == 1
    rounds.folders.pages = listed
    rounds.round()
    assert complete(rounds) == 2


def test_a_round_that_fails_completes_nothing(store, rounds):
    mark(store, 0)
    store.put(f"{folder_of(0)}a", [FIRST])
    store.on_survey = lambda _: 1 / 0
    with pytest.raises(ZeroDivisionError):
        rounds.round()
    assert complete(rounds) is None
    store.on_survey = lambda _: None
    assert len(rounds.round()) == 1
    assert complete(rounds) == 1


def test_objects_that_are_not_read_hold_nobody(store, rounds):
    store.put(f"{folder_of(0)}a", [FIRST])
    mark(store, 1)
    rounds.round(existing=False)
    assert complete(rounds) == 2
    store.put(f"{folder_of(2)}a", [FIRST + 2 * HOUR_MS])
    mark(store, 3)
    rounds.round()
    assert complete(rounds) == 2


def test_objects_outside_the_times_that_are_read_hold_nobody(store):
    wanted = EventTimeRange(FIRST + HOUR_MS, None)
    finder = discovery(store, replace(COLUMN, wanted=wanted), clock=lambda: MODIFIED / 1000)
    finder.folders = MarkedFolders(MARKERS, store.pages_below)
    store.put(f"{folder_of(0)}a", [FIRST])
    store.put(f"{folder_of(1)}a", [FIRST + HOUR_MS])
    mark(store, 2)
    finder.round()
    assert finder.folders.known.holding_ms == FIRST + HOUR_MS
    mark(store, 1)
    finder.round()
    assert complete(finder) == 3


def test_an_object_without_rows_holds_its_folder(store, rounds):
    store.put(f"{folder_of(0)}a")
    mark(store, 1)
    rounds.round()
    assert complete(rounds) is None
