"""Manifests answer as a list of chunks does, and discovery rounds are steps from one standing to the next."""

from __future__ import annotations

import pickle
import random
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.enumerators.s3.objects import MODIFIED, chunk_table
from tidegate.alignment.budget import Cost
from tidegate.alignment.splits import NEVER_MS, Head
from tidegate.enumerators.s3 import manifest as manifest_module
from tidegate.enumerators.s3.manifest import Manifest
from tidegate.enumerators.s3.standing import MOST_MANIFESTS, ManifestStanding, S3Snapshot
from tidegate.enumerators.s3.state.seen_objects import SeenObjects
from tidegate.errors import CheckpointError
from tidegate.readers.objects.values import Chunk, S3Object

small = st.integers(-5, 20)
ranges = st.tuples(small, st.integers(0, 10)).map(lambda pair: (pair[0], pair[0] + pair[1]))
chunks = st.builds(
    lambda key, start, length, rows, times: Chunk(
        key, 100, "e", 7, start, start + length, rows, *(times or (None, None))
    ),
    st.sampled_from(["a", "b", "ü"]),
    st.sampled_from([0, 0, 10, 20]),
    st.integers(0, 9),
    st.integers(0, 5),
    st.none() | ranges,
)
lists = st.lists(chunks, max_size=12)


def built(number, of) -> Manifest:
    return Manifest.build(number, chunk_table(of))


def rows(batch: pa.RecordBatch) -> list[Chunk]:
    return [Chunk(**row) for row in batch.to_pylist()]


def everything(manifest: Manifest) -> list[Chunk]:
    return rows(manifest.chunks(0, len(manifest)))


def by_hand(of) -> list[Chunk]:
    return sorted(of, key=lambda c: (c.min_ms is not None, c.min_ms or 0, c.key, c.start))


@pytest.fixture(params=["batches of 3", "one batch"])
def batches(request, monkeypatch):
    if request.param == "batches of 3":
        monkeypatch.setattr(manifest_module, "CHUNKS_PER_BATCH", 3)


several = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.usefixtures("batches")
@several
@given(lists)
def test_every_question_is_answered_as_a_list_of_chunks_would(chunks):
    manifest = built(3, chunks)
    ordered = everything(manifest)
    assert [(c.min_ms, c.key, c.start) for c in ordered] == [(c.min_ms, c.key, c.start) for c in by_hand(chunks)]
    assert sorted(map(repr, ordered)) == sorted(map(repr, chunks))
    assert len(manifest) == len(chunks)

    def first(start, wanted):
        return next((Head(i, c.min_ms) for i, c in enumerate(ordered) if i >= start and wanted(c)), None)

    for time_ms in range(-7, 23):
        assert manifest.lookup(time_ms) == first(0, lambda c: c.min_ms is not None and c.min_ms >= time_ms)  # noqa: B023
    for start in range(len(chunks) + 1):
        assert manifest.head(start) == first(start, lambda c: c.min_ms is not None)
        assert manifest.latest(start) == max((c.max_ms for c in ordered[:start] if c.max_ms is not None), default=None)
        for end in range(start, len(chunks) + 1):
            part = ordered[start:end]
            assert rows(manifest.chunks(start, end)) == part
            assert manifest.cost(start, end) == Cost(
                sum(c.rows for c in part), sum(c.end - c.start for c in part), sum(c.start == 0 for c in part)
            )
            beyond = [c.max_ms - 5 for c in part if c.max_ms is not None]
            assert manifest.overshoot_ms(start, end, 5) == max([0, *beyond])


@pytest.mark.usefixtures("batches")
@several
@given(lists, st.randoms())
def test_what_is_stored_is_what_was_built_whatever_the_order(chunks, dice):
    distinct = list({(c.min_ms, c.key, c.start): c for c in chunks}.values())
    manifest = built(12, distinct)
    dice.shuffle(distinct)
    assert built(12, distinct).id == manifest.id
    one_by_one = pa.concat_tables([chunk_table([]), *(chunk_table([chunk]) for chunk in distinct)])
    assert Manifest.build(12, one_by_one).id == manifest.id
    parsed = Manifest.parse(manifest.id, manifest.data)
    assert (parsed.id, parsed.number, parsed.data) == (manifest.id, 12, manifest.data)
    assert everything(parsed) == everything(manifest)


