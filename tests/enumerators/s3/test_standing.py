"""Discovery rounds as steps from one standing to the next: every chunk stays, and each name has its file."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.enumerators.s3.objects import chunk_table
from tidegate.enumerators.s3.standing import MOST_MANIFESTS, ManifestStanding, S3Snapshot
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.readers.objects.values import Chunk, S3Object

BEGIN = ManifestStanding(S3Snapshot("a", 0, None))
MODIFIED = 1_700_000_000_000


def chunk(key, time_ms=5):
    return Chunk(key, 100, "e", MODIFIED, 0, 100, 7, time_ms, time_ms)


def seen(*keys):
    made = SeenObjects(None)
    made.add([S3Object(key, 100, "e", MODIFIED) for key in keys])
    made.end_round(MODIFIED)
    return made


def unread(standing, committed):
    keys = Counter()
    for split, manifest in standing.live.items():
        keys.update(manifest.chunks(committed.get(split, 0), len(manifest)).column("key").to_pylist())
    return keys


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=15, max_size=30))
def test_rounds_lose_no_chunk_and_give_none_twice_however_they_are_read_and_merged(rounds):
    standing, committed, expected, files, number = BEGIN, {}, Counter(), {}, 0
    for count, read in rounds:
        keys = [f"{number + n:03}" for n in range(count)]
        number += count
        expected.update(keys)
        before = standing
        steps = [standing.without_read(committed).after_round(chunk_table(map(chunk, keys)), seen())]
        steps.append(steps[0].standing.merged(committed))
        standing = steps[-1].standing
        for step in steps:
            assert not files.keys() & step.files.keys()
            files |= step.files
        assert len(standing.live) <= MOST_MANIFESTS
        assert all(committed.get(split, 0) < len(manifest) for split, manifest in standing.live.items())
        assert unread(standing, committed) == expected
        assert all(files[split] == manifest.data for split, manifest in standing.live.items())
        assert standing.snapshot.number - before.snapshot.number <= len(steps)
        for split, manifest in [*standing.live.items()][:1]:
            done = committed.get(split, 0)
            end = min(done + read, len(manifest))
            expected.subtract(manifest.chunks(done, end).column("key").to_pylist())
            committed[split] = end
        expected += Counter()


def test_what_was_seen_is_named_beside_the_manifest_and_each_of_its_runs_is_written_once():
    memory = seen("a", "b")
    step = BEGIN.after_round(chunk_table([chunk("a"), chunk("b")]), memory)
    (manifest,) = step.standing.live
    assert [*step.files] == [manifest, *(run.name for run in memory.runs)]
    assert {*step.standing.snapshot.runs} == {run.name for run in memory.runs}
    assert step.standing.after_round(chunk_table([]), memory).files == {}
    assert BEGIN.snapshot.runs == ()
