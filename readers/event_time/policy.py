"""Decides the event time of a row, and whether the row is refused, for rows, batches and chunks alike.

A time is good if it exists, is not below ``earliest_ms``, and is within the range of Spark's timestamps:

| own time | ``badEventTime`` | stand-in | the row counts with | fault |
|---|---|---|---|---|
| good | any | any | its own time | none |
| bad | ``ignore`` | any | no time | bad |
| bad | ``fail`` | any | it is refused | |
| bad | ``record-timestamp`` | good | the stand-in | bad |
| bad | ``record-timestamp`` | missing or bad | it is refused | |

The time of a row, its own or the stand-in, is then compared with the horizon of the batch, the clock of its plan plus
the skew.  Before it nothing changes; from it on the time is in the future:

| ``futureEventTime`` | the row counts with | fault |
|---|---|---|
| ``ignore`` | no time | future, or bad as above |
| ``hold`` | that time; its split waits | none, or bad as above |
| ``fail`` | it is refused | |

A row that counts with no time is delivered, and planning and watermark leave it out.  A row that is refused ends the
query, unless refused rows are set aside.  Then the query does not get it.  This module does no I/O: its callers read
the times, and name the row that is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.alignment.splits import Horizon
from tidegate.errors import CorruptDataError
from tidegate.readers.arrow.arrays import are_null, int64_values
from tidegate.readers.event_time.units import LARGEST_MS

BAD = "bad"
"""The fault of a row whose own time is bad."""

FUTURE = "future"
"""The fault of a row that is left out because its time is too far ahead of the clock."""

NO_TIME = -(2**63)
"""A missing time in an int64 array, like NaT in NumPy."""

LEAST_MS = NO_TIME + 1
"""The lowest number that may be a time, if times before 1970 count like others."""

BadEventTime: TypeAlias = Literal["fail", "record-timestamp", "ignore"]
"""The policy for a row whose own time is bad; ``record-timestamp`` uses the record's timestamp instead."""

FutureEventTime: TypeAlias = Literal["ignore", "hold", "fail"]
"""The policy for a row whose time is too far ahead of the clock."""

Times: TypeAlias = npt.NDArray[np.int64]
"""Event times in ms since the epoch, or NO_TIME."""

Rows: TypeAlias = npt.NDArray[np.bool_]


class RefusedRow(NamedTuple):
    """A row that a policy refuses.

    The texts follow each other in a sentence that begins with the name of the row.

    row: its index in the arrays that were judged.
    finding: a predicate about its time, such as "has no usable event time".
    remedy: the option that would accept the row.
    """

    row: int
    finding: str
    fault: str
    remedy: str

    def error(self, where: str, origin: str = "") -> CorruptDataError:
        """Return the error of a row, such as "orders: the row at 17"; the origin follows the finding."""
        return CorruptDataError(f"{where} {self.finding}{origin}{self.fault}{self.remedy}")

    def reason(self, origin: str = "") -> str:
        """Return the reason why the row is set aside, as a clause after "the record"."""
        return f"{self.finding}{origin}{self.fault}"


class JudgedTimes(NamedTuple):
    """The decision about some rows.

    times: event times in ms since the epoch; NO_TIME if planning and watermark leave a row out, or if it is refused.
    bad: the rows whose own time is bad.
    future: the other rows that are left out or refused because their time is in the future.
    refused: the first refused row, which ends the query.
    set_aside: the refused rows, if refused rows are set aside; ``EventTimePolicy.refusal`` describes one.
    """

    times: Times
    bad: Rows
    future: Rows
    refused: RefusedRow | None
    set_aside: Rows


