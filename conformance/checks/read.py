"""READ: the rows of a range, as they were written, in batches of one schema, whenever and wherever they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime

import pyarrow as pa

from tidegate.add_ons import SOURCE_WATERMARK
from tidegate.conformance.harness import Ability
from tidegate.conformance.lab.explain import difference, first_difference, listed, ordered_difference
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab, after
from tidegate.conformance.lab.processes import in_another_process
from tidegate.conformance.rules import rule
from tidegate.connector import Json, Positions, ReadTask, Source, SplitEnumerator, SplitId, SplitRange
from tidegate.errors import counted

_MANY = 10_500  # more than the pages of most systems
_PAGE = 2_100
_TEXTS = {
    "an empty text": "",
    "blanks": "  a b  ",
    "a tab and line ends": "a\tb\nc\r\nd\r",
    "quotes, commas and backslashes": "\"a\",'b';\\n|\\",
    "what looks like a null": "null",
    "what looks like JSON": '{"key": [1, null]}',
    "what looks like a number": "007",
    "what looks like another number": "1e400",
    "what looks like a time": "2026-01-01T00:00:00Z",
    "letters of other alphabets": "äß Ω я 日本 ש",
    "signs beyond 16 bits": "\U0001f30a\U00010348",
    "an accent of its own": "e\u0301",
    "marks that nobody sees": "\ufeffa\u200b\u2028b",
    "a huge one": "0123456789" * 200_000,
}
_NULLS = {"a null": None, "an empty text behind it": "", "a word": "null", "a last null": None}
_TIMES = (
    "2000-02-29T12:00:00+00:00",
    "2025-03-09T10:00:00+00:00",  # clocks go forward in America
    "2025-03-30T01:00:00+00:00",  # and in Europe
    "2025-10-26T00:30:00+00:00",  # and turn back: half past two
    "2025-10-26T01:30:00+00:00",  # half past two again
    "2026-01-01T00:00:00+00:00",
    "2026-01-01T00:00:00.001+00:00",
    "2026-01-01T00:00:00.999+00:00",
)
_LARGE = 2_000_000
_LARGE_ROWS = 20


@rule("READ-1")
def rows_come_once_and_in_order(lab: Lab) -> None:
    """Rows come once and in order.

    A task that reads whole splits gives every row once, in the order of positions.

    Look at: the end of a range, which is exclusive; the order of the request that fetches rows; paging.
    """
    lab.two_splits(*after(*range(7)))
    source, enumerator = lab.opened()
    lab.compare(lab.keys(lab.read(source, lab.everything(enumerator), enumerator)))


@rule("READ-3", witness=("a row at each side of a range",))
def a_range_gives_no_row_of_its_neighbours(lab: Lab) -> None:
    """Every range gives the rows of its positions.

    Budget and event time may cut a batch anywhere, so every range gives exactly the rows of its positions, each
    position at most one row, and an empty range none.

    Look at: the start of a range, which is inclusive, and its end, which is exclusive; a limit that is the end instead
    of the end minus the start; a start or a limit of 0 that counts as missing; pages, blocks or row groups that are not
    cut.
    """
    lab.split(*after(*range(5)))
    source, enumerator = lab.opened()
    for split, rows in lab.placed(source, enumerator).items():
        for position, keys in rows.items():
            lab.expect(
                len(keys) < 2, f"each row was appended by itself, but position {position} of {split} has {listed(keys)}"
            )
        for start in rows:
            for end in [start, *(at + 1 for at in rows if at >= start)]:
                expected = [key for at in range(start, end) for key in rows.get(at, [])]
                delivered = lab.keys(lab.read(source, [SplitRange(split, start, end)], enumerator))
                what = f"the positions from {start} to {end} of {split}, read alone and as one range"
                lab.refuse(ordered_difference(what, expected, delivered))
                if any(rows.get(at) for at in range(start)) and rows.get(end):
                    lab.saw("a row at each side of a range")


@rule("READ-4", witness=("a gap",))
def a_task_reads_all_its_ranges(lab: Lab) -> None:
    """A task reads all its ranges, whatever their order.

    Spark gets fewer tasks than there are splits. A task may have several ranges of one split, gaps between them, the
    last one first, or no range at all.

    Look at: ranges that are stored by split, so that one replaces another; ranges that are merged into one.
    """
    lab.two_splits(*after(*range(7)))
    source, enumerator = lab.opened()
    pieces, left_out = [], []
    for whole in lab.everything(enumerator):
        third = (whole.end - whole.start) // 3
        first, last = whole.start + third, whole.end - third
        pieces += [SplitRange(whole.split_id, whole.start, first), SplitRange(whole.split_id, last, whole.end)]
        left_out.append(SplitRange(whole.split_id, first, last))
    expected = {number: lab.keys(lab.read(source, [piece], enumerator)) for number, piece in enumerate(pieces)}
    if lab.keys(lab.read(source, left_out, enumerator)):
        lab.saw("a gap")
    orders = {"the last one first": list(reversed(pieces)), "in order": pieces}
    none = lab.keys(source.reader(enumerator.snapshot()).read(ReadTask(())))
    lab.expect(not none, f"a task without ranges gives {counted(len(none), 'row')}")
    for name, order in orders.items():
        lab.tell(f"read {len(order)} ranges by one task, {name}")
        delivered = lab.keys(lab.read(source, order, enumerator))
        wrong = difference(expected, delivered, part="range", wanted="asked for")
        if wrong is not None:
            raise lab.fail(f"{len(order)} ranges in one task, {name}: {wrong}")


@rule("READ-5")
def many_rows_come_as_one(lab: Lab) -> None:
    """Many rows come once and in order.

    A reader that fetches pages may lose or double rows where two pages meet.

    Look at: a reader that fetches only the first page; a page that begins at the last row of the one before; a limit in
    the client.
    """
    split = lab.split()
    for first in range(0, _MANY, _PAGE):
        split.append(*(BEGIN_MS + n for n in range(first, first + _PAGE)))
    source, enumerator = lab.opened()
    lab.compare(lab.keys(lab.read(source, lab.everything(enumerator), enumerator)))


@rule("READ-7", needs=(Ability.HOLES,), witness=("a hole",))
def holes_cost_no_rows(lab: Lab) -> None:
    """Holes cost no rows.

    Positions may be compared but not counted. A split with holes gives the same rows wherever it is cut, and a position
    gives a row exactly where peek() finds one.

    Look at: a number of rows that is taken for a number of positions; a reading that ends at the first empty answer, or
    waits for a row at the last position.
    """
    split = lab.split()
    split.leave_hole()
    holes = (0, 2, 1, 1)
    for number, behind in enumerate(holes):
        split.append(BEGIN_MS + number * SECOND_MS)
        for _ in range(behind):
            split.leave_hole()
    source, enumerator = lab.opened()
    # Positions before the first row may be left out of the extent.
    ranges = lab.everything(enumerator, len(split.rows) + sum(holes))
    lab.compare(lab.keys(lab.read(source, ranges, enumerator)))
    for whole in ranges:
        if whole.end - whole.start > len(split.rows):
            lab.saw("a hole")
        for position in range(whole.start, whole.end):
            keys = lab.keys(lab.read(source, [SplitRange(whole.split_id, position, position + 1)], enumerator))
            head = enumerator.peek({whole.split_id: position}, lab.horizon)[whole.split_id]
            due = int(head is not None and head.position == position)
            lab.expect(
                len(keys) == due,
                f"position {position} of {whole.split_id} gives {listed(keys)}, though peek() finds "
                f"{'a' if due else 'no'} row there",
            )
        for cut in range(whole.start + 1, whole.end):
            halves = [SplitRange(whole.split_id, whole.start, cut), SplitRange(whole.split_id, cut, whole.end)]
            rows = [key for half in halves for key in lab.keys(lab.read(source, [half], enumerator))]
            wrong = difference(lab.written, rows)
            if wrong is not None:
                raise lab.fail(f"cut at {cut}: {wrong}")


@rule("READ-9")
def a_range_gives_the_same_rows_every_time(lab: Lab) -> None:
    """A range gives the same rows every time, also when more have come.

    Spark reads a batch again for every action, after failures and under speculation. Every reading gives the same
    values in the same order.

    Look at: a cursor or a group offset that moves with every read; an end that the reader ignores when there are more
    rows; a request without a total order; a value such as the time of reading.
    """
    split = lab.split(*after(*range(5)))
    source, enumerator = lab.opened()
    ranges = lab.everything(enumerator)
    first = _whole(lab, source, ranges, enumerator)
    lab.compare(lab.keys(first.to_batches()))
    for reading in (2, 3):
        lab.tell("read it again")
        _expect_same(lab, f"reading 1 and {reading}", first, _whole(lab, source, ranges, enumerator))
    split.append_each(*after(5, 6))
    if lab.can(Ability.NEW_SPLITS):
        lab.split(*after(0, 1))
    lab.discovered(enumerator)
    lab.tell("read the first ranges again")
    _expect_same(lab, "before and after more rows came", first, _whole(lab, source, ranges, enumerator))


@rule("READ-11")
def another_process_finds_the_same_splits_and_reads_the_same_rows(lab: Lab) -> None:
    """Another process finds the same splits and reads the same rows.

    Executors and the next driver are other processes, perhaps in another time zone. They have only pickled objects, and
    know splits by name.

    Look at: a cache in a module, or what only the enumerator of this run knows; files, environment variables or
    addresses of this process; clients, locks and details() that cannot be pickled; hash() or the order of a set; local
    times.
    """
    lab.two_splits(*after(*range(5)))
    source, enumerator = lab.opened()
    ranges = lab.everything(enumerator)
    first = _whole(lab, source, ranges, enumerator)
    state, splits = enumerator.snapshot(), sorted(enumerator.discover())
    begins = {part.split_id: part.start for part in ranges}
    lab.tell("read it in another process, and discover there")
    read, found = in_another_process(read_and_find, source, state, lab.task(ranges, enumerator), begins)
    _expect_same(lab, "here and in another process", first, pa.Table.from_batches(read, source.arrow_schema))
    lab.refuse(ordered_difference("splits that are found here and in another process", splits, found))


def read_and_find(
    source: Source, state: Json | None, task: ReadTask, begins: Positions
) -> tuple[list[pa.RecordBatch], list[SplitId]]:
    """Return all that a task gives, and the splits that a new run finds from this state and these positions."""
    read = list(source.reader(state).read(task))
    with closing(source.as_stream().enumerator(state)) as enumerator:
        enumerator.commit(begins)
        return read, sorted(enumerator.discover())


def _whole(lab: Lab, source: Source, ranges: Sequence[SplitRange], enumerator: SplitEnumerator) -> pa.Table:
    return pa.Table.from_batches(lab.read(source, ranges, enumerator), source.arrow_schema)


def _expect_same(lab: Lab, what: str, first: pa.Table, second: pa.Table) -> None:
    lab.refuse(ordered_difference(what, *([str(row) for row in table.to_pylist()] for table in (first, second))))


@rule("READ-15")
def values_come_as_they_were_written(lab: Lab) -> None:
    """Values come as they were written.

    Every value comes back character by character: empty, with quotes, line ends and blanks, in other alphabets, of 2
    MB, null, or like a null, a number, a time or JSON.

    Look at: texts that are stripped, normalised or parsed; an encoding other than UTF-8; an empty text that becomes
    null.
    """
    values: dict[str, str | None] = {**_TEXTS, **(_NULLS if lab.can(Ability.NULL_VALUES) else {})}
    lab.split().append(*after(*range(len(values))), values=list(values.values()))
    source, enumerator = lab.opened()
    batches = lab.read(source, lab.everything(enumerator), enumerator)
    lab.compare(lab.keys(batches))
    for (name, wanted), read in zip(values.items(), lab.values(batches), strict=True):
        lab.expect(read == wanted, f"{name} was written, {_named(wanted)}, and {_unlike(wanted, read)} was read")


@rule("READ-18")
def event_times_do_not_change_what_is_read(lab: Lab) -> None:
    """Event times do not change what is read.

    A reader that sorts or filters by time gives other rows at every cut. Rows out of order, years old, before 1970 or
    without event time come like all others.

    Look at: a request that is ordered by time; a filter that leaves out the rows that planning leaves out.
    """
    times: list[int | None] = [*after(0, 1)]
    if lab.can(Ability.DISORDER):
        times += [*after(5, 1, 9, 1, 0, 5), BEGIN_MS - 4 * 365 * 86_400 * SECOND_MS, *after(3)]
    if lab.can(Ability.MISSING_TIMES):
        times += [None, *after(10), None, None]
    if lab.can(Ability.NEGATIVE_TIMES):
        times += [-1, -86_400_000, 0, *after(11)]
    lab.split(*times)
    source, enumerator = lab.opened(badEventTime="ignore")
    # Without positions of rows, planning orders units of rows by their times.
    keys = lab.keys(lab.read(source, lab.everything(enumerator), enumerator))
    lab.compare(keys, in_order=lab.can(Ability.ROW_POSITIONS))


@rule("READ-26", needs=(Ability.EVENT_TIME_COLUMN,))
def event_times_come_as_they_were_written(lab: Lab) -> None:
    """Event times come as they were written.

    Spark's windows and watermark use the event-time column. Every row has its time to the millisecond, around the hours
    at which clocks change as well.

    Look at: a time that is read in the time zone of the machine; seconds, milliseconds and microseconds that are
    mistaken for each other; the time of another column.
    """
    lab.split(*(round(datetime.fromisoformat(time).timestamp() * SECOND_MS) for time in _TIMES))
    source, enumerator = lab.opened()
    batches = lab.read(source, lab.everything(enumerator), enumerator)
    lab.compare(lab.keys(batches))
    lab.expect_event_times(batches)


def _unlike(wanted: str | None, read: str | None) -> str:
    if wanted is None or read is None or max(len(wanted), len(read)) <= 40:
        return _named(read)
    at = first_difference(wanted, read)
    return f"{_named(read)}, other from character {at:,} on,"


def _named(value: str | None) -> str:
    if value is None:
        return "null"
    return ascii(value) if len(value) <= 40 else f"a text of {len(value):,} characters"


@rule("READ-21")
def every_batch_is_valid_and_has_the_schema(lab: Lab) -> None:
    """Every batch is valid Arrow of the source's schema.

    Spark takes columns by place and type and does not check the bytes; invalid Arrow ends a process. arrow_schema never
    changes, and has no name twice and no column of tidegate's. Every batch has exactly this schema, passes Arrow's full
    validation, and has nulls only where allowed.

    Look at: the last batch, and a batch without rows; a column of nulls alone, whose type is guessed; large_string or a
    time zone that a library adds; bytes that are not UTF-8.
    """
    source = lab.source(**({"badEventTime": "ignore"} if lab.can(Ability.MISSING_TIMES) else {}))
    wanted = source.arrow_schema
    lab.expect(wanted.names, "arrow_schema has no columns")
    twice = sorted({name for name in wanted.names if wanted.names.count(name) > 1})
    lab.expect(not twice, f"arrow_schema has two columns of the name {', '.join(twice)}")
    lab.expect(
        SOURCE_WATERMARK not in wanted.names, f"arrow_schema has a column {SOURCE_WATERMARK}, which belongs to tidegate"
    )
    lab.expect(source.arrow_schema.equals(wanted, check_metadata=True), "arrow_schema differs when it is read again")
    for batch in _odd_batches(lab, source):
        if not batch.schema.equals(wanted, check_metadata=True):
            raise lab.fail(
                f"a batch of {counted(batch.num_rows, 'row')} has the schema\n{batch.schema}\nand not\n{wanted}"
            )
        try:
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            raise lab.fail(f"a batch of {counted(batch.num_rows, 'row')} is not valid Arrow: {error}") from None
        for field, column in zip(batch.schema, batch.columns, strict=True):
            lab.expect(
                field.nullable or not column.null_count, f"the column {field.name!r} is not nullable, but holds a null"
            )


@rule("READ-24")
def batches_are_bounded(lab: Lab) -> None:
    """Batches are bounded.

    A range may hold a whole day, so no batch holds more than half of 20 values of 2 MB.

    Look at: one batch for each range; a limit on rows without one on bytes; to_arrow() of a whole result.
    """
    source = lab.source()
    values = [f"{number:02}" * (_LARGE // 2) for number in range(_LARGE_ROWS)]
    lab.split().append(*after(*range(_LARGE_ROWS)), values=values)
    enumerator = lab.enumerator(source)
    sizes = [batch.num_rows for batch in lab.read(source, lab.everything(enumerator), enumerator)]
    lab.expect(sum(sizes) == _LARGE_ROWS, f"{_LARGE_ROWS} rows were written, and {sum(sizes)} delivered")
    largest = max(sizes)
    megabytes = largest * _LARGE // 1_000_000
    lab.expect(
        largest <= _LARGE_ROWS // 2,
        f"one batch holds {largest} of {_LARGE_ROWS} rows, {megabytes} MB: it grows with the range",
    )


def _odd_batches(lab: Lab, source: Source) -> Iterator[pa.RecordBatch]:
    """Yield the batches of several tasks, each with something odd in it."""
    none = None if lab.can(Ability.NULL_VALUES) else ""
    split = lab.split()
    split.append(*after(*range(3)), values=["a", "", "äß 日本 \U0001f30a"])
    split.append(*after(3, 4), values=[none, none])
    if lab.can(Ability.MISSING_TIMES):
        split.append(None, values=[none])
    split.append(*after(5), values=[""])
    enumerator = lab.enumerator(source)
    ranges = lab.everything(enumerator)
    yield from lab.read(source, ranges, enumerator)
    for part in ranges:
        for start in range(part.start, part.end + 1):
            for end in (start, start + 1, part.end):
                if start <= end <= part.end:
                    yield from lab.read(source, [SplitRange(part.split_id, start, end)], enumerator)
