"""FAULT: the other side fails while a query plans and reads."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from tidegate.conformance.abilities import Ability
from tidegate.conformance.declaring import rule
from tidegate.conformance.harness import Fault
from tidegate.conformance.lab.faults import Attempt, cut_off
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab
from tidegate.conformance.lab.query import Batch, Query
from tidegate.conformance.rules import Tier
from tidegate.enumerators.contract import Json

__all__ = [
    "check_a_broken_connection_costs_no_rows",
    "check_a_connection_that_breaks_within_a_range_doubles_nothing",
    "check_a_crash_of_the_other_side_costs_no_rows",
    "check_damaged_answers_are_never_believed",
    "check_slow_answers_double_nothing",
]

_CONTRACT = "SplitReader.read: raises DeadlineError; enumerators/contract.py: its own deadline and its own retries"
_HINTS = (
    "timeouts of the client, also for connecting: without them it waits forever",
    "errors of the client that do not become ConnectorError",
    "a connection that broke and is used again",
)
_PASSES = (
    "The plan and the read each end within 90 s. They succeed, or raise a ConnectorError, DeadlineError or "
    "CorruptDataError. A batch that was read holds the right rows. A new run delivers every row once."
)
_TESTED = (
    "A query logs the offset of a batch, and more rows come. Then {}. Meanwhile, the query plans the next batch and "
    "reads the logged one."
)


@rule(
    "FAULT-1",
    "a broken connection costs no rows",
    tier=Tier.FAULTS,
    purpose="A planner that waits forever hangs the query without a word. A planner that continues without an answer "
    "loses rows.",
    tested=_TESTED.format("every connection breaks, and no new one is accepted"),
    passes=_PASSES,
    look_at=_HINTS,
    needs=(Ability.FAULT_DISCONNECT,),
    witness=("something that failed",),
    source=_CONTRACT,
)
def check_a_broken_connection_costs_no_rows(lab: Lab) -> None:
    """Plan and read without connections."""
    for attempt in _during(lab, Fault.DISCONNECT):
        if attempt.error is not None:
            lab.saw("something that failed")


@rule(
    "FAULT-2",
    "slow answers double nothing",
    tier=Tier.FAULTS,
    purpose="A client may repeat a request because the answer is late, and then get two answers.",
    tested=_TESTED.format("every answer takes at least a second"),
    passes=_PASSES,
    look_at=("an answer that belongs to an earlier request, after a timeout", *_HINTS),
    needs=(Ability.FAULT_SLOW,),
    witness=("something that took a second",),
    source=_CONTRACT,
)
def check_slow_answers_double_nothing(lab: Lab) -> None:
    """Plan and read while the other side is slow."""
    for attempt in _during(lab, Fault.SLOW):
        if attempt.seconds >= 1:
            lab.saw("something that took a second")


@rule(
    "FAULT-3",
    "damaged answers are never believed",
    tier=Tier.FAULTS,
    purpose="A row with a flipped bit is wrong data that may stay unnoticed for months.",
    tested=_TESTED.format("some answers have a flipped bit, or end early")
    + " With such answers, the kit also reads all rows four times.",
    passes="Each read gives the rows and values that were written, or raises a CorruptDataError, ConnectorError or "
    "DeadlineError. A new run delivers every row once.",
    look_at=(
        "checksums that the client does not check, or not by default",
        "an answer that ends early and is taken for a whole one",
        "an answer that cannot be decoded and is skipped",
    ),
    needs=(Ability.FAULT_CORRUPT,),
    witness=("rows that were read",),
    source="SplitReader.read: CorruptDataError when they cannot be decoded",
)
def check_damaged_answers_are_never_believed(lab: Lab) -> None:
    """Read rows that are damaged on the way."""
    _during(lab, Fault.CORRUPT)
    source = lab.source()
    enumerator = lab.enumerator(source)
    ranges = lab.everything(enumerator)
    values = {row.key: row.value for row in lab.rows}
    with lab.harness.fault(Fault.CORRUPT):
        for number in range(4):
            read = Attempt(lab, f"reading {number}", lambda: lab.read(source, ranges, enumerator)).start().end()
            if read.result is not None:
                lab.saw("rows that were read")
                lab.compare(lab.keys(read.result), in_order=lab.can(Ability.ROW_POSITIONS))
                for key, value in zip(lab.keys(read.result), lab.values(read.result), strict=True):
                    lab.expect(
                        value == values[key], f"row {key} has the value {value!r}, but {values[key]!r} was written"
                    )


@rule(
    "FAULT-4",
    "a crash of the other side costs no rows",
    tier=Tier.FAULTS,
    purpose="A broker that is killed and comes back must not cost or double any rows.",
    tested=_TESTED.format("the process of the other side is killed, and comes back with all its data"),
    passes=_PASSES,
    look_at=("outdated knowledge of the other side, such as sessions and leaders", *_HINTS),
    needs=(Ability.FAULT_CRASH,),
    witness=("something that failed",),
    source=_CONTRACT,
)
def check_a_crash_of_the_other_side_costs_no_rows(lab: Lab) -> None:
    """Plan and read while the other side is killed."""
    for attempt in _during(lab, Fault.CRASH):
        if attempt.error is not None:
            lab.saw("something that failed")


@rule(
    "FAULT-5",
    "a connection that breaks within a range doubles nothing",
    tier=Tier.FAULTS,
    purpose="After a reconnect, a reader must continue exactly after its last row. Otherwise a row is lost or doubled.",
    tested="A reader gives the first Arrow batch of a range of about 5 MB. Then, for a third of a second, every "
    "connection breaks, or the other side is killed. Meanwhile the kit asks the reader for the other batches.",
    passes="The reader gives every row once and in order, or raises a ConnectorError, DeadlineError or "
    "CorruptDataError. Another reader then gives every row once.",
    look_at=("the position of the reader after a timeout or a reconnect", "pages that the client asks for again"),
    witness=("rows that came after the break",),
    source="SplitReader.read: the records of every range, in position order",
)
def check_a_connection_that_breaks_within_a_range_doubles_nothing(lab: Lab) -> None:
    """Break a connection while a range is read."""
    kind = cut_off(lab)
    split = lab.split()
    for part in range(5):
        times = [BEGIN_MS + (part * 500 + n) * SECOND_MS for n in range(500)]
        split.append(*times, values=[f"{part} {n} ".ljust(2_000, "x") for n in range(500)])
    source = lab.source()
    enumerator = lab.enumerator(source)
    task = lab.task(lab.everything(enumerator), enumerator)
    batches: Iterator[pa.RecordBatch] = iter(source.reader(enumerator.snapshot()).read(task))
    first = lab.keys([next(batches)])
    lab.tell(f"read {len(first)} rows, and from now on: {kind.value}")
    with lab.harness.fault(kind):
        rest = Attempt(lab, "reading the rest", lambda: lab.keys(batches)).start()
        rest.wait(0.3)
    rest.end()
    if rest.result:
        lab.saw("rows that came after the break")
    if rest.error is None:
        lab.compare(first + (rest.result or []))
    lab.compare(lab.keys(source.reader(enumerator.snapshot()).read(task)))


def _during(lab: Lab, kind: Fault) -> tuple[Attempt[Json], Attempt[Batch]]:
    """Plan and read during a fault, expect a new run to deliver every row once, and return both attempts."""
    split = lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(3)))
    query = Query(lab, lab.source())
    query.run_until_read(split.rows)
    _more(lab, 3)
    lab.until(lambda: query.plan() or None, "rows that were appended are never planned")
    _more(lab, 6)
    start = query.last_offset
    lab.tell(f"from now on: {kind.value}")
    with lab.harness.fault(kind):
        planned = Attempt(lab, "planning", lambda: query.running.latest_offset(start)).start().end()
        read = Attempt(lab, "reading", query.read).start().end()
    lab.tell("from now on all is well")
    query.stop()
    query.start()
    if read.result is not None:
        query.expect_same(read.result, query.batches[-1], "a batch, read during the fault and after it")
    if planned.result not in (None, start):
        query.offsets.append(json.dumps(planned.result))
        query.commit(query.read())
    query.run_until_read(lab.rows)
    lab.compare(query.delivered, in_order=lab.can(Ability.ROW_POSITIONS))
    query.stop()
    return planned, read


def _more(lab: Lab, first: int) -> None:
    times = [BEGIN_MS + n * SECOND_MS for n in range(first, first + 3)]
    if lab.can(Ability.GROWING_SPLITS):
        lab.splits[0].append_each(*times)
    else:
        lab.skip_without([Ability.NEW_SPLITS])
        lab.split(*times)
