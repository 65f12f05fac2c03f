"""Up to where folders are complete, in whatever order their objects and markers are found."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.enumerators.s3.discovery.complete_folders import CompleteFolders
from tidegate.enumerators.s3.state.snapshot import S3Snapshot
from tidegate.readers.objects.values import TimeRange

HOURS = st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=40)


def period(hour):
    return TimeRange(hour * 10, hour * 10 + 9)


def expected(steps):
    """Return the watermark by sets of hours, and the first hour that holds it."""
    complete, marked, known = -1, set(), set()
    for hour, is_marker in steps:
        if hour <= complete:
            continue
        known.add(hour)
        if is_marker:
            marked.add(hour)
            while (later := [h for h in known if h > complete]) and min(later) in marked:
                complete = min(later)
    open_hours = [h for h in known if h > complete and h not in marked]
    return (None if complete < 0 else complete * 10 + 9), (open_hours and min(open_hours) * 10) or None


@settings(max_examples=500)
@given(HOURS)
def test_a_folder_holds_from_its_first_object_until_its_marker(steps):
    steps = [(hour + 1, is_marker) for hour, is_marker in steps]
    folders = CompleteFolders("t")
    for hour, is_marker in steps:
        folders = folders.with_marker(period(hour)) if is_marker else folders.with_object(period(hour))
        folders = CompleteFolders.from_json(json.loads(json.dumps(folders.to_json())), "t")
    assert (folders.complete_ms, folders.holding_ms) == expected(steps)


def test_a_year_of_folders_takes_no_room():
    folders = CompleteFolders("t")
    for hour in range(8760):
        folders = folders.with_object(period(hour))
    for hour in range(1, 8760):
        folders = folders.with_marker(period(hour))
    assert folders.complete_ms is None
    assert len(json.dumps(folders.to_json())) < 100
    assert folders.with_marker(period(0)).complete_ms == 87_599


def test_another_template_keeps_the_watermark_and_forgets_the_folders():
    state = CompleteFolders("t").with_object(period(1)).with_marker(period(0)).to_json()
    assert CompleteFolders.from_json(state, "t").holding_ms == 10
    assert CompleteFolders.from_json(state, "u") == CompleteFolders("u", 9)


def test_folders_outlive_a_run_in_its_offset():
    folders = CompleteFolders("t").with_object(period(1)).with_marker(period(0)).with_marker(period(3))
    stored = json.loads(json.dumps(S3Snapshot(folders=folders.to_json()).to_json()))
    assert CompleteFolders.from_json(S3Snapshot.from_json(stored).folders, "t") == folders
