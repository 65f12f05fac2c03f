"""STATE: restarts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidegate.alignment.budget import Budget
from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.harness import Row
from tidegate.conformance.lab.elsewhere import batch_of, offset_after
from tidegate.conformance.lab.explain import difference, listed, ordered_difference
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, Split
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import Tier
from tidegate.enumerators.planning.offset import INITIAL_OFFSET

__all__ = [
    "check_a_batch_can_be_read_in_another_process",
    "check_a_batch_that_was_logged_comes_again",
    "check_a_crash_at_any_point_costs_nothing",
    "check_a_killed_planner_is_succeeded",
    "check_a_restart_goes_on_with_the_rest",
    "check_a_split_that_comes_while_down_is_read_from_its_beginning",
    "check_a_split_that_goes_while_down_takes_nothing_along",
    "check_a_start_is_kept_though_the_first_batch_fails",
    "check_a_start_is_kept_though_there_is_nothing_yet",
]


@rule(
    "STATE-1",
    "a restart goes on with the rest",
    purpose="Every deployment is a restart. If a restart loses or doubles rows, every deployment makes the data wrong.",
    tested="A query reads two splits, four rows at a time. It is stopped and started after every batch. While it is "
    "down, rows are appended.",
    passes="The query delivers every row once.",
    look_at=(
        "discover() of an enumerator with a state: return the same splits by the same names",
        "extents(): positions mean the same in every run",
        "the state: the constructor must take all that snapshot() returns",
    ),
    witness=("a restart between two rows of a split",),
    source="SplitEnumerator.snapshot; SplitId",
)
def check_a_restart_goes_on_with_the_rest(lab: Lab) -> None:
    """Restart after every batch."""
    splits = _splits(lab, 6)
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


@rule(
    "STATE-2",
    "a start is kept though the first batch fails",
    purpose="A query begins at the end, and its first batch fails. If it then begins at a later end, it loses the "
    "rows in between.",
    tested="A query that begins at the end plans its first batch. The planner is killed before the batch is read. "
    "Rows are appended, and the query is started again.",
    passes="The query delivers the rows that came after the first plan, and no earlier row.",
    look_at=("extents() and starts() in a run with a state: only the first run looks for the end",),
    needs=(Ability.START_AT_END,),
    source="SplitEnumerator.starts: called once in the life of a checkpoint",
)
def check_a_start_is_kept_though_the_first_batch_fails(lab: Lab) -> None:
    """Kill the planner after its first offset."""
    split = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    _await_all(lab)
    query = Query(lab, lab.source_at_end())
    query.plan()
    query.crash()
    _expect_what_came_later(query, split, split.append_each(BEGIN_MS + 2 * SECOND_MS, BEGIN_MS + 3 * SECOND_MS))


@rule(
    "STATE-3",
    "a start is kept though there is nothing yet",
    purpose="A query may start before its first rows are written. If the start is not stored, rows that come while "
    "it is down are lost.",
    tested="A query that begins at the end of an empty split is started and stopped. Rows are appended, and the "
    "query continues.",
    passes="The query delivers every row once.",
    look_at=("starts(): answer for empty splits, too", "a first discovery that finds nothing: remember it"),
    needs=(Ability.START_AT_END,),
    source="SplitEnumerator.starts; docs/guarantees.md: latest is fixed once, also without any data",
)
def check_a_start_is_kept_though_there_is_nothing_yet(lab: Lab) -> None:
    """Begin at the end of an empty split."""
    split = lab.split()
    query = Query(lab, lab.source_at_end())
    query.step()
    query.stop()
    _expect_what_came_later(query, split, split.append_each(BEGIN_MS, BEGIN_MS + SECOND_MS))


@rule(
    "STATE-4",
    "a split that comes while the query is down is read from its beginning",
    purpose="A deployment may add splits. Their first rows must not be lost.",
    tested="A query is stopped, a split with rows appears, and the query is started again. Where possible, a query "
    "that begins at the end does the same.",
    passes="Each query delivers every row of the new split once. A query that begins at the end delivers no earlier "
    "row.",
    look_at=("starts() with first=False", "a run with a state that takes its first discovery for that of a new query"),
    needs=(Ability.NEW_SPLITS,),
    source="SplitEnumerator.starts: they appeared later and must be read from their beginning",
)
def check_a_split_that_comes_while_down_is_read_from_its_beginning(lab: Lab) -> None:
    """Add a split between two runs."""
    before = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    _await_all(lab)
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


@rule(
    "STATE-5",
    "a split that goes while the query is down takes nothing along",
    purpose="Retention and tenants that leave remove splits at any time. The other splits must continue.",
    tested="failOnDataLoss is false. A query reads two splits and is stopped. One split is deleted, the other gets a "
    "row, and the query is started again.",
    passes="The query delivers all rows of the other split, and no row twice.",
    look_at=(
        "extents(), peek() and lookup() of removed splits: leave them out, or return None",
        "a state that names a removed split",
    ),
    needs=(Ability.REMOVABLE_SPLITS,),
    source="SplitEnumerator.discover: a split that is missing from the answer is removed",
)
def check_a_split_that_goes_while_down_takes_nothing_along(lab: Lab) -> None:
    """Delete a split between two runs."""
    stays, goes = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS), lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    query = Query(lab, lab.source(failOnDataLoss="false"))
    query.run_until_read(stays.rows + goes.rows)
    query.stop()
    goes.remove()
    query.run_until_read(stays.append(BEGIN_MS + 2 * SECOND_MS))
    _expect_same_rows(lab, _keys(_rows([stays, goes])), query.delivered)


@rule(
    "STATE-6",
    "a batch that was logged gives the same rows after a crash",
    purpose="After a crash, Spark reads the last batch again. A sink that has a part of the batch would get another "
    "part.",
    tested="A batch is planned and read. The planner is killed before the batch is committed. Rows and, where "
    "possible, a split are added. The next run reads the batch again.",
    passes="Both readings give the same rows. In the end, the query has delivered every row once.",
    look_at=(
        "the end of a range: read up to it, not up to the present end",
        "details(): derive them from the range and the state alone",
        "a read that uses up rows",
    ),
    source="SplitReader.read: the same range must yield the same rows every time; SupportsDetails.details",
)
def check_a_batch_that_was_logged_comes_again(lab: Lab) -> None:
    """Read a batch in two runs."""
    splits = _splits(lab, 4)
    query = Query(lab, lab.source())
    _await_all(lab)
    lab.until(lambda: query.plan() or None, "nothing is planned though rows are there")
    first = query.read()
    query.crash()
    for split in splits:
        split.append(BEGIN_MS + 60 * SECOND_MS, BEGIN_MS + 61 * SECOND_MS)
    if lab.can(Ability.NEW_SPLITS):
        lab.split(BEGIN_MS)
    query.start()
    query.expect_same(first, query.batches[0], "batch 0, read before and after a crash")
    query.run_until_read(_rows(lab.splits))
    _expect_all_once(query)


@rule(
    "STATE-7",
    "a crash at any point of a batch loses nothing and doubles nothing",
    purpose="Machines fail at any point. Rows that are noted too early are lost, and rows that are noted too late "
    "come twice.",
    tested="The planner is killed at four points: before the offset is stored, after it, after reading, and after "
    "the commit. Rows are appended each time.",
    passes="The query delivers every row once.",
    look_at=(
        "rows that are acknowledged, deleted or noted at discovery instead of after commit()",
        "commit(), which comes only for stored offsets",
        "state outside of snapshot(), which may be ahead of the offset",
    ),
    witness=("a crash before the offset was stored", "a crash after it", "a crash after reading"),
    source="SplitEnumerator.snapshot; SupportsCommit.commit",
)
def check_a_crash_at_any_point_costs_nothing(lab: Lab) -> None:
    """Kill the planner at every point of a batch."""
    splits = _splits(lab, 2)
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
    """Begin a batch and get to a point of it; None: there is nothing to do."""
    if point == "a crash before the offset was stored":
        return query.running.latest_offset(query.last_offset) != query.last_offset or None
    planned = query.plan()
    if planned and point == "a crash after reading":
        query.read()
    return planned or None


@rule(
    "STATE-8",
    "a batch can be read in another process from its offsets alone",
    purpose="Executors are other processes. After a restart, so is the planner, and its memory is gone.",
    tested="A batch is planned and read here. A new process makes the tasks of the batch from its two offsets, and "
    "reads them.",
    passes="Both processes read the same rows.",
    look_at=(
        "caches and globals that the enumerator fills and the reader needs",
        "details() for a batch that an earlier run planned",
        "the parts of the state that the reader needs",
    ),
    source="SplitReader.read: even after the process that planned it has ended; SupportsDetails.details",
)
def check_a_batch_can_be_read_in_another_process(lab: Lab) -> None:
    """Read a batch in a process that knows nothing of it."""
    splits = _splits(lab, 3)
    query = Query(lab, lab.source())
    query.run_until_read(_rows(splits))
    query.stop()
    batch = max(query.batches, key=lambda candidate: len(candidate.keys))
    elsewhere = lab.elsewhere()
    lab.tell(f"read batch {batch.number} in another process")
    read = elsewhere.call(batch_of, lab.open_run, query.source, query.cores, batch.start, batch.end)
    what = f"batch {batch.number} read here, and in another process"
    wrong = ordered_difference(what, sorted(batch.keys), sorted(lab.keys(read)))
    lab.expect(wrong is None, wrong or "")


@rule(
    "STATE-9",
    "a planner that was killed is succeeded by the next",
    purpose="A killed planner closes nothing. A lock that it leaves stops the query until somebody deletes the lock.",
    tested="A planner in a process of its own plans the first batch. It is killed (SIGKILL) before the offset is "
    "stored. Then the query is started here.",
    passes="The query delivers every row once.",
    look_at=("locks, leases and sessions that only close() releases", "files and flags that the first run left behind"),
    tier=Tier.FAULTS,
    witness=("a planner that was killed",),
    source="SplitEnumerator.close: perhaps never (SIGKILL)",
)
def check_a_killed_planner_is_succeeded(lab: Lab) -> None:
    """Kill a planner for good."""
    splits = _splits(lab, 3)
    query = Query(lab, lab.source())
    _await_all(lab)
    elsewhere = lab.elsewhere()
    lab.tell("plan the first batch in another process")
    offset = elsewhere.call(offset_after, lab.open_run, query.source, query.cores, INITIAL_OFFSET)
    lab.expect(offset != INITIAL_OFFSET, "the first plan of a query gives the offset that it was given")
    lab.tell("kill that process")
    elsewhere.kill()
    lab.saw("a planner that was killed")
    query.run_until_read(_rows(splits))
    _expect_all_once(query)


def _splits(lab: Lab, rows: int) -> list[Split]:
    """Make two splits, where there can be two, with rows a second apart."""
    number = 2 if lab.can(Ability.MANY_SPLITS) else 1
    return [lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(rows))) for _ in range(number)]


def _await_all(lab: Lab) -> None:
    """Wait until all that was written can be seen."""
    enumerator = lab.enumerator(lab.source())
    lab.discovered(enumerator)
    enumerator.close()


def _rows(splits: Sequence[Split]) -> list[Row]:
    return [row for split in splits for row in split.rows]


def _keys(rows: Sequence[Row]) -> list[str]:
    return [row.key for row in rows]


def _expect_all_once(query: Query) -> None:
    wrong = query.missing()
    query.lab.expect(wrong is None, wrong or "")


def _expect_same_rows(lab: Lab, expected: Sequence[str], delivered: Sequence[str]) -> None:
    wrong = difference({0: expected}, delivered, in_order=False)
    lab.expect(wrong is None, wrong or "")


def _expect_what_came_later(query: Query, split: Split, later: list[Row]) -> None:
    earlier = [row.key for row in split.rows if row not in later]
    query.run_until_read(later)
    again = [key for key in query.delivered if key in earlier]
    query.lab.expect(not again, f"rows that were there before the start are delivered: {listed(again)}")
    _expect_same_rows(query.lab, _keys(later), query.delivered)
