"""SPLIT: discovery of splits, their names, and splits that grow, end, lose rows and vanish."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import closing
from itertools import count

from tidegate.conformance.harness import Ability
from tidegate.conformance.lab.explain import difference, listed
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, Split, after
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import rule
from tidegate.connector import Extent, Source, SplitEnumerator, SplitId
from tidegate.errors import DataLossError

_LOOKS = 3


@rule("SPLIT-1", needs=(Ability.NEW_SPLITS,), witness=("a split that came later",))
def a_split_that_comes_later_is_read_from_its_beginning(lab: Lab) -> None:
    """A split that comes later is read from its beginning.

    Otherwise a query loses the first rows of a split that appears while it runs or while it is down, even if it began
    at the end.

    Look at: starts() with first=False, which ignores the option; a discover() that searches only once; a run with a
    state that takes its first discovery for a new query's.
    """
    old = lab.split(*after(0, 1))
    lab.wait_until_discovered(lab.source())
    query = Query(lab, lab.source())
    query.run_until_read(old.rows)
    _expect_later(lab, query, [])
    if lab.can(Ability.START_AT_END):
        lab.tell("the next query begins at the end")
        query, before = Query(lab, lab.source_at_end()), list(lab.splits)
        query.step()
        _expect_later(lab, query, before)


def _expect_later(lab: Lab, query: Query, before: list[Split]) -> None:
    """Add splits while a query runs, and while it is down.  Expect it to read all but the splits before."""
    for is_down in (False, True):
        if is_down:
            query.stop()
        query.run_until_read(lab.split(*after(2, 3)).rows)
        lab.saw("a split that came later")
    query.stop()
    wanted = {split.number: split.keys for split in lab.splits if split not in before}
    lab.refuse(difference(wanted, query.delivered, wanted="asked for"))


@rule("SPLIT-10")
def looking_again_changes_nothing(lab: Lab) -> None:
    """Looking again changes nothing.

    Any difference is a new offset, so the query would make empty batches forever. Splits, extents, stops, snapshot and
    offset stay the same, in a later second too, as long as nothing is added.

    Look at: a time or a counter in snapshot(); an estimated extent; a discover() that returns only new splits.
    """
    lab.two_splits(BEGIN_MS, BEGIN_MS + SECOND_MS)
    source = lab.source()
    with closing(lab.enumerator(source)) as enumerator:

        def answers(splits: list[SplitId]) -> dict[str, object]:
            return {
                "discover()": splits,
                "extents()": dict(sorted(enumerator.extents(splits).items())),
                "stops()": dict(sorted(enumerator.stops(splits).items())),
                "snapshot()": json.dumps(enumerator.snapshot(), sort_keys=True),
            }

        first, second, discoveries = answers(lab.discovered(enumerator)), int(time.time()), count(2)

        def look_in_a_later_second() -> bool | None:
            later = int(time.time()) > second  # asked before the discovery, which then takes place in the later second
            discovery, now = next(discoveries), answers(sorted(set(enumerator.discover())))
            changed = [method for method in first if first[method] != now[method]]
            lab.expect(
                not changed,
                f"nothing was added, but {listed(changed)} changed by discovery {discovery}"
                + "".join(f": from {first[method]} to {now[method]}" for method in changed[:1]),
            )
            return (discovery > _LOOKS and later) or None

        # A clock in a snapshot may count seconds.
        lab.until(look_in_a_later_second, "the second does not end")
    query = Query(lab, source)
    query.run_until_read(lab.rows)
    for _ in range(2):  # a split that is read to its end may be forgotten, after one more discovery
        query.pass_time(1.0)
    for number in range(1, 4):
        query.clock.sleep(1.0)
        lab.expect(not query.plan(), f"the query has read everything, but plan {number} after that makes a new offset")


@rule("SPLIT-11")
def a_split_keeps_its_name_and_an_end_never_goes_back(lab: Lab) -> None:
    """A split keeps its name, and its end never goes back.

    A renamed split is read again from its beginning. An end that goes back looks like data loss, or makes the query
    skip rows. Names are texts in UTF-8, begin and end are ints that never go back, and a split that gets nothing more
    is settled in the end.

    Look at: names that are numbers, or contain a size, a time or an index; an end from a replica that lags behind; the
    extent of an empty split; NumPy numbers; settled, which is false only while rows before the end cannot be seen yet.
    """
    split = lab.split()
    enumerator = lab.enumerator(lab.source())
    before = dict(enumerator.extents(enumerator.discover()))
    _expect_sane(lab, before, before)
    for number in range(5):
        split.append(BEGIN_MS + number * SECOND_MS)
        if number == 2 and lab.can(Ability.NEW_SPLITS):
            lab.split(BEGIN_MS)
        splits = lab.discovered(enumerator)
        gone = sorted(before.keys() - set(splits))
        lab.expect(not gone, f"{listed(gone)} is not found any more; discovery finds {listed(splits)}")
        for _ in range(3):
            now = enumerator.extents(splits)
            _expect_sane(lab, before, now)
            before |= now
    lab.until(
        lambda: all(extent.settled for extent in enumerator.extents(splits).values()) or None,
        "nothing more comes, but a split is never settled: it would hold back the others and the watermark forever",
    )


@rule("SPLIT-12")
def starts_and_stops_answer_for_every_split(lab: Lab) -> None:
    """Starts and stops answer for every split.

    A split without a start is never read, and one with a wrong start loses its first rows. Both methods answer for
    exactly the splits in the question, including empty ones. No start is before the begin, and no row before its start.

    Look at: splits without rows, whose begin and end are the next position; a start that names the last row instead of
    the next one; a start of 0 instead of the begin.
    """
    for written in lab.two_splits(*after(0, 1, 2)):
        if lab.can(Ability.RETENTION):
            written.trim(1)
    empty = lab.split() if lab.can(Ability.MANY_SPLITS) else None
    source, enumerator = lab.opened()
    splits = lab.discovered(enumerator)
    stops = enumerator.stops(splits)
    _expect_answers(lab, "stops()", splits, stops)
    extents = enumerator.extents(splits)
    for first in (True, False):
        starts = enumerator.starts(splits, first=first)
        _expect_answers(lab, f"starts(first={first})", splits, starts)
        for split, start in starts.items():
            lab.expect(
                isinstance(start, int), f"starts(first={first}) says {start!r} for {split!r}, which is not an int"
            )
            begin = extents[split].begin
            lab.expect(start >= begin, f"starts(first={first}) says {start} for {split!r}, which begins at {begin}")
        ranges = lab.ranges({s: Extent(starts[s], extents[s].end) for s in splits})
        lab.tell(f"read everything from starts(first={first}) on")
        lab.compare(lab.keys(lab.read(source, ranges, enumerator)))
    if empty is not None:
        empty.append_each(*after(3, 4))
        extents = enumerator.extents(lab.discovered(enumerator))
        ranges = lab.ranges({s: Extent(starts.get(s, e.begin), e.end) for s, e in extents.items()})
        lab.compare(lab.keys(lab.read(source, ranges, enumerator)))


@rule("SPLIT-14", needs=(Ability.FINITE_SPLITS,), witness=("a split that is complete",))
def a_split_is_complete_only_once_nothing_comes(lab: Lab) -> None:
    """A split is complete only once nothing can come.

    Rows that come after a split is complete are late, and a split that never completes holds back all others. If splits
    can grow, it is not complete before the writer's finish(), and afterwards it never changes or disappears unread.

    Look at: a discover() that returns only open splits; the order of requests: ask for completeness first, then for the
    end; a finish that the enumerator never looks for; a split without rows, which is not complete for that alone.
    """
    split = lab.split()
    source, enumerator = lab.opened()
    ends: dict[SplitId, int] = {}
    known: set[SplitId] = set()

    def look() -> Mapping[SplitId, Extent]:
        extents = enumerator.extents(enumerator.discover())
        known.update(extents)
        gone = sorted(known - extents.keys())
        lab.expect(not gone, f"{listed(gone)} is not read to its end, but discover() or extents() leaves it out")
        for name, extent in extents.items():
            if name in ends:
                lab.expect(extent.complete, f"{name!r} was complete, but no longer is")
                lab.expect(
                    extent.end == ends[name], f"{name!r} was complete at {ends[name]}, but now ends at {extent.end}"
                )
            elif extent.complete:
                ends[name] = extent.end
        return extents

    for number in range(4):
        lab.discovered(enumerator)
        extents = look()
        early = [name for name, extent in extents.items() if extent.complete]
        if lab.can(Ability.GROWING_SPLITS):
            lab.expect(not early, f"{listed(early)} is complete, though rows can still come")
        split.append(BEGIN_MS + number * SECOND_MS)
    split.finish()
    lab.until(lambda: all(e.complete for e in look().values()) or None, "the split is finished, but never complete")
    look()
    lab.saw("a split that is complete")
    lab.compare(lab.keys(lab.read(source, lab.everything(enumerator), enumerator)))


@rule("SPLIT-17", needs=(Ability.REMOVABLE_SPLITS,))
def rows_that_go_with_a_split_are_data_loss(lab: Lab) -> None:
    """Rows that go with a removed split are data loss.

    Otherwise nobody notices that unread rows are gone. discover() stops returning the split, extents() does not fail
    for it, lost() names it and forget() does not, and the query ends with a DataLossError that names it.

    Look at: forget(), which names only splits that are read to their ends; lost(), which checks whether the split
    exists; extents() of a split that has just vanished, which leaves it out.
    """
    lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    gone = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    source = lab.source()
    query = Query(lab, source)
    query.run_until_read(lab.rows)
    query.process_all()
    query.stop()
    with closing(lab.enumerator(source)) as enumerator:
        names = _only_of(lab, source, enumerator, gone)
        starts = enumerator.starts(names, first=True)
        gone.append(BEGIN_MS + 2 * SECOND_MS)
        gone.remove()
        enumerator.extents(names)  # the planner asks so until it discovers again
        lab.until(
            lambda: None if set(names) & set(enumerator.discover()) else True,
            f"{listed(names)} is deleted, but still discovered",
        )
        forgotten = sorted(enumerator.forget(starts))
        lab.expect(not forgotten, f"forget() names {listed(forgotten)}, whose rows were never read")
        lost = sorted(enumerator.lost(starts))
        lab.expect(lost == names, f"{listed(names)} is deleted, but lost() names {listed(lost) or 'nothing'}")
    query.start()
    try:
        query.process_all()
    except DataLossError as loss:
        error = loss
    else:
        raise lab.fail(f"{listed(names)} is deleted with an unread row, but the query continues")
    named = [name for name in names if name in str(error)]
    lab.expect(named, f"the error does not name the deleted split {listed(names)}: {error}")


@rule("SPLIT-20", needs=(Ability.RETENTION,))
def a_begin_moves_with_every_row_that_is_deleted(lab: Lab) -> None:
    """A begin moves with every row that is deleted, and for its own split alone.

    A begin that lags hides the loss of a row, and another split's begin reports a loss that never happened.

    Look at: an off-by-one error; the begin of a split whose rows are all deleted, which is its end; a request for the
    first row of all splits instead of one.
    """
    if lab.can(Ability.MANY_SPLITS):
        lab.split(*after(0, 1))
    split = lab.split(*after(0, 1, 2))
    source, enumerator = lab.opened()
    placed = lab.placed(source, enumerator)
    before = enumerator.extents(sorted(placed))
    stands = {key: (name, at) for name, rows in placed.items() for at, keys in rows.items() for key in keys}
    others = before.keys() - {stands[key][0] for key in split.keys}
    for trimmed, row in enumerate(split.rows, 1):
        split.trim(trimmed)
        name, gone_at = stands[row.key]

        def moved(name: str = name, gone_at: int = gone_at) -> Mapping[str, Extent] | None:
            extents = enumerator.extents(enumerator.discover())
            return extents if name not in extents or extents[name].begin > gone_at else None

        extents = lab.until(
            moved, f"the row at {gone_at} of {name!r} is deleted, but {name!r} does not begin behind it"
        )
        _expect_sane(lab, before, extents)
        for key in split.keys:
            where, at = stands[key]
            begin = extents[where].begin
            lab.expect(begin <= at, f"{where!r} begins at {begin}, but its row {key} at {at} is still there")
        for other in others:
            was, begin = before[other].begin, extents[other].begin
            lab.expect(was == begin, f"{other!r} began at {was}, but begins at {begin} since rows of {name!r} are gone")


def _expect_sane(lab: Lab, before: Mapping[SplitId, Extent], now: Mapping[SplitId, Extent]) -> None:
    for split, extent in now.items():
        for name, at in (("begin", extent.begin), ("end", extent.end)):
            lab.expect(
                type(at) is int, f"the {name} of {split!r} is {at!r}, which is not an int but {type(at).__name__}"
            )
            was = getattr(before.get(split, extent), name)
            lab.expect(at >= was, f"the {name} of {split!r} went back from {was} to {at}")
        lab.expect(extent.begin <= extent.end, f"{split!r} begins at {extent.begin}, past its end {extent.end}")


def _expect_answers(lab: Lab, method: str, splits: list[SplitId], answers: Mapping[SplitId, object]) -> None:
    lacking, others = sorted(set(splits) - set(answers)), sorted(set(answers) - set(splits))
    lab.expect(not lacking, f"{method} does not answer for {listed(lacking)}")
    lab.expect(not others, f"{method} was not asked for {listed(others)}")


def _only_of(lab: Lab, source: Source, enumerator: SplitEnumerator, wanted: Split) -> list[SplitId]:
    """Return the splits that hold rows of one of the kit's splits."""
    keys = set(wanted.keys)
    return [
        whole.split_id
        for whole in lab.everything(enumerator)
        if keys.intersection(lab.keys(lab.read(source, [whole], enumerator)))
    ]
