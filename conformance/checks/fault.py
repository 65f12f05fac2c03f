"""FAULT: the other side fails while a query plans and reads, without Spark and with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa

from tidegate.conformance.checks.spark import stream_of
from tidegate.conformance.harness import Ability, Fault
from tidegate.conformance.lab.lab import BEGIN_MS, SECOND_MS, Lab
from tidegate.conformance.lab.processes import Attempt
from tidegate.conformance.lab.query import Query
from tidegate.conformance.rules import Tier, rule
from tidegate.errors import ConnectorError, CorruptDataError, TidegateError

_Result = TypeVar("_Result")
_PATIENCES = 4.5  # 90 s by default: clients commonly give up after a minute


class _DuringFault(Attempt[_Result]):
    """An operation while the other side fails, which begins at once.

    what: its name in a few words, such as "planning".
    """

    def __init__(self, lab: Lab, what: str, do: Callable[[], _Result]) -> None:
        super().__init__(what, do)
        self._lab = lab
        self.start()

    def end(self) -> _DuringFault[_Result]:
        """Wait until it has ended; raises ConformanceError if it does not, or ends by an error of a wrong kind."""
        give_up_s = _PATIENCES * self._lab.patience_s
        if not self.ended_within(give_up_s):
            raise self._lab.fail(f"{self.what} did not end within {give_up_s:g} s while the other side fails")
        error = self.error
        outcome = "succeeds" if error is None else f"fails with {type(error).__name__}"
        self._lab.tell(f"{self.what} {outcome} after {self.seconds:.1f} s")
        if error is None:
            return self
        if not isinstance(error, ConnectorError | CorruptDataError):
            kind = f"{type(error).__module__}.{type(error).__qualname__}"
            also = ", which says something else" if isinstance(error, TidegateError) else ""
            raise self._lab.fail(
                f"{self.what} raises {kind}{also}, not a ConnectorError, DeadlineError or CorruptDataError: {error}"
            ) from error
        if any(secret in str(error) for secret in self._lab.harness.secrets):
            raise self._lab.fail(f"the error of {self.what}, a {type(error).__name__}, shows a secret")
        return self


@rule("FAULT-1", tier=Tier.FAULTS, needs=(Ability.FAULT_DISCONNECT,), witness=("something that failed",))
def a_broken_connection_costs_no_rows(lab: Lab) -> None:
    """A broken connection costs no rows.

    While every connection breaks, planning and reading end within 4.5 times the patience. They succeed with the right
    rows, or raise a ConnectorError, DeadlineError or CorruptDataError, and a new run delivers every row once.

    Look at: timeouts of the client, also for connecting; errors of the client that do not become ConnectorError; a
    connection that broke and is used again.
    """
    _during(lab, Fault.DISCONNECT)


@rule("FAULT-2", tier=Tier.FAULTS, needs=(Ability.FAULT_SLOW,), witness=("something that took a second",))
def slow_answers_double_nothing(lab: Lab) -> None:
    """Slow answers double nothing.

    As FAULT-1, but every answer takes at least a second, so a client may repeat a request and get two answers.

    Look at: an answer that belongs to an earlier request, after a timeout; timeouts of the client.
    """
    _during(lab, Fault.SLOW)


@rule("FAULT-3", tier=Tier.FAULTS, needs=(Ability.FAULT_CORRUPT,), witness=("rows that were read",))
def damaged_answers_are_never_believed(lab: Lab) -> None:
    """Damaged answers are never believed.

    As FAULT-1, but some answers have a flipped bit or end early. Each reading gives the rows that were written, or
    raises such an error.

    Look at: checksums that the client does not check by default; an answer that ends early and is taken for a whole
    one; an answer that cannot be decoded and is skipped.
    """
    _during(lab, Fault.CORRUPT)
    source, enumerator = lab.opened()
    ranges = lab.everything(enumerator)
    values = {row.key: row.value for row in lab.rows}
    with lab.harness.fault(Fault.CORRUPT):
        for number in range(4):
            read = _DuringFault(lab, f"reading {number}", lambda: lab.read(source, ranges, enumerator)).end()
            if read.result is not None:
                lab.saw("rows that were read")
                lab.compare(lab.keys(read.result), in_order=lab.can(Ability.ROW_POSITIONS))
                for key, value in zip(lab.keys(read.result), lab.values(read.result), strict=True):
                    lab.expect(
                        value == values[key], f"row {key} has the value {value!r}, but {values[key]!r} was written"
                    )


@rule("FAULT-4", tier=Tier.FAULTS, needs=(Ability.FAULT_CRASH,), witness=("something that failed",))
def a_crash_of_the_other_side_costs_no_rows(lab: Lab) -> None:
    """A crash of the other side costs no rows.

    As FAULT-1, but the process of the other side is killed, and comes back with all its data.

    Look at: outdated knowledge of the other side, such as sessions and leaders; timeouts; a connection that broke and
    is used again.
    """
    _during(lab, Fault.CRASH)


@rule("FAULT-5", tier=Tier.FAULTS, witness=("rows that came after the break",))
def a_connection_that_breaks_within_a_range_doubles_nothing(lab: Lab) -> None:
    """A connection that breaks within a range doubles nothing.

    After a reconnect, a reader continues exactly after its last row, or raises such an error as in FAULT-1.

    Look at: the position of the reader after a timeout or a reconnect; pages that the client asks for again.
    """
    kind = _cut_off(lab)
    split = lab.split()
    for part in range(5):
        times = [BEGIN_MS + (part * 500 + n) * SECOND_MS for n in range(500)]
        split.append(*times, values=[f"{part} {n} ".ljust(2_000, "x") for n in range(500)])
    source, enumerator = lab.opened()
    task = lab.task(lab.everything(enumerator), enumerator)
    batches: Iterator[pa.RecordBatch] = iter(source.reader(enumerator.snapshot()).read(task))
    first = lab.keys([next(batches)])
    lab.tell(f"read {len(first)} rows, and from now on: {kind.value}")
    with lab.harness.fault(kind):
        left = _DuringFault(lab, "reading the rest", lambda: lab.keys(batches))
        left.join(0.3)
    left.end()
    if left.result:
        lab.saw("rows that came after the break")
    if left.error is None:
        lab.compare(first + (left.result or []))
    lab.compare(lab.keys(source.reader(enumerator.snapshot()).read(task)))


def _during(lab: Lab, kind: Fault) -> None:
    """Plan and read during a fault, and expect a new run to deliver every row once."""
    split = lab.split(*(BEGIN_MS + n * SECOND_MS for n in range(3)))
    query = Query(lab, lab.source())
    query.run_until_read(split.rows)
    _more(lab, 3)
    lab.until(lambda: query.plan() or None, "rows that were appended are never planned")
    _more(lab, 6)
    start = query.last_offset
    lab.tell(f"from now on: {kind.value}")
    with lab.harness.fault(kind):
        planned = _DuringFault(lab, "planning", lambda: query.running.latest_offset(start)).end()
        read = _DuringFault(lab, "reading", query.read).end()
    if planned.error or read.error:
        lab.saw("something that failed")
    if max(planned.seconds, read.seconds) >= 1:
        lab.saw("something that took a second")
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


def _more(lab: Lab, first: int) -> None:
    times = [BEGIN_MS + n * SECOND_MS for n in range(first, first + 3)]
    if lab.can(Ability.GROWING_SPLITS):
        lab.splits[0].append_each(*times)
    else:
        lab.skip_without([Ability.NEW_SPLITS])
        lab.split(*times)


@rule("FAULT-6", tier=Tier.FAULTS, witness=("a run that failed",))
def a_stream_fails_with_a_sentence_and_goes_on_afterwards(lab: Lab) -> None:
    """A stream fails with a sentence, and goes on afterwards.

    A run of Spark that fails says why in one sentence, without a Python traceback or a secret, and the next run
    delivers every remaining row once.

    Look at: errors of the client that do not become ConnectorError; messages of the client that hold its configuration.
    """
    kind = _cut_off(lab)
    split = lab.split(BEGIN_MS, BEGIN_MS + SECOND_MS)
    stream = stream_of(lab, lab.source())
    stream.run()
    more = split if lab.can(Ability.GROWING_SPLITS) else lab.split()
    more.append_each(BEGIN_MS + 2 * SECOND_MS, BEGIN_MS + 3 * SECOND_MS)
    lab.tell(f"from now on: {kind.value}")
    with lab.harness.fault(kind):
        message = stream.failure()
    lab.tell("from now on all is well")
    if message is not None:
        lab.saw("a run that failed")
        lab.expect("Traceback" not in message, f"the error of the stream has a traceback:\n{message}")
        secrets = sum(secret in message for secret in lab.harness.secrets)
        lab.expect(not secrets, "the error of the stream shows a secret")
    stream.run()
    lab.compare(stream.delivered, in_order=False)


def _cut_off(lab: Lab) -> Fault:
    """Return the fault that cuts the other side off for a while.  Raises SkippedError without one."""
    if lab.can(Ability.FAULT_DISCONNECT):
        return Fault.DISCONNECT
    lab.skip_without([Ability.FAULT_CRASH])
    return Fault.CRASH
