"""Up to where folders are complete, in whatever order their objects and markers are found."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.enumerators.s3.discovery.complete_folders import CompleteFolders
from tidegate.enumerators.s3.state.snapshot import S3Snapshot
from tidegate.enumerators.s3.times.markers import Folder
from tidegate.readers.objects.values import TimeRange

FOLDERS = st.lists(st.tuples(st.sampled_from(["", "eu/", "us/"]), st.integers(0, 12), st.booleans()), max_size=40)


def folder(hour, root="eu/"):
    return Folder(root, TimeRange(hour * 10, hour * 10 + 9))


def expected(steps):
    """Return the watermark by sets of folders, and the first hour that holds it."""
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
        folders = folders.with_marker(at) if is_marker else folders.with_object(at)
        folders = CompleteFolders.from_json(json.loads(json.dumps(folders.to_json())), "t")
    assert (folders.complete_ms, folders.holding_ms) == expected(steps)


def test_a_year_of_folders_takes_no_room():
    folders = CompleteFolders("t")
    for hour in range(8760):
        folders = folders.with_object(folder(hour))
    for hour in range(1, 8760):
        folders = folders.with_marker(folder(hour))
    assert folders.complete_ms is None
    assert len(json.dumps(folders.to_json())) < 120
    assert folders.with_marker(folder(0)).complete_ms == 87_599


def test_another_template_keeps_the_watermark_and_forgets_the_folders():
    state = CompleteFolders("t").with_object(folder(1)).with_marker(folder(0)).to_json()
    assert CompleteFolders.from_json(state, "t").holding_ms == 10
    assert CompleteFolders.from_json(state, "u") == CompleteFolders("u", 9)


def test_folders_outlive_a_run_in_its_offset():
    folders = CompleteFolders("t").with_object(folder(1)).with_marker(folder(0)).with_marker(folder(3))
    stored = json.loads(json.dumps(S3Snapshot(folders=folders.to_json()).to_json()))
    assert CompleteFolders.from_json(S3Snapshot.from_json(stored).folders, "t") == folders


def test_a_folder_of_an_offset_that_tells_no_prefix_is_completed_by_any_marker_of_its_time():
    state = {"template": "t", "complete": 9, "stretches": [[10, 19, 0], [30, 39, 1]]}
    folders = CompleteFolders.from_json(state, "t")
    assert folders.holding_ms == 10
    assert folders.with_object(folder(1)) == folders
    assert folders.with_marker(folder(1)).complete_ms == 39