def test_times_at_the_ends_of_what_an_integer_holds_are_times():
    ends = [Chunk("a", 1, "", 0, 0, 1, 1, time_ms, time_ms) for time_ms in (-(2**63), 2**63 - 1)]
    manifest = built(0, ends)
    assert manifest.lookup(-(2**63)) == Head(0, -(2**63))
    assert manifest.latest(1) == -(2**63)
    assert manifest.latest(2) == 2**63 - 1


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:99] + b"?" + data[100:], lambda _: b""])
def test_damaged_data_is_refused(damage):
    manifest = built(1, [Chunk("a", 1, "", 0, 0, 1, 1, 5, 6)])
    with pytest.raises(CheckpointError, match=f"^the manifest '{manifest.id}' in the state location is damaged: "):
        Manifest.parse(manifest.id, damage(manifest.data))


def test_an_id_that_names_no_manifest_is_refused():
    manifest = built(1, [])
    with pytest.raises(CheckpointError, match="'seen-1234'"):
        Manifest.parse("seen-1234", manifest.data)
    sink = pa.BufferOutputStream()
    pa.ipc.new_file(sink, pa.schema([pa.field("key", pa.string())])).close()
    for data, why in (
        (sink.getvalue().to_pybytes(), "is of another version of tidegate"),
        (b"no Arrow", "cannot be read"),
    ):
        stranger = Manifest(1, data)
        with pytest.raises(CheckpointError, match=f"^the manifest '{stranger.id}' {why}"):
            Manifest.parse(stranger.id, data)


def test_a_range_is_pickled_without_the_rest():
    dice = random.Random(1)
    many = [Chunk(dice.randbytes(20).hex(), 1, "e", 0, 0, 1, 1, i, i) for i in range(20_000)]
    part = built(0, many).chunks(10_000, 10_010)
    assert len(pickle.dumps(part)) < 5_000
    assert rows(part) == many[10_000:10_010]


BEGIN = ManifestStanding(S3Snapshot("a", 0, None))


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


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=15, max_size=30), st.booleans())
def test_rounds_lose_no_chunk_and_give_none_twice_however_they_are_read_and_merged(rounds, holds_group):
    standing, committed, expected, files, number = BEGIN, {}, Counter(), {}, 0
    for count, read in rounds:
        keys = [f"{number + n:03}" for n in range(count)]
        number += count
        expected.update(keys)
        before = standing
        if holds_group:
            standing = standing.with_holding(committed, NEVER_MS)
        steps = [standing.without_read(committed).after_round(chunk_table(map(chunk, keys)), seen())]
        steps.append(steps[0].standing.merged(committed))
        standing = steps[-1].standing
        for step in steps:
            assert not files.keys() & step.files.keys()
            files |= step.files
        assert len(standing.live) <= MOST_MANIFESTS
        read_out = [split for split, manifest in standing.live.items() if committed.get(split, 0) >= len(manifest)]
        assert read_out in ([], [standing.last])
        assert unread(standing, committed) == expected
        assert all(files[split] == manifest.data for split, manifest in standing.live.items())
        assert standing.snapshot.number - before.snapshot.number <= len(steps)
        for split, manifest in [(s, m) for s, m in standing.live.items() if s not in read_out][:1]:
            done = committed.get(split, 0)
            end = min(done + read, len(manifest))
            expected.subtract(manifest.chunks(done, end).column("key").to_pylist())
            committed[split] = end
        expected += Counter()


