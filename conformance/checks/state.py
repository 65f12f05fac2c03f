"""STATE: restarts, the form of snapshots, and snapshots that were changed."""

from __future__ import annotations

import json
import pickle
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidegate.conformance.checks.life import refusal
from tidegate.conformance.harness import Ability
from tidegate.conformance.lab.base import SkippedError
from tidegate.conformance.lab.explain import difference, listed
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, Split, after
from tidegate.conformance.lab.processes import in_another_process
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule
from tidegate.connector import Json, Positions, Source, SplitEnumerator, SplitId, SplitRange
from tidegate.errors import CheckpointError, TidegateError

_UNSTORED, _READ = "a crash before the offset was stored", "a crash after reading"
_CRASHES = (_UNSTORED, "a crash after it", _READ)


@rule("STATE-2", needs=(Ability.START_AT_END,))
def a_start_is_kept_though_the_first_batch_fails(lab: Lab) -> None:
    """A start is kept though the first batch fails.

    A query that begins at the end, and is killed before its first batch is read, would lose the rows in between if it
    looked for the end again.

    Look at: extents() and starts() in a run with a state: only the first run looks for the end.
    """
    split = lab.split(*after(0, 1))
    lab.wait_until_discovered(lab.source())
    query = Query(lab, lab.source_at_end())
    query.plan()
    query.crash()
    later = split.append_each(*after(2, 3))
    query.run_until_read(later)
    wanted = {split.number: [row.key for row in later]}
    lab.refuse(difference(wanted, query.delivered, in_order=False, wanted="asked for"))


@rule("STATE-7", witness=_CRASHES)
def a_restart_at_any_point_costs_nothing(lab: Lab) -> None:
    """A restart at any point of a batch loses nothing and doubles nothing.

    The planner is killed before the offset is stored, after it, after reading and after the commit, and every row comes
    once.

    Look at: rows that are acknowledged, deleted or noted at discovery instead of after commit(), which comes only for
    stored offsets; locks that only close() releases; discover() of an enumerator with a state, which returns the same
    names; state outside of snapshot().
    """
    splits = lab.two_splits(*after(*range(2)))
    query = Query(lab, lab.source())
    query.run_until_read(lab.rows)
    for number, point in enumerate(_CRASHES):
        for split in splits:
            split.append(*after(10 + number))
        lab.until(partial(_get_to, query, point), "rows that were added are never planned")
        query.crash()
        lab.saw(point)
        query.run_until_read(lab.rows)
    for number, end in enumerate((query.crash, query.stop)):
        end()
        for split in splits:
            split.append(*after(60 + number))
        query.run_until_read(lab.rows)
    lab.refuse(query.missing())


def _get_to(query: Query, point: str) -> bool | None:
    """Begin a batch and get to a point of it."""
    if point == _UNSTORED:
        return query.running.latest_offset(query.last_offset) != query.last_offset or None
    planned = query.plan()
    if planned and point == _READ:
        query.read()
    return planned or None


@rule("STATE-10")
def a_snapshot_survives_json(lab: Lab) -> None:
    """A snapshot survives JSON.

    Spark stores it as JSON: None or a dict of JSON values, which comes back unchanged, also from pickling.

    Look at: tuples, which become lists; keys that are not texts; sets, bytes, datetimes, NumPy numbers, NaN and
    infinity.
    """
    lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    enumerator = lab.enumerator(lab.source())
    _expect_json(lab, "the snapshot before discover()", enumerator.snapshot())
    lab.discovered(enumerator)
    _expect_json(lab, "the snapshot after discover()", enumerator.snapshot())


@rule("STATE-12")
def the_same_state_is_the_same_text(lab: Lab) -> None:
    """The same state is the same text.

    A restart that writes its state differently costs an empty batch. An enumerator that is restored from a snapshot,
    here or in another process, gives the same text after its discovery.

    Look at: the order of sets; parts of the state that the constructor does not take; run ids and start times.
    """
    stored = _stored(lab)
    text = _text(restored(stored.source, stored.state, stored.positions))
    lab.expect(text == stored.text, f"the snapshot is {stored.text}, and that of an enumerator restored from it {text}")
    text = _text(in_another_process(restored, stored.source, stored.state, stored.positions))
    lab.expect(text == stored.text, f"the snapshot is {stored.text}, and in another process it becomes {text}")


def restored(source: Source, state: Json, positions: Positions) -> Json | None:
    """Return the snapshot of a restored enumerator after its first discovery."""
    with closing(source.as_stream().enumerator(state)) as enumerator:
        enumerator.commit(positions)
        enumerator.extents(enumerator.discover())
        return enumerator.snapshot()


