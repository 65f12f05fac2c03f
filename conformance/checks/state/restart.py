"""STATE: restarts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidegate.alignment.budget import Budget
from tidegate.conformance.abilities import Ability
from tidegate.conformance.harness import Row
from tidegate.conformance.lab.elsewhere import offset_after
from tidegate.conformance.lab.explain import difference, listed
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, Split, after
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import Tier, rule
from tidegate.enumerators.planning.offset import INITIAL_OFFSET


@rule("STATE-1", witness=("a restart between two rows of a split",))
def a_restart_goes_on_with_the_rest(lab: Lab) -> None:
    splits = lab.two_splits(*after(*range(6)))
    query = Query(lab, lab.source())

    def one_batch() -> bool | None:
        query.step(Budget(rows=4))
        query.stop()
        return set(query.delivered) >= {row.key for row in _rows(splits)} or None

    lab.until(one_batch, "a query that is restarted after each batch never delivers all that was written")
    for split in splits:
        unread = {
            len(set(split.keys) - set(batch.keys)) for batch in query.batches if set(split.keys) & set(batch.keys)
        }
        if unread - {0}:
            lab.saw("a restart between two rows of a split")
    added = [row for split in splits for row in split.append(BEGIN_MS + 60 * SECOND_MS)]
    query.run_until_read(added)
    _expect_all_once(query)


@rule("STATE-2", needs=(Ability.START_AT_END,))
def a_start_is_kept_though_the_first_batch_fails(lab: Lab) -> None:
    split = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    lab.wait_until_discovered(lab.source())
    query = Query(lab, lab.source_at_end())
    query.plan()
    query.crash()
    _expect_what_came_later(query, split, split.append_each(BEGIN_MS + 2 * SECOND_MS, BEGIN_MS + 3 * SECOND_MS))


@rule("STATE-4", needs=(Ability.NEW_SPLITS,))
def a_split_that_comes_while_down_is_read_from_its_beginning(lab: Lab) -> None:
    before = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    lab.wait_until_discovered(lab.source())
    from_begin = Query(lab, lab.source())
    from_begin.run_until_read(before.rows)
    from_begin.stop()
    queries = {"the query that begins at the beginning": from_begin}
    if lab.can(Ability.START_AT_END):
        from_end = queries["the query that begins at the end"] = Query(lab, lab.source_at_end())
        from_end.step()
        from_end.stop()
    late = lab.split(BEGIN_MS + 2 * SECOND_MS, BEGIN_MS + 3 * SECOND_MS)
    for name, query in queries.items():
        lab.tell(f"continue with {name}")
        query.run_until_read(late.rows)
        query.stop()
        expected = _keys(before.rows + late.rows if query is from_begin else late.rows)
        _expect_same_rows(lab, expected, query.delivered)


@rule("STATE-7", witness=("a crash before the offset was stored", "a crash after it", "a crash after reading"))
def a_crash_at_any_point_costs_nothing(lab: Lab) -> None:
    splits = lab.two_splits(*after(*range(2)))
    query = Query(lab, lab.source())
    query.run_until_read(_rows(splits))
    for number, point in enumerate(
        ("a crash before the offset was stored", "a crash after it", "a crash after reading")
    ):
        for split in splits:
            split.append(BEGIN_MS + (10 + number) * SECOND_MS)
        lab.until(partial(_get_to, query, point), "rows that were added are never planned")
        query.crash()
        lab.saw(point)
        query.run_until_read(_rows(splits))
    query.crash()
    for split in splits:
        split.append(BEGIN_MS + 60 * SECOND_MS)
    query.run_until_read(_rows(splits))
    _expect_all_once(query)


def _get_to(query: Query, point: str) -> bool | None:
    """Begin a batch and get to a point of it."""
    if point == "a crash before the offset was stored":
        return query.running.latest_offset(query.last_offset) != query.last_offset or None
    planned = query.plan()
    if planned and point == "a crash after reading":
        query.read()
    return planned or None


@rule("STATE-9", tier=Tier.FAULTS, witness=("a planner that was killed",))
def a_killed_planner_is_succeeded(lab: Lab) -> None:
    splits = lab.two_splits(*after(*range(3)))
    query = Query(lab, lab.source())
    lab.wait_until_discovered(lab.source())
    elsewhere = lab.elsewhere()
    lab.tell("plan the first batch in another process")
    offset = elsewhere.call(offset_after, lab.open_run, query.source, query.cores, INITIAL_OFFSET)
    lab.expect(offset != INITIAL_OFFSET, "the first plan of a query gives the offset that it was given")
    lab.tell("kill that process")
    elsewhere.kill()
    lab.saw("a planner that was killed")
    query.run_until_read(_rows(splits))
    _expect_all_once(query)


def _rows(splits: Sequence[Split]) -> list[Row]:
    return [row for split in splits for row in split.rows]


def _keys(rows: Sequence[Row]) -> list[str]:
    return [row.key for row in rows]


def _expect_all_once(query: Query) -> None:
    query.lab.refuse(query.missing())


def _expect_same_rows(lab: Lab, expected: Sequence[str], delivered: Sequence[str]) -> None:
    lab.refuse(difference({0: expected}, delivered, in_order=False))


def _expect_what_came_later(query: Query, split: Split, later: list[Row]) -> None:
    earlier = [row.key for row in split.rows if row not in later]
    query.run_until_read(later)
    again = [key for key in query.delivered if key in earlier]
    query.lab.expect(not again, f"rows that were there before the start are delivered: {listed(again)}")
    _expect_same_rows(query.lab, _keys(later), query.delivered)
