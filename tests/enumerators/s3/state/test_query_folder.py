"""A query's own part of the state location: a file in it stays as long as an offset names it."""

import pytest

from tests.enumerators.s3.queries import open_ledger
from tidegate.enumerators.s3.manifests.chunk_sorter import ChunkSorter
from tidegate.enumerators.s3.manifests.manifest import Manifest
from tidegate.enumerators.s3.state.query_folder import OFFSETS_REMEMBERED, ORPHAN_S, QueryFolder
from tidegate.errors import CheckpointError, ConnectorError


@pytest.fixture
def folder(tmp_path):
    made = QueryFolder(open_ledger(tmp_path, later_s=2 * ORPHAN_S), "me", {"path": "s3://b/in/"})
    made.hold()
    yield made
    made.release()


@pytest.mark.slow
def test_it_is_held_by_one_query_at_a_time(folder, tmp_path):
    other = QueryFolder(open_ledger(tmp_path), "you", {})
    with pytest.raises(ConnectorError):
        other.hold()
    folder.release()
    folder.release()
    other.hold()
    other.release()


def test_it_refuses_other_options_than_those_of_the_first_run(folder, tmp_path):
    folder.release()
    other = QueryFolder(open_ledger(tmp_path), "me", {"path": "s3://b/out/"})
    with pytest.raises(CheckpointError, match="path is 's3://b/out/', but was 's3://b/in/'"):
        other.hold()
    other.release()


def test_a_manifest_that_is_written_is_read_back(folder):
    manifest = Manifest.build(1, ChunkSorter())
    folder.write({manifest.id: manifest.data})
    assert folder.manifest(manifest.id).data == manifest.data
    with pytest.raises(CheckpointError, match="has lost"):
        folder.manifest(f"{manifest.id}0")


def test_a_note_says_what_it_was_last_told_and_nothing_sweeps_it(folder):
    assert folder.noted("left-out") == b""
    folder.note("left-out", b"one")
    folder.note("left-out", b"two")
    folder.sweep([])
    assert folder.noted("left-out") == b"two"


def test_what_one_of_the_last_offsets_names_stays_and_what_none_names_goes(folder):
    folder.write({f"file{number}": b"x" for number in range(OFFSETS_REMEMBERED + 3)})
    for number in range(OFFSETS_REMEMBERED + 1):
        folder.remember([f"file{number}"])
        folder.remember([f"file{number}"])
    folder.sweep([f"file{OFFSETS_REMEMBERED + 1}"])
    left = {name for name in folder.ledger.names() if name.startswith("file")}
    assert left == {f"file{number}" for number in range(1, OFFSETS_REMEMBERED + 2)}
