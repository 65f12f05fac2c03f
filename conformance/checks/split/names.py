"""SPLIT: discovery of splits, and their names."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import closing

from tidegate.alignment.splits import Positions, SplitId
from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.lab.explain import listed, ordered_difference
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab
from tidegate.conformance.lab.query import Query
from tidegate.enumerators.contract import Json, SupportsCommit
from tidegate.sources.source import Source

__all__ = [
    "check_a_new_split_is_read_from_its_beginning",
    "check_a_new_split_is_read_though_the_stream_begins_at_the_end",
    "check_a_restart_finds_the_same_splits",
    "check_a_split_keeps_its_name",
    "check_another_process_finds_the_same_splits",
    "check_each_row_is_in_one_split",
    "check_looking_again_changes_nothing",
    "check_names_outlive_a_checkpoint",
    "check_no_row_is_assigned_twice",
    "check_the_first_look_finds_every_split",
]

_SPLIT_ID = "SplitId: the permanent name of a split"


@rule(
    "SPLIT-1",
    "a new split is read from its beginning",
    purpose="Otherwise the query loses the first rows of a split that appears during the run.",
    tested="A query reads one split. A second split with rows appears, and the query continues.",
    passes="The query delivers every row once and in order, including the first row of the second split.",
    look_at=("starts() with first=False", "a discover() that searches only once"),
    needs=(Ability.NEW_SPLITS,),
    witness=("a split that came later",),
    source="SplitEnumerator.starts; FLINK-29319",
)
def check_a_new_split_is_read_from_its_beginning(lab: Lab) -> None:
    """Let a split appear while a query runs."""
    first = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    query = Query(lab, lab.source())
    query.run_until_read(first.rows)
    late = lab.split(BEGIN_MS + 2 * SECOND_MS, BEGIN_MS + 3 * SECOND_MS)
    query.run_until_read(late.rows)
    lab.saw("a split that came later")
    lab.compare(query.delivered)


@rule(
    "SPLIT-2",
    "a new split is read from its beginning, though the stream begins at the end",
    purpose="A user who skips existing rows does not want to lose later ones.",
    tested="A query that begins at the end runs until it has nothing to do. Then a split with rows appears.",
    passes="The query delivers all rows of the new split, and no row that existed before.",
    look_at=("starts() with first=False: ignore the option", "a start that is looked up a second time"),
    needs=(Ability.NEW_SPLITS, Ability.START_AT_END),
    source="SplitEnumerator.starts",
)
def check_a_new_split_is_read_though_the_stream_begins_at_the_end(lab: Lab) -> None:
    """Begin at the end, and let a split appear."""
    old = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    query = Query(lab, lab.source_at_end())
    query.rest()
    late = lab.split(BEGIN_MS + 2 * SECOND_MS, BEGIN_MS + 3 * SECOND_MS)
    query.run_until_read(late.rows)
    skipped = {row.key for row in old.rows}
    again = [key for key in query.delivered if key in skipped]
    lab.expect(not again, f"rows that were there before the query began are delivered: {listed(again)}")


@rule(
    "SPLIT-3",
    "the first look finds every split",
    purpose="A bounded run (Trigger.AvailableNow) reads only the splits that its first discovery finds.",
    tested="There are five splits with one row each. A new enumerator discovers once, and a reader reads the splits "
    "that it found.",
    passes="The reader gives the rows of all five splits.",
    look_at=(
        "a listing that comes in pages",
        "discovery in the background that discover() does not await",
        "an extent that ends at its last row instead of after it",
    ),
    needs=(Ability.MANY_SPLITS,),
    source="SplitEnumerator.discover: all splits that exist now",
)
def check_the_first_look_finds_every_split(lab: Lab) -> None:
    """Discover several splits at once."""
    for number in range(5):
        lab.split(BEGIN_MS + number * SECOND_MS)
    source = lab.source()
    enumerator = lab.enumerator(source)
    extents = enumerator.extents(enumerator.discover())
    lab.compare(lab.keys(lab.read(source, lab.ranges(extents), enumerator)))


@rule(
    "SPLIT-4",
    "names are text that a checkpoint keeps",
    purpose="Spark stores positions by name, as JSON. A number would come back as text, which names another split.",
    tested="Every name that discover() returns is written to JSON and read back.",
    passes="Every name is a text, is not empty, and comes back unchanged. UTF-8 can encode it.",
    look_at=("numbers or tuples as names", "names made of bytes that are not UTF-8"),
    source="SplitId",
)
def check_names_outlive_a_checkpoint(lab: Lab) -> None:
    """Look at every name."""
    for number in range(2 if lab.can(Ability.MANY_SPLITS) else 1):
        lab.split(BEGIN_MS + number)
    enumerator = lab.enumerator(lab.source())
    for split in lab.until(lambda: list(enumerator.discover()) or None, "discover() never finds a split"):
        lab.expect(isinstance(split, str), f"the split {split!r} is named by {type(split).__name__}, not by text")
        lab.expect(split, "a split has an empty name")
        try:
            kept = json.loads(json.dumps({split: 0}).encode())
            split.encode()
        except UnicodeEncodeError:
            raise lab.fail(f"the name {split!r} cannot be written as UTF-8") from None
        lab.expect(split in kept, f"the name {split!r} comes back from JSON as {next(iter(kept))!r}")


@rule(
    "SPLIT-5",
    "a split keeps its name while it grows and others come",
    purpose="A split with another name is a new split, so the query reads its rows again.",
    tested="A split is discovered and read. Three times, it gets a row, another split appears where possible, and "
    "discovery runs again. At the end, the first range is read again.",
    passes="Every name from the first discovery stays, with the same begin. Its first range gives the same rows.",
    look_at=("names that contain a size, a time or an index", "a cache that is renewed with other names"),
    source=_SPLIT_ID,
)
def check_a_split_keeps_its_name(lab: Lab) -> None:
    """Let a split grow, and others come."""
    grows = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    source = lab.source()
    enumerator = lab.enumerator(source)
    known = lab.everything(enumerator)
    first = lab.keys(lab.read(source, known, enumerator))
    for number in range(2, 5):
        grows.append(BEGIN_MS + number * SECOND_MS)
        if lab.can(Ability.NEW_SPLITS):
            lab.split(BEGIN_MS + number * SECOND_MS)
        splits = lab.discovered(enumerator)
        extents = enumerator.extents(splits)
        for split in known:
            lab.expect(
                split.split_id in splits,
                f"the split {split.split_id!r} is not found any more; discovery finds {listed(splits)}",
            )
            begin = extents[split.split_id].begin
            lab.expect(begin == split.start, f"{split.split_id!r} began at {split.start}, and now begins at {begin}")
    wrong = ordered_difference("the first range of what grows", first, lab.keys(lab.read(source, known, enumerator)))
    if wrong is not None:
        raise lab.fail(wrong)


@rule(
    "SPLIT-6",
    "a restart finds the same splits by the same names",
    purpose="Positions are stored by name. A split that has another name after a restart is read again from its "
    "beginning.",
    tested="An enumerator discovers splits and is closed. The next enumerator gets its snapshot and positions, and "
    "discovers again.",
    passes="Both find the same names, with the same extents.",
    look_at=("names that each enumerator makes up", "a snapshot that lacks parts of the names"),
    source=_SPLIT_ID,
)
def check_a_restart_finds_the_same_splits(lab: Lab) -> None:
    """Discover, restart and discover again."""
    for number in range(3 if lab.can(Ability.MANY_SPLITS) else 1):
        lab.split(BEGIN_MS + number, BEGIN_MS + SECOND_MS)
    source = lab.source()
    enumerator = lab.enumerator(source)
    splits = lab.discovered(enumerator)
    extents = enumerator.extents(splits)
    restarted = lab.restarted(source, enumerator, enumerator.starts(splits, first=True))
    _expect_same_names(lab, "after a restart", splits, lab.discovered(restarted))
    now = restarted.extents(splits)
    for split in splits:
        lab.expect(
            extents[split] == now.get(split), f"{split!r} was {extents[split]} and is {now.get(split)} after a restart"
        )


@rule(
    "SPLIT-7",
    "another process finds the same splits by the same names",
    purpose="After a restart on another machine, a query knows its splits only by their names.",
    tested="As in SPLIT-6, but the second enumerator runs in a new Python process. It is made from the pickled source.",
    passes="Both processes find the same names.",
    look_at=("hash(), which differs in every process", "id() or the order of a set in a name", "a cache in a module"),
    source=f"{_SPLIT_ID}; Source: picklable",
)
def check_another_process_finds_the_same_splits(lab: Lab) -> None:
    """Discover here, and in another process."""
    for number in range(3 if lab.can(Ability.MANY_SPLITS) else 1):
        lab.split(BEGIN_MS + number, BEGIN_MS + SECOND_MS)
    source = lab.source()
    with closing(lab.enumerator(source)) as enumerator:
        splits = lab.discovered(enumerator)
        positions = dict(enumerator.starts(splits, first=True))
        state = enumerator.snapshot()
    lab.tell("discover in another process")
    with closing(lab.elsewhere()) as process:
        _expect_same_names(lab, "in another process", splits, process.call(splits_of, source, state, positions))


def splits_of(source: Source, state: Json | None, positions: Positions) -> list[SplitId]:
    """Return the splits that a new run finds from this state and these positions."""
    with closing(source.as_stream().enumerator(state)) as enumerator:
        if isinstance(enumerator, SupportsCommit):
            enumerator.commit(positions)
        return sorted(enumerator.discover())


@rule(
    "SPLIT-8",
    "each row is in one split",
    purpose="A row in two splits is delivered twice, and nothing else notices it.",
    tested="Splits appear and grow, and discovery runs after each step. At the end, one task reads all splits.",
    passes="Every row comes once.",
    look_at=("two names for one split, such as with and without a slash", "a split that every discovery creates again"),
    source="alignment.splits: the unit of discovery",
)
def check_each_row_is_in_one_split(lab: Lab) -> None:
    """Read all splits that several discoveries found."""
    source = lab.source()
    enumerator = lab.enumerator(source)
    for number in range(3 if lab.can(Ability.NEW_SPLITS) else 1):
        lab.split(BEGIN_MS + number * SECOND_MS)
        lab.discovered(enumerator)
        for split in lab.splits:
            split.append(BEGIN_MS + (number + 1) * SECOND_MS)
        lab.discovered(enumerator)
    ranges = lab.everything(enumerator)
    # Without positions of rows, splits have no order among each other.
    lab.compare(lab.keys(lab.read(source, ranges, enumerator)), in_order=lab.can(Ability.ROW_POSITIONS))


@rule(
    "SPLIT-9",
    "no row is assigned twice, and none is forgotten",
    purpose="Between discovery and tasks, a split may be lost or given to two tasks.",
    tested="Splits appear and grow while a query reads them.",
    passes="Every row is in one task of one batch.",
    look_at=("SPLIT-8 and READ-2: check them first", "discover(): return all splits, not only new ones"),
    source="Coordinator.tasks; FLIP-27: SplitEnumerator",
)
def check_no_row_is_assigned_twice(lab: Lab) -> None:
    """Read splits that come and grow."""
    query = Query(lab, lab.source())
    for number in range(3 if lab.can(Ability.NEW_SPLITS) else 1):
        lab.split(BEGIN_MS + number * SECOND_MS)
        query.run_until_read(lab.rows)
        for split in lab.splits:
            split.append(BEGIN_MS + (number + 1) * SECOND_MS)
    query.run_until_read(lab.rows)
    query.rest()
    wrong = query.missing()
    if wrong is not None:
        raise lab.fail(wrong)


@rule(
    "SPLIT-10",
    "looking again changes nothing",
    purpose="A difference without a reason becomes a new offset, so the query makes empty batches forever.",
    tested="Nothing is added. An enumerator discovers four times. A query that has read everything plans three more "
    "times.",
    passes="Splits, extents, stops and snapshot stay the same. The query makes no new offset.",
    look_at=("a time or a counter in snapshot()", "an estimated extent", "a discover() that returns only new splits"),
    source="SplitEnumerator.snapshot: equal as long as nothing changed",
)
def check_looking_again_changes_nothing(lab: Lab) -> None:
    """Discover the same splits several times."""
    for number in range(2 if lab.can(Ability.MANY_SPLITS) else 1):
        lab.split(BEGIN_MS + number, BEGIN_MS + SECOND_MS)
    source = lab.source()
    with closing(lab.enumerator(source)) as enumerator:

        def said(splits: list[SplitId]) -> dict[str, object]:
            return {
                "discover()": splits,
                "extents()": dict(sorted(enumerator.extents(splits).items())),
                "stops()": dict(sorted(enumerator.stops(splits).items())),
                "snapshot()": json.dumps(enumerator.snapshot(), sort_keys=True),
            }

        first = said(lab.discovered(enumerator))
        for look in range(2, 5):
            now = said(sorted(set(enumerator.discover())))
            changed = [method for method in first if first[method] != now[method]]
            lab.expect(not changed, f"nothing was added, but {listed(changed)} changed by discovery {look}")
    query = Query(lab, source)
    query.run_until_read(lab.rows)
    for _ in range(2):  # a split that is read to its end may be forgotten, after one more discovery
        query.pass_time(1.0)
    for number in range(1, 4):
        query.clock.sleep(1.0)
        lab.expect(not query.plan(), f"the query has read everything, but plan {number} after that makes a new offset")


def _expect_same_names(lab: Lab, when: str, before: Collection[SplitId], after: Collection[SplitId]) -> None:
    gone, new = sorted(set(before) - set(after)), sorted(set(after) - set(before))
    lab.expect(
        not gone, f"{when} there is no split {listed(gone)} any more; instead there is {listed(new) or 'nothing'}"
    )
    lab.expect(not new, f"{when} there is another split, {listed(new)}, though nothing was added")
