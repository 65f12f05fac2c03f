"""What the plan of a query proves about its rows, for accounts.  Pure logic.

Only steps that are known prove anything: each of them reads its rows once, and passes a row on at most once.  Any other
step, such as a join, may read rows twice or not to their end, or multiply them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_SOURCE = re.compile(r"~?Streaming\w+Relation\b")
_PASSES_ON = re.compile(
    r"""~?(?:
    (?:Project|Filter|Union|SubqueryAlias|View|EventTimeWatermark|CollectMetrics|Streaming\w+Relation)\b
    |(?:Aggregate|Distinct|Deduplicate|DeduplicateWithinWatermark)\b
    |Repartition\b|RepartitionByExpression\b(?!.*\ (?:ASC|DESC)\ NULLS\ )  # to cut ranges, Spark reads a sample first
    # Sinks of Spark.  The function of foreachBatch may read twice, and a table may want ranges.
    |WriteToMicroBatchDataSource\ (?:MemorySink|noop-table|console|ForeachSink|KafkaTable)(?![.\w-])
    |WriteToMicroBatchDataSourceV1\ FileSink\[
    |MapInArrow\ pack\(__hash\#|TransformWithState\w*\ \w+\(__bucket\#|LocalRelation\ <empty>)  # tidegate's windows
    """,
    re.VERBOSE | re.DOTALL,
)
_MULTIPLIES = re.compile(r"~?(?:Generate|Expand|TransformWithState\w*)\b")
_AGGREGATE = re.compile(r"~?Aggregate\b")
_OBSERVED_WINDOWS = re.compile(r"~?CollectMetrics windows-")
_COUNT_OF_ALL = re.compile(r"\bcount\(1\)(?! FILTER|#)")


class PlanFacts(NamedTuple):
    """What the plan of a run proves.  The plan itself may hold secrets, such as keys.

    reads_once: each row of a batch is read once.
    counts_late: what windows of tidegate drop as late are rows of the sources.
    counts_open: what Spark's aggregation counts are rows of the sources.
    counts_all: it leaves out none.
    """

    reads_once: bool
    counts_late: bool
    counts_open: bool
    counts_all: bool

    @classmethod
    def of(cls, steps: Sequence[str], sources: int) -> PlanFacts:
        """Return the facts of a plan.

        steps: the steps as Spark shows them, each before those that it reads from.
        sources: how many different sources the query has.
        """
        late, open_ = (
            next((at for at, step in enumerate(steps) if windows.match(step)), len(steps))
            for windows in (_OBSERVED_WINDOWS, _AGGREGATE)
        )
        return cls(
            _pass_on([step for step in steps if not _MULTIPLIES.match(step)], sources),
            _pass_on(steps[late:], sources),
            _pass_on(steps[open_:], sources),
            all(_COUNT_OF_ALL.search(step) for step in steps if _AGGREGATE.match(step)),
        )


def _pass_on(steps: Sequence[str], sources: int) -> bool:
    """Return whether each row of each source is read once and passed on at most once; so no source is used twice."""
    return all(_PASSES_ON.match(step) for step in steps) and sum(1 for step in steps if _SOURCE.match(step)) == sources
