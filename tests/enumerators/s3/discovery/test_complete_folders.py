"""The time up to which folders are complete does not depend on the order of their objects and markers."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.enumerators.s3.discovery.complete_folders import CompleteFolders
from tidegate.enumerators.s3.standing import S3Snapshot
from tidegate.enumerators.s3.times.markers import MarkedFolder
from tidegate.errors import CheckpointError
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