@rule("STATE-14")
def a_snapshot_of_another_version_is_heeded_or_refused(lab: Lab) -> None:
    """A snapshot of another version is used or refused.

    After a downgrade, a query must not silently read other rows. With an unknown field or without a known one, an
    enumerator continues with the same rows, or raises CheckpointError in one sentence.

    Look at: the constructor and the first discover(), which check the parts of the state that they read; a version
    number in the snapshot.
    """
    stored = _stored(lab)
    _expect_heeded_or_refused(lab, stored, "an unknown field", {**stored.state, "of a newer version": {"v": 2}})
    for name in stored.state:
        without = {key: value for key, value in stored.state.items() if key != name}
        if without:  # a snapshot has fields
            _expect_heeded_or_refused(lab, stored, f"no field {name!r}", without)


@rule("STATE-16", witness=("rows of the first place",))
def a_checkpoint_of_another_place_loses_no_rows(lab: Lab) -> None:
    """A checkpoint of another place loses no rows.

    If the splits of two places have the same names, a query that changes its place would skip rows. It ends with an
    error in one sentence, or delivers all rows of the other place.

    Look at: the name of the place: put it in the snapshot, and compare it in the constructor or in discover().
    """
    here = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    other = lab.make()
    lab.at_close(other.close)
    lab.tell("make another place")
    there = Split(len(lab.splits), other.create_split(), lab.tell)
    there.append_each(*(BEGIN_MS + n * SECOND_MS for n in range(4)))
    query = Query(lab, lab.source())
    query.run_until_read(here.rows)
    query.stop()
    lab.saw("rows of the first place")

    def go_on() -> None:
        query.start(source=other.source({"discoveryInterval": "50 ms"}))
        query.run_until_read(there.rows)

    refusal(lab, "with the checkpoint of another place", go_on, TidegateError)


@dataclass(frozen=True)
class _Stored:
    """A snapshot with its positions, and the splits and rows to which they lead."""

    source: Source
    state: Json
    positions: Positions
    splits: list[SplitId]
    keys: list[str]

    @property
    def text(self) -> str:
        return _text(self.state)


def _stored(lab: Lab) -> _Stored:
    """Write rows, discover and read them.  Raises SkippedError where a snapshot is None."""
    lab.two_splits(BEGIN_MS, BEGIN_MS + SECOND_MS)
    source, enumerator = lab.opened()
    ranges = lab.everything(enumerator)
    state = enumerator.snapshot()
    if not state:
        raise SkippedError(f"the snapshot is {state}")
    keys = lab.keys(lab.read(source, ranges, enumerator))
    splits = sorted(enumerator.discover())
    enumerator.close()
    return _Stored(source, json.loads(_text(state)), {part.split_id: part.start for part in ranges}, splits, keys)


def _expect_heeded_or_refused(lab: Lab, stored: _Stored, what: str, state: Json) -> None:
    lab.tell(f"restore a snapshot with {what}")
    opened: list[SplitEnumerator] = []

    def go_on() -> tuple[list[SplitId], list[str]]:
        opened.append(lab.enumerator(stored.source, json.loads(json.dumps(state)), stored.positions))
        splits = sorted(opened[0].discover())
        extents = opened[0].extents(splits)
        ranges = [SplitRange(split, extents[split].begin, extents[split].end) for split in splits]
        return splits, lab.keys(lab.read(stored.source, ranges, opened[0]))

    answers: list[tuple[list[SplitId], list[str]]] = []
    refusal(lab, f"restored from a snapshot with {what}", lambda: answers.append(go_on()), CheckpointError)
    for enumerator in opened:
        enumerator.close()
    for splits, keys in answers:
        lab.expect(
            splits == stored.splits and sorted(keys) == sorted(stored.keys),
            f"an enumerator restored from a snapshot with {what} raises no error, but reads {len(keys)} rows of "
            f"{listed(splits)} instead of {len(stored.keys)} rows of {listed(stored.splits)}",
        )


def _expect_json(lab: Lab, what: str, state: Json | None) -> None:
    lab.expect(state is None or isinstance(state, dict), f"{what} is {state!r}: neither a dict nor None")
    try:
        again = json.loads(json.dumps(state, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise lab.fail(f"{what} is not JSON: {error}") from error
    lab.expect(_same(again, state), f"{what} is {state!r}, and after JSON {again!r}")
    copy = pickle.loads(pickle.dumps(state))  # noqa: S301 - its own
    lab.expect(copy == state, f"{what} is {state!r}, and after pickling {copy!r}")


def _same(left: Any, other: Any) -> bool:
    """Return whether two values are equal, and of the same types: a tuple is not a list."""
    if type(left) is not type(other):
        return False
    if isinstance(left, dict):
        return left.keys() == other.keys() and all(_same(left[key], other[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(other) and all(map(_same, left, other))
    return bool(left == other)


def _text(state: Json | None) -> str:
    return json.dumps(state, sort_keys=True)