@dataclass(frozen=True, slots=True)
class EventTimePolicy:
    """The options of a source for bad and future event times.

    bad: the policy for rows whose own time is bad.
    future: the policy for rows further ahead of the clock than ``max_future_skew_ms``.
    earliest_ms: the lowest good time: 0 if a negative time means that there is none, LEAST_MS if it is a time before
        1970.
    sets_aside: a refused row is left out of the query, and does not end it.

    Raises ValueError if rows in the future would be refused and set aside: they are not bad, only early.
    """

    bad: BadEventTime = "fail"
    future: FutureEventTime = "ignore"
    max_future_skew_ms: int = 86_400_000
    earliest_ms: int = 0
    sets_aside: bool = False

    def __post_init__(self) -> None:
        if self.sets_aside and self.future == "fail":
            raise ValueError("rows that the clock refuses cannot be set aside")

    @property
    def refuses_rows(self) -> bool:
        """Whether a row may be refused, so that every row must be judged."""
        return self.bad != "ignore" or self.future == "fail"

    def horizon(self, now_ms: int) -> Horizon:
        """Return where the future begins, by the present in ms since the epoch."""
        return Horizon(now_ms + self.max_future_skew_ms + 1)

    def accepts(self, own_ms: int, horizon: Horizon) -> bool:
        """Return whether a row's own time counts unchanged, whatever its stand-in; see ``judge`` for other rows."""
        in_time = own_ms < horizon.at_ms or self.future == "hold"
        return in_time and self.earliest_ms <= own_ms <= LARGEST_MS

    def accepts_all(self, own: Times, horizon: Horizon) -> bool:
        """Return whether the own times of all rows count unchanged."""
        return not len(own) or (self.accepts(own.min(), horizon) and self.accepts(own.max(), horizon))

    def searched(self, horizon: Horizon) -> tuple[int, Horizon]:
        """Return the lowest time, and the horizon, of the rows that are not left out silently.

        A search for the first row that counts may skip all other rows, and has to judge the row that it finds.  Call
        it only for rows without another stand-in than their own time.  Times that are too large for Spark must have
        been refused before.
        """
        leaves_out_bad = self.bad == "ignore" or self.sets_aside
        return self.earliest_ms if leaves_out_bad else NO_TIME, horizon if self.future == "ignore" else Horizon()

    def judge(self, own: Times, stand_in: Times | None, horizon: Horizon) -> JudgedTimes:
        """Return the times by which rows count, and the rows whose own times have a fault.

        own: the rows' own times in ms since the epoch, or NO_TIME.
        stand_in: the times of the same rows for ``record-timestamp``.
        horizon: of the batch; it notes the least time that is left out because it is in the future.
        """
        if self.accepts_all(own, horizon):
            nothing = np.zeros(len(own), np.bool_)
            return JudgedTimes(own, nothing, nothing, None, nothing)
        times, bad, _, refused, set_aside = self.without_bad(own, stand_in)
        if self.future == "hold":
            return JudgedTimes(times, bad, np.zeros_like(bad), refused, set_aside)
        ahead = times >= horizon.at_ms
        if ahead.any():
            horizon.note(int(times[ahead].min()))
            if self.future == "fail" and (refused is None or ahead.argmax() < refused.row):
                refused = self.refusal(int(ahead.argmax()), own, stand_in)
        return JudgedTimes(np.where(ahead, NO_TIME, times), bad, ahead & ~bad, refused, set_aside)

    def without_bad(self, own: Times, stand_in: Times | None) -> JudgedTimes:
        """Return what ``judge`` returns if nothing is in the future."""
        bad = self._is_bad(own)
        nothing = np.zeros_like(bad)
        if self.bad == "ignore" or not bad.any():
            return JudgedTimes(np.where(bad, NO_TIME, own), bad, nothing, None, nothing)
        others = np.full_like(own, NO_TIME) if stand_in is None else stand_in
        unusable = bad & self._is_bad(others) if self.bad == "record-timestamp" else bad
        times = np.where(unusable, NO_TIME, np.where(bad, others, own))
        if self.sets_aside or not unusable.any():
            return JudgedTimes(times, bad, nothing, None, unusable)
        return JudgedTimes(times, bad, nothing, self.refusal(int(unusable.argmax()), own, stand_in), nothing)

    def refusal(self, row: int, own: Times, stand_in: Times | None) -> RefusedRow:
        """Describe a refused row.  ``judge`` describes none of the rows that it sets aside, which would take long."""
        own_ms, other_ms = own[row], np.int64(NO_TIME) if stand_in is None else stand_in[row]
        is_bad, cannot = self._is_bad(own_ms), self._is_bad(other_ms)
        if not is_bad or (self.bad == "record-timestamp" and not cannot):
            return RefusedRow(
                row,
                f"has an event time of {other_ms if is_bad else own_ms} ms",
                ", further ahead of the clock than maxFutureSkew",
                "; set futureEventTime to ignore or hold",
            )
        why = f": it is {_fault(own_ms)}"
        if self.bad == "record-timestamp":
            why += f", and its own timestamp is {_fault(other_ms)}"
        ways = "ignore" if cannot else "record-timestamp or ignore"
        return RefusedRow(row, "has no usable event time", why, f"; set badEventTime to {ways}")

    def time_of_row(
        self, own_ms: int | None, stand_in_ms: int | None, horizon: Horizon, where: str, origin: str = ""
    ) -> int | None:
        """Return the time by which a row counts; None: planning and watermark leave it out.

        where, origin: the name of the row and the origin of its time, see RefusedRow.

        Raises CorruptDataError if the row is refused, unless refused rows are set aside.
        """
        if own_ms is not None and self.accepts(own_ms, horizon):
            return own_ms
        judged = self.judge(_row(own_ms), _row(stand_in_ms), horizon)
        if judged.refused is not None:
            raise judged.refused.error(where, origin)
        time_ms = int(judged.times[0])
        return None if time_ms == NO_TIME else time_ms

    def _is_bad(self, times: Times) -> Rows:
        return (times < self.earliest_ms) | (times > LARGEST_MS)


ALSO_BEFORE_1970 = EventTimePolicy(earliest_ms=LEAST_MS)
"""The default options, for a source in which times before 1970 count like others."""


def int64_times(times: pa.Int64Array) -> Times:
    """Return times in which null stands for a missing one."""
    numbers = int64_values(times)
    return np.where(are_null(times), NO_TIME, numbers) if times.null_count else numbers


def _fault(time_ms: np.int64) -> str:
    if time_ms == NO_TIME:
        return "missing or unparsable"
    return "too large" if time_ms > LARGEST_MS else "negative"


def _row(time_ms: int | None) -> Times:
    if time_ms is None:
        return np.array([NO_TIME], np.int64)
    # A time beyond an int64 is too large, or negative, in any case.
    return np.array([min(max(time_ms, LEAST_MS), 2**63 - 1)], np.int64)