def live(*rounds):
    """Return the standing after rounds that found chunks of these times, and the names of their manifests."""
    standing = BEGIN
    for number, times_ms in enumerate(rounds):
        chunks = chunk_table(chunk(f"{number}-{at}", time_ms) for at, time_ms in enumerate(times_ms))
        standing = standing.with_chunks(chunks).standing
    return standing, list(standing.live)


@pytest.mark.parametrize("second", [[5], [9, 3], [20]])
def test_a_group_waits_at_the_manifest_that_was_read_last_whatever_its_times_are(second):
    standing, (first, last) = live([5, 10], second)
    read = {first: 2, last: len(second)}
    after = standing.with_holding(read, NEVER_MS)
    assert (after.holding, after.last) == ({last: len(second)}, last)
    assert [*after.without_read(read).live] == [last]
    unread = standing.with_holding({first: 2}, NEVER_MS)
    assert (unread.holding, [*unread.without_read({first: 2}).live]) == ({last: len(second)}, [first, last])


def test_chunks_that_wait_for_the_clock_hold_back_no_group_and_replace_no_manifest_that_was_read():
    standing, (first, second, third, without_time) = live([5], [6, 99], [99], [None])
    assert standing.with_holding({first: 1}, 50).holding == {second: 1}
    read = {first: 1, second: 1}
    after = standing.with_holding(read, 50)
    assert (after.holding, [*after.without_read(read).live]) == ({second: 1}, [second, third, without_time])
    assert standing.with_holding(read, 100).holding == {second: 2, third: 1}
    assert standing.with_holding({first: 1, second: 2}, 50).holding == {second: 2}  # the clock went back
    assert (BEGIN.with_holding({}, 50).holding, BEGIN.with_holding({}, 50).last) == ({}, None)


def test_a_manifest_that_came_before_the_one_that_was_read_last_does_not_replace_it():
    standing, (first, ahead, last, newer) = live([5], [500], [6], [7])
    read = {first: 1, last: 1, newer: 1}
    assert standing.with_holding(read, NEVER_MS).holding == {newer: 1}
    assert standing.with_holding({first: 1, last: 1}, NEVER_MS).holding == {newer: 1}
    assert standing.with_holding({first: 1}, NEVER_MS).holding == {ahead: 1, last: 1, newer: 1}
    assert standing.with_holding({}, NEVER_MS).holding == {first: 1, ahead: 1, last: 1, newer: 1}


def test_the_manifest_at_which_a_group_waits_is_not_merged():
    standing, (first, *others) = live([5, 99], *[[99]] * MOST_MANIFESTS)
    read = {first: 1}
    merged = standing.with_holding(read, 50).merged(read).standing
    kept, rest = merged.live
    assert (kept, len(merged.live[rest]), merged.live.keys() & set(others)) == (first, MOST_MANIFESTS, set())
    assert merged.with_holding(read, 50).holding == {first: 1}


def test_manifests_that_came_before_the_one_that_was_read_last_still_do_once_they_are_merged():
    standing, (*ahead, last, newer) = live(*[[99]] * MOST_MANIFESTS, [5], [6])
    read = {last: 1}
    merged = standing.with_holding(read, NEVER_MS).merged(read).standing
    rest = next(split for split in merged.live if split not in standing.live)
    assert (len(merged.live[rest]), merged.live.keys()) == (len(ahead), {last, newer, rest})
    assert merged.with_holding(read, NEVER_MS).holding == {newer: 1}
    assert merged.with_holding({**read, newer: 1}, NEVER_MS).holding == {newer: 1}


def test_what_was_seen_is_named_beside_the_manifest_and_each_of_its_runs_is_written_once():
    memory = seen("a", "b")
    step = BEGIN.after_round(chunk_table([chunk("a"), chunk("b")]), memory)
    (manifest,) = step.standing.live
    assert [*step.files] == [manifest, *(run.name for run in memory.runs)]
    assert {*step.standing.snapshot.runs} == {run.name for run in memory.runs}
    assert step.standing.after_round(chunk_table([]), memory).files == {}
    assert BEGIN.snapshot.runs == ()
