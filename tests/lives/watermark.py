"""What is promised to rows, and Spark's watermark over all sources of a query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.lives.source import Row
from tests.lives.world import NEVER

if TYPE_CHECKING:
    from tests.lives.judge import Judge


@dataclass
class Promise:
    """What is known of a split, for the promises to its rows.

    backlog: it has had unread records since the query began.
    holding: it has held back the others since then.
    greatest_ms: of the rows that were delivered of it.
    timed: a row was planned that has a time.  A split whose rows were all read in the future may hold the others at
        them once their time has come, or not: a run remembers what was left out, and the next run asks anew.
    """

    backlog: bool = True
    holding: bool = True
    greatest_ms: int = NEVER
    timed: bool = False


@dataclass
class Union:
    """Spark's watermark over all sources of a query; greatest_ms: also of the batch that is read."""

    judges: list[Judge] = field(default_factory=list)
    spark_ms: int = NEVER
    greatest_ms: int = NEVER

    def delay_ms(self) -> int:
        """Return the delay that loses no row at the live edge."""
        return max(judge.delay_ms() + (judge.present.options.drift_ms or 0) for judge in self.judges)

    def end_batch(self) -> None:
        self.spark_ms = max(self.spark_ms, self.greatest_ms)


def judge_dropped(row: Row, delay_ms: int, spark_ms: int) -> None:
    assert row.at_ms > spark_ms - delay_ms, (
        f"with a delay of {delay_ms} Spark's watermark is {spark_ms - delay_ms} and drops {row}"
    )
